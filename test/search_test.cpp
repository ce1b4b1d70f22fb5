// Searching kernels, in processes of their own: each has a cache folder that is gone afterwards.
#include <doctest/doctest.h>
#include <mote/mote.h>
#include <mote/search.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/build_id.h"
#include "engine/searched.h"
#include "engine/workbench.h"
#include "test/process.h"

using namespace mote;
namespace fs = std::filesystem;

namespace {

Ran run_child(const Folder& folder, const std::string& settings, const std::string& test) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  return run("env MOTE_CACHE_DIR=" + (folder / "cache") + " " + settings + " " + self +
             " --no-skip --test-case='in a child: " + test + "'");
}

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::string file_of_build(const Folder& folder) {
  return folder / ("cache/searched-" + std::string(build_id()).substr(0, 16) + ".txt");
}

void print_product() {
  manual_seed(3);
  Tensor a = rand({96, 80}).realize(), b = rand({80, 64}).realize();
  std::printf("product %.6f\n", matmul(a, b).square().sum().item<double>());
}

// c[i] = sum over k of a[i, k]; with `wrong`, of one term less.
Flat row_sums(bool wrong) {
  Arena arena;
  ArenaScope scope(arena);
  UOp i = range(0, index(64), Role::Loop), k = range(1, index(wrong ? 49 : 50), Role::Reduce);
  UOp over[] = {k};
  UOp read = make(Op::Index, DType::f32, {param(1, DType::f32, 64 * 50), i * 50 + k});
  UOp place = make(Op::Index, DType::f32, {param(0, DType::f32, 64), i});
  UOp store = make(Op::Store, DType::none, {place, reduce_over(Op::Add, read, over)});
  UOp end = make(Op::End, DType::none, {store, i});
  return flatten_graph(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))));
}

}  // namespace

TEST_SUITE("search") {
  TEST_CASE("in a child: a product searched" * doctest::skip()) {
    manual_seed(3);
    Tensor a = rand({96, 80}).realize(), b = rand({80, 64}).realize();
    Tensor kept = a + 1;
    const double before = matmul(a, b).square().sum().item<double>();
    const std::vector<float> values = a.to_vector<float>();
    SearchReport report = search(0.3);
    CHECK(report.kernels > 0);
    CHECK(report.tried > report.kernels);
    CHECK(report.after_ms <= report.before_ms);
    CHECK(a.to_vector<float>() == values);
    CHECK(matmul(a, b).square().sum().item<double>() == doctest::Approx(before).epsilon(1e-5));
    SearchReport again = search(0.3);
    std::printf("again %lld\n", static_cast<long long>(again.kernels));
  }
  TEST_CASE("in a child: a product" * doctest::skip()) { print_product(); }

  TEST_CASE("what is found is remembered, used by later processes and not searched again") {
    Folder folder;
    const Ran plain = run_child(folder, "MOTE_NOOPT=1", "a product");
    Ran first = run_child(folder, "", "a product searched");
    CHECK_MESSAGE(first.status == 0, first.output);
    CHECK(has(first, "again 0"));
    const std::string lines = text_of(file_of_build(folder));
    CHECK(lines.find("\tCPU-") != std::string::npos);
    // Another list in the place of what was found for all kernels.
    std::ofstream(file_of_build(folder), std::ios::trunc) << [&] {
      std::string out, line;
      for (std::istringstream in(lines); std::getline(in, line);)
        out += line.substr(0, line.rfind('\t')) + "\tsplit 0 2 upcast\n";
      return out;
    }();
    Ran later = run_child(folder, "MOTE_DEBUG=3", "a product");
    CHECK(has(later, "actions: split 0 2 upcast\n"));
    const std::string product = plain.output.substr(plain.output.find("product"), 12);
    CHECK(has(later, product));
    CHECK(has(run_child(folder, "MOTE_BEAM=2 MOTE_DEBUG=3", "a product"), "split 0 2 upcast"));
  }

  TEST_CASE("BEAM searches new kernels, once") {
    Folder folder;
    Ran first = run_child(folder, "MOTE_BEAM=1 MOTE_DEBUG=1", "one sum");
    CHECK(has(first, "search: kernel 1/"));
    CHECK(first.status == 0);
    Ran second = run_child(folder, "MOTE_BEAM=1 MOTE_DEBUG=1", "one sum");
    CHECK(second.output.find("search: kernel") == std::string::npos);
  }
  TEST_CASE("in a child: one sum" * doctest::skip()) {
    CHECK((arange(0, 12).to(DType::f32).realize() + 1).sum().item<float>() == 78);
  }

  TEST_CASE("in a child: files" * doctest::skip()) {
    remember_searched("k-1", "CPU-1", {"split 0 4 vector; global 0", 2, 1});
    remember_searched("k-2", "CPU-1", {"", 1, 1});
    remember_searched("k-1", "CPU-1", {"split 0 8 vector", 2, 0.5});
    const std::string path = std::getenv("FILE");
    CHECK(export_searched(path) == 2);
    reload_searched();
    CHECK(find_searched("k-1", "CPU-1")->actions == "split 0 8 vector");
    CHECK(find_searched("k-2", "CPU-1")->actions.empty());
    CHECK(!find_searched("k-1", "CPU-2"));
    fs::remove_all(fs::path(path).parent_path() / "cache");
    fs::create_directory(fs::path(path).parent_path() / "cache");
    reload_searched();
    CHECK(!find_searched("k-1", "CPU-1"));
    CHECK(import_searched(path) == 2);
    reload_searched();
    CHECK(find_searched("k-1", "CPU-1")->after_ms == 0.5);
    std::ofstream(path, std::ios::app) << "k-3\tCPU-1\t1\t1\tsplit 0 4 sideways\n";
    CHECK_THROWS_WITH_AS(import_searched(path), doctest::Contains(":4: cannot read 'k-3"), Error);
    std::ofstream(path) << "something else\n";
    auto says = [](const char* what) { return doctest::Contains(what); };
    CHECK_THROWS_WITH_AS(import_searched(path), says("has no searched actions"), Error);
    CHECK_THROWS_WITH_AS(import_searched(path + "x"), says("cannot open"), Error);
    CHECK_THROWS_WITH_AS(export_searched("/nonexistent/x"), says("cannot create"), Error);
    CHECK_THROWS_WITH_AS(search(0), says("expected a positive number"), Error);
  }

  TEST_CASE("lines go to files and come back; bad files are errors") {
    Folder folder;
    Ran ran = run_child(folder, "FILE=" + (folder / "out.txt"), "files");
    CHECK_MESSAGE(ran.status == 0, ran.output);
    std::ofstream(file_of_build(folder), std::ios::app) << "k-9\tCPU-1\t1\t1\tspl";  // cut short
    CHECK(has(run_mote("search export " + (folder / "all.txt"),
                       "MOTE_CACHE_DIR=" + (folder / "cache")), "kernels written to"));
    CHECK(text_of(folder / "all.txt").starts_with("mote searched actions 1\n"));
    CHECK(text_of(folder / "all.txt").find("k-9") == std::string::npos);
    CHECK(has(run_mote("search import " + (folder / "none.txt")), "cannot open"));
  }

  TEST_CASE("a kernel that leaves out a term is told from a right one") {
    Device& cpu = device("CPU");
    const Flat right = row_sums(false), wrong = row_sums(true);
    Arena arena;
    ArenaScope scope(arena);
    Workbench bench(unflatten_graph(right), cpu);
    auto outputs = [&](const Flat& body, const char* actions) {
      return bench.outputs(compile_kernel(body, parse_actions(actions), cpu));
    };
    const std::vector<HostArray> wanted = outputs(right, "");
    CHECK(bench.difference(outputs(right, "split 1 8 vector; split 0 4 upcast"), wanted) == "");
    CHECK(bench.difference(outputs(wrong, ""), wanted) != "");
    CHECK(!compile_kernel(right, parse_actions("split 7 8 vector"), cpu));
  }
}

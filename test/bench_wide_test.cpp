// `mote bench wide`: its table, its programs and its comparisons, without PyTorch.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>

#include "cli/bench_wide.h"
#include "runtime/device.h"
#include "test/process.h"

using namespace mote;
using namespace mote::wide;

namespace {

std::vector<Row> table(uint64_t seed) {
  const std::string path = std::string(MOTE_SOURCE_DIR) + "/tools/bench_wide.rows";
  std::ifstream file(path);
  REQUIRE(file);
  return read_rows(std::string(std::istreambuf_iterator<char>(file), {}), path, seed);
}

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

struct OnNull {
  std::string before = default_device();
  OnNull() { set_default_device("NULL"); }
  ~OnNull() { set_default_device(before); }
};

// A file as tools/bench_wide.py writes it.
struct Written {
  std::string path = "/tmp/mote-wide-test-" + std::to_string(getpid());
  explicit Written(const std::vector<float>& values) {
    std::ofstream file(path, std::ios::binary);
    const int64_t head[] = {1, static_cast<int64_t>(values.size())};
    file.write(reinterpret_cast<const char*>(head), sizeof head);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  ~Written() { std::remove(path.c_str()); }
};

}  // namespace

TEST_CASE("bench wide: the table is wide") {
  const std::vector<Row> rows = table(1);
  CHECK(rows.size() >= 200);
  std::map<std::string, size_t> kinds;
  std::set<std::string> names, models;
  size_t drawn = 0;
  for (const Row& row : rows) {
    ++kinds[row.kind];
    names.insert(row.name);
    drawn += row.drawn;
    if (row.kind == "models") models.insert(row.name);
  }
  CHECK(names.size() == rows.size());
  for (const auto& [kind, count] : kinds) CHECK_MESSAGE(count * 10 <= rows.size(), kind);
  CHECK(models.size() >= 12);
  CHECK(drawn * 3 >= rows.size());
}

TEST_CASE("bench wide: every row builds, whatever the seed") {
  OnNull scope;
  for (uint64_t seed : {1, 2, 3, 4})
    for (const Row& row : table(seed)) {
      if (seed > 1 && !row.drawn) continue;
      CAPTURE(row.name);
      CAPTURE(row.program);
      Script script(row.program);
      script.prepare(true);
      CHECK_NOTHROW(script.run());
    }
}

TEST_CASE("bench wide: sizes are drawn by the seed, and named ones agree") {
  const char* text = "[a]\nr: {let h:3|5|7|9} F({k:2..900},{k},{=k*2+1},{=h})\n# x\n[b]\ns: F(2)\n";
  const std::vector<Row> one = read_rows(text, "t", 1), again = read_rows(text, "t", 1);
  CHECK(one[0].program == again[0].program);
  CHECK(one[1].program == "F(2)");
  CHECK(one[1].kind == "b");
  CHECK(one[0].drawn);
  CHECK_FALSE(one[1].drawn);
  std::set<std::string> all;
  for (uint64_t seed = 0; seed < 20; ++seed) all.insert(read_rows(text, "t", seed)[0].program);
  CHECK(all.size() > 10);
  int k = 0, same = 0, odd = 0, h = 0;
  REQUIRE(std::sscanf(one[0].program.c_str(), " F(%d,%d,%d,%d)", &k, &same, &odd, &h) == 4);
  CHECK(same == k);
  CHECK(odd == 2 * k + 1);
  CHECK(h % 2 == 1);
  CHECK_THROWS_WITH(read_rows("[a]\nr: F({=n})\n", "t", 1), doctest::Contains("t:2: "));
}

TEST_CASE("bench wide: a program computes what it says") {
  Script s("x = I(4,n=1,low=3); repeat 2: x = x * 2 - 1; [x + 1, sum(x / 3.0, 0)]");
  s.prepare();
  const std::vector<Tensor> out = s.run();
  REQUIRE(out.size() == 2);
  CHECK(out[0].to_vector<int64_t>() == std::vector<int64_t>(4, 10));
  CHECK(out[1].item<float>() == doctest::Approx(12));
  CHECK_THROWS_WITH(Script("F(2) +"), doctest::Contains("no value there"));
  CHECK_THROWS_WITH(Script("F(2"), doctest::Contains("a comma is missing"));
  Script unknown("no_such(F(2))");
  unknown.prepare();
  CHECK_THROWS_WITH(unknown.run(), doctest::Contains("there is no function no_such"));
}

TEST_CASE("bench wide: inputs keep to their rule") {
  // The values of tools/bench_wide.py, to the bit.
  const std::vector<float> wanted = {-0x1.cd7c18p-2f, 0x1.594aecp-1f, 0x1.17a6b4p-1f};
  CHECK(uniform_values(3, 1, 1, 0) == wanted);
  CHECK(integer_values(4, 2, 1000, 5) == std::vector<int64_t>{862, 549, 956, 983});
  CHECK(name_seed("fc.weight") == 1248825632u);
}

TEST_CASE("bench wide: results that differ are told") {
  const Written file({1, 2, 3});
  const Script plain("F(3)"), loose("tol = 0.5; F(3)"), random("rand(3)");
  auto told = [&](const std::vector<float>& values, const Script& script) {
    return compare_results(file.path, {tensor(values)}, script);
  };
  CHECK(told({1, 2, 3}, plain) == "");
  CHECK(told({1, 2, 3.001f}, plain) == "");
  CHECK(has(told({1, 2, 3.1f}, plain), "element 2 of 3"));
  CHECK(told({1, 2, 3.1f}, loose) == "");
  CHECK(has(told({1, NAN, 3}, loose), "element 1 of 3"));
  CHECK(told({3, 1, 2}, random) == "");
  CHECK(has(told({300, 100, 200}, random), "mean 200"));
  CHECK(has(told({1, 2}, plain), "2 elements, wanted 3"));
  CHECK(has(compare_results(file.path, {}, plain), "more results"));
}

TEST_CASE("bench wide: an interrupted run is continued") {
  const std::string path = "/tmp/mote-wide-results-" + std::to_string(getpid());
  Figures f;
  f.row = {"a", "k", "F(1)", false};
  f.peer_ms = 2, f.ms = 4, f.wrong = "two\nlines";
  Results(path, 1).add(f);
  const Results kept(path, 1), other(path, 2);
  REQUIRE(kept.find(f.row));
  CHECK(kept.find(f.row)->ratio() == 0.5);
  CHECK(kept.find(f.row)->wrong == "two lines");
  CHECK_FALSE(other.find(f.row));
  CHECK_FALSE(kept.find({"a", "k", "F(2)", false}));
  std::remove(path.c_str());
}

TEST_CASE("bench wide: options") {
  CHECK(has(run_mote("bench wide --only nowhere"), "no row and no class is called nowhere"));
  CHECK(has(run_mote("bench cpu --seed 2"), "--seed is not an option of `bench cpu`"));
  CHECK(has(run_mote("bench wide --threads 2 --processor-time --only tiny_add16"), "one thread"));
}

#include <doctest/doctest.h>
#include <fcntl.h>
#include <mote/mote.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>

#include "test/amount.h"

using namespace mote;

namespace {

// A file of one's own that is gone afterwards.
class TempFile {
 public:
  explicit TempFile(const std::vector<char>& content) {
    char name[] = "/tmp/mote_disk_test_XXXXXX";
    const int fd = ::mkstemp(name);
    path_ = name;
    REQUIRE(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::close(fd);
  }
  ~TempFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <class T>
std::vector<char> bytes_of(const std::vector<T>& values, size_t before = 0) {
  std::vector<char> out(before, 'x');
  const auto* p = reinterpret_cast<const char*>(values.data());
  out.insert(out.end(), p, p + values.size() * sizeof(T));
  return out;
}

bool is_mapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(path) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("more files may be mapped than can be open at once") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<std::unique_ptr<TempFile>> files;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 100; ++i) {
    files.push_back(std::make_unique<TempFile>(bytes_of(std::vector<float>{1, 2, float(i)})));
    tensors.push_back(from_file(files.back()->path(), DType::f32, {3}));
  }
  CHECK(tensors[77].to("CPU").to_vector<float>() == std::vector<float>{1, 2, 77});
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("from_file maps a file and .to copies it") {
  TempFile file(bytes_of<float>({1, 2, 3, 4, 5, 6}));
  Tensor t = from_file(file.path(), float32, {2, 3});
  CHECK(t.device() == "DISK");
  CHECK(is_mapped(file.path()));
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  Tensor moved = t.to("CPU");
  CHECK((moved + 1).to_vector<float>() == std::vector<float>{2, 3, 4, 5, 6, 7});
  CHECK(t.to("INTERP").sum().item<float>() == 21);
  CHECK(t.to("CPU:1").t().to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("views of a file are read and moved") {
  TempFile file(bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  Tensor t = from_file(file.path(), float32, {4, 3});
  using Values = std::vector<float>;
  auto check = [](const Tensor& view, const Values& want) {
    CHECK(view.to("CPU").to_vector<float>() == want);
    CHECK(view.to("INTERP").to_vector<float>() == want);
    CHECK(view.to_vector<float>() == want);
  };
  check(t(Slice(1, 3)), {3, 4, 5, 6, 7, 8});
  check(t(2), {6, 7, 8});
  check(t(2, 1), {7});
  check(t(Slice(), 1), {1, 4, 7, 10});
  check(t.t()(Slice(1, 3), Slice(1, 3)), {4, 7, 5, 8});
  check(t(Slice(None, None, -2)), {9, 10, 11, 3, 4, 5});
  check(t.diagonal(), {0, 4, 8});
  check(t(3).expand({2, 3}), {9, 10, 11, 9, 10, 11});
  check(t.unfold(0, 2, 2).select(0, 1), {6, 9, 7, 10, 8, 11});
  check(t(Slice(0, 0)), {});
  Tensor whole = zeros({2, 3}, float64);
  whole.assign(t(Slice(2, 4)));
  CHECK(whole.to_vector<float>() == Values{6, 7, 8, 9, 10, 11});
  Tensor row = t(1).to("CPU");
  t = {};
  CHECK(row.to_vector<float>() == Values{3, 4, 5});
  row.realize();
  CHECK(!is_mapped(file.path()));
}

TEST_CASE("from_file unmaps at the last use") {
  TempFile file(bytes_of<int>({7, 8, 9}));
  Tensor moved;
  {
    Tensor t = from_file(file.path(), int32, {3});
    moved = t.to("CPU");
    CHECK(is_mapped(file.path()));
  }
  CHECK(is_mapped(file.path()));
  moved.realize();
  CHECK(!is_mapped(file.path()));
  CHECK(moved.to_vector<int>() == std::vector<int>{7, 8, 9});
}

// Cut at any byte, by name, through another name or after the name is gone: what is left can be
// read, what is not is an error, before anything runs.
TEST_CASE("a file that is cut short after it was opened is an error") {
  const int runs = test::scaled(60);
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::vector<float> values(3000);
  std::iota(values.begin(), values.end(), 1.f);
  int errors = 0;
  for (int i = 0; i < runs; ++i) {
    TempFile file(bytes_of(values));
    Tensor t = from_file(file.path(), float32, {3000});
    const int64_t size = static_cast<int64_t>(random() % 12001);
    const int64_t rows = 1 + static_cast<int64_t>(random() % 3000);
    const int fd = ::open(file.path().c_str(), O_RDWR);
    const bool named = random() % 3 != 0;
    if (!named) ::unlink(file.path().c_str());
    REQUIRE(::ftruncate(fd, size) == 0);
    ::close(fd);
    Tensor part = t(Slice(0, rows));
    auto read = [&]() -> std::vector<float> {
      switch (random() % 4) {
        case 0: return part.to_vector<float>();
        case 1: return part.to("CPU").to_vector<float>();
        case 2: return part.to("INTERP").to_vector<float>();
        default: return (part.to("CPU") * 1).to_vector<float>();
      }
    };
    CAPTURE(size);
    CAPTURE(rows);
    try {
      const std::vector<float> got = read();
      // Of a file without a name only whole pages that are gone are seen.
      CHECK(rows * 4 <= (named ? size : (size + 4095) / 4096 * 4096));
      const auto whole = std::min<int64_t>(rows, size / 4);
      CHECK(std::equal(got.begin(), got.begin() + whole, values.begin()));
    } catch (const Error& e) {
      ++errors;
      CHECK(e.kind() == ErrorKind::Device);
      CHECK(std::string(e.what()).find("was cut short after it was opened") != std::string::npos);
      CHECK(size < 12000);
    }
  }
  MESSAGE("seed ", seed, ", ", runs, " files, ", errors, " errors");
}

TEST_CASE("a captured function sees that a file was cut short") {
  TempFile file(bytes_of<float>({1, 2, 3, 4}));
  Tensor t = from_file(file.path(), float32, {4});
  Tensor w = zeros({4}).realize();
  auto f = jit([&] {
    w.assign(t.to("CPU") + w);
    return w.sum();
  });
  for (int i = 1; i < 4; ++i) CHECK(f().item<float>() == 10 * i);
  REQUIRE(::truncate(file.path().c_str(), 8) == 0);
  CHECK_THROWS_WITH_AS(f(), doctest::Contains("was cut short"), Error);
  CHECK(w.to_vector<float>() == std::vector<float>{3, 6, 9, 12});
}

TEST_CASE("a file that is mapped is not held open") {
  TempFile file(bytes_of<float>({1, 2, 3, 4}));
  auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  {
    std::vector<Tensor> all;
    for (int i = 0; i < 100; ++i) all.push_back(from_file(file.path(), float32, {4}));
    CHECK(open_files() == before);
  }
  CHECK(open_files() == before);
}

TEST_CASE("from_file at offsets that are not aligned") {
  std::vector<double> values(3000);
  std::iota(values.begin(), values.end(), 0.5);
  for (size_t before : {1u, 3u, 13u, 4095u, 4096u, 5001u}) {
    TempFile file(bytes_of(values, before));
    Tensor t = from_file(file.path(), float64, {3000}, static_cast<int64_t>(before));
    CHECK(t.to("CPU").to_vector<double>() == values);
  }
}

TEST_CASE("memory of the caller's need not be aligned") {
  std::vector<char> bytes = bytes_of<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1);
  Tensor t = from_blob(bytes.data() + 1, {15}, float32);
  CHECK((t * 2).sum().item<float>() == 240);
  t.add_(1).realize();
  CHECK(t.sum().item<float>() == 135);
}

TEST_CASE("from_file: nothing to read") {
  TempFile file({});
  CHECK(from_file(file.path(), float32, {0, 3}).to("CPU").to_vector<float>().empty());
}

TEST_CASE("from_file: mistakes") {
  auto contains = [](const char* s) { return doctest::Contains(s); };
  CHECK_THROWS_WITH_AS(from_file("/nowhere/weights.bin", float32, {2}),
                       contains("cannot open /nowhere/weights.bin: No such file or directory"),
                       Error);
  CHECK_THROWS_WITH_AS(from_file("/tmp", float32, {2}), contains("cannot map /tmp: Is a directory"),
                       Error);
  TempFile file(bytes_of<float>({1, 2, 3}));
  CHECK_THROWS_WITH_AS(from_file(file.path(), float32, {4}),
                       contains("has 12 bytes, but 16 from byte 0 on were asked for"), Error);
  CHECK_THROWS_WITH_AS(from_file(file.path(), float32, {2}, 5),
                       contains("has 12 bytes, but 8 from byte 5 on were asked for"), Error);
  CHECK_THROWS_WITH_AS(from_file(file.path(), float32, {2}, -4),
                       contains("[from_file] the offset must not be negative, got -4"), Error);
  Tensor t = from_file(file.path(), float32, {3});
  CHECK_THROWS_WITH_AS((t + 1).realize(), contains("move the tensor with .to(\"CPU\")"), Error);
  CHECK_THROWS_WITH_AS(t.zero_().realize(), contains("move the tensor with .to(\"CPU\")"), Error);
}

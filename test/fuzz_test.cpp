// The fuzz targets of fuzz/ on mutated seeds, without libFuzzer: 15,000 runs of each here,
// a million in soak.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "io/compress.h"
#include "test/amount.h"
#include "test/file_builders.h"

#define TARGETS(X)                                                                             \
  X(safetensors)                                                                               \
  X(npy) X(npz) X(torch) X(gguf) X(pickle) X(zip) X(tar) X(gzip) X(xz) X(zstd) X(onnx) X(json) \
      X(any) X(idx) X(vocabulary) X(png)

#define DECLARE(name) int fuzz_##name(const uint8_t* data, size_t size);
TARGETS(DECLARE)
#undef DECLARE

namespace {

using mote::test::SeedFile;

struct Target {
  std::string name;
  int (*run)(const uint8_t*, size_t);
};

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint64_t seed)
      : seeds_(std::move(seeds)), random_(seed) {}

  std::string next() {
    std::string s = seeds_[below(seeds_.size())];
    for (size_t times = 1 + below(4); times--;) mutate(s);
    return s;
  }

 private:
  size_t below(size_t n) { return n ? random_() % n : 0; }
  size_t place(const std::string& s) { return below(s.size()); }

  void mutate(std::string& s) {
    switch (below(9)) {
      case 0:
        if (!s.empty()) s[place(s)] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        if (!s.empty()) s[place(s)] = static_cast<char>(below(256));
        break;
      case 2: s.resize(below(s.size() + 1)); break;
      case 3: s.erase(place(s), 1 + below(8)); break;
      case 4: s.insert(place(s), s.substr(place(s), 1 + below(16))); break;
      case 5: overwrite(s, place(s), s.substr(place(s), 1 + below(16))); break;
      case 6: overwrite(s, place(s), number()); break;
      case 7: splice(s); break;
      default: change_digit(s); break;
    }
  }
  static void overwrite(std::string& s, size_t at, const std::string& with) {
    s.replace(at, std::min(with.size(), s.size() - at), with.substr(0, s.size() - at));
  }
  // Numbers at which sizes and counts go wrong.
  std::string number() {
    constexpr uint64_t edges[] = {0,
                                  1,
                                  2,
                                  0x7f,
                                  0x80,
                                  0xff,
                                  0x7fff,
                                  0xffff,
                                  0x7fffffff,
                                  0xffffffff,
                                  uint64_t{1} << 32,
                                  uint64_t{1} << 62,
                                  INT64_MAX,
                                  UINT64_MAX - 7,
                                  UINT64_MAX};
    const uint64_t value = edges[below(std::size(edges))];
    return std::string(reinterpret_cast<const char*>(&value), size_t{1} << below(4));
  }
  void splice(std::string& s) {
    const std::string& other = seeds_[below(seeds_.size())];
    s = s.substr(0, place(s)) + other.substr(place(other));
  }
  void change_digit(std::string& s) {
    const size_t from = place(s);
    const size_t at = s.find_first_of("0123456789", from);
    if (at != std::string::npos) s[at] = "0123456789-9"[below(12)];
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

// Half of the inputs get valid header sums, behind which the rest of a tar lies.
void repair_tar(std::string& s) {
  for (size_t at = 0; at + 512 <= s.size(); at += 512)
    if (s.compare(at + 257, 5, "ustar") == 0) mote::test::set_tar_sum(s, at);
}

// Half of the inputs get valid chunk sums, behind which what chunks hold is read.
void repair_png(std::string& s) {
  for (size_t at = 8; at + 12 <= s.size();) {
    const auto* b = reinterpret_cast<const uint8_t*>(s.data()) + at;
    const size_t length = size_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (length > s.size() - at - 12) return;
    const uint32_t sum = __builtin_bswap32(mote::crc32({b + 4, length + 4}));
    std::memcpy(s.data() + at + 8 + length, &sum, 4);
    at += length + 12;
  }
}

// Of /proc/self/status, in bytes: "VmRSS:" now, "VmHWM:" the most since reset_peak().
int64_t memory(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key) {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes << 10;
    }
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

// Inputs of a few kilobytes that unpack to a megabyte at most: no loader needs more than this.
constexpr int64_t most_memory = 48 << 20;

void fuzz(const Target& target, uint64_t seed, int64_t runs) {
  const bool any = target.name == "any";
  std::vector<std::string> seeds;
  for (const SeedFile& f : mote::test::seed_files())
    if (any || f.target == target.name) seeds.push_back(f.bytes);
  REQUIRE(!seeds.empty());
  for (const std::string& s : seeds)
    CHECK((any || target.run(reinterpret_cast<const uint8_t*>(s.data()), s.size()) == 0));
  Mutator mutator(seeds, seed);
  reset_peak();
  const int64_t before = memory("VmRSS:");
  for (int64_t i = 0; i < runs; ++i) {
    std::string input = mutator.next();
    if (i % 2 && target.name == "tar") repair_tar(input);
    if (i % 2 && target.name == "png") repair_png(input);
    // A copy of its exact size, so that a sanitizer sees the first byte behind it.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    try {
      target.run(bytes.data(), bytes.size());
    } catch (const std::exception& e) {
      FAIL(target.name, ": run ", i, " of seed ", seed, ": ", e.what());
    }
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK_MESSAGE(memory("VmHWM:") - before < most_memory, target.name, ", seed ", seed);
#endif
}

void fuzz_all(uint64_t seed, int64_t runs) {
#define ROW(name) {#name, fuzz_##name},
  const Target targets[] = {TARGETS(ROW)};
#undef ROW
  for (const Target& target : targets) {
    const auto start = std::chrono::steady_clock::now();
    fuzz(target, seed, runs);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    MESSAGE(target.name, ": seed ", seed, ", ", runs, " runs, ", time.count(), " s");
  }
}

}  // namespace

TEST_CASE("loaders take mutated files or refuse them") {
  fuzz_all(20, mote::test::scaled<int64_t>(15000));
}

TEST_CASE("loaders take a million mutated files each" * doctest::test_suite("soak")) {
  fuzz_all(std::random_device{}(), 1'000'000);
}

// STRICT=1: the bits of the reference interpreter, whatever the shape of the kernels and the number
// of threads. Every freedom of ir/freedoms.def has a program here that shows it.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/flags.h"
#include "base/hash.h"
#include "engine/realize.h"
#include "engine/searched.h"
#include "ir/freedoms.h"
#include "runtime/device.h"
#include "test/amount.h"
#include "test/process.h"
#include "test_paths.h"

using namespace mote;

namespace {

DType used_type = float32;

// Numbers that no order of addition treats alike, the same on every device.
Tensor values(const std::vector<int64_t>& shape, const std::string& device, uint32_t seed = 1) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  std::vector<float> data;
  uint32_t state = seed * 2654435761u;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data.push_back((static_cast<float>(state >> 8) / 0x1p24f - 0.5f) * (i % 7 ? 1.0f : 1000.0f));
  }
  return from_data(data, shape, {.device = device}).to(used_type).realize();
}

using Call = std::function<Tensor(const std::string& device)>;
struct Case {
  const char* name;
  Call run;
};

// NaNs are all alike.
std::vector<uint64_t> bits(const Tensor& t) {
  std::vector<uint64_t> out;
  for (double v : t.to(float64).to_vector<double>())
    out.push_back(std::isnan(v) ? ~uint64_t{0} : std::bit_cast<uint64_t>(v));
  return out;
}

std::vector<uint64_t> bits_of(const Call& p, bool strict, const char* device = "CPU") {
  FlagScope flag(Flag::STRICT, strict);
  return bits(p(device).realize());
}

Tensor zeros_on(const std::vector<int64_t>& shape, const std::string& device) {
  return zeros(shape, {.device = device}).contiguous().realize();
}

// Row i has one 1, the rest 0.
Tensor one_of_each_row(int64_t n, const std::string& device) {
  std::vector<float> data(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) data[static_cast<size_t>(i * n + i)] = 1;
  return from_data(data, {n, n}, {.device = device});
}

// Weights of a softmax are 1/96 each; a sum has one term that is not 0.
Tensor divided_weights(const std::string& d) {
  const Tensor query = zeros_on({2, 96, 32}, d), some = one_of_each_row(96, d).narrow(1, 0, 32);
  return query.matmul(query.transpose(1, 2)).softmax(-1).matmul(some * values({96, 32}, d));
}

// The last row of what is summed is infinite, and hidden from all queries but the last. There are
// more rows than a cache holds at once.
Tensor hidden_infinity(const std::string& d) {
  constexpr int64_t rows = 1024, features = 8;
  const Tensor query = zeros_on({2, rows, features}, d);
  std::vector<float> data(rows * features, 1.0f);
  std::fill(data.end() - features, data.end(), INFINITY);
  const Tensor v = from_data(data, {rows, features}, {.device = d}).expand({2, rows, features});
  return query.scaled_dot_product_attention(query, v, {.is_causal = true});
}

// clang-format off
// In each program only this one freedom shows.
const Case freedoms[] = {
    {"Reassociate", [](auto& d) { return values({64, 1000}, d).sum(1); }},
    {"Contract",
     [](auto& d) { return values({1024}, d, 1) * values({1024}, d, 2) + values({1024}, d, 3); }},
    {"Multiply", [](auto& d) { return values({7, 1}, d).expand({7, 1001}).sum(1); }},
    {"KeepTerm", [](auto& d) { return (-zeros_on({9}, d))[values({4}, d).to(int32) * 0]; }},
    {"DivideOnce", divided_weights},
    {"SkipHidden", hidden_infinity},
    {"EitherZero",
     [](auto& d) {
       // Both orders of the two, in whichever order the compiler takes the operands.
       const std::vector<float> zero(16, 0.0f), minus(16, -0.0f);
       const Options on{.device = d};
       const Tensor plus = from_data(zero, {16}, on), negative = from_data(minus, {16}, on);
       const Tensor x = stack({plus, negative}).realize(), y = stack({negative, plus}).realize();
       return stack({maximum(x, y), minimum(x, y)});
     }},
    {"BF16Pairs",
     [](auto& d) {
       // Sums of one product each, which is below the smallest normal f32.
       const Tensor one = one_of_each_row(32, d).to(bfloat16);
       return (one * 0x1p-70f).realize().matmul((one * 0x1p-60f).realize());
     }},
};
// clang-format on

Tensor gradient_of_conv(const std::string& d, bool of_weights) {
  Tensor x = values({4, 6, 14, 14}, d, 1).requires_grad_();
  Tensor w = values({10, 6, 3, 3}, d, 2).requires_grad_();
  Tensor y = x.conv2d(w, {}, {.padding = 1});
  return y.gradient({of_weights ? w : x}, values(y.shape(), d, 3))[0];
}

Tensor normalised(const Tensor& x) {
  const Tensor mean = x.mean({1}, true), off = x - mean;
  return off / (off.square().mean({1}, true) + 1e-5f).sqrt();
}

// clang-format off
const Case programs[] = {
    {"matmul", [](auto& d) { return values({65, 130}, d, 1).matmul(values({130, 77}, d, 2)); }},
    {"matmul of transposed",
     [](auto& d) { return values({700, 33}, d, 1).t().matmul(values({50, 700}, d, 2).t()); }},
    {"matmul in blocks",
     [](auto& d) { return values({96, 1500}, d, 1).matmul(values({1500, 96}, d, 2)).relu(); }},
    {"batched matmul",
     [](auto& d) { return values({3, 20, 40}, d, 1).matmul(values({3, 40, 24}, d, 2)); }},
    {"matrix by vector", [](auto& d) { return values({300, 500}, d, 1).mv(values({500}, d, 2)); }},
    {"vector by matrix",
     [](auto& d) { return values({500, 300}, d, 1).t().mv(values({500}, d, 2)); }},
    {"conv", [](auto& d) {
       return values({4, 6, 15, 15}, d, 1).conv2d(values({10, 6, 3, 3}, d, 2), values({10}, d, 3));
     }},
    {"strided conv", [](auto& d) {
       return values({2, 16, 17, 17}, d, 1)
           .conv2d(values({24, 16, 5, 5}, d, 2), {}, {.stride = 2, .padding = 2});
     }},
    {"gradient of conv by data", [](auto& d) { return gradient_of_conv(d, false); }},
    {"gradient of conv by weights", [](auto& d) { return gradient_of_conv(d, true); }},
    {"shares of rows", [](auto& d) {
       const Tensor x = values({70, 300}, d).square();
       return x / x.sum(1, true);
     }},
    {"normalised rows", [](auto& d) { return normalised(values({70, 300}, d)); }},
    {"mean and variance", [](auto& d) {
       const Tensor x = values({16, 24, 60}, d);
       return stack({x.mean({0, 2}), x.var({0, 2}), x.square().sum({0, 2})});
     }},
    {"a long sum", [](auto& d) { return values({300'000}, d).sum(); }},
    {"long columns", [](auto& d) { return values({3000, 100}, d).sum(0); }},
    {"sums of sums", [](auto& d) { return values({40, 50, 60}, d).sum(2).sum(0); }},
    {"sums in another order of memory",
     [](auto& d) { return values({40, 50, 60}, d).permute({2, 0, 1}).sum({0, 2}); }},
    {"two sums of one memory", [](auto& d) {
       const Tensor x = values({8, 30, 20}, d);
       return x.sum({1, 2}) + x.reshape({8, 20, 30}).permute({0, 2, 1}).square().sum({1, 2});
     }},
    {"two sums in one kernel", [](auto& d) {
       const Tensor x = values({8, 15, 40}, d);
       std::vector<Tensor> sums{x.narrow(1, 0, 13).sum({1, 2}), x.sum({1, 2})};
       realize(sums);
       return stack(sums);
     }},
    {"a product", [](auto& d) { return (values({30, 64}, d) * 1e-3f + 1.0f).prod(1); }},
    {"pools", [](auto& d) {
       const Tensor x = values({2, 5, 20, 20}, d);
       return stack({x.max_pool2d(3, {.stride = 2, .padding = 1}),
                     x.avg_pool2d(3, {.stride = 2, .padding = 1})});
     }},
    {"scan", [](auto& d) {
       const Tensor x = values({60, 60}, d);
       return stack({x.cumsum(1), x.cumsum(0)});
     }},
    {"largest values", [](auto& d) {
       const Tensor x = values({50, 400}, d);
       return stack({x.amax(1), x.amin(1), (x - x).amax(1)});
     }},
    {"rows that are looked up", [](auto& d) {
       return values({30, 16}, d)[(values({40}, d, 2).abs() * 10.0f).to(int32) % 30].sum(0);
     }},
};
// clang-format on

// Some machines have no instruction that would make use of it.
bool shows_here(std::string_view freedom) {
  return freedom != "BF16Pairs" || device("CPU").target().dots.has(Op::DotBF16);
}

std::string page(const char* path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

}  // namespace

TEST_SUITE("strict") {
  TEST_CASE("every freedom shows, and not with STRICT=1") {
    size_t found = 0;
    for (const FreedomText& row : freedom_texts())
      for (const Case& c : freedoms)
        if (std::string_view(c.name) == row.name) {
          CAPTURE(std::string(row.name));
          const std::vector<uint64_t> want = bits_of(c.run, false, "INTERP");
          if (shows_here(row.name)) CHECK((bits_of(c.run, false) != want));
          CHECK((bits_of(c.run, true) == want));
          CHECK((bits_of(c.run, true, "INTERP_PROGRAM") == want));
          ++found;
        }
    CHECK(found == freedom_texts().size());
  }

  // The text of the C kernel is the same.
  TEST_CASE("kernels that are kept are those of the flag") {
    FlagScope cc(Flag::CC, 1);
    const Call& fused = freedoms[1].run;
    for (int i = 0; i < 2; ++i) {
      clear_caches();
      CHECK((bits_of(fused, i == 0) == bits_of(fused, i == 0, "INTERP")) == (i == 0));
      CHECK((bits_of(fused, i != 0) == bits_of(fused, i != 0, "INTERP")) == (i != 0));
    }
    const std::string key = device_key(device("CPU"));
    FlagScope strict(Flag::STRICT, 1);
    CHECK(device_key(device("CPU")) != key);
  }

  TEST_CASE("semantics.md lists the freedoms") {
    std::string table = "| name | what is allowed | for example |\n|---|---|---|\n";
    for (const FreedomText& f : freedom_texts())
      table += std::string("| ") + f.name + " | " + f.allows + " | " + f.example + " |\n";
    INFO(table);
    CHECK((page(MOTE_SOURCE_DIR "/docs/semantics.md").find(table) != std::string::npos));
  }

  TEST_CASE("the bits of the reference in every float type") {
    int64_t place = 0;
    for (const Case& c : programs)
      for (DType type : {float32, float64, float16, bfloat16}) {
        if (place++ % test::stride_of_cases()) continue;  // sanitized runs leave most out
        CAPTURE(std::string(c.name));
        CAPTURE(std::string(name(type)));
        used_type = type;
        CHECK((bits_of(c.run, true) == bits_of(c.run, true, "INTERP")));
      }
    used_type = float32;
  }

  TEST_CASE("in a child: strict results as hashes" * doctest::skip()) {
    for (const Case& c : programs) {
      const std::vector<uint64_t> all = bits(c.run("CPU").realize());
      std::printf("bits of %s: %016llx\n", c.name,
                  static_cast<unsigned long long>(hash_bytes(all.data(), all.size() * 8)));
    }
  }

  TEST_CASE("one thread or many, LLVM or C: the same bits") {
    std::vector<std::string> hashes;
    for (const char* settings : {"THREADS=1", "THREADS=2", "THREADS=16", "CC=1"}) {
      const Ran ran = run_self(std::string("MOTE_STRICT=1 MOTE_SPEC=0 MOTE_") + settings,
                               "in a child: strict results as hashes");
      REQUIRE(ran.status == 0);
      const size_t from = ran.output.find("bits of"),
                   to = ran.output.find('\n', ran.output.rfind("bits of"));
      hashes.push_back(ran.output.substr(from, to - from));
    }
    CHECK(hashes[0].size() > 500);
    for (const std::string& others : hashes) CHECK(hashes[0] == others);
  }
}

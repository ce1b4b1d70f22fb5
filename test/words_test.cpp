// Products of narrow numbers on the CPU, which multiplies them as words where it can.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <functional>

#include "base/random.h"

using namespace mote;

namespace {

constexpr uint64_t kSeed = 20261119;

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  return count;
}

std::vector<float> numbers(int64_t count, const std::function<double()>& one) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(one()));
  return out;
}

// The same program on both devices, of numbers whose sums are exact in any order.
struct Draw {
  Random random;
  std::vector<std::vector<float>> data;
  std::string device;
  size_t next = 0;

  Tensor of(DType dtype, const std::vector<int64_t>& shape) {
    const bool is_unsigned = dtype == uint8;
    if (next == data.size())
      data.push_back(numbers(count_of(shape), [&] {
        return static_cast<double>(random.below(16)) - (is_unsigned ? 0 : 8);
      }));
    return from_data(data[next++], shape, {.device = device}).to(dtype).realize();
  }
};

void check_same(uint64_t seed, const std::string& what,
                const std::function<Tensor(Draw&)>& program) {
  INFO("seed " << seed << ": " << what);
  Draw draw{Random(seed), {}, "INTERP", 0};
  const std::vector<float> want = program(draw).to(float32).contiguous().to_vector<float>();
  draw.device = "CPU", draw.next = 0;
  CHECK((program(draw).to(float32).contiguous().to_vector<float>() == want));
}

// Factors of a product of m x k by k x n, each turned or not.
Tensor product(Draw& d, std::pair<DType, DType> from, DType to, int64_t m, int64_t n, int64_t k,
               int64_t turned) {
  Tensor a = turned & 1 ? d.of(from.first, {k, m}).t() : d.of(from.first, {m, k});
  Tensor b = turned & 2 ? d.of(from.second, {n, k}).t() : d.of(from.second, {k, n});
  return to == from.first ? a.matmul(b) : a.to(to).matmul(b.to(to));
}

double bf16_of(double v) {
  return from_data(std::vector<float>{static_cast<float>(v)}, {1})
      .to(bfloat16)
      .to(float32)
      .item<float>();
}

}  // namespace

TEST_SUITE("words") {
  TEST_CASE("products of narrow numbers are those of INTERP") {
    const std::pair<std::pair<DType, DType>, DType> types[] = {
        {{bfloat16, bfloat16}, float32 },
        {{bfloat16, bfloat16}, bfloat16},
        {{int8, int8},         int32   },
        {{uint8, int8},        int32   },
        {{uint8, uint8},       int32   },
        {{int16, int8},        int32   },
        {{int8, int8},         int8    },
        {{float16, float16},   float32 },
    };
    Random sizes(kSeed);
    for (int round = 0; round < 48; ++round) {
      const auto& [from, to] = types[static_cast<size_t>(round) % std::size(types)];
      auto size = [&](int64_t most) { return 1 + sizes.below(most); };
      const int64_t m = size(40), n = size(50), k = size(70), turned = sizes.below(4);
      const std::string what = std::string(name(from.first)) + " " + name(from.second) + " " +
                               name(to) + " " + std::to_string(m) + "x" + std::to_string(k) + "x" +
                               std::to_string(n) + " turned " + std::to_string(turned);
      check_same(kSeed + static_cast<uint64_t>(round), what,
                 [&](Draw& d) { return product(d, from, to, m, n, k, turned); });
    }
  }

  TEST_CASE("narrow products among other things are those of INTERP") {
    auto bf16 = [](Draw& d, const std::vector<int64_t>& shape) { return d.of(bfloat16, shape); };
    check_same(kSeed, "bias and relu", [&](Draw& d) {
      return (bf16(d, {33, 65}).matmul(bf16(d, {65, 40})) + bf16(d, {40})).relu();
    });
    check_same(kSeed, "batches", [&](Draw& d) {
      return bf16(d, {5, 17, 31}).matmul(bf16(d, {5, 31, 24}));
    });
    check_same(kSeed, "vectors", [&](Draw& d) { return bf16(d, {70, 300}).mv(bf16(d, {300})); });
    check_same(kSeed, "a factor computed", [&](Draw& d) {
      return bf16(d, {32, 64}).relu().matmul((bf16(d, {64, 48}) * 2).neg());
    });
    check_same(kSeed, "a factor twice", [&](Draw& d) {
      const Tensor x = bf16(d, {33, 50});
      return x.matmul(x.t());
    });
    for (int64_t channels : {3, 8, 33})
      check_same(kSeed, "conv", [&](Draw& d) {
        return bf16(d, {2, channels, 13, 13})
            .conv2d(bf16(d, {16, channels, 3, 3}), {}, {.padding = 1});
      });
    check_same(kSeed, "conv of integers", [&](Draw& d) {
      return d.of(int8, {2, 9, 12, 12}).to(int32).conv2d(d.of(int8, {8, 9, 3, 3}).to(int32));
    });
  }

  // Of the f32 sum of k products: what rounding k times makes of it, and zeros for what is below
  // the smallest normal number.
  TEST_CASE("sums of bf16 products are near those in f64, subnormals aside") {
    Random random(kSeed);
    const int64_t m = 24, n = 32, k = 129;
    const double tiny = 0x1p-126;
    for (int spread : {0, 8, 60, 150}) {
      INFO("seed " << kSeed << ", exponents up to " << spread);
      auto one = [&] {
        const double v =
            std::ldexp(random.between(-1, 1), static_cast<int>(random.below(spread + 1)) -
                                                  (spread > 60 ? 140 : spread / 2));
        return v;
      };
      const Sizes left{m, k}, right{k, n};
      const Tensor a = from_data(numbers(m * k, one), left).to(bfloat16).realize(),
                   b = from_data(numbers(k * n, one), right).to(bfloat16).realize();
      const std::vector<float> x = a.to(float32).to_vector<float>(),
                               y = b.to(float32).to_vector<float>(),
                               got = a.to(float32).matmul(b.to(float32)).to_vector<float>();
      int wrong = 0;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 0, flushed = 0;
          for (int64_t q = 0; q < k; ++q) {
            const double p = x[static_cast<size_t>(i * k + q)],
                         r = y[static_cast<size_t>(q * n + j)];
            sum += p * r, size += std::fabs(p * r);
            if (std::fabs(p) < tiny || std::fabs(r) < tiny) flushed += std::fabs(p * r);
          }
          const double error = std::fabs(got[static_cast<size_t>(i * n + j)] - sum);
          wrong += !(error <= size * static_cast<double>(k) * 0x1p-24 + flushed + 2 * tiny * k);
        }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("infinities and NaNs go through bf16 products") {
    const int64_t m = 16, n = 32, k = 65;
    std::vector<float> x(static_cast<size_t>(m * k), 1), y(static_cast<size_t>(k * n), 1);
    x[3] = INFINITY;                       // row 0
    x[static_cast<size_t>(k + 64)] = NAN;  // row 1
    x[static_cast<size_t>(2 * k + 1)] = INFINITY, x[static_cast<size_t>(2 * k + 64)] = -INFINITY;
    x[static_cast<size_t>(3 * k + 64)] = -INFINITY;
    y[static_cast<size_t>(64 * n + 5)] = 0;  // by the infinity of row 3
    const Tensor a = from_data(x, {m, k}).to(bfloat16).realize(),
                 b = from_data(y, {k, n}).to(bfloat16).realize();
    const std::vector<float> got = a.matmul(b).to(float32).to_vector<float>();
    for (int64_t j = 0; j < n; ++j) {
      auto at = [&](int64_t row) { return got[static_cast<size_t>(row * n + j)]; };
      CHECK(at(0) == INFINITY);
      CHECK(std::isnan(at(1)));
      CHECK(std::isnan(at(2)));
      CHECK((j == 5 ? std::isnan(at(3)) : at(3) == -INFINITY));
      CHECK(at(4) == (j == 5 ? 64 : 65));
    }
  }

  TEST_CASE("f32 becomes the nearest bf16, halves to even, and back") {
    const std::pair<double, double> cases[] = {
        {1 + 0x1p-8,    1          },
        {1 + 0x1.8p-7,  1 + 0x1p-6 },
        {1 + 0x1.8p-8,  1 + 0x1p-7 },
        {-1 - 0x1.8p-8, -1 - 0x1p-7},
        {0x1p-130,      0x1p-130   },
        {0x1p-149,      0          },
        {-0x1.8p-134,   -0x1p-133  },
        {3.4028234e38,  INFINITY   },
        {-3.4028234e38, -INFINITY  },
        {0x1.fd8p127,   0x1.fep127 },
        {INFINITY,      INFINITY   },
        {-0.0,          -0.0       },
    };
    for (auto [from, to] : cases) {
      CAPTURE(from);
      CHECK(bf16_of(from) == to);
      CHECK(std::signbit(bf16_of(from)) == std::signbit(to));
    }
    CHECK(std::isnan(bf16_of(NAN)));
  }
}

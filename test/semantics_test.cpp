// What docs/semantics.md promises, on every device that computes.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/flags.h"

using namespace mote;

namespace {

constexpr const char* devices[] = {"CPU", "INTERP", "INTERP_PROGRAM"};
using Values = std::vector<int64_t>;

template <class T>
Tensor vec(const std::vector<T>& v, const char* device) {
  return from_data(v, static_cast<int64_t>(v.size()), {.device = device});
}
Tensor at(const Values& v, const char* device) { return vec(v, device); }
Values values(const Tensor& t) { return t.to_vector<int64_t>(); }

// Every pair of some values, those at the ends of the dtype among them.
template <class T>
struct Pairs {
  std::vector<T> a, b;
  Pairs() {
    constexpr T lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
    const T some[] = {lo, T(lo + 1), T(-7), T(-1), T(0), T(1), T(2), T(3), T(7), T(hi - 1), hi};
    for (T x : some)
      for (T y : some) a.push_back(x), b.push_back(y);
  }
};

template <class T>
T wrapped(__int128 v) {
  return static_cast<T>(static_cast<uint64_t>(v));
}

// The low 128 bits of a product: u64 operands do not fit a signed one.
__int128 times(__int128 x, __int128 y) {
  return static_cast<__int128>(static_cast<unsigned __int128>(x) *
                               static_cast<unsigned __int128>(y));
}

template <class T>
void check_arithmetic(const char* device) {
  Pairs<T> p;
  Tensor a = vec(p.a, device), b = vec(p.b, device);
  std::vector<T> quotient = div(a, b, "trunc").template to_vector<T>(),
                 floored = a.floor_divide(b).template to_vector<T>(),
                 modulo = (a % b).template to_vector<T>(),
                 rest = a.fmod(b).template to_vector<T>(), sum = (a + b).template to_vector<T>(),
                 product = (a * b).template to_vector<T>(), minus = (-a).template to_vector<T>();
  int wrong = 0;
  for (size_t i = 0; i < p.a.size(); ++i) {
    __int128 x = p.a[i], y = p.b[i];
    __int128 q = y ? x / y : 0, r = y ? x % y : 0;
    bool down = r != 0 && (r < 0) != (y < 0);
    wrong += quotient[i] != wrapped<T>(q) || rest[i] != wrapped<T>(r);
    wrong += floored[i] != wrapped<T>(q - down) || modulo[i] != wrapped<T>(down ? r + y : r);
    wrong += sum[i] != wrapped<T>(x + y) || product[i] != wrapped<T>(times(x, y));
    wrong += minus[i] != wrapped<T>(-x);
  }
  CHECK_MESSAGE(wrong == 0, std::string(device), " ", std::string(name(dtype_of<T>())));
}

template <class T>
void check_shifts(const char* device) {
  constexpr int width = 8 * sizeof(T);
  std::vector<T> a, b;
  for (T x : {T(1), T(-1), T(5), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()})
    for (int y : {0, 1, width - 1, width, width + 1, 100, -1}) a.push_back(x), b.push_back(T(y));
  Tensor ta = vec(a, device), tb = vec(b, device);
  std::vector<T> left = (ta << tb).template to_vector<T>(),
                 right = (ta >> tb).template to_vector<T>();
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool inside = b[i] >= 0 && static_cast<uint64_t>(b[i]) < width;
    wrong += left[i] != (inside ? static_cast<T>(static_cast<uint64_t>(a[i]) << b[i]) : T(0));
    T filled = a[i] < 0 ? T(-1) : T(0);
    wrong += right[i] != (inside ? static_cast<T>(a[i] >> b[i]) : filled);
  }
  CHECK_MESSAGE(wrong == 0, std::string(device), " ", std::string(name(dtype_of<T>())));
}

template <class From, class To>
void check_casts(const char* device) {
  constexpr From inf = std::numeric_limits<From>::infinity();
  const std::vector<From> from = {0,       From(-0.9), From(0.9),  From(1.5),    From(-1.5),
                                  From(127.9), From(-128.9), From(255.9), From(1e9),  From(-1e9),
                                  From(3e9),   From(-3e9),   From(1e19),  From(-1e19), From(2e19),
                                  inf,         -inf,         From(NAN)};
  std::vector<To> got = vec(from, device).to(dtype_of<To>()).template to_vector<To>();
  constexpr To lo = std::numeric_limits<To>::min(), hi = std::numeric_limits<To>::max();
  int wrong = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    long double x = std::trunc(static_cast<long double>(from[i]));
    To want = std::isnan(from[i])                      ? To(0)
              : x <= static_cast<long double>(lo)      ? lo
              : x >= static_cast<long double>(hi)      ? hi
                                                       : static_cast<To>(x);
    wrong += got[i] != want;
  }
  CHECK_MESSAGE(wrong == 0, std::string(device), " ", std::string(name(dtype_of<From>())), " to ",
                std::string(name(dtype_of<To>())));
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The text, and the line that the caller wrote the call on.
std::string at_line(const std::string& what, int line) {
  return what + " (" + __FILE__ + ":" + std::to_string(line) + ")";
}

}  // namespace

TEST_SUITE("semantics") {
  TEST_CASE("integers: overflow wraps, division by zero gives 0") {
    for (const char* d : devices) {
      check_arithmetic<int8_t>(d);
      check_arithmetic<int16_t>(d);
      check_arithmetic<int32_t>(d);
      check_arithmetic<int64_t>(d);
      check_arithmetic<uint8_t>(d);
      check_arithmetic<uint16_t>(d);
      check_arithmetic<uint32_t>(d);
      check_arithmetic<uint64_t>(d);
    }
  }

  TEST_CASE("integers: over-wide shifts") {
    for (const char* d : devices) {
      check_shifts<int8_t>(d);
      check_shifts<int32_t>(d);
      check_shifts<int64_t>(d);
      check_shifts<uint8_t>(d);
      check_shifts<uint64_t>(d);
    }
  }

  TEST_CASE("casts: float to integer saturates, NaN gives 0") {
    for (const char* d : devices) {
      check_casts<float, int8_t>(d);
      check_casts<float, int32_t>(d);
      check_casts<float, int64_t>(d);
      check_casts<float, uint8_t>(d);
      check_casts<float, uint64_t>(d);
      check_casts<double, int16_t>(d);
      check_casts<double, int32_t>(d);
      check_casts<double, int64_t>(d);
      check_casts<double, uint32_t>(d);
      check_casts<double, uint64_t>(d);
    }
  }

  // Each vector of lanes has one or two that the usual way of computing does not reach.
  TEST_CASE("curves: odd values beside usual ones") {
    const float odd[] = {1e30f, -3e38f, INFINITY, NAN, 0.0f, -0.0f, 1e-42f, -2.0f, 65537.0f};
    std::vector<float> x;
    for (int i = 0; i < 500; ++i)
      x.push_back(i % 13 ? static_cast<float>(i) * 0.37f + 0.01f : odd[i / 13 % 9]);
    const struct {
      Tensor (Tensor::*ours)(Loc) const;
      double (*truth)(double);
    } rows[] = {{&Tensor::sin, std::sin}, {&Tensor::cos, std::cos}, {&Tensor::log, std::log},
                {&Tensor::log2, std::log2}};
    for (const char* device : devices)
      for (const auto& row : rows) {
        const Tensor y = (vec(x, device).*row.ours)(Loc::current());
        const std::vector<float> got = y.to_vector<float>();
        for (size_t i = 0; i < x.size(); ++i) {
          const auto want = static_cast<float>(row.truth(x[i]));
          const bool same = got[i] == want || (std::isnan(got[i]) && std::isnan(want));
          INFO(device << " " << &row - rows << " of " << x[i] << ": " << got[i] << ", " << want);
          CHECK((same || std::fabs(got[i] - want) <= 2.4e-7f * std::fabs(want)));
        }
      }
  }

  TEST_CASE("log1p keeps the sign of zero") {
    for (const char* device : devices) {
      const std::vector<float> got = vec(std::vector<float>{-0.0f, 0.0f}, device).log1p()
                                         .to_vector<float>();
      CHECK((got[0] == 0 && std::signbit(got[0])));
      CHECK((got[1] == 0 && !std::signbit(got[1])));
    }
  }

  // Kernels look for NaNs in several values at once: wherever one is, the result is NaN, and only
  // there.
  TEST_CASE("largest and smallest: a NaN anywhere") {
    for (const int64_t n : {7, 64, 512, 768}) {
      std::vector<float> x(static_cast<size_t>(n * n), 1.0f);
      for (int64_t i = 0; i < n; ++i) {
        x[static_cast<size_t>(i * n + (i * 5 + 3) % n)] = i % 2 ? 2.0f : NAN;
        x[static_cast<size_t>(i * n + (i * 5 + 4) % n)] = i % 2 ? -INFINITY : INFINITY;
      }
      for (const char* device : {"CPU", "INTERP_PROGRAM"}) {
        if (n > 64 && device != std::string("CPU")) continue;
        const Tensor t = vec(x, device).reshape({n, n});
        for (const int64_t axis : {0, 1}) {
          const Tensor rows = axis ? t : t.transpose(0, 1).contiguous();
          const std::vector<float> most = rows.amax(axis).to_vector<float>(),
                                   least = rows.amin(axis).to_vector<float>();
          int wrong = 0;
          for (size_t i = 0; i < most.size(); ++i) {
            const bool nan = i % 2 == 0;
            wrong += std::isnan(most[i]) != nan || (!nan && most[i] != 2.0f);
            wrong += std::isnan(least[i]) != nan || (!nan && least[i] != -INFINITY);
          }
          INFO(device << ", " << n << " values along axis " << axis);
          CHECK(wrong == 0);
        }
        CHECK(std::isnan(t.max().item<float>()));
      }
    }
  }

  TEST_CASE("casts: to bool is not zero") {
    for (const char* d : devices) {
      Tensor t = vec(std::vector<float>{0, -0.0f, 0.2f, NAN, INFINITY}, d).to_bool();
      CHECK(values(t) == Values{0, 0, 1, 1, 1});
    }
  }

  TEST_CASE("casts: numbers of the host are converted as on a device") {
    const double inf = std::numeric_limits<double>::infinity();
    CHECK(tensor(NAN).item<int>() == 0);
    CHECK(tensor(1e30).item<int64_t>() == INT64_MAX);
    CHECK(tensor(-inf).item<int8_t>() == -128);
    CHECK(tensor(-3.5).item<uint8_t>() == 0);
    CHECK(tensor(2e19, {.dtype = float64}).item<uint64_t>() == UINT64_MAX);
    CHECK(tensor(300, {.dtype = int32}).item<uint8_t>() == 44);
    CHECK(tensor(NAN).item<bool>());
    CHECK(tensor(UINT64_MAX).dtype() == DType::u64);
    CHECK(tensor(UINT64_MAX).item<double>() == 0x1p64);
    CHECK(values(full({2}, 1e10, int32)) == Values{INT32_MAX, INT32_MAX});
    CHECK(values(tensor({1e10, NAN, -1.5}, {.dtype = int16})) == Values{32767, 0, -1});
    CHECK(values(zeros({2}, int8).fill_(1e9)) == Values{127, 127});
  }

  TEST_CASE("numbers: an uint64_t keeps its value") {
    CHECK((tensor({1.}) * UINT64_MAX).item<float>() == 0x1p64f);
    CHECK((tensor({1.}) + (uint64_t{1} << 63)).item<double>() == 0x1p63);
    CHECK((zeros({1}, uint64) + UINT64_MAX).item<uint64_t>() == UINT64_MAX);
    std::vector<uint64_t> large = {UINT64_MAX};
    CHECK(from_data(large, {1}, {.dtype = float64}).item<double>() == 0x1p64);
  }

  TEST_CASE("comparisons with numbers are exact") {
    Tensor a = tensor({-128, 1, 127}, {.dtype = int8}), b = tensor({0, 255}, {.dtype = uint8});
    CHECK(values(a == 257) == Values{0, 0, 0});
    CHECK(values(a != 257) == Values{1, 1, 1});
    CHECK(values(a < 257) == Values{1, 1, 1});
    CHECK(values(a >= 257) == Values{0, 0, 0});
    CHECK(values(a > -129) == Values{1, 1, 1});
    CHECK(values(257 > a) == Values{1, 1, 1});
    CHECK(values(-129 >= a) == Values{0, 0, 0});
    CHECK(values(b > -1) == Values{1, 1});
    CHECK(values(b == -1) == Values{0, 0});
    CHECK(values(ones({1}, int64) < UINT64_MAX) == Values{1});
    CHECK(values(full({1}, UINT64_MAX) == -1) == Values{0});
    CHECK(values(a <= 127) == Values{1, 1, 1});
    CHECK(values(a == 1) == Values{0, 1, 0});
  }

  TEST_CASE("floor_divide of floats") {
    const float inf = INFINITY, x[] = {-1, 1, inf, -inf, 1, -1, 0, 7, -7, 2},
                y[] = {inf, -inf, 2, 2, 0, 0, 0, 2, 2, -inf},
                want[] = {-1, -1, NAN, NAN, inf, -inf, NAN, 3, -4, -1};
    for (const char* d : devices) {
      auto got = vec(std::vector<float>(x, x + 10), d)
                     .floor_divide(vec(std::vector<float>(y, y + 10), d))
                     .to_vector<float>();
      for (size_t i = 0; i < 10; ++i)
        CHECK((got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))));
    }
  }

  TEST_CASE("fmod: a zero has the sign of what is divided, and the derivative is 1") {
    for (DType d : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (const char* device : {"CPU", "INTERP"}) {
        CAPTURE(d);
        CAPTURE(device);
        Tensor a = tensor({-0.0, -4.0, 0.0, 4.0, -0.0, -5.0}, {d, device}).requires_grad_();
        Tensor b = tensor({2.0, 2.0, -2.0, -2.0, INFINITY, 3.0}, {d, device});
        Tensor rest = fmod(a, b);
        rest.sum().backward();
        CHECK(values(rest) == Values{0, 0, 0, 0, 0, -2});
        CHECK(values(rest.signbit().to(DType::f32)) == Values{1, 1, 0, 0, 1, 1});
        CHECK(values(a.grad()) == Values{1, 1, 1, 1, 1, 1});
        CHECK(values(remainder(a, b).signbit().to(DType::f32)) == Values{1, 1, 0, 0, 1, 0});
      }
  }

  TEST_CASE("arange counts whole numbers exactly") {
    constexpr int64_t high = int64_t{1} << 60;
    CHECK(values(arange(high, high + 3)) == Values{high, high + 1, high + 2});
    CHECK(values(arange(INT64_MAX - 2, INT64_MAX)) == Values{INT64_MAX - 2, INT64_MAX - 1});
    CHECK(values(arange(INT64_MIN + 2, INT64_MIN, -1)) == Values{INT64_MIN + 2, INT64_MIN + 1});
    CHECK(values(arange(0, 7, 3)) == Values{0, 3, 6});
    CHECK(arange(high, high).numel() == 0);
    CHECK(arange(0, 1, 0.25).numel() == 4);
  }

  TEST_CASE("positions and steps at the ends of 64 bits") {
    Tensor a = arange(3), m = ones({2, 2}, int64);
    CHECK(values(a(Slice(INT64_MIN, INT64_MAX, INT64_MAX))) == Values{0});
    CHECK(values(a(Slice(None, None, INT64_MIN))) == Values{2});
    CHECK(values(m.tril(INT64_MAX)) == Values{1, 1, 1, 1});
    CHECK(values(m.tril(INT64_MIN)) == Values{0, 0, 0, 0});
    CHECK(values(m.triu(INT64_MIN)) == Values{1, 1, 1, 1});
    CHECK(m.diagonal(INT64_MIN).numel() == 0);
    CHECK(values(a.unfold(0, 2, INT64_MAX)) == Values{0, 1});
    CHECK(a.chunk(INT64_MAX).size() == 3);
    CHECK(a.split(INT64_MAX).size() == 1);
  }

  TEST_CASE("bitcast between sizes scales the last axis") {
    for (const char* d : devices) {
      Tensor words = vec(std::vector<uint32_t>{0x04030201, 0xddccbbaa}, d);
      Tensor bytes = words.bitcast(DType::u8);
      CHECK(values(bytes) == Values{1, 2, 3, 4, 0xaa, 0xbb, 0xcc, 0xdd});
      CHECK(values(words.bitcast(DType::i16)) == Values{0x0201, 0x0403, -0x4456, -0x2234});
      CHECK(values(bytes.bitcast(DType::u32)) == values(words));
      CHECK(values(bytes.reshape({2, 4}).bitcast(DType::u16)) ==
            Values{0x0201, 0x0403, 0xbbaa, 0xddcc});
      Tensor as_bytes = vec(std::vector<double>{-2.5}, d).bitcast(DType::u8);
      CHECK(as_bytes.bitcast(DType::f64).item<double>() == -2.5);
    }
  }

  TEST_CASE("variables: an index within the axis reads and writes there, whatever the interval") {
    for (const char* d : devices) {
      Variable n("n", 0, 10), m("m", 1, 10);
      Tensor a = at({10, 11, 12, 13, 14}, d);
      for (int64_t i : {0, 3, 4}) CHECK(a(n.bind(i)).item<int64_t>() == 10 + i);
      CHECK(a(Size(m.bind(5)) - 1).item<int64_t>() == 14);
      CHECK(values(a.narrow(0, m.bind(2), 3)) == Values{12, 13, 14});
      CHECK(values(a.narrow(0, m.bind(2), Variable("k", 1, 9).bind(2))) == Values{12, 13});
      CHECK(values(a(Slice(0, m.bind(3)))) == Values{10, 11, 12});
      CHECK(values(a(Slice(0, m.bind(7)))) == Values{10, 11, 12, 13, 14});
      CHECK(values(a(Slice(n.bind(3), None))) == Values{13, 14});
      CHECK(a(Slice(n.bind(1), m.bind(3))).sum().item<int64_t>() == 23);
      a(n.bind(1)) = 7;
      a(Slice(m.bind(3), None)) = 9;
      CHECK(values(a) == Values{10, 7, 12, 9, 9});
    }
  }

  TEST_CASE("variables: values of bound sizes can be read and printed") {
    for (const char* d : devices) {
      Sym n = Variable("n", 1, 4).bind(2);
      Tensor a = at({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, d).reshape({3, 4});
      Tensor part = a.narrow(1, 0, n);
      CHECK(values(part) == Values{0, 1, 4, 5, 8, 9});
      CHECK(part.to_string() == "[[0 1]\n [4 5]\n [8 9]]");
      CHECK(values((part + 1).realize()) == Values{1, 2, 5, 6, 9, 10});
      CHECK(values(part.flatten().clone()) == Values{0, 1, 4, 5, 8, 9});
      CHECK(a.narrow(1, 0, Variable("k", 1, 4).bind(1)).select(0, 1).item<int64_t>() == 4);
    }
  }

  TEST_CASE("an empty batch is normalised to an empty batch") {
    Tensor x = zeros({0, 4, 2});
    CHECK(x.group_norm(2).shape() == Values{0, 4, 2});
    CHECK(x.instance_norm().to_vector<float>().empty());
    CHECK(zeros({3, 4, 0}).group_norm(2).shape() == Values{3, 4, 0});
  }

  TEST_CASE("multinomial never draws a weight of 0 while others are left") {
    for (const char* d : devices) {
      Tensor w = vec(std::vector<float>{0, 3, -1, 2, NAN, 0}, d);
      Values got = values(w.multinomial(4));
      CHECK(std::min(got[0], got[1]) == 1);
      CHECK(std::max(got[0], got[1]) == 3);
      CHECK(Values(got.begin() + 2, got.end()) == Values{0, 2});
      for (int64_t i : values(w.multinomial(50, true))) CHECK((i == 1 || i == 3));
    }
  }

  TEST_CASE("indices: with CHECK=0 out of range reads 0, negative ones count from the end") {
    FlagScope off(Flag::CHECK, 0);
    for (const char* d : devices) {
      Tensor x = at({10, 11, 12, 13}, d), rows = x.reshape({2, 2});
      Tensor i = at({0, 3, 4, -1, -4, -5, 1000, -1000}, d);
      const Values want = {10, 13, 0, 13, 10, 0, 0, 0};
      CHECK(values(x.gather(0, i)) == want);
      CHECK(values(x.take(i)) == want);
      CHECK(values(x.index_select(0, i)) == want);
      CHECK(values(x.index({i})) == want);
      CHECK(values(x.take_along_dim(i, 0)) == want);
      CHECK(values(rows.index({at({0, 1, 2, -1, 0}, d), at({1, -2, 0, 2, -3}, d)})) ==
            Values{11, 12, 0, 0, 0});
      CHECK(values(at({1, -1, 2}, d).embedding(rows)) == Values{12, 13, 12, 13, 0, 0});
      CHECK(values(x.gather(0, i.to(DType::i8))) == want);
      CHECK(values(x.gather(0, at({3, 200}, d).to(DType::u8))) == Values{13, 0});
    }
  }

  TEST_CASE("indices: with CHECK=0 a store out of range does not happen") {
    FlagScope off(Flag::CHECK, 0);
    for (const char* d : devices) {
      Tensor i = at({0, -1, 4, -5, 99}, d), v = at({1, 2, 3, 4, 5}, d);
      const Values want = {1, 9, 9, 2}, added = {10, 9, 9, 11};
      auto nines = [&] { return at({9, 9, 9, 9}, d); };
      CHECK(values(nines().scatter(0, i, v)) == want);
      CHECK(values(nines().index_copy(0, i, v)) == want);
      CHECK(values(nines().set({i}, v)) == want);
      CHECK(values(nines().index_put_({i}, v, true)) == added);
      CHECK(values(nines().scatter_add(0, i, v)) == added);
      CHECK(values(nines().index_add(0, i, v)) == added);
      CHECK(values(nines().index_fill(0, i, 0)) == Values{0, 9, 9, 0});
      Tensor m = nines().reshape({2, 2});
      m.set({at({0, 1, 2, 0}, d), at({0, -1, 0, 2}, d)}, at({1, 2, 3, 4}, d));
      CHECK(values(m) == Values{1, 9, 9, 2});
    }
  }
}

TEST_SUITE("checked semantics") {
  TEST_CASE("division by zero is an error with the call and the line") {
    for (const char* d : {"CPU", "INTERP"}) {
      FlagScope check(Flag::CHECK, 2);
      Tensor a = at({1, 2, 3}, d), b = at({1, 0, 2}, d);
      const std::string says = "] division by zero";
      CHECK(error_of([&] { a.floor_divide(b); }) == at_line("[floor_divide" + says, __LINE__));
      CHECK(error_of([&] { a % b; }) == at_line("[remainder" + says, __LINE__));
      CHECK(error_of([&] { a.fmod(b); }) == at_line("[fmod" + says, __LINE__));
      CHECK(error_of([&] { div(a, b, "trunc"); }) == at_line("[div" + says, __LINE__));
      CHECK(error_of([&] { a % 0; }) == at_line("[remainder" + says, __LINE__));
      CHECK(values(a / a) == Values{1, 1, 1});
      CHECK(values(a % (b + 1)) == Values{1, 0, 0});
      CHECK(values(gcd(a, b)) == Values{1, 2, 1});
      CHECK(std::isinf((a / b).to_vector<float>()[1]));
    }
  }

  TEST_CASE("an index out of range is an error with the call and the line") {
    for (const char* d : {"CPU", "INTERP"}) {
      Tensor x = at({10, 11, 12, 13}, d), rows = x.reshape({2, 2}), i = at({0, -1, 4}, d);
      const std::string of4 = "] index 4 is out of range for an axis of size 4",
                        of2 = "] index 4 is out of range for an axis of size 2";
      CHECK(error_of([&] { x.gather(0, i); }) == at_line("[gather" + of4, __LINE__));
      CHECK(error_of([&] { x(i); }) == at_line("[index" + of4, __LINE__));
      CHECK(error_of([&] { rows(i, i); }) == at_line("[index" + of2, __LINE__));
      CHECK(error_of([&] { i.embedding(rows); }) ==
            at_line("[embedding] index 4 is out of range for a table of 2 rows", __LINE__ - 1));
      CHECK(error_of([&] { rows.set({i, i}, 1); }) == at_line("[set" + of2, __LINE__));
      CHECK(error_of([&] { i.one_hot(4); }) ==
            at_line("[one_hot] class 4 is out of range for 4 classes", __LINE__ - 1));
      CHECK(error_of([&] { rows.to_float().cross_entropy(at({0, 2}, d)); }) ==
            at_line("[cross_entropy] class 2 is out of range for 2 classes", __LINE__ - 1));
      CHECK(values(x) == Values{10, 11, 12, 13});
      CHECK(values(x.gather(0, at({-4, 3}, d))) == Values{10, 13});
      CHECK(values(x.set({at({-1, 0}, d)}, 5)) == Values{5, 11, 12, 5});
    }
  }

  TEST_CASE("correct programs run the same") {
    FlagScope check(Flag::CHECK, 2);
    Tensor x = at({3, 1, 2}, "CPU");
    CHECK(values(x.sort().values) == Values{1, 2, 3});
    CHECK(values(x.masked_select(x > 1)) == Values{3, 2});
    CHECK(values(x.set({x > 1}, at({7, 8}, "CPU"))) == Values{7, 1, 8});
    Tensor logits = eye(3), target = at({0, -100, 2}, "CPU");
    CHECK(logits.cross_entropy(target).item<float>() == doctest::Approx(0.5514447));
    CHECK(values(at({4, 5}, "CPU").gather(0, zeros({0}, DType::i64))).empty());
  }
}

// What docs/semantics.md promises, on every device that computes.
#include <doctest/doctest.h>
#include <mote/mote.h>

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

  TEST_CASE("casts: to bool is not zero") {
    for (const char* d : devices) {
      Tensor t = vec(std::vector<float>{0, -0.0f, 0.2f, NAN, INFINITY}, d).to_bool();
      CHECK(values(t) == Values{0, 0, 1, 1, 1});
    }
  }

  TEST_CASE("indices: out of range reads 0, negative ones count from the end") {
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

  TEST_CASE("indices: a store out of range does not happen") {
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
      FlagScope check(Flag::CHECK, 1);
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
      FlagScope check(Flag::CHECK, 1);
      Tensor x = at({10, 11, 12, 13}, d), rows = x.reshape({2, 2}), i = at({0, -1, 4}, d);
      const std::string of4 = "] indices between -1 and 4 are out of range for an axis of size 4",
                        of2 = "] indices between -1 and 4 are out of range for an axis of size 2";
      CHECK(error_of([&] { x.gather(0, i); }) == at_line("[gather" + of4, __LINE__));
      CHECK(error_of([&] { x.take(i); }) == at_line("[take" + of4, __LINE__));
      CHECK(error_of([&] { x.take_along_dim(i, 0); }) ==
            at_line("[take_along_dim" + of4, __LINE__ - 1));
      CHECK(error_of([&] { x.index_select(0, i); }) == at_line("[index_select" + of4, __LINE__));
      CHECK(error_of([&] { x(i); }) == at_line("[index" + of4, __LINE__));
      CHECK(error_of([&] { rows(i, i); }) == at_line("[index" + of2, __LINE__));
      CHECK(error_of([&] { i.embedding(rows); }) == at_line("[embedding" + of2, __LINE__));
      CHECK(error_of([&] { x.scatter(0, i, i); }) == at_line("[scatter" + of4, __LINE__));
      CHECK(error_of([&] { x.scatter_add(0, i, i); }) == at_line("[scatter_add" + of4, __LINE__));
      CHECK(error_of([&] { x.index_add(0, i, i); }) == at_line("[index_add" + of4, __LINE__));
      CHECK(error_of([&] { x.index_copy(0, i, i); }) == at_line("[index_copy" + of4, __LINE__));
      CHECK(error_of([&] { x.index_fill(0, i, 1); }) == at_line("[index_fill" + of4, __LINE__));
      CHECK(error_of([&] { x.set({i}, 1); }) == at_line("[set" + of4, __LINE__));
      CHECK(error_of([&] { rows.set({i, i}, 1); }) == at_line("[set" + of2, __LINE__));
      CHECK(error_of([&] { i.one_hot(4); }) ==
            at_line("[one_hot] a class is not one of 0 to 3", __LINE__ - 1));
      CHECK(error_of([&] { rows.to_float().cross_entropy(at({0, 2}, d)); }) ==
            at_line("[cross_entropy] indices between 0 and 2 are out of range for an axis "
                    "of size 2", __LINE__ - 2));
      CHECK(values(x) == Values{10, 11, 12, 13});
      CHECK(values(x.gather(0, at({-4, 3}, d))) == Values{10, 13});
      CHECK(values(x.set({at({-1, 0}, d)}, 5)) == Values{5, 11, 12, 5});
    }
  }

  TEST_CASE("correct programs run the same") {
    FlagScope check(Flag::CHECK, 1);
    Tensor x = at({3, 1, 2}, "CPU");
    CHECK(values(x.sort().values) == Values{1, 2, 3});
    CHECK(values(x.masked_select(x > 1)) == Values{3, 2});
    CHECK(values(x.set({x > 1}, at({7, 8}, "CPU"))) == Values{7, 1, 8});
    Tensor logits = eye(3), target = at({0, -100, 2}, "CPU");
    CHECK(logits.cross_entropy(target).item<float>() == doctest::Approx(0.5514447));
    CHECK(values(at({4, 5}, "CPU").gather(0, zeros({0}, DType::i64))).empty());
  }
}

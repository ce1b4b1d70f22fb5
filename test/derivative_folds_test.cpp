// Derivatives of losses, norms, activations of rows and other folds. Two questions, asked of many
// rows at once: at points of any scale, are first and second derivatives those that differences in
// f64 show; and at the points where formulas break, is there no NaN behind a finite value.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "test/amount.h"
#include "test/derivative_points.h"

using namespace mote;
using namespace mote::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int64_t kWidth = 4;

// Of rows (n, 4): a result whose first axis is n.
struct Fold {
  const char* name;
  Tensor (*f)(const Tensor& x, const Tensor& y);
  double lo = -inf, hi = inf;     // of x
  double low = -inf, high = inf;  // of y
  bool smooth = true;             // where no elements are equal, and differences mean something
  double scale = 1e3;             // the largest of those
};

#define F(expression) \
  [](const Tensor& x, [[maybe_unused]] const Tensor& y) -> Tensor { return expression; }

constexpr Reduction none = Reduction::none;

Tensor classes(const Tensor& x) {
  return (arange(Number(x.size(0)), {DType::i64, x.device()}) % 4);
}

// clang-format off
const Fold folds[] = {
    {"softmax", F(x.softmax(1))},
    {"log_softmax", F(x.log_softmax(1))},
    {"softmin", F(x.softmin(1))},
    {"logsumexp", F(x.logsumexp(1))},
    {"logcumsumexp", F(x.logcumsumexp(1))},
    {"glu", F(x.glu(1))},
    {"prelu", F(x.prelu(tensor({0.25, 0.5, 2.0, 0.0}, {x.dtype(), x.device()})))},
    {"sum", F(x.square().sum(1))},
    {"nansum", F(x.square().nansum(1)), -1e15, 1e15},
    {"mean", F(x.square().mean(1)), -1e15, 1e15},
    {"prod", F(x.prod(1)), -1e4, 1e4},
    {"var", F(x.var(1)), -1e15, 1e15},
    {"var of all", F(x.var(1, 0)), -1e15, 1e15},
    {"std", F(x.std(1)), -1e15, 1e15},
    {"norm 0", F(x.norm(0, 1))},
    {"norm 1/2", F(x.norm(0.5, 1)), -1e15, 1e15},
    {"norm 1", F(x.norm(1, 1))},
    {"norm 3/2", F(x.norm(1.5, 1)), -1e15, 1e15},
    {"norm 2", F(x.norm(2, 1)), -1e15, 1e15},
    {"norm 3", F(x.norm(3, 1)), -1e10, 1e10},
    {"norm -1", F(x.norm(-1, 1)), -1e15, 1e15},
    {"norm inf", F(x.norm(inf, 1))},
    {"norm -inf", F(x.norm(-inf, 1))},
    {"normalize", F(x.normalize()), -1e15, 1e15},
    {"normalize 1", F(x.normalize(1)), -1e15, 1e15},
    {"cosine_similarity", F(x.cosine_similarity(y)), -1e8, 1e8, -1e8, 1e8},
    {"layer_norm", F(x.layer_norm({4})), -1e8, 1e8},
    {"rms_norm", F(x.rms_norm({4})), -1e8, 1e8},
    {"group_norm", F(x.unsqueeze(2).group_norm(2)), -1e8, 1e8},
    {"instance_norm", F(x.unsqueeze(1).instance_norm()), -1e8, 1e8},
    {"batch_norm", F(x.t().batch_norm({}, {}, {}, {}, {.training = true}).t()), -1e8, 1e8},
    {"amax", F(x.amax(1))},
    {"amin", F(x.amin(1))},
    {"max", F(x.max(1).values)},
    {"min", F(x.min(1).values)},
    {"median", F(x.median(1).values)},
    {"kthvalue", F(x.kthvalue(2, 1).values)},
    {"nanmedian", F(x.nanmedian(1).values)},
    {"mode", F(x.mode(1).values)},
    {"quantile", F(x.quantile(0.4, 1)), -1e15, 1e15},
    {"nanquantile", F(x.nanquantile(0.4, 1)), -1e15, 1e15},
    {"msort", F(x.t().msort().t())},
    {"diff", F(x.diff()), -1e15, 1e15},
    {"sort", F(x.sort(1).values)},
    {"topk", F(x.topk(2, 1).values)},
    {"cumsum", F(x.square().cumsum(1)), -1e15, 1e15},
    {"cumprod", F(x.cumprod(1)), -1e4, 1e4},
    {"cummax", F(x.cummax(1).values)},
    {"cummin", F(x.cummin(1).values)},
    {"max_pool1d", F(x.unsqueeze(1).max_pool1d(2).squeeze(1))},
    {"max_pool1d_with_indices", F(x.unsqueeze(1).max_pool1d_with_indices(2).values)},
    {"max_pool2d_with_indices", F(x.reshape({-1, 1, 2, 2}).max_pool2d_with_indices(2).values)},
    {"max_pool3d_with_indices",
     F(x.reshape({-1, 1, 1, 2, 2}).max_pool3d_with_indices({1, 2, 2}).values)},
    {"tril", F(x.reshape({-1, 2, 2}).tril())},
    {"triu", F(x.reshape({-1, 2, 2}).triu())},
    {"mse_loss", F(x.mse_loss(y, none)), -1e15, 1e15, -1e15, 1e15},
    {"l1_loss", F(x.l1_loss(y, none)), -inf, inf, -inf, inf, false},
    {"smooth_l1_loss", F(x.smooth_l1_loss(y, 0.5, none)), -inf, inf, -inf, inf, false},
    {"huber_loss", F(x.huber_loss(y, 2, none)), -inf, inf, -inf, inf, false},
    {"binary_cross_entropy", F(x.binary_cross_entropy(y, {}, none)), 0, 1, 0, 1, false},
    {"binary_cross_entropy_with_logits", F(x.binary_cross_entropy_with_logits(y, {}, {}, none)),
     -inf, inf, 0, 1, false},
    {"bce of sigmoid", F(x.sigmoid().binary_cross_entropy(y, {}, none)), -inf, inf, 0, 1, false},
    {"kl_div", F(x.kl_div(y, none)), -1e9, 1e9, 0, 1, false},
    {"kl_div of logs", F(x.kl_div(y, none, true)), -1e9, 1e9, -1e3, 0, false},
    {"cross_entropy", F(x.cross_entropy(classes(x), {.reduction = none}))},
    {"cross_entropy smoothed",
     F(x.cross_entropy(classes(x), {.reduction = none, .label_smoothing = 0.1}))},
    {"cross_entropy of probabilities", F(x.cross_entropy(y, {.reduction = none})), -inf, inf, 0, 1,
     false},
    {"nll_loss",      F(x.nll_loss(classes(x), {.reduction = none}))},
    {"attention", F(x.unsqueeze(1).scaled_dot_product_attention(y.unsqueeze(1), y.unsqueeze(1))),
     -1e3, 1e3, -1e3, 1e3, true, 10},
};
// clang-format on

Tensor weights_like(const Tensor& t) {
  Values out;
  for (int64_t k = 0; k < t.numel(); ++k)
    out.push_back(0.5 + 1.5 * std::fmod((static_cast<double>(k) + 0.7) * 0.6180339887498949, 1.0));
  return from_data(out, t.shape(), {t.dtype(), t.device()});
}

Tensor per_row(const Tensor& t) { return t.dim() == 1 ? t : t.flatten(1).sum(1); }

// Per row: the weighed value and slope; and their derivatives by both operands.
struct Rows {
  Tensor value, slope;
  std::vector<Tensor> first, second;
};

Rows derive(const Fold& f, const Tensor& x, const Tensor& y) {
  Rows r;
  Tensor out = f.f(x, y);
  r.value = per_row(out * weights_like(out));
  r.first = r.value.sum().gradient({x, y}, {}, true);
  r.slope = per_row(r.first[0] * weights_like(r.first[0])) +
            per_row(r.first[1] * weights_like(r.first[1]).flip(1));
  r.second = r.slope.sum().gradient({x, y}, {}, true);
  return r;
}

bool all_finite(const Values& v, size_t from, size_t count) {
  for (size_t i = from; i < from + count; ++i)
    if (!std::isfinite(v[i])) return false;
  return true;
}

// Rows of special points, sometimes of equal elements, zeros or repeated ones.
Values special_rows(Points& points, size_t rows, double lo, double hi) {
  Values out;
  for (size_t r = 0; r < rows; ++r) {
    const double one = points.next(lo, hi), other = points.next(lo, hi);
    const size_t kind = points.below(4);
    for (int64_t k = 0; k < kWidth; ++k)
      out.push_back(kind == 0   ? one
                    : kind == 1 ? (points.below(2) ? one : other)
                                : points.next(lo, hi));
  }
  return out;
}

// The reciprocal is beyond the range, and so may be second derivatives and their parts. In f16,
// whose range is small, any.
bool is_tiny(double v, DType dtype) {
  if (dtype == DType::f16) return true;
  return v != 0 && std::fabs(v) < (dtype == DType::f64 ? 1e-306 : 1e-37);
}

// No NaN behind a finite value.
size_t check_defined(const Fold& f, size_t rows, DType dtype, const std::string& device,
                     uint64_t seed) {
  Points points(seed, dtype);
  const double most = dtype == DType::f16 ? 65504 : inf;
  auto drawn = [&](double lo, double hi) {
    return special_rows(points, rows, std::max(lo, -most), std::min(hi, most));
  };
  const Values a = drawn(f.lo, f.hi), b = drawn(f.low, f.high);
  const Options as{dtype, device};
  Tensor x = from_data(a, {rows, kWidth}, as).realize(),
         y = from_data(b, {rows, kWidth}, as).realize();
  Rows r = derive(f, x, y);
  realize({r.value, r.first[0], r.first[1], r.second[0], r.second[1]});
  const Values value = r.value.to_vector<double>();
  auto has_tiny = [&](size_t row) {
    for (size_t k = row * kWidth; k < (row + 1) * kWidth; ++k)
      if (is_tiny(a[k], dtype) || is_tiny(b[k], dtype)) return true;
    return false;
  };
  size_t wrong = 0, order = 0;
  for (const Tensor& t : {r.first[0], r.first[1], r.second[0], r.second[1]}) {
    const Values got = t.to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / kWidth;
      if (!std::isnan(got[i]) || !std::isfinite(value[row])) continue;
      if ((order > 1 && has_tiny(row)) || ++wrong > 2) continue;
      std::string at;
      for (size_t k = row * kWidth; k < (row + 1) * kWidth; ++k)
        at += " " + std::to_string(a[k]) + "/" + std::to_string(b[k]);
      FAIL_CHECK(device, " ", std::string(name(dtype)), " ", std::string(f.name), ", derivative ",
                 order, " is NaN at", at, " (seed ", seed, ")");
    }
    ++order;
  }
  CHECK_MESSAGE(wrong == 0, std::string(f.name), ": ", wrong, " of ", 4 * rows * kWidth);
  return 4 * rows * kWidth;
}

// One scale per row, no two elements close together.
Values scaled_rows(Points& points, size_t rows, double largest) {
  Values out;
  for (size_t r = 0; r < rows; ++r) {
    const double scale = std::pow(10, points.uniform(-3, std::log10(largest)));
    const size_t shift = points.below(kWidth);
    for (size_t k = 0; k < kWidth; ++k) {
      const auto place = static_cast<double>((k + shift) % kWidth);
      out.push_back(scale * (points.below(2) ? 1 : -1) *
                    (0.3 + 0.25 * place + points.uniform(0, 0.1)));
    }
  }
  return out;
}

Values moved(const Values& from, const Values& direction, double by) {
  Values out = from;
  for (size_t i = 0; i < out.size(); ++i) out[i] += by * direction[i];
  return out;
}

// Central differences with steps h and h/2, extrapolated, along a direction per row.
size_t check_differences(const Fold& f, size_t rows, const std::string& device, uint64_t seed) {
  Points points(seed, DType::f64);
  const Values a = scaled_rows(points, rows, f.scale), b = scaled_rows(points, rows, f.scale);
  Values da, db;
  for (double v : a) da.push_back(points.uniform(-1, 1) * std::fabs(v));
  for (double v : b) db.push_back(points.uniform(-1, 1) * std::fabs(v));
  auto at = [&](double by) {
    const Options as{DType::f64, device};
    return derive(f, from_data(moved(a, da, by), {rows, kWidth}, as).realize(),
                  from_data(moved(b, db, by), {rows, kWidth}, as).realize());
  };
  const double h = 1e-3;
  Rows here = at(0), around[] = {at(h), at(-h), at(h / 2), at(-h / 2)};
  std::vector<Tensor> all = {here.first[0],  here.first[1], here.second[0],
                             here.second[1], here.value,    here.slope};
  for (const Rows& r : around) all.insert(all.end(), {r.value, r.slope});
  realize(all);
  std::vector<Values> v;
  for (const Tensor& t : all) v.push_back(t.to_vector<double>());
  size_t wrong = 0;
  for (size_t r = 0; r < rows; ++r)
    for (size_t order : {0, 1}) {
      double along = 0, size = 0;
      for (size_t k = r * kWidth; k < (r + 1) * kWidth; ++k) {
        along += v[2 * order][k] * da[k] + v[2 * order + 1][k] * db[k];
        size += std::fabs(v[2 * order][k] * da[k]) + std::fabs(v[2 * order + 1][k] * db[k]);
      }
      auto difference = [&](size_t up) { return v[up + order][r] - v[up + 2 + order][r]; };
      const double coarse = difference(6) / (2 * h), fine = difference(10) / h;
      const double want = (4 * fine - coarse) / 3;
      const double room = 1e-6 * size + 1e-9 * std::fabs(v[4 + order][r]) +
                          4 * std::fabs(fine - coarse) * h + 1e-10;
      if (!all_finite({along, want}, 0, 2) || std::fabs(along - want) <= room || ++wrong > 2)
        continue;
      FAIL_CHECK(device, " ", std::string(f.name), ", derivative ", order + 1, " of row ", r,
                 " is ", along, ", differences give ", want, " (seed ", seed, ")");
    }
  CHECK_MESSAGE(wrong == 0, std::string(f.name), ": ", wrong, " of ", 2 * rows);
  return 2 * rows;
}

void check_all(size_t rows, DType dtype, const std::string& device, uint64_t seed) {
  size_t points = 0, functions = 0;
  for (const Fold& f : folds) points += check_defined(f, rows, dtype, device, seed + functions++);
  MESSAGE(device, " ", std::string(name(dtype)), ", seed ", seed, ": no NaN among ", points,
          " derivatives of ", functions, " functions");
}

void check_all_differences(size_t rows, const std::string& device, uint64_t seed) {
  size_t points = 0, functions = 0;
  for (const Fold& f : folds)
    if (f.smooth) points += check_differences(f, rows, device, seed + functions++);
  MESSAGE(device, ", seed ", seed, ": ", points, " differences of ", functions, " functions");
}

TEST_CASE("derivative points: no NaN behind a finite loss, norm or activation") {
  const uint64_t seed = point_seed();
  check_all(scaled<size_t>(200), DType::f32, "CPU", seed);
  check_all(scaled<size_t>(20), DType::f64, "INTERP", seed);
}

TEST_CASE("derivative points: folds agree with differences at any scale") {
  check_all_differences(scaled<size_t>(100), "CPU", point_seed());
}

TEST_SUITE_BEGIN("soak");

TEST_CASE("derivative points: no NaN behind a finite loss, norm or activation, in very many rows") {
  const uint64_t seed = point_seed();
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    check_all(scaled<size_t>(1000), dtype, "CPU", seed);
}

TEST_CASE("derivative points: folds agree with differences in very many rows") {
  check_all_differences(scaled<size_t>(2000), "CPU", point_seed());
}

TEST_SUITE_END();

}  // namespace

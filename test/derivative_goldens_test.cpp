// First and second derivatives at the points where formulas break, against PyTorch: zeros, ones,
// ties, equal elements, saturated inputs, edges of domains, huge, tiny and infinite values. The
// cases of test/goldens/{,more_}derivatives.gold.gz are those of ops_test.cpp with such values
// (tools/make_derivative_goldens.py). Where PyTorch gives a number, mote gives it; where it gives
// NaN behind a finite loss, norm or activation, mote does not (docs/semantics.md).
// For work on one op: OPS=substring runs only the cases whose names contain it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string_view>

#include "derivative_points.h"
#include "ops_table.h"
#include "test_paths.h"

using namespace mote;
using namespace mote::test;

namespace {

// Where mote differs from PyTorch on purpose: cases by the start of their names and their kinds of
// values ("": all). Of `orders` 1 and 2 are the derivatives' orders, 3 both.
struct Difference {
  const char *which, *kind;
  int orders;
  const char* why;
};
// clang-format off
constexpr Difference differences[] = {
    {"binary_cross_entropy/", "probable", 2, "PyTorch does not cut off its third logarithm"},
    {"cdist/pinf", "", 3, "of equal differences all have the derivative in PyTorch"},
    {"pdist/pinf", "", 3, "of equal differences all have the derivative in PyTorch"},
    {"ctc_loss/", "scales", 1, "of paths that are all but impossible"},
    {"ctc_loss/", "extreme", 1, "of paths that are all but impossible"},
    {"embedding_bag/offsets_max", "", 1, "equal elements share"},
    {"grid_sample/", "scales", 1, "places 1e30 pictures away"},
    {"grid_sample/", "extreme", 1, "places 1e300 pictures away"},
    {"grid_sample/", "infinite", 1, "there is no place at infinity"},
    {"grid_sample/volume_nearest", "", 1, "halves are rounded to even, as in planes"},
    {"multilabel_margin_loss/", "infinite", 1, "the loss is infinite"},
    {"xlog1py/", "", 2, "at x = 0, y = -1 the derivatives are 0"},
    {"erfinv/", "inside", 3, "PyTorch's is poor in the tails"},
    {"erfinv/", "probable", 3, "PyTorch's is poor in the tails"},
    {"float_power/tensors", "", 2, "the mixed derivative at y = 0 is 1 / x, where PyTorch gives 0"},
    {"frexp/", "extreme", 1, "the factor is not infinite"},
    {"i1/", "", 2, "PyTorch's formula cancels near 0"},
    {"i1e/", "", 2, "PyTorch's formula cancels near 0"},
    {"margin_ranking_loss/", "infinite", 1, "the loss is NaN"},
    {"multi_margin_loss/", "infinite", 1, "the loss is infinite"},
    {"clamp/tensors", "inside", 1, "of equal bounds the lower one has the derivative"},
    {"conv1d/", "infinite", 1, "zeros around the gradient meet infinite weights"},
    {"conv2d/", "infinite", 1, "zeros around the gradient meet infinite weights"},
    {"conv3d/", "infinite", 1, "zeros around the gradient meet infinite weights"},
    {"cumprod/", "inside", 2, "PyTorch divides"},
    {"cumprod/", "scales", 2, "PyTorch divides"},
    {"prod/", "inside", 2, "PyTorch divides"},
    {"glu/last", "extreme", 2, "1e300 times a rounding error"},
    {"kthvalue/", "", 3, "which of equal elements is the k-th is open"},
    {"logcumsumexp/", "scales", 3, "the shares of huge equal elements add up to 1"},
    {"logcumsumexp/", "extreme", 3, "the shares of huge equal elements add up to 1"},
    {"pow/same", "ties", 2, "the mixed derivative at y = 0 is 1 / x, where PyTorch gives 0"},
    {"pow/same", "edges", 2, "the mixed derivative at y = 0 is 1 / x, where PyTorch gives 0"},
    {"pow/scalar_tensor", "ties", 2, "of a negative base there is none by the exponent, even at 0"},
    {"pow/exponent_0_5", "infinite", 3, "the square root of -inf is NaN"},
    {"scaled_dot_product_attention/large", "scales", 3, "scores of 1e60 are not known to 1"},
    {"scaled_dot_product_attention/rank2", "extreme", 3, "products of huge numbers are infinite"},
    {"scaled_dot_product_attention/one_key", "extreme", 2, "1e300 times a rounding error"},
    {"scatter_reduce/amax_without_self", "infinite", 1, "all of a place's elements are -inf"},
    {"sinc/", "", 2, "it is smooth at 0, where PyTorch gives 0"},
    {"sinc/matrix", "scales", 1, "PyTorch's formula cancels near 0"},
    {"std/rows", "probable", 3, "the deviation is 1e-13 of the mean"},
    {"xlogy/", "edges", 2, "at x = y = 0 the derivatives are 0"},
    {"xlogy/", "infinite", 2, "at x = y = 0 the derivatives are 0"},
};
// With the values of `extreme` their results depend on which product of a formula leaves the range
// first.
constexpr const char* at_the_limits[] = {
    "addcdiv", "atan2", "cumprod", "hypot", "instance_norm", "layer_norm", "logsumexp", "norm"};

// Losses, norms and activations: never NaN behind a finite value.
constexpr const char* always_defined[] = {
    "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "clamp",
    "cosine_similarity", "cross_entropy", "elu", "gelu", "glu", "group_norm", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "log_softmax", "logsigmoid", "logsumexp", "mish", "mse_loss",
    "nll_loss", "norm", "normalize", "prelu", "relu", "relu6", "rms_norm", "selu", "sigmoid",
    "silu", "smooth_l1_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "std",
    "tanh", "tanhshrink", "threshold", "var"};
// clang-format on

bool is_always_defined(const std::string& op) {
  return std::ranges::find(always_defined, std::string_view(op)) != std::end(always_defined);
}

const GoldenFile& goldens() {
  static const GoldenFile file = read_goldens({"derivatives.gold.gz", "more_derivatives.gold.gz"});
  return file;
}

Values doubles(const GoldenTensor& t) {
  Values out(static_cast<size_t>(t.numel()));
  if (t.dtype == DType::f64 && !out.empty())
    std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

// As tools/make_derivative_goldens.py weighs the gradient of input i.
Tensor strewn(size_t i, const Tensor& like) {
  Values out;
  for (int64_t k = 0; k < like.numel(); ++k)
    out.push_back(0.5 +
                  1.5 * std::fmod((static_cast<double>(k) + 0.3 + 1.7 * static_cast<double>(i)) *
                                      0.6180339887498949,
                                  1.0));
  return from_data(out, like.shape(), {like.dtype(), like.device()});
}

struct Derivatives {
  std::vector<size_t> of;  // inputs
  std::vector<Tensor> first, second;
  std::vector<Tensor> outputs;  // that count
};

Tensor seen_as(const GoldenTensor& v, DType floats, const std::string& device) {
  Tensor t = from_bytes(v.bytes.data(), v.shape, v.dtype, device);
  return t.is_floating_point() && t.dtype() != floats ? t.to(floats).realize() : t;
}

Derivatives derive(const GoldenCase& golden, DType floats, const std::string& device) {
  Call call{golden, device, {}};
  for (const GoldenInput& in : golden.inputs)
    call.inputs.push_back(seen_as(in.value, floats, device));
  Outputs outputs = find_op(golden.op)->run(call);
  Derivatives d;
  Tensor loss;
  for (size_t i = 0; i < outputs.size(); i++) {
    if (!golden.outputs[i].weight) continue;
    d.outputs.push_back(outputs[i]);
    Tensor part =
        (outputs[i] * seen_as(*golden.outputs[i].weight, outputs[i].dtype(), device)).sum();
    loss = loss.defined() ? loss + part : part;
  }
  std::vector<Tensor> targets;
  for (size_t i = 0; i < golden.gradients.size(); i++)
    if (golden.gradients[i]) {
      targets.push_back(call.inputs[i]);
      d.of.push_back(i);
    }
  if (targets.empty()) return d;
  d.first = loss.gradient(targets, {}, true);
  Tensor slope;
  for (size_t k = 0; k < targets.size(); k++) {
    Tensor part = (d.first[k] * strewn(d.of[k], d.first[k])).sum();
    slope = slope.defined() ? slope + part : part;
  }
  d.second = slope.gradient(targets, {}, true);
  return d;
}

struct Judge {
  bool narrow;          // f32
  bool always_defined;  // and its value is finite
  bool infinite;        // some inputs are

  // An empty text, or what is wrong.
  std::string operator()(const Values& got, const Values& want) const {
    double largest = 0;
    for (double w : want)
      if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
    std::string first;
    size_t count = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      if (agrees(got[i], want[i], largest)) continue;
      char text[120];
      std::snprintf(text, sizeof text, "element %zu is %.9g, should be %.9g", i, got[i], want[i]);
      if (count++ == 0) first = text;
    }
    return count ? first + " (" + std::to_string(count) + " of " + std::to_string(want.size()) + ")"
                 : "";
  }

 private:
  bool agrees(double got, double want, double largest) const {
    if (std::isnan(want)) return !always_defined || !std::isnan(got);
    if (std::isinf(want))
      return got == want || (infinite && std::isnan(got)) || (always_defined && !std::isnan(got));
    if (narrow && std::fabs(want) > 1e30) return true;  // may leave f32 on the way
    double relative = narrow ? 1e-3 : 1e-6, absolute = narrow ? 1e-5 : 1e-8;
    return std::fabs(got - want) <= relative * std::fabs(want) + absolute * std::max(1.0, largest);
  }
};

bool has_kind(const GoldenCase& c, const char* kind) {
  return c.name.ends_with(std::string("@") + kind);
}

bool is_at_limits(const GoldenCase& c) {
  return has_kind(c, "extreme") &&
         std::ranges::find(at_the_limits, std::string_view(c.op)) != std::end(at_the_limits);
}

int differing_orders(const GoldenCase& c) {
  int orders = 0;
  for (const Difference& d : differences)
    if (c.name.starts_with(d.which) && (!*d.kind || has_kind(c, d.kind))) orders |= d.orders;
  return orders;
}

// What f32 cannot hold, or computes with less than it holds, says nothing about formulas.
bool fits_f32(const GoldenCase& c) {
  for (const char* kind : {"inside", "scales", "extreme"})
    if (has_kind(c, kind)) return false;
  for (const GoldenInput& in : c.inputs)
    if (in.value.dtype == DType::f64)
      for (double v : doubles(in.value))
        if (std::isfinite(v) && static_cast<double>(static_cast<float>(v)) != v) return false;
  return true;
}

struct Totals {
  size_t cases = 0, points = 0, agree = 0;
};

void check_case(const GoldenCase& golden, DType floats, const std::string& device, Totals& totals) {
  Derivatives d = derive(golden, floats, device);
  std::vector<Tensor> all = d.outputs;
  all.insert(all.end(), d.first.begin(), d.first.end());
  all.insert(all.end(), d.second.begin(), d.second.end());
  realize(all);
  bool finite = true;
  for (const Tensor& out : d.outputs)
    for (double v : out.to_vector<double>()) finite &= std::isfinite(v);
  Judge judge{floats == DType::f32, finite && is_always_defined(golden.op),
              has_kind(golden, "infinite")};
  const int known = differing_orders(golden);
  std::string wrong;
  for (size_t k = 0; k < d.of.size(); ++k) {
    const std::string input = " of input " + std::to_string(d.of[k]) + ": ";
    Values want = doubles(*golden.gradients[d.of[k]]);
    totals.points += want.size();
    std::string first = judge(d.first[k].to_vector<double>(), want), second;
    if (auto it = golden.attrs.find("second" + std::to_string(d.of[k])); it != golden.attrs.end()) {
      const Values& twice = std::get<Values>(it->second);
      totals.points += twice.size();
      second = judge(d.second[k].to_vector<double>(), twice);
    }
    if (!first.empty() && !(known & 1)) wrong += "first" + input + first + "\n";
    if (floats == DType::f32) second.clear();  // digits cancel twice
    if (!second.empty() && !(known & 2)) wrong += "second" + input + second + "\n";
  }
  ++totals.cases;
  totals.agree += wrong.empty();
  CHECK_MESSAGE(wrong.empty(), device, " ", std::string(name(floats)), " ", golden.name, ": ",
                golden.op, "\n", wrong);
}

void run(const std::string& device, DType floats, double share, uint64_t seed) {
  const char* filter = std::getenv("OPS");
  std::mt19937_64 random(seed);
  Totals totals;
  for (const GoldenCase& c : goldens().cases) {
    if (filter ? c.name.find(filter) == std::string::npos
               : static_cast<double>(random() % 100000) >= share * 100000)
      continue;
    if (is_at_limits(c) || (floats == DType::f32 && !fits_f32(c))) continue;
    try {
      check_case(c, floats, device, totals);
    } catch (const std::exception& e) { FAIL_CHECK(device, " ", c.name, " throws ", e.what()); }
  }
  MESSAGE(device, " ", std::string(name(floats)), ", seed ", seed, ": ", totals.agree, " of ",
          totals.cases, " cases agree, ", totals.points, " derivatives");
}

TEST_CASE("derivative goldens: a sample at special points agrees with PyTorch") {
  const uint64_t seed = point_seed();
  run("CPU", DType::f64, 0.02, seed);
  run("CPU", DType::f32, 0.01, seed);
  run("INTERP", DType::f64, 0.06, seed);
}

TEST_SUITE_BEGIN("soak");

TEST_CASE("derivative goldens: all special points agree with PyTorch") {
  run("CPU", DType::f64, 1, 0);
  run("CPU", DType::f32, 1, 0);
}

TEST_CASE("derivative goldens: all special points on the interpreter agree with PyTorch") {
  run("INTERP", DType::f64, 1, 0);
}

TEST_SUITE_END();

}  // namespace

// First and second derivatives of tensor functions against central differences in f64, along random
// directions, through the public interface only.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace mote;

namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs, values between lo and hi
  double lo, hi;
  std::function<Tensor(const Tensors&)> f;
};

// Values strewn over [lo, hi], no two close together.
Values strewn(int64_t count, double lo, double hi, double phase) {
  Values out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(lo + (hi - lo) *
                           std::fmod((static_cast<double>(i) + phase) * 0.6180339887498949, 1.0));
  return out;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// A number that depends on every element of t differently.
Tensor weighed(const Tensor& t, double phase) {
  return (t * from_data(strewn(t.numel(), 0.5, 2, phase), t.shape())).sum();
}

// A function at a point: its weighed value, the weighed value of its gradient (the slope), and the
// gradients of both.
struct Point {
  double value, slope;
  std::vector<Values> first, second;
};

Point at(const Case& c, const std::vector<Values>& where, bool derivatives) {
  Tensors x;
  for (size_t i = 0; i < where.size(); ++i) x.push_back(from_data(where[i], c.shapes[i]));
  Tensor value = weighed(c.f(x), 0.7), slope = zeros({}, float64);
  Tensors first = value.gradient(x), second;
  for (size_t i = 0; i < x.size(); ++i)
    slope = slope + weighed(first[i], 0.3 + 1.7 * static_cast<double>(i));
  if (derivatives) second = slope.gradient(x, {}, true);
  Tensors all = {value, slope};
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  realize(all);
  Point out{value.item<double>(), slope.item<double>(), {}, {}};
  if (!derivatives) return out;
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(first[i].shape() == c.shapes[i]);
    out.first.push_back(first[i].to_vector<double>());
    out.second.push_back(second[i].to_vector<double>());
  }
  return out;
}

double along(const std::vector<Values>& gradient, const std::vector<Values>& direction) {
  double sum = 0;
  for (size_t i = 0; i < gradient.size(); ++i)
    for (size_t k = 0; k < gradient[i].size(); ++k) sum += gradient[i][k] * direction[i][k];
  return sum;
}

void check_case(const Case& c) {
  constexpr double h = 1e-5;
  std::vector<Values> x;
  for (size_t i = 0; i < c.shapes.size(); ++i)
    x.push_back(strewn(count_of(c.shapes[i]), c.lo, c.hi, 1.3 + static_cast<double>(i)));
  Point here = at(c, x, true);
  for (int d = 0; d < 2; ++d) {
    std::vector<Values> direction, above = x, below = x;
    for (size_t i = 0; i < x.size(); ++i) {
      direction.push_back(
          strewn(static_cast<int64_t>(x[i].size()), -1, 1, 5.1 + 3.7 * d + static_cast<double>(i)));
      for (size_t k = 0; k < x[i].size(); ++k) {
        above[i][k] += h * direction[i][k];
        below[i][k] -= h * direction[i][k];
      }
    }
    Point up = at(c, above, false), down = at(c, below, false);
    double first = (up.value - down.value) / (2 * h), second = (up.slope - down.slope) / (2 * h);
    CHECK(along(here.first, direction) == doctest::Approx(first).epsilon(1e-6));
    CHECK(along(here.second, direction) == doctest::Approx(second).epsilon(1e-6));
  }
}

#define F1(expression)       \
  [](const Tensors& in) {    \
    const Tensor& x = in[0]; \
    return expression;       \
  }
#define F2(expression)                   \
  [](const Tensors& in) {                \
    const Tensor &x = in[0], &y = in[1]; \
    return expression;                   \
  }
#define F3(expression)                               \
  [](const Tensors& in) {                            \
    const Tensor &x = in[0], &y = in[1], &z = in[2]; \
    return expression;                               \
  }

Tensor integers(const std::vector<int64_t>& values, const std::vector<int64_t>& shape) {
  return from_data(values, shape);
}

// clang-format off
// Functions that are linear between kinks are applied to squares, or multiplied by x.
const Case curves[] = {
    {"square", {{5}}, -2, 2, F1(x.square())},
    {"sqrt", {{5}}, 0.3, 3, F1(x.sqrt())},
    {"rsqrt", {{5}}, 0.3, 3, F1(x.rsqrt())},
    {"reciprocal", {{5}}, 0.3, 3, F1(x.reciprocal())},
    {"exp", {{5}}, -2, 2, F1(x.exp())},
    {"exp2", {{5}}, -2, 2, F1(x.exp2())},
    {"expm1", {{5}}, -2, 2, F1(x.expm1())},
    {"log", {{5}}, 0.3, 3, F1(x.log())},
    {"log2", {{5}}, 0.3, 3, F1(x.log2())},
    {"log10", {{5}}, 0.3, 3, F1(x.log10())},
    {"log1p", {{5}}, -0.5, 3, F1(x.log1p())},
    {"sin", {{5}}, -4, 4, F1(x.sin())},
    {"cos", {{5}}, -4, 4, F1(x.cos())},
    {"tan", {{5}}, -1, 1, F1(x.tan())},
    {"asin", {{5}}, -0.8, 0.8, F1(x.asin())},
    {"acos", {{5}}, -0.8, 0.8, F1(x.acos())},
    {"atan", {{5}}, -3, 3, F1(x.atan())},
    {"sinh", {{5}}, -2, 2, F1(x.sinh())},
    {"cosh", {{5}}, -2, 2, F1(x.cosh())},
    {"tanh", {{5}}, -2, 2, F1(x.tanh())},
    {"asinh", {{5}}, -2, 2, F1(x.asinh())},
    {"acosh", {{5}}, 1.3, 3, F1(x.acosh())},
    {"atanh", {{5}}, -0.8, 0.8, F1(x.atanh())},
    {"erf", {{5}}, -2, 2, F1(x.erf())},
    {"erfc", {{5}}, -2, 2, F1(x.erfc())},
    {"sinc", {{5}}, 0.3, 2, F1(x.sinc())},
    {"abs", {{5}}, -2, 2, F1(x.abs() * x)},
    {"sigmoid", {{5}}, -3, 3, F1(x.sigmoid())},
    {"logsigmoid", {{5}}, -3, 3, F1(x.logsigmoid())},
    {"relu", {{5}}, -2, 2, F1(x.relu() * x)},
    {"relu6", {{5}}, -2, 9, F1(x.relu6() * x)},
    {"leaky_relu", {{5}}, -2, 2, F1(x.leaky_relu(0.1) * x)},
    {"silu", {{5}}, -3, 3, F1(x.silu())},
    {"mish", {{5}}, -3, 3, F1(x.mish())},
    {"gelu", {{5}}, -3, 3, F1(x.gelu())},
    {"gelu tanh", {{5}}, -3, 3, F1(x.gelu("tanh"))},
    {"elu", {{5}}, -2, 2, F1(x.elu(1.5))},
    {"celu", {{5}}, -2, 2, F1(x.celu(1.5))},
    {"selu", {{5}}, -2, 2, F1(x.selu())},
    {"softplus", {{5}}, -3, 3, F1(x.softplus(2))},
    {"softsign", {{5}}, -2, 2, F1(x.softsign())},
    {"tanhshrink", {{5}}, -2, 2, F1(x.tanhshrink())},
    {"hardswish", {{5}}, -2, 2, F1(x.hardswish())},
    {"logit", {{5}}, 0.2, 0.8, F1(x.logit())},
    {"pow 3", {{5}}, -2, 2, F1(x.pow(3))},
    {"pow 2.5", {{5}}, 0.3, 2, F1(x.pow(2.5))},
    {"glu", {{2, 4}}, -2, 2, F1(x.glu())},
    {"softmax", {{2, 4}}, -2, 2, F1(x.softmax(1))},
    {"log_softmax", {{2, 4}}, -2, 2, F1(x.log_softmax(1))},
    {"clamp", {{5}}, -2, 2, F1(x.clamp(-1.1, 1.2) * x)},
    {"prelu", {{2, 3}, {3}}, -2, 2, F2(x.prelu(y) * x)},
};

const Case pairs[] = {
    {"mul", {{2, 3}, {3}}, -2, 2, F2(x * y)},
    {"div", {{2, 3}, {2, 1}}, 0.5, 2, F2(x / y)},
    {"pow", {{5}, {5}}, 0.5, 2, F2(x.pow(y))},
    {"maximum", {{5}, {5}}, -2, 2, F2(x.maximum(y) * x)},
    {"minimum", {{5}, {5}}, -2, 2, F2(x.minimum(y) * y)},
    {"atan2", {{5}, {5}}, 0.5, 2, F2(x.atan2(y))},
    {"hypot", {{5}, {5}}, 0.5, 2, F2(x.hypot(y))},
    {"logaddexp", {{5}, {5}}, -2, 2, F2(x.logaddexp(y))},
    {"logaddexp2", {{5}, {5}}, -2, 2, F2(x.logaddexp2(y))},
    {"xlogy", {{5}, {5}}, 0.5, 2, F2(x.xlogy(y))},
    {"lerp", {{5}, {5}, {5}}, 0.1, 2, F3(x.lerp(y, z))},
    {"addcmul", {{5}, {5}, {5}}, 0.1, 2, F3(x.addcmul(y, z, 0.3))},
    {"addcdiv", {{5}, {5}, {5}}, 0.5, 2, F3(x.addcdiv(y, z, 0.3))},
    {"where", {{5}, {5}}, -2, 2, F2(where(x > 0.1, x * y, y.square()))},
    {"matmul", {{2, 3}, {3, 2}}, -2, 2, F2(x.matmul(y))},
    {"bmm", {{2, 2, 3}, {2, 3, 2}}, -2, 2, F2(x.bmm(y))},
    {"dot", {{4}, {4}}, -2, 2, F2(x.dot(y))},
    {"outer", {{3}, {2}}, -2, 2, F2(x.outer(y))},
    {"einsum", {{2, 3}, {3, 2}}, -2, 2, F2(einsum("ij,jk->ki", {x, y}))},
    {"linear", {{2, 3}, {2, 3}, {2}}, -2, 2, F3(x.linear(y, z))},
    {"kron", {{2, 2}, {1, 2}}, -2, 2, F2(x.kron(y))},
    {"cosine_similarity", {{2, 3}, {2, 3}}, 0.5, 2, F2(x.cosine_similarity(y))},
};

const Case folds[] = {
    {"sum", {{2, 3}}, -2, 2, F1(x.square().sum(0))},
    {"mean", {{2, 3}}, -2, 2, F1(x.square().mean(1))},
    {"prod", {{2, 3}}, -2, 2, F1(x.prod(1))},
    {"prod of all", {{5}}, -2, 2, F1(x.prod())},
    {"var", {{2, 4}}, -2, 2, F1(x.var(1))},
    {"std", {{2, 4}}, -2, 2, F1(x.std(1))},
    {"amax", {{2, 4}}, -2, 2, F1(x.square().amax(1))},
    {"amin", {{2, 4}}, -2, 2, F1(x.square().amin(0))},
    {"max of an axis", {{2, 4}}, -2, 2, F1(x.square().max(1).values)},
    {"logsumexp", {{2, 4}}, -2, 2, F1(x.logsumexp(1))},
    {"norm", {{2, 4}}, -2, 2, F1(x.norm(2, 1))},
    {"norm 3", {{2, 4}}, 0.3, 2, F1(x.norm(3, 1))},
    {"normalize", {{2, 4}}, 0.3, 2, F1(x.normalize())},
    {"trace", {{3, 3}}, -2, 2, F1(x.square().trace())},
    {"cumsum", {{2, 4}}, -2, 2, F1(x.square().cumsum(1))},
    {"cumprod", {{5}}, -2, 2, F1(x.cumprod(0))},
    {"cummax", {{2, 4}}, -2, 2, F1(x.square().cummax(1).values)},
    {"logcumsumexp", {{5}}, -2, 2, F1(x.logcumsumexp(0))},
    {"sort", {{2, 4}}, -2, 2, F1(x.square().sort(1).values)},
    {"topk", {{2, 4}}, -2, 2, F1(x.square().topk(2, 1).values)},
};

const Case moves[] = {
    {"transpose", {{2, 3}}, -2, 2, F1(x.square().transpose(0, 1))},
    {"flip", {{2, 3}}, -2, 2, F1(x.square().flip(1))},
    {"roll", {{2, 3}}, -2, 2, F1(x.square().roll(1, 1))},
    {"pad", {{2, 3}}, -2, 2, F1(x.square().pad({1, 2}))},
    {"pad reflect", {{2, 3}}, -2, 2, F1(x.square().pad({1, 2}, "reflect"))},
    {"repeat", {{2, 3}}, -2, 2, F1(x.square().repeat({2, 2}))},
    {"cat", {{2, 3}, {1, 3}}, -2, 2, F2(cat({x.square(), y * x[0]}))},
    {"stack", {{3}, {3}}, -2, 2, F2(stack({x.square(), x * y}))},
    {"tril", {{3, 3}}, -2, 2, F1(x.square().tril())},
    {"diagonal", {{3, 3}}, -2, 2, F1(x.square().diagonal())},
    {"unfold", {{6}}, -2, 2, F1(x.square().unfold(0, 3, 2))},
    {"slice", {{5}}, -2, 2, F1(x.square()(Slice(1, None, 2)))},
    {"by positions", {{3, 2}}, -2, 2, F1(x.square()(integers({2, 0, 2}, {3})))},
    {"gather", {{2, 3}}, -2, 2, F1(x.square().gather(1, integers({2, 0, 1, 1}, {2, 2})))},
    {"index_select", {{3, 2}}, -2, 2, F1(x.square().index_select(0, integers({2, 0, 2}, {3})))},
    {"scatter_add", {{2, 3}, {2, 2}}, -2, 2,
     F2(x.square().scatter_add(1, integers({2, 0, 1, 1}, {2, 2}), y.square()))},
    {"masked_fill", {{2, 3}}, -2, 2,   F1(x.square().masked_fill(x > 0.2, 3.0))},
    {"embedding",   {{4, 2}}, -2, 2,   F1(integers({1, 3, 1}, {3}).embedding(x.square()))},
    {"set",         {{4}, {2}}, -2, 2, [](const Tensors& in) {
       Tensor t = in[0].square();
       t.set({Slice(1, 3)}, in[1] * in[1]);
       return t * in[0];
     }},
};

const Case layers[] = {
    {"conv1d",      {{1, 2, 5}, {2, 2, 3}, {2}}, -2, 2, F3(x.conv1d(y, z))},
    {"conv2d",      {{1, 2, 4, 4}, {2, 1, 3, 3}, {2}}, -2, 2,
     F3(x.conv2d(y, z, {.stride = 2, .padding = 1, .groups = 2}))},
    {"conv_transpose2d", {{1, 2, 2, 2}, {2, 1, 2, 2}}, -2, 2,
     F2(x.conv_transpose2d(y, {}, {.stride = 2}))},
    {"avg_pool2d",  {{1, 1, 4, 4}}, -2, 2, F1(x.square().avg_pool2d(2))},
    {"max_pool2d",  {{1, 1, 4, 4}}, -2, 2, F1(x.square().max_pool2d(2))},
    {"interpolate", {{1, 1, 2, 3}}, -2, 2,
     F1(x.square().interpolate({.size = {4, 5}, .mode = "bilinear"}))},
    {"layer_norm", {{2, 4}, {4}, {4}}, -2, 2, F3(x.layer_norm({4}, y, z))},
    {"rms_norm", {{2, 4}, {4}}, -2, 2, F2(x.rms_norm({4}, y, 1e-5))},
    {"batch_norm", {{3, 2}, {2}, {2}}, -2, 2, F3(x.batch_norm({}, {}, y, z, {.training = true}))},
    {"group_norm", {{1, 4, 2}, {4}, {4}}, -2, 2, F3(x.group_norm(2, y, z))},
    {"instance_norm", {{1, 2, 3}, {2}, {2}}, -2, 2, F3(x.instance_norm(y, z))},
    {"attention",   {{1, 3, 2}, {1, 3, 2}, {1, 3, 2}}, -1, 1,
     F3(x.scaled_dot_product_attention(y, z, {.is_causal = true}))},
    {"cross_entropy", {{3, 4}}, -2, 2,
     F1(x.cross_entropy(integers({1, 3, 0}, {3}), {.label_smoothing = 0.1}))},
    {"nll_loss", {{3, 4}}, -2, 2, F1(x.log_softmax(1).nll_loss(integers({1, 3, 0}, {3})))},
    {"binary_cross_entropy", {{4}, {4}}, 0.1, 0.9, F2(x.binary_cross_entropy(y))},
    {"binary_cross_entropy_with_logits", {{4}, {4}}, 0.1, 0.9,
     F2((x * 3).binary_cross_entropy_with_logits(y))},
    {"mse_loss", {{4}, {4}}, -2, 2, F2(x.mse_loss(y))},
    {"l1_loss", {{4}, {4}}, -2, 2, F2((x * x).l1_loss(y))},
    {"smooth_l1_loss", {{4}, {4}}, -2, 2, F2(x.smooth_l1_loss(y))},
    {"huber_loss", {{4}, {4}}, -2, 2, F2(x.huber_loss(y, 0.7))},
    {"kl_div", {{2, 3}, {2, 3}}, 0.2, 0.8, F2(x.log().kl_div(y))},
};
// clang-format on

template <size_t n>
void check_all(const Case (&cases)[n]) {
  std::string before = default_device();
  for (const char* device : {"INTERP", "CPU"}) {
    set_default_device(device);
    for (const Case& c : cases) {
      INFO(std::string(device), ": ", std::string(c.name));
      CHECK_NOTHROW(check_case(c));
    }
  }
  set_default_device(before);
}

}  // namespace

TEST_SUITE("second derivatives") {
  TEST_CASE("of curves") { check_all(curves); }
  TEST_CASE("of pairs") { check_all(pairs); }
  TEST_CASE("of folds and scans") { check_all(folds); }
  TEST_CASE("of movement and indexing") { check_all(moves); }
  TEST_CASE("of layers and losses") { check_all(layers); }
}

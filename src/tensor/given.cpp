#include "tensor/given.h"

#include <mote/linalg.h>
#include <mote/special.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/factor.h"
#include "tensor/gather.h"
#include "tensor/operators.h"
#include "tensor/spatial.h"
#include "tensor/wide.h"

namespace mote {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The result y of a function, its operands x, and what y gets. Gives what x[i] gets.
struct Step {
  Tensor y;
  std::vector<Tensor> x;
  Tensor g;
  size_t i;
  std::span<const int64_t> numbers;
};

// Beyond `far` the function of a finite stand-in is not used, so nothing there is infinite.
struct Split {
  Tensor far, near;  // near: x, or 0 where it is far
  Split(const Tensor& x, double from) : far(magnitude(x) > from), near(where(far, 0, x)) {}
};

// The axes of x that y has folded.
std::vector<int64_t> folded_axes(const Tensor& x, const Tensor& y) {
  std::vector<int64_t> axes;
  for (size_t d = 0; d < dims_of(x).size(); ++d)
    if (dims_of(x)[d] != dims_of(y)[d]) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

// 1 - x * x without its cancellation. Its factors' derivatives would meet 0 * inf at 1 and -1.
Tensor one_minus_square(const Tensor& x) {
  return given(Given::OneMinusSquare, (1 - x) * (1 + x), {x});
}
Tensor one_minus_square_row(const Step& s) { return s.g * (-2 * s.x[0]); }

Tensor acos_row(const Step& s) { return -s.g / one_minus_square(s.x[0]).sqrt(); }
// Far out x * x + 1 and x * x - 1 are x * x, whose root does not overflow.
Tensor acosh_row(const Step& s) {
  Split part(s.x[0], 1e9);
  Tensor away = 1.0 / where(part.far, magnitude(s.x[0]), 1);
  Tensor square = -one_minus_square(where(part.far, 2, s.x[0])) + 0.0;  // at 1 and -1 not -0
  return s.g * where(part.far, away, 1.0 / square.sqrt());
}
Tensor asin_row(const Step& s) { return s.g / one_minus_square(s.x[0]).sqrt(); }
Tensor asinh_row(const Step& s) {
  Split part(s.x[0], 1e9);
  Tensor away = 1.0 / where(part.far, magnitude(s.x[0]), 1);
  return s.g * where(part.far, away, 1.0 / (part.near * part.near + 1).sqrt());
}
Tensor atanh_row(const Step& s) { return s.g / one_minus_square(s.x[0]); }

Tensor atan_row(const Step& s) {
  Split part(s.x[0], 1e150);
  return s.g * where(part.far, 0, 1.0 / (part.near * part.near + 1));
}

// (x / m) / ((x / m)^2 + (y / m)^2) / m with m the larger one: it does not depend on m. No
// direction at the origin and at infinity: 0.
Tensor atan2_row(const Step& s) {
  const Tensor &y = s.x[0], &x = s.x[1];
  Tensor m = maximum(y.abs(), x.abs()).detach(), none = m.eq(0) | m.isinf();
  m = where(none, 1, m);
  Tensor a = where(none, 1, y) / m, b = where(none, 1, x) / m;
  return where(none, 0, s.g * ((s.i == 0 ? b : -a) / (a * a + b * b) / m));
}

// PyTorch's: the divisor is kept above 0, so that certainty costs no NaN.
Tensor binary_cross_entropy_row(const Step& s) {
  const Tensor &p = s.x[0], &target = s.x[1], &least = s.x[2];
  if (s.i == 0) return s.g * ((p - target) / (p * (1 - p)).clamp_min(least));
  auto logarithm = [&](const Tensor& x) {
    return given(Given::CutLog, x.log().clamp_min(-100), {x, least});
  };
  return s.g * (logarithm(1 - p) - logarithm(p));
}

// Of its value, which the call's graph gave.
Tensor recorded_row(const Step& s) { return s.g; }

thread_local GivenOnce* asked_once = nullptr;

Tensor custom_row(const Step& s) {
  ensure(asked_once, "a rule outside a walk");
  std::vector<Tensor>& found = asked_once->found;
  const std::span<const Tensor> x(s.x.data(), s.x.size() - 1);
  if (found.empty()) {
    auto& rule = static_cast<GivenRule&>(*node_of(s.x.back())->arg.storage);
    std::vector<Tensor> given = rule.gradients(s.y, x, s.g);
    expect(given.size() == x.size(), "backward gave ", given.size(), " gradients for ", x.size(),
           " inputs");
    found = std::move(given);
  }
  const Tensor &g = found[s.i], &of = x[s.i];
  if (!g.defined()) return of.zeros_like();
  expect(dims_of(g) == dims_of(of), "backward gave input ", s.i, " of shape ", of,
         " a gradient of shape ", g);
  return g.to(of.dtype());
}

Tensor cholesky_row(const Step& s) { return factor::cholesky_gradient(s.g, s.y); }
Tensor eigh_row(const Step& s) { return factor::eigh_gradient(s.g, s.y); }
Tensor lu_factor_row(const Step& s) { return factor::lu_gradient(s.g, s.y, s.x[1]); }
Tensor qr_row(const Step& s) { return factor::qr_gradient(s.g, s.y); }
Tensor svd_row(const Step& s) { return factor::svd_gradient(s.g, s.y, s.numbers[0]); }

// a x = b: b gets a^-T g, and a what that takes from it.
Tensor solve_row(const Step& s) {
  Tensor of_b = linalg::solve(s.x[0].mT(), s.g);
  return s.i == 1 ? of_b : -of_b.matmul(s.y.mT());
}
Tensor solve_triangular_row(const Step& s) {
  const bool upper = s.numbers[0], unit = s.numbers[1];
  Tensor of_b = linalg::solve_triangular(s.x[0].mT(), s.g, !upper, true, unit);
  if (s.i == 1) return of_b;
  Tensor of_a = -of_b.matmul(s.y.mT());
  return upper ? of_a.triu(unit) : of_a.tril(-static_cast<int64_t>(unit));
}

Tensor cut_log_row(const Step& s) { return s.g / s.x[0].clamp_min(s.x[1]); }

Tensor correlate_row(const Step& s) {
  return correlate_gradient(s.g, s.x[0], s.x[1], s.numbers, s.i == 1);
}

Tensor cosh_row(const Step& s) { return s.g * s.x[0].sinh(); }
Tensor sinh_row(const Step& s) { return s.g * s.x[0].cosh(); }

// Equal elements share evenly.
Tensor equal_share_row(const Step& s) {
  Tensor hit = s.x[0].eq(s.y) | (s.x[0].isnan() & s.y.isnan());
  Tensor hits = reduce_tensor(Op::Add, hit.to(s.y.dtype()), folded_axes(s.x[0], s.y), true);
  return where(hit, s.g / hits, 0);
}

Tensor erfc_row(const Step& s) {
  Tensor x = s.x[0].clamp(-30, 30);  // exp(-900) is 0
  return s.g * ((-(x * x)).exp() * (-2 * std::numbers::inv_sqrtpi));
}

Tensor entr_row(const Step& s) { return s.g * (-s.x[0].log() - 1); }

// 2 x y - 2 / sqrt(pi) cancels far out: there by its series, in u = 1 / x^2 the sum of
// -(-1)^k (2k + 1)!! / 2^k u^(k + 1) / sqrt(pi).
Tensor erfcx_row(const Step& s) {
  const Tensor& x = s.x[0];
  Tensor far = x > 20, near = where(far, 0, x), r = 1 / where(far, x, 20), u = r * r;
  double term = -1;
  std::vector<double> series;
  for (int k = 0; k < 10; term *= -(2 * k + 3) / 2.0, ++k) series.insert(series.begin(), term);
  Tensor outer = polynomial(u, series) * u * std::numbers::inv_sqrtpi;
  return s.g * where(far, outer, 2 * near * s.y - 2 * std::numbers::inv_sqrtpi);
}

// At the ends the slope is infinite, beyond them there is none.
Tensor erfinv_row(const Step& s) {
  return s.g * ((s.y * s.y).exp() * (0.5 / std::numbers::inv_sqrtpi));
}

Tensor expm1_row(const Step& s) { return s.g * s.x[0].exp(); }

// x / |x|, and 0 for no direction, as PyTorch has it for norms and std.
Tensor euclidean_row(const Step& s) {
  Tensor none = s.y.eq(0);
  return s.g * (where(none, 0, s.x[0]) / where(none, 1, s.y));
}

// The first of equal elements gets it all.
Tensor first_max_row(const Step& s) {
  const std::vector<Dim>& from = dims_of(s.x[0]);
  std::vector<int64_t> folded = folded_axes(s.x[0], s.y);
  if (folded.empty()) return s.g;
  std::vector<Dim> inside(from.size(), Dim(1));
  for (int64_t axis : folded) inside[static_cast<size_t>(axis)] = from[static_cast<size_t>(axis)];
  const Dim count = product(inside);
  Tensor at = reshaped(iota_tensor(count, DType::i32, s.y.impl()->device), inside);
  Tensor first =
      reduce_tensor(Op::Min, where(s.x[0] < s.y, at.full_like(count.size), at), folded, true);
  return where(at.eq(first), s.g, 0);
}

Tensor gelu_tanh_row(const Step& s) {
  constexpr double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
  Tensor x = s.x[0].clamp(-20, 20);  // outside |t| is 1, and x * x * x may overflow
  Tensor t = (scale * (x + cubic * x * x * x)).tanh();
  return s.g * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * (scale * (1 + 3 * cubic * (x * x)))));
}

Tensor hypot_row(const Step& s) {
  const Tensor& x = s.x[s.i];
  Tensor none = s.y.eq(0) | s.y.isinf();
  Tensor slope = where(none, 0, x) / where(none, 1, s.y);
  return s.g * where(x.isinf(), sign_of(x), slope);
}

Tensor i0_row(const Step& s) { return s.g * special::i1(s.x[0]); }
Tensor i0e_row(const Step& s) { return s.g * (special::i1e(s.x[0]) - s.x[0].sign() * s.y); }
// I1(x) / x, below 1 the sum of (x^2 / 4)^k / (2 k! (k + 1)!).
Tensor i1_over(const Tensor& x, const Tensor& y, bool scaled) {
  Tensor size = magnitude(x), near = size < 1, small = where(near, x, 0);
  double term = 0.5;
  std::vector<double> series;
  for (int k = 0; k < 10; term /= 4.0 * (k + 1) * (k + 2), ++k) series.insert(series.begin(), term);
  Tensor inner = polynomial(small * small, series);
  if (scaled) inner = inner * (-where(near, size, 0)).exp();
  return where(near, inner, y / where(near, 1, x));
}
Tensor i1_row(const Step& s) { return s.g * (s.x[0].i0() - i1_over(s.x[0], s.y, false)); }
Tensor i1e_row(const Step& s) {
  const Tensor& x = s.x[0];
  return s.g * (special::i0e(x) - x.sign() * s.y - i1_over(x, s.y, true));
}

Tensor lgamma_row(const Step& s) { return s.g * s.x[0].digamma(); }

Tensor log10_row(const Step& s) { return s.g * (std::numbers::log10e / s.x[0]); }
Tensor log1p_row(const Step& s) { return s.g / (s.x[0] + 1); }
Tensor logit_row(const Step& s) {
  const Tensor& p = s.x[0];
  return where((p >= 0) & (p <= 1), s.g / p + s.g / (1 - p), NAN);
}

// The density by what lies below: far down erfcx tells their ratio.
Tensor log_ndtr_row(const Step& s) {
  const Tensor& x = s.x[0];
  Tensor low = x < 0, z = where(low, x, 0), y = where(low, 0, x);
  Tensor below = 2 * std::numbers::inv_sqrtpi / special::erfcx(z * (-std::numbers::sqrt2 / 2));
  Tensor above = (-0.5 * y * y).exp() * std::numbers::inv_sqrtpi / special::ndtr(y);
  return s.g * (where(low, below, above) * (std::numbers::sqrt2 / 2));
}
Tensor ndtr_row(const Step& s) {
  Tensor x = s.x[0].clamp(-60, 60);
  return s.g * ((-0.5 * x * x).exp() * (std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2));
}
Tensor ndtri_row(const Step& s) {
  return s.g * ((0.5 * s.y * s.y).exp() * (std::numbers::sqrt2 / std::numbers::inv_sqrtpi));
}

// exp(x) / sum(exp(x)); an infinite element gets it all, and of nothing but -inf nothing gets any.
Tensor logsumexp_row(const Step& s) {
  const Tensor& x = s.x[0];
  std::vector<int64_t> over = folded_axes(x, s.y);
  Tensor top = reduce_tensor(Op::Max, x, over, true).detach(), first = x.eq(kInf);
  Tensor e = (x - where(top.isfinite(), top, 0)).exp(), sum = reduce_tensor(Op::Add, e, over, true);
  return s.g * where(first, 1, where(first, 0, e) / where(sum.eq(0), 1, sum));
}

// Of expm1(min(x, 0)): slope 1 at 0 and second derivative 0 there, as PyTorch has it for elu.
Tensor negative_expm1_row(const Step& s) { return s.g * where(s.x[0] < 0, s.x[0], 0).exp(); }

Tensor polygamma_row(const Step& s) { return s.g * s.x[0].polygamma(s.numbers[0] + 1); }

// d x^y / dx = y x^(y-1), d x^y / dy = x^y log x; 0 where the power is constant.
Tensor pow_row(const Step& s) {
  const Tensor &x = s.x[0], &y = s.x[1];
  UOp exponent = node_of(y);
  while (has(exponent->op, Movement) && !exponent->is(Op::Pad)) exponent = exponent->src(0);
  if (s.i == 0 && is_const(exponent)) {  // small whole ones by multiplying
    const double n = exponent->arg.f;
    return n == 0 ? s.g.zeros_like() : s.g * (n * x.pow(n - 1));
  }
  if (s.i == 0) {
    Tensor none = x.eq(0) & y.eq(0);
    return s.g * where(none, 0, y * pow(where(none, 1, x), y - 1));
  }
  Tensor constant = x.eq(0) & (y >= 0);
  return where(constant, 0, s.g * (s.y * where(constant, 1, x).log()));
}

// The extremum y of one element and of others, of which `hits` are equal to their extremum: all
// that are equal to y share evenly. As in PyTorch the one counts even if it is not to take part.
Tensor scatter_extremum_row(const Step& s) {
  const Tensor &others = s.x[1], &hits = s.x[2], &one = s.x[3];
  Tensor of_one = one.eq(s.y).to(s.y.dtype()), of_others = where(others.eq(s.y), hits, 0);
  return s.g * ((s.i == 0 ? of_one : of_others) / (of_one + of_others).clamp_min(1));
}

// The extremum y of the last axis of x: the elements that are equal to it, `hits` in number, share
// evenly.
Tensor shared_extremum_row(const Step& s) {
  Tensor share = s.g / s.x[1].clamp_min(1);
  return where(s.x[0].eq(s.y.unsqueeze(-1)), share.unsqueeze(-1), 0);
}

// At 0 the slope is the weight, but does not change with it.
Tensor prelu_row(const Step& s) {
  const Tensor &x = s.x[0], &weight = s.x[1];
  if (s.i == 1) return s.g * where(x < 0, x, 0);
  return s.g * where(x > 0, 1, where(x < 0, weight, weight.detach()));
}

// (cos(pi x) - sinc(x)) / x cancels near 0: there by its series, in u = pi x the sum of
// (-1)^k 2k / (2k + 1)! u^(2k - 1).
Tensor sinc_row(const Step& s) {
  const Tensor& x = s.x[0];
  Tensor near = magnitude(x) < 0.3, u = where(near, x, 0) * std::numbers::pi, sum;
  double term = 1;
  for (int k = 1; k < 10; ++k) term *= -1.0 / (2.0 * k * (2 * k + 1));
  for (int k = 9; k >= 1; --k) {
    sum = k == 9 ? u.full_like(2 * k * term) : sum * (u * u) + 2 * k * term;
    term *= -2.0 * k * (2 * k + 1);
  }
  Tensor away = where(near, 1, x);
  Tensor slope = ((away * std::numbers::pi).cos() - where(near, 0, s.y)) / away;
  return s.g * where(near, sum * u * std::numbers::pi, slope);
}

Tensor softsign_row(const Step& s) { return s.g / (s.x[0].abs() + 1).square(); }
// y holds elements of x, on the last axis those at the positions that the second operand says.
Tensor taken_last_row(const Step& s) { return sum_at(s.x[1], s.g, dims_of(s.x[0]).back()); }

Tensor tan_row(const Step& s) { return s.g * (s.y * s.y + 1); }
Tensor tanhshrink_row(const Step& s) { return s.g * s.x[0].tanh().square(); }

Tensor xlog1py_row(const Step& s) {
  const Tensor &x = s.x[0], &y = s.x[1];
  Tensor none = x.eq(0) & (s.i == 0 ? y <= -1 : y.eq(-1)), safe = where(none, 0, y);
  return s.g * where(none, 0, s.i == 0 ? safe.log1p() : x / (safe + 1));
}
Tensor xlogy_row(const Step& s) {
  const Tensor &x = s.x[0], &y = s.x[1];
  Tensor none = x.eq(0) & (s.i == 0 ? y <= 0 : y.eq(0)), safe = where(none, 1, y);
  return s.g * where(none, 0, s.i == 0 ? safe.log() : x / safe);
}

using Row = Tensor (*)(const Step&);
constexpr Row rows[] = {
#define GIVEN(name, row) row,
#include "tensor/given.def"
#undef GIVEN
};

}  // namespace

Tensor given(Given which, const Tensor& value, std::initializer_list<Tensor> operands,
             std::span<const int64_t> numbers) {
  std::vector<Ref> src = {node_of(value)};
  for (const Tensor& t : operands) src.push_back(node_of(t));
  std::vector<int64_t> list = {static_cast<int64_t>(which)};
  list.insert(list.end(), numbers.begin(), numbers.end());
  return make_value(tensor_graph::make(Op::Given, value.dtype(), src, Arg::of(intern_arg(list))),
                    value);
}

Ref rule_operand(GivenRule* rule, uint8_t device) {
  rule->id = next_storage_id(), rule->dtype = DType::u8, rule->device = device, rule->count = 0;
  return tensor_graph::buffer(rule);
}

Tensor given(Ref rule, const Tensor& value, std::span<const Tensor> operands) {
  std::vector<Ref> src = {node_of(value)};
  for (const Tensor& t : operands) src.push_back(node_of(t));
  src.push_back(std::move(rule));
  const int64_t row[] = {static_cast<int64_t>(Given::Custom)};
  return make_value(tensor_graph::make(Op::Given, value.dtype(), src, Arg::of(intern_arg(row))),
                    value);
}

GivenOnce::GivenOnce() : before_(std::exchange(asked_once, this)) {}
GivenOnce::~GivenOnce() { asked_once = before_; }

Ref given_derivative(UOp node, const Ref& g, uint32_t i) {
  const UnrealizedScope as_made;
  const uint8_t device = node->device ? node->device : kDefaultDevice;
  Step step{make_value(Ref(node), device),
            {},
            make_value(g, device),
            i - 1,
            std::span(node->ints()).subspan(1)};
  for (uint32_t s = 1; s < node->nsrc; ++s) step.x.push_back(make_value(Ref(node->src(s)), device));
  return node_of(rows[node->ints(0)](step));
}

}  // namespace mote

// One derivative row per primitive op.
#include <algorithm>
#include <numbers>

#include "grad/grad.h"
#include "tensor/given.h"
#include "tensor/primitives.h"

namespace mote {

namespace {

using prim::Extent;

// What source i gets when n gets g. Elementwise rows may answer in n's shape for a rank-0 source.
using Row = Ref (*)(UOp n, const Ref& g, uint32_t i);

Ref src(UOp n, uint32_t i) { return Ref(n->src(i)); }
Ref self(UOp n) { return Ref(n); }
Ref number(UOp n, double v) { return prim::constant(n->dtype, v); }
Ref zero(const Ref& g) { return prim::constant(g->dtype, 0.0); }
Ref div(const Ref& a, const Ref& b) { return prim::alu(Op::Div, {a, b}); }
Ref lt(const Ref& a, const Ref& b) { return prim::alu(Op::Lt, {a, b}); }
Ref eq(const Ref& a, const Ref& b) { return prim::alu(Op::Eq, {a, b}); }
std::span<const Dim> dims(UOp n) { return n->shape->dims; }

std::vector<Extent> whole(std::span<const Dim> shape) {
  std::vector<Extent> out;
  for (const Dim& d : shape) out.push_back({0, d});
  return out;
}

// Sums and differences of sizes; symbolic ones are index nodes that live as long as this object.
class DimArithmetic {
 public:
  Dim add(const Dim& a, const Dim& b) {
    if (!a.is_symbolic() && !b.is_symbolic()) return Dim(a.size + b.size);
    return keep(prim::add(node(a), node(b)));
  }
  Dim sub(const Dim& a, const Dim& b) {
    if (a == b) return 0;
    if (!a.is_symbolic() && !b.is_symbolic()) return Dim(a.size - b.size);
    return keep(prim::add(node(a), prim::mul(node(b), prim::constant(DType::index, int64_t{-1}))));
  }
  Dim mul(const Dim& a, int64_t n) {
    if (!a.is_symbolic()) return Dim(a.size * n);
    return keep(prim::mul(node(a), prim::constant(DType::index, n)));
  }

 private:
  static Ref node(const Dim& d) {
    return d.is_symbolic() ? Ref(d.symbol) : prim::constant(DType::index, d.size);
  }
  Dim keep(Ref r) { return Dim(UOp(kept_.emplace_back(std::move(r)))); }
  std::vector<Ref> kept_;
};

// 16-bit floats are summed in f32. Of bools (regions): any.
Ref sum(const Ref& a, std::span<const int64_t> axes) {
  if (a->dtype == DType::boolean) return prim::reduce(Op::Max, a, axes);
  return prim::cast(prim::reduce(Op::Add, prim::cast(a, accumulator(a->dtype)), axes), a->dtype);
}

std::vector<int64_t> all_axes(UOp n) {
  std::vector<int64_t> axes;
  for (int a = 0; a < n->shape->rank(); ++a) axes.push_back(a);
  return axes;
}

Ref sum_to_scalar(const Ref& a) { return prim::reshape(sum(a, all_axes(a)), {}); }

std::vector<int64_t> reduced_axes(UOp n) { return {n->ints().begin() + 1, n->ints().end()}; }

// The extremum's ties share evenly. Counted in a dtype that can count.
Ref through_extremum(UOp n, const Ref& g) {
  Ref x = src(n, 0);
  DType wide = accumulator(n->dtype);
  Ref hit = eq(x, prim::expand(self(n), dims(x)));
  Ref hits = prim::reduce(Op::Add, prim::cast(hit, wide), reduced_axes(n));
  Ref share = prim::cast(div(prim::cast(g, wide), hits), n->dtype);
  return prim::where(hit, prim::expand(share, dims(x)), zero(g));
}

// An axis seen as pairs of neighbours: (..., count) as (..., count / 2, 2), and back.
Ref as_pairs(const Ref& a, int64_t count) {
  std::vector<Dim> shape(dims(a).begin(), dims(a).end() - 1);
  shape.insert(shape.end(), {Dim(count / 2), Dim(2)});
  return prim::reshape(a, shape);
}
Ref joined(const Ref& a) {
  std::vector<Dim> shape(dims(a).begin(), dims(a).end() - 2);
  shape.push_back(Dim(dims(a)[shape.size()].size * dims(a).back().size));
  return prim::reshape(a, shape);
}

// The last axis filled up with ones to `count`.
Ref pad_with_ones(const Ref& x, int64_t count) {
  if (!dims(x).back().is_symbolic() && dims(x).back().size == count) return x;
  DimArithmetic sizes;
  std::vector<Extent> after(dims(x).size(), Extent{0, 0});
  after.back().end = sizes.sub(count, dims(x).back());
  Ref inside = prim::pad(prim::full(dims(x), prim::constant(DType::boolean, int64_t{1})), after);
  return prim::where(inside, prim::pad(x, after), prim::constant(x->dtype, 1.0));
}

// g times the product of all other elements on the last axis. A tree: upwards the products of ever
// larger blocks, downwards the product of all that is outside the block. It only multiplies, so
// zeros and every higher derivative are exact, and the work is linear.
Ref times_others(const Ref& x, const Ref& g) {
  int64_t count = 1;
  while (count < dims(x).back().size) count *= 2;
  int64_t pair_axis[] = {x->shape->rank()};
  std::vector<Ref> levels;
  Ref level = pad_with_ones(x, count);
  for (int64_t n = count; n > 1; n /= 2) {
    levels.push_back(as_pairs(level, n));
    if (n > 2) level = joined(prim::reduce(Op::Mul, levels.back(), pair_axis));
  }
  Ref outside = g;
  for (; !levels.empty(); levels.pop_back()) {
    const Ref& blocks = levels.back();
    std::vector<Dim> one(dims(blocks).begin(), dims(blocks).end());
    one.back() = Dim(1);
    Ref above = prim::expand(prim::reshape(outside, one), dims(blocks));
    outside = joined(prim::mul(above, prim::flip(blocks, pair_axis)));
  }
  return prim::shrink(outside, whole(dims(x)));
}

std::vector<int64_t> inverse(std::span<const int64_t> axes) {
  std::vector<int64_t> out(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    out[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  return out;
}

// The reduced axes go last, as one.
Ref through_product(UOp n, const Ref& g) {
  Ref x = src(n, 0);
  std::vector<int64_t> reduced = reduced_axes(n), order;
  std::vector<Dim> shape;
  for (int64_t a = 0; a < x->shape->rank(); ++a)
    if (std::ranges::find(reduced, a) == reduced.end()) {
      order.push_back(a);
      shape.push_back(dims(x)[static_cast<size_t>(a)]);
    }
  if (reduced.size() == 1) {
    shape.push_back(dims(x)[static_cast<size_t>(reduced[0])]);
  } else {
    int64_t count = 1;
    for (int64_t a : reduced) count *= dims(x)[static_cast<size_t>(a)].size;
    shape.push_back(Dim(count));
  }
  order.insert(order.end(), reduced.begin(), reduced.end());
  Ref turned = prim::permute(x, order);
  std::vector<Dim> one = shape;
  one.back() = Dim(1);
  Ref turned_g = prim::reshape(prim::permute(g, order), one);
  Ref out = times_others(prim::reshape(turned, shape), turned_g);
  return prim::permute(prim::reshape(out, dims(turned)), inverse(order));
}

Ref reduce_row(UOp n, const Ref& g, uint32_t) {
  switch (static_cast<Op>(n->ints(0))) {
    case Op::Add: return prim::expand(g, dims(n->src(0)));
    case Op::Mul: return through_product(n, g);
    case Op::Max:
    case Op::Min: return through_extremum(n, g);
    default: return {};
  }
}

// Movement: the adjoint. Also used on bools, to carry a region back.
Ref reshape_row(UOp n, const Ref& g, uint32_t) { return prim::reshape(g, dims(n->src(0))); }
Ref permute_row(UOp n, const Ref& g, uint32_t) { return prim::permute(g, inverse(n->ints())); }
Ref flip_row(UOp n, const Ref& g, uint32_t) { return prim::flip(g, n->ints()); }

Ref expand_row(UOp n, const Ref& g, uint32_t) {
  UOp x = n->src(0);
  if (x->shape->rank() == 0) return sum_to_scalar(g);
  std::vector<int64_t> axes;
  for (int a = 0; a < n->shape->rank(); ++a)
    if (!((*x->shape)[a] == (*n->shape)[a])) axes.push_back(a);
  return sum(g, axes);
}

Ref pad_row(UOp n, const Ref& g, uint32_t) {
  DimArithmetic sizes;
  std::vector<Dim> list = list_dims(n);
  std::vector<Extent> bounds;
  for (size_t a = 0; a < list.size() / 2; ++a)
    bounds.push_back({list[2 * a], sizes.add(list[2 * a], dims(n->src(0))[a])});
  return prim::shrink(g, bounds);
}

Ref shrink_row(UOp n, const Ref& g, uint32_t) {
  DimArithmetic sizes;
  std::vector<Dim> list = list_dims(n);
  std::vector<Extent> amounts;
  for (size_t a = 0; a < list.size() / 2; ++a)
    amounts.push_back({list[2 * a], sizes.sub(dims(n->src(0))[a], list[2 * a + 1])});
  return prim::pad(g, amounts);
}

// Zeros between the places of an axis, so that place o lies at o * step.
Ref spread_out(const Ref& a, size_t axis, int64_t step) {
  if (step == 1) return a;
  std::vector<Dim> shape = a->shape->dims, apart = shape;
  apart.insert(apart.begin() + static_cast<long>(axis) + 1, Dim(1));
  std::vector<Extent> gaps(apart.size(), Extent{0, 0});
  gaps[axis + 1].end = Dim(step - 1);
  Ref spaced = prim::pad(prim::reshape(a, apart), gaps);
  std::vector<Extent> cut = whole(shape);
  DimArithmetic sizes;
  shape[axis] = sizes.mul(shape[axis], step);
  cut[axis].end = sizes.sub(shape[axis], step - 1);
  return prim::shrink(prim::reshape(spaced, shape), cut);
}

// The last axis's place k moved on by k * dilation along `axis`: a window over the padded axis
// again, of which only the diagonal counts, every (size + 1)-th of the two last axes as one.
Ref shear(const Ref& a, size_t axis, int64_t dilation) {
  std::vector<Dim> shape = a->shape->dims;
  const int64_t size = shape.back().size, reach = (size - 1) * dilation;
  const int64_t last = a->shape->rank() - 1, moved[] = {last + 1};
  if (size == 1) return a;
  std::vector<Extent> ends(shape.size(), Extent{0, 0});
  ends[axis] = {reach, reach};
  Ref all = prim::flip(
      prim::window(prim::pad(a, ends), static_cast<int64_t>(axis), size, 1, dilation), moved);
  shape[axis] = dims(all)[axis];
  shape.back() = Dim(size * size);
  Ref diagonal = prim::window(prim::reshape(all, shape), last, 1, size + 1, 1);
  shape.back() = Dim(size);
  return prim::reshape(diagonal, shape);
}

// Windows back onto their axis: place p gets g[o, k] for every p = o * step + k * dilation.
Ref window_row(UOp n, const Ref& g, uint32_t) {
  const auto axis = static_cast<size_t>(n->ints(0));
  const int64_t last[] = {g->shape->rank() - 1};
  Ref places = sum(shear(spread_out(g, axis, n->ints(2)), axis, n->ints(3)), last);
  std::vector<Dim> shape = n->src(0)->shape->dims;
  std::vector<Extent> rest(shape.size(), Extent{0, 0});
  DimArithmetic sizes;
  rest[axis].end = sizes.sub(shape[axis], dims(places)[axis]);
  shape[axis] = dims(places)[axis];
  return prim::pad(prim::reshape(places, shape), rest);
}

// Ties share evenly; where either is NaN both get all of g.
Ref larger_row(UOp n, const Ref& g, uint32_t i) {
  Ref a = src(n, i), b = src(n, 1 - i);
  Ref shared = prim::where(eq(a, b), prim::mul(g, number(n, 0.5)), g);
  return prim::where(n->is(Op::Max) ? lt(a, b) : lt(b, a), zero(g), shared);
}

// Which elements of the memory a Store's view writes.
Ref written(UOp view) {
  Ref region = prim::full(dims(view), prim::constant(DType::boolean, int64_t{1}));
  for (; has(view->op, Movement); view = view->src(0)) region = derivative(view, region, 0);
  return region;
}

// A version of a memory: the effects get the gradient of the whole memory, and pick what they
// wrote; what they did not write belongs to the version before.
Ref after_row(UOp n, const Ref& g, uint32_t i) {
  if (i > 0) return g;
  Ref kept = g;
  for (uint32_t s = 1; s < n->nsrc; ++s)
    kept = prim::where(written(n->src(s)->src(0)), zero(g), kept);
  return kept;
}
Ref store_row(UOp n, const Ref& g, uint32_t) {
  UOp memory = n->src(0);
  while (has(memory->op, Movement)) memory = memory->src(0);
  return seen_through(n->src(0), memory, g);
}

Ref copy_row(UOp n, const Ref& g, uint32_t) {
  return n->src(0)->device ? prim::copy_to(g, n->src(0)->device) : g;
}

bool is_all_zero(UOp n) {
  while (has(n->op, Movement)) n = n->src(0);
  return is_zero(n);
}

// where(x <= 0, 0, x)
bool is_rectified(UOp n) {
  UOp below = n->src(0), x = n->src(2);
  auto compares = [&](UOp c, Op op) {
    return c->is(op) && c->src(0) == x && is_all_zero(c->src(1));
  };
  return is_all_zero(n->src(1)) && below->is(Op::Or) && compares(below->src(0), Op::Lt) &&
         compares(below->src(1), Op::Eq);
}

Ref where_row(UOp n, const Ref& g, uint32_t i) {
  // Its result says where it was cut off: what it was made of need not be kept.
  if (i == 2 && is_rectified(n)) {
    const Ref y = self(n), none = zero(y);
    return prim::where(prim::alu(Op::Or, {lt(y, none), eq(y, none)}), zero(g), g);
  }
  return i == 1 ? prim::where(src(n, 0), g, zero(g)) : prim::where(src(n, 0), zero(g), g);
}

Ref div_row(UOp n, const Ref& g, uint32_t i) {
  if (i == 0) return div(g, src(n, 1));
  return prim::neg(prim::mul(g, div(self(n), src(n, 1))));
}

Ref pass_row(UOp, const Ref& g, uint32_t) { return g; }

#define ROW(expression)                                                          \
  []([[maybe_unused]] UOp n, const Ref& g, [[maybe_unused]] uint32_t i) -> Ref { \
    return expression;                                                           \
  }

#define CURVE_ROW(expression)                                   \
  [](UOp n, const Ref& g, uint32_t) -> Ref {                    \
    [[maybe_unused]] const Ref x = src(n, 0);                   \
    [[maybe_unused]] const Ref y = self(n);                     \
    return expression;                                          \
  }

// Ops that are not here have no derivative: integers and comparisons, bit casts, Detach, leaves.
// clang-format off
Row row_of(Op op) {
  using namespace std::numbers;
  using namespace prim;
  switch (op) {
    case Op::Neg:        return ROW(neg(g));
#define FLOAT_FUNCTION(op, arity, function, meaning, derivative) \
    case Op::op: return ROW(derivative);
#include "ir/float_functions.def"
#undef FLOAT_FUNCTION
#define CURVE(op, function, meaning, f32, f64, derivative) \
    case Op::op: return CURVE_ROW(derivative);
#include "ir/curves.def"
#undef CURVE
    case Op::Cast:       return ROW(cast(g, n->src(0)->dtype));
    case Op::Add:        return pass_row;
    case Op::Mul:        return ROW(mul(g, src(n, 1 - i)));
    case Op::Div:        return div_row;
    case Op::Max:
    case Op::Min:        return larger_row;
    case Op::Where:      return where_row;
    case Op::Reduce:     return reduce_row;
    case Op::Reshape:    return reshape_row;
    case Op::Permute:    return permute_row;
    case Op::Expand:     return expand_row;
    case Op::Pad:        return pad_row;
    case Op::Shrink:     return shrink_row;
    case Op::Flip:       return flip_row;
    case Op::Window:     return window_row;
    case Op::Contiguous: return pass_row;
    case Op::Given:      return given_derivative;
    case Op::Check:      return pass_row;
    case Op::Copy:       return copy_row;
    case Op::After:      return after_row;
    case Op::Store:      return store_row;
    default:             return nullptr;
  }
}
// clang-format on
#undef ROW

// Does the view of a Store reach every element of its memory?
bool covers(UOp view, UOp memory) {
  return !view->shape->symbolic && view->shape->count() == memory->shape->count();
}

}  // namespace

bool carries(UOp n, uint32_t i) {
  if (!row_of(n->op)) return false;
  if (n->is(Op::Store)) return i == 1 && is_float(n->src(1)->dtype);
  if (n->is(Op::Given) && i == 0) return false;
  if (!n->is(Op::After)) return is_float(n->dtype) && is_float(n->src(i)->dtype);
  if (!is_float(n->dtype)) return false;
  if (i > 0) return n->src(i)->is(Op::Store);
  for (uint32_t s = 1; s < n->nsrc; ++s)
    if (!n->src(s)->is(Op::Store) || covers(n->src(s)->src(0), n)) return false;
  return true;
}

Ref derivative(UOp n, const Ref& upstream, uint32_t i) {
  Ref g = row_of(n->op)(n, upstream, i);
  UOp x = n->src(i);
  bool broadcast = has(n->op, Alu) && x->shape->rank() == 0 && g->shape->rank() > 0;
  return broadcast ? sum_to_scalar(g) : g;
}

Ref seen_through(UOp view, UOp base, const Ref& memory) {
  std::vector<UOp> moves;
  for (; view != base; view = view->src(0)) moves.push_back(view);
  Ref out = memory;
  for (size_t m = moves.size(); m-- > 0;) {
    std::vector<Ref> sources = {out};
    for (uint32_t s = 1; s < moves[m]->nsrc; ++s) sources.push_back(src(moves[m], s));
    out = tensor_graph::make(moves[m]->op, out->dtype, sources, moves[m]->arg);
  }
  return out;
}

}  // namespace mote

#include "tensor/primitives.h"

#include <algorithm>
#include <numeric>

#include "ir/device_list.h"
#include "ir/eval.h"
#include "ir/size_sum.h"
#include "ir/storage.h"

namespace mote {

thread_local EffectListener* effect_listener = nullptr;

}  // namespace mote

namespace mote::prim {
namespace {

using tensor_graph::make;

// A movement op's list: concrete entries in `ints`, symbolic ones as extra sources after a.
struct Operands {
  std::vector<Ref> src;
  std::vector<int64_t> ints;
  explicit Operands(const Ref& a) : src{a} {}
  Operands() = default;
  void push(const Dim& d) {
    ints.push_back(d.is_symbolic() ? kSymbolic : d.size);
    if (d.is_symbolic()) src.emplace_back(d.symbol);
  }
  Ref build(Op op, DType dtype) const { return make(op, dtype, src, Arg::of(intern_arg(ints))); }
};

bool is_movement(Op op) { return has(op, Movement) && op != Op::Pad; }

bool same(const Shape& s, Dims d) {
  return std::equal(s.dims.begin(), s.dims.end(), d.begin(), d.end());
}

// The rank-0 node that a repeats everywhere, or null: movement of such a value needs no chain.
Ref repeated_scalar(const Ref& a) {
  if (a->op == Op::Expand && a->src(0)->shape->rank() == 0) return Ref(a->src(0));
  return {};
}

Ref list_op(Op op, const Ref& a, Axes list) {
  return make(op, a->dtype, {a}, Arg::of(intern_arg(list)));
}

Ref extents_op(Op op, const Ref& a, std::span<const Extent> list) {
  Operands operands(a);
  for (const Extent& e : list) operands.push(e.begin), operands.push(e.end);
  return operands.build(op, a->dtype);
}

}  // namespace

Ref constant(DType dtype, double v) {
  return make(Op::Const, dtype, std::initializer_list<Ref>{}, arg_of(scalar(dtype, v)));
}

Ref constant(DType dtype, int64_t v) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(v));
  return make(Op::Const, dtype, std::initializer_list<Ref>{}, Arg::of(wrap_to(dtype, v)));
}

Ref full(Dims shape, const Ref& scalar) { return expand(scalar, shape); }

Ref iota(const Dim& length) {
  Operands operands;
  operands.push(length);
  return operands.build(Op::Iota, DType::index);
}

Ref variable(std::string_view name, int64_t lo, int64_t hi) {
  int64_t ints[] = {lo, hi, 0, 0};
  return make(Op::Var, DType::index, std::initializer_list<Ref>{}, Arg::of(intern_arg(ints, name)));
}

Ref bind(const Ref& variable, int64_t value) {
  int64_t ints[] = {variable->ints(0), variable->ints(1), 1, value};
  return make(Op::Var, DType::index, std::initializer_list<Ref>{},
              Arg::of(intern_arg(ints, variable->arg.object->str)));
}

Ref alu(Op op, std::initializer_list<Ref> src) {
  const Ref& typed = src.begin()[op == Op::Where ? 1 : 0];
  return make(op, has(op, Compares) ? DType::boolean : typed->dtype, src);
}

// To bool is "not zero", which a saturating cast is not.
Ref cast(const Ref& a, DType dtype) {
  if (a->dtype == dtype) return a;
  if (dtype == DType::boolean) return logical_not(alu(Op::Eq, {a, constant(a->dtype, int64_t{0})}));
  return make(Op::Cast, dtype, {a});
}

Ref bitcast(const Ref& a, DType dtype) {
  return a->dtype == dtype ? a : make(Op::Bitcast, dtype, {a});
}

Ref where(const Ref& c, const Ref& a, const Ref& b) { return alu(Op::Where, {c, a, b}); }
Ref neg(const Ref& a) { return alu(Op::Neg, {a}); }
Ref add(const Ref& a, const Ref& b) { return alu(Op::Add, {a, b}); }
Ref sub(const Ref& a, const Ref& b) { return add(a, neg(b)); }
Ref mul(const Ref& a, const Ref& b) { return alu(Op::Mul, {a, b}); }
Ref logical_not(const Ref& a) { return alu(Op::Xor, {a, constant(DType::boolean, int64_t{1})}); }

Ref reshape(const Ref& a, Dims shape) {
  if (same(*a->shape, shape)) return a;
  if (a->op == Op::Reshape) return reshape(Ref(a->src(0)), shape);
  if (Ref s = repeated_scalar(a)) return expand(s, shape);
  Operands operands(a);
  for (const Dim& d : shape) operands.push(d);
  return operands.build(Op::Reshape, a->dtype);
}

Ref permute(const Ref& a, Axes axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return a;
  if (Ref s = repeated_scalar(a)) {
    std::vector<Dim> dims;
    for (int64_t axis : axes) dims.push_back((*a->shape)[static_cast<int>(axis)]);
    return expand(s, dims);
  }
  if (a->op != Op::Permute) return list_op(Op::Permute, a, axes);
  std::vector<int64_t> through;
  for (int64_t axis : axes) through.push_back(a->ints(static_cast<size_t>(axis)));
  return permute(Ref(a->src(0)), through);
}

Ref expand(const Ref& a, Dims shape) {
  if (same(*a->shape, shape)) return a;
  if (a->op == Op::Expand) return expand(Ref(a->src(0)), shape);
  Operands operands(a);
  for (const Dim& d : shape) operands.push(d);
  return operands.build(Op::Expand, a->dtype);
}

Ref pad(const Ref& a, std::span<const Extent> amounts) {
  bool nothing = std::all_of(amounts.begin(), amounts.end(),
                             [](const Extent& e) { return e.begin == Dim(0) && e.end == Dim(0); });
  if (nothing) return a;
  Ref padded = extents_op(Op::Pad, a, amounts);
  if (a->shape->symbolic || a->shape->count() != 0) return padded;
  return flat_in(a, full(padded->shape->dims, constant(a->dtype, int64_t{0})));
}

Ref shrink(const Ref& a, std::span<const Extent> bounds) {
  bool nothing = true;
  for (size_t i = 0; i < bounds.size(); ++i)
    nothing &= bounds[i].begin == Dim(0) && bounds[i].end == a->shape->dims[i];
  if (nothing) return a;
  Ref cut = extents_op(Op::Shrink, a, bounds);
  Ref s = repeated_scalar(a);
  return s ? expand(s, cut->shape->dims) : cut;
}

Ref flip(const Ref& a, Axes axes) {
  std::vector<int64_t> longer;
  for (int64_t axis : axes)
    if (a->shape->dims[static_cast<size_t>(axis)] != Dim(1)) longer.push_back(axis);
  if (longer.empty() || repeated_scalar(a)) return a;
  std::sort(longer.begin(), longer.end());
  return list_op(Op::Flip, a, longer);
}

Ref window(const Ref& a, int64_t axis, int64_t size, int64_t step, int64_t dilation) {
  int64_t list[] = {axis, size, step, dilation};
  if (size == 1 && step == 1) {
    std::vector<Dim> dims = a->shape->dims;
    dims.emplace_back(1);
    return reshape(a, dims);
  }
  Ref seen = list_op(Op::Window, a, list);
  Ref s = repeated_scalar(a);
  return s ? expand(s, seen->shape->dims) : seen;
}

Ref reduce(Op op, const Ref& a, Axes axes) {
  std::vector<int64_t> list{static_cast<int64_t>(op)};
  std::vector<Dim> dims = a->shape->dims;
  bool empty = false;
  for (int64_t axis : axes) {
    Dim& d = dims[static_cast<size_t>(axis)];
    empty |= d == Dim(0);
    if (d != Dim(1)) list.push_back(axis);
    d = Dim(1);
  }
  if (empty) {
    const Arg identity = arg_of(identity_of(op, a->dtype));
    return flat_in(a,
                   full(dims, make(Op::Const, a->dtype, std::initializer_list<Ref>{}, identity)));
  }
  if (list.size() == 1) return a;
  std::sort(list.begin() + 1, list.end());
  return list_op(Op::Reduce, a, list);
}

// A choice that is never made: it is gone before anything runs, but a walk over the graph sees it.
Ref flat_in(const Ref& source, const Ref& value) {
  if (!is_float(source->dtype) || !is_float(value->dtype)) return value;
  const Shape& shape = *source->shape;
  Ref one;
  if (!shape.symbolic && shape.count() == 0) {
    Dim none = 0;
    Extent added = {0, 1};
    one = extents_op(Op::Pad, reshape(source, {&none, 1}), {&added, 1});
  } else {
    one = shrink(source, std::vector<Extent>(shape.dims.size(), Extent{0, 1}));
  }
  Ref never = expand(cast(reshape(one, {}), value->dtype), value->shape->dims);
  return where(constant(DType::boolean, int64_t{0}), never, value);
}

Ref contiguous(const Ref& a) {
  if (a->op == Op::Contiguous || a->op == Op::Buffer || a->op == Op::After) return a;
  return make(Op::Contiguous, a->dtype, {a});
}

Ref cut_long_chain(const Ref& a) {
  UOp below = a;
  for (int length = 0; has(below->op, Movement); below = below->src(0))
    if (++length == kLongChain) return contiguous(a);
  return a;
}

Ref detach(const Ref& a) { return a->op == Op::Detach ? a : make(Op::Detach, a->dtype, {a}); }

Ref copy_to(const Ref& a, uint8_t device) {
  if (a->device == device || a->device == kNoDevice) return a;  // constants are everywhere
  return make(Op::Copy, a->dtype, {a}, Arg::of(static_cast<int64_t>(device)));
}

Ref buffer(uint8_t device, DType dtype, int64_t count) {
  ensure(make_storage != nullptr, "no runtime is linked, so there is no storage to make");
  size_bytes(count, dtype);  // or there is no such memory
  return tensor_graph::buffer(make_storage(device, dtype, count));
}

Ref assign(const Ref& target, const Ref& value) {
  UOp version = target;
  while (is_movement(version->op)) version = version->src(0);
  ensure(version->is(Op::Buffer) || version->is(Op::After), "assign to ", name(version->op));
  Ref store = make(Op::Store, DType::none, {target, value});
  Ref written = make(Op::After, version->dtype, {Ref(version), store});
  if (effect_listener) effect_listener->wrote(written);
  return written;
}

UOp base_of(UOp node) {
  while (is_movement(node->op) || node->is(Op::After)) node = node->src(0);
  return node->is(Op::Buffer) ? node : UOp();
}

}  // namespace mote::prim

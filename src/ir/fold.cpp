#include "ir/fold.h"

#include "ir/eval.h"

namespace mote {

namespace {

bool all_const(const Parts& p) {
  for (const Node* s : p.src)
    if (s->op != Op::Const) return false;
  return true;
}

Folded existing(Node* n) { return {n, {}}; }
Folded literal(int64_t v) { return {nullptr, Arg::of(v)}; }

// Index arithmetic is exact: a constant that does not fit stays unfolded.
bool overflows(const Parts& p) {
  if (p.dtype != DType::index) return false;
  int64_t r;
  if (p.op == Op::Add) return __builtin_add_overflow(p.src[0]->arg.i, p.src[1]->arg.i, &r);
  if (p.op == Op::Mul) return __builtin_mul_overflow(p.src[0]->arg.i, p.src[1]->arg.i, &r);
  return false;
}

Folded fold_binary(const Parts& p) {
  Node *a = p.src[0], *b = p.src[1];
  const bool floats = is_float(p.dtype);
  switch (p.op) {
    case Op::Add:
      // Of floats the zero that adds nothing is -0; an integer has only one.
      if (is_const(b, -0.0)) return existing(a);
      if (is_const(a, -0.0)) return existing(b);
      break;
    case Op::Mul:
      if (is_const(b, 1)) return existing(a);
      if (is_const(a, 1)) return existing(b);
      break;
    case Op::Div:
    case Op::IDiv:
    case Op::FloorDiv:
      if (is_const(b, 1)) return existing(a);
      break;
    case Op::FloorMod:
      if (a->lo >= 0 && a->hi < b->lo) return existing(a);
      break;
    case Op::Max:
    case Op::Min:
      if (a == b) return existing(a);
      if (floats || p.dtype == DType::u64 || ((a->flags | b->flags) & Node::kPoisoned)) break;
      if (a->lo >= b->hi) return existing(p.op == Op::Max ? a : b);
      if (b->lo >= a->hi) return existing(p.op == Op::Max ? b : a);
      break;
    case Op::And:
    case Op::Or:
      if (a == b) return existing(a);
      if (p.dtype == DType::boolean) {
        if (b->op == Op::Const) return existing((b->arg.i != 0) == (p.op == Op::And) ? a : b);
        if (a->op == Op::Const) return existing((a->arg.i != 0) == (p.op == Op::And) ? b : a);
      }
      break;
    case Op::Xor:
      if (b->is_const(0)) return existing(a);
      if (a->is_const(0)) return existing(b);
      break;
    default: break;
  }
  return {};
}

Folded fold_any(const Parts& p) {
  if (p.op == Op::Cast && p.src[0]->dtype == p.dtype) return existing(p.src[0]);
  if (p.op == Op::Neg && p.src[0]->op == Op::Neg) return existing(p.src[0]->sources[0]);
  if (p.op == Op::Where) {
    const Node* c = p.src[0];
    if (c->op == Op::Const) return existing(c->arg.i ? p.src[1] : p.src[2]);
    if (p.src[1] == p.src[2]) return existing(p.src[1]);
  }
  return p.src.size() == 2 ? fold_binary(p) : Folded{};
}

}  // namespace

bool wants_swap(const Parts& p) {
  if (!has(p.op, Commutes)) return false;
  const Node *a = p.src[0], *b = p.src[1];
  if (a->op == Op::Const) return b->op != Op::Const;
  return b->op != Op::Const && b->hash < a->hash;
}

Folded fold(const Parts& p, const Derived& d) {
  bool scalars = true;
  for (const Node* s : p.src) scalars &= s->shape && s->shape->dims.empty();
  if (p.op != Op::Where && p.dtype == DType::index)
    for (Node* s : p.src)
      if (s->op == Op::Invalid) return existing(s);
  if (scalars && !has(p.op, Curve) && all_const(p) && !overflows(p)) {
    Scalar args[3];
    for (size_t i = 0; i < p.src.size(); ++i) args[i] = scalar_of(p.src[i]);
    return {nullptr, arg_of(eval(p.op, p.dtype, {args, p.src.size()}))};
  }
  if (scalars && d.lo == d.hi && !is_float(p.dtype) && p.dtype != DType::u64 && d.lo > INT64_MIN &&
      d.lo < INT64_MAX && !(d.flags & Node::kPoisoned))
    return literal(d.lo);
  Folded f = fold_any(p);
  if (f.existing && !scalars) {
    // A scalar may not stand for a whole tensor.
    const Shape* shape = shared_shape(p);
    if (!shape || f.existing->shape != shape) return {};
  }
  return f;
}

}  // namespace mote

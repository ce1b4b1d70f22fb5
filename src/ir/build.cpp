#include "ir/build.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"

namespace mote {

UOp make(Op op, DType dtype, std::span<const UOp> src, Arg arg) {
  static_assert(sizeof(UOp) == sizeof(Node*));
  return arena().make(op, dtype, {reinterpret_cast<Node* const*>(src.data()), src.size()}, arg);
}
UOp make(Op op, DType dtype, std::initializer_list<UOp> src, Arg arg) {
  return make(op, dtype, std::span<const UOp>(src.begin(), src.size()), arg);
}

UOp constant(DType dtype, int64_t v) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(v));
  return make(Op::Const, dtype, {}, Arg::of(wrap_to(dtype, v)));
}
UOp constant(DType dtype, double v) {
  if (!is_float(dtype)) return constant(dtype, static_cast<int64_t>(v));
  return make(Op::Const, dtype, {}, Arg::of(round_to(dtype, v)));
}
UOp zero_like(UOp u) { return constant(u->dtype, 0); }
UOp invalid() { return make(Op::Invalid, DType::index, {}); }

UOp range(int slot, UOp extent, Role role) {
  int64_t ints[] = {slot, static_cast<int64_t>(role)};
  return make(Op::Range, DType::index, {extent}, Arg::of(intern_arg(ints)));
}
UOp param(int slot, DType dtype, int64_t size, Space space, uint8_t device) {
  int64_t ints[] = {slot, size, static_cast<int64_t>(space), device};
  return make(Op::Param, dtype, {}, Arg::of(intern_arg(ints)));
}
UOp reduce_over(Op op, UOp value, std::span<const UOp> ranges) {
  std::vector<UOp> src{value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  int64_t ints[] = {static_cast<int64_t>(op)};
  return make(Op::Reduce, value->dtype, src, Arg::of(intern_arg(ints)));
}

UOp fold_identity(Op op, DType d) {
  if (op == Op::Add || op == Op::Or || op == Op::Xor) return constant(d, 0);
  if (op == Op::Mul) return constant(d, 1);
  if (op == Op::And) return constant(d, d == DType::boolean ? 1 : -1);
  const bool most = op == Op::Min;  // the identity of Min is the largest value
  if (is_float(d)) return constant(d, most ? HUGE_VAL : -HUGE_VAL);
  if (d == DType::u64) return make(Op::Const, d, {}, Arg::of(most ? int64_t{-1} : int64_t{0}));
  return constant(d, most ? row(d).hi : row(d).lo);
}

UOp unary(Op op, UOp a) { return make(op, a->dtype, {a}); }
UOp binary(Op op, UOp a, UOp b) {
  ensure(a->dtype == b->dtype, name(op), " of ", a->dtype, " and ", b->dtype);
  return make(op, has(op, Compares) ? DType::boolean : a->dtype, {a, b});
}
UOp where(UOp c, UOp a, UOp b) {
  ensure(a->dtype == b->dtype, "Where of ", a->dtype, " and ", b->dtype);
  return make(Op::Where, a->dtype, {c, a, b});
}
UOp cast(UOp a, DType dtype) { return make(Op::Cast, dtype, {a}); }
UOp lt(UOp a, UOp b) { return binary(Op::Lt, a, b); }
UOp eq(UOp a, UOp b) { return binary(Op::Eq, a, b); }
UOp ne(UOp a, UOp b) { return logical_not(eq(a, b)); }
UOp ge(UOp a, UOp b) { return logical_not(lt(a, b)); }
UOp logical_not(UOp a) {
  if (a->is(Op::Xor) && a->src(1)->is_const(1)) return a->src(0);
  return binary(Op::Xor, a, truth(true));
}

UOp operator-(UOp a) {
  return a->dtype == DType::index ? a * -1 : unary(Op::Neg, a);
}
UOp operator-(UOp a, UOp b) { return a + -b; }
UOp operator/(UOp a, UOp b) {
  Op op = is_float(a->dtype) ? Op::Div : a->dtype == DType::index ? Op::FloorDiv : Op::IDiv;
  return binary(op, a, b);
}
UOp operator%(UOp a, UOp b) {
  return binary(a->dtype == DType::index ? Op::FloorMod : Op::IMod, a, b);
}

UOp with_src(UOp n, std::span<Node* const> src) {
  return arena().make(n->op, n->dtype, src, n->arg);
}

namespace {

// Rebuilds everything below root bottom-up; `leaf` answers for the nodes it knows.
template <class Known>
UOp rebuild(UOp root, bool same_arena, const Known& known) {
  std::unordered_map<const Node*, Node*> done;
  std::vector<std::pair<UOp, bool>> stack{{root, false}};
  std::vector<Node*> src;
  while (!stack.empty()) {
    auto [n, ready] = stack.back();
    stack.pop_back();
    if (done.count(n.get())) continue;
    if (!ready) {
      if (UOp r = known(n)) {
        done[n.get()] = r.get();
        continue;
      }
      stack.emplace_back(n, true);
      for (Node* s : n->src()) stack.emplace_back(UOp(s), false);
      continue;
    }
    src.clear();
    bool changed = !same_arena;
    for (Node* s : n->src()) {
      src.push_back(done.at(s));
      changed |= src.back() != s;
    }
    done[n.get()] = changed ? with_src(n, src).get() : n.get();
  }
  return done.at(root.get());
}

}  // namespace

UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> map) {
  return rebuild(root, true, [&](UOp n) {
    for (const auto& [from, to] : map)
      if (n == from) return to;
    return UOp();
  });
}

UOp import(UOp root) {
  return rebuild(root, false, [](UOp) { return UOp(); });
}

std::vector<UOp> open_ranges(UOp u) {
  std::vector<UOp> found;
  UOp roots[] = {u};
  for (UOp n : toposort(roots, [](UOp x) { return x->ranges != 0; }))
    if (n->is(Op::Range) && range_slot(n) < 64 && (u->ranges >> range_slot(n) & 1))
      found.push_back(n);
  std::ranges::sort(found, {}, [](UOp r) { return range_slot(r); });
  return found;
}

UOp extent(const Dim& d) { return d.symbol ? d.symbol : index(d.size); }

}  // namespace mote

#include <doctest/doctest.h>

#include "lower/lower.h"

using namespace mote;

namespace {

UOp read(int slot, UOp i) {
  return make(Op::Load, DType::f32,
              {make(Op::Index, DType::f32, {param(slot, DType::f32, 8), i})});
}

UOp stored(UOp value, UOp i) {
  UOp place = make(Op::Index, DType::f32, {param(0, DType::f32, 8), i});
  UOp end = make(Op::End, DType::none, {make(Op::Store, DType::none, {place, value}), i});
  return make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({})));
}

int count(UOp body, Op op) {
  int n = 0;
  for (UOp u : toposort(body)) n += u->is(op);
  return n;
}

}  // namespace

TEST_CASE("fuse products: one that goes into one sum, and of two neither") {
  Arena arena;
  ArenaScope scope(arena);
  Target target;
  target.fma = true;
  UOp i = range(0, index(8), Role::Loop);
  UOp a = read(1, i), b = read(2, i), c = read(3, i), d = read(4, i);
  auto fused = [&](UOp value) {
    return count(fuse_products(stored(value, i), target), Op::MulAdd);
  };
  CHECK(fused(a * b + c) == 1);
  CHECK(fused(c + a * b) == 1);
  CHECK(fused(c - a * b) == 1);
  CHECK(fused(a * b + c * d) == 0);
  CHECK(fused(a * b + (a * b) * c) == 1);  // a * b has two users
  CHECK(fused(a * b + c + d * c) == 2);
  target.fuses_itself = true;
  CHECK(fused(a * b + c) == 0);
}

TEST_CASE("fuse products: those that are folded") {
  Arena arena;
  ArenaScope scope(arena);
  Target target;
  UOp i = range(0, index(8), Role::Loop), k = range(1, index(8), Role::Reduce);
  UOp over[] = {k};
  auto at = [](int slot, UOp p) {
    return make(Op::Index, DType::f32, {param(slot, DType::f32, 8), p});
  };
  UOp sum = reduce_over(Op::Add, at(1, i) * at(2, k), over);
  UOp store = make(Op::Store, DType::none, {at(0, i), sum});
  UOp body = make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i})},
                  Arg::of(intern_arg({})));
  CHECK(count(lower(body, target).linear, Op::MulAdd) == 0);
  target.fma = true;
  CHECK(count(lower(body, target).linear, Op::MulAdd) == 1);
}

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "ir/spec.h"
#include "lower/lower.h"

using namespace mote;

namespace {

UOp stored(UOp value, std::vector<UOp> ranges, UOp position) {
  UOp place = make(Op::Index, value->dtype, {param(0, value->dtype, 64), position});
  std::vector<UOp> src{make(Op::Store, DType::none, {place, value})};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::Sink, DType::none, {make(Op::End, DType::none, src)}, Arg::of(intern_arg({})));
}

}  // namespace

TEST_CASE("linearize: an update that folds to what is there already is listed once") {
  Arena arena;
  ArenaScope scope(arena);
  UOp r[] = {range(0, constant(DType::i64, 8), Role::Reduce)};
  UOp sum = reduce_over(Op::Add, constant(DType::i32, 0), r);
  UOp linear = linearize(stored(sum, {}, constant(DType::i64, 0)));
  std::set<const Node*> once(linear->src().begin(), linear->src().end());
  CHECK(once.size() == linear->nsrc);
}

TEST_CASE("linearize: a sum around a sum with the same range gets a loop of its own") {
  Arena arena;
  ArenaScope scope(arena);
  UOp r[] = {range(0, constant(DType::i64, 8), Role::Reduce)};
  UOp place = make(Op::Index, DType::i32, {param(1, DType::i32, 8), r[0]});
  UOp element = make(Op::Load, DType::i32, {place});
  UOp inner = reduce_over(Op::Add, element, r);
  UOp outer = reduce_over(Op::Add, element * inner, r);
  UOp linear = linearize(stored(outer, {}, constant(DType::i64, 0)));
  int loops = 0;
  for (Node* n : linear->src()) loops += n->op == Op::Range;
  CHECK(loops == 2);
}

TEST_CASE("linearize: a sum and what is kept over its range share one loop") {
  Arena arena;
  ArenaScope scope(arena);
  UOp r[] = {range(0, constant(DType::i64, 8), Role::Reduce)};
  UOp k[] = {range(1, constant(DType::i64, 8), Role::Reduce)};
  UOp element = make(Op::Load, DType::i32,
                     {make(Op::Index, DType::i32, {param(1, DType::i32, 8), r[0]})});
  UOp memory = param(2, DType::i32, 8, Space::Local);
  UOp kept = make(Op::Store, DType::none, {make(Op::Index, DType::i32, {memory, r[0]}), element});
  UOp filled = make(Op::After, DType::i32, {memory, make(Op::End, DType::none, {kept, r[0]})});
  auto loops_with = [&](UOp over) {
    UOp again = make(Op::Load, DType::i32, {make(Op::Index, DType::i32, {filled, over})});
    UOp ranges[] = {over};
    UOp value = reduce_over(Op::Add, element, r) + reduce_over(Op::Max, again, ranges);
    UOp linear = linearize(stored(value, {}, constant(DType::i64, 0)));
    int loops = 0;
    for (Node* n : linear->src()) loops += n->op == Op::Range;
    return loops;
  };
  CHECK(loops_with(k[0]) == 2);  // one that fills and sums, one that reads
  CHECK(loops_with(r[0]) == 2);  // reads the same range, but only after it was filled
}

TEST_CASE("linearize: what only a rare choice needs is computed where some element needs it") {
  Arena arena;
  ArenaScope scope(arena);
  UOp lane = range(0, constant(DType::i32, 8), Role::Vector);
  UOp x =
      make(Op::Load, DType::f32, {make(Op::Index, DType::f32, {param(1, DType::f32, 8), lane})});
  UOp usual = x + constant(DType::f32, 1), costly = make(Op::Sqrt, DType::f32, {x * usual});
  UOp choice = where_rarely(lt(x, constant(DType::f32, 0)), costly, usual);
  UOp linear = linearize(stored(choice, {lane}, lane));
  const std::vector<UOp> order(linear->src().begin(), linear->src().end());
  auto at = [&](UOp n) { return std::ranges::find(order, n) - order.begin(); };
  UOp branch = *std::ranges::find_if(order, [](UOp n) { return n->is(Op::Range); });
  UOp end = *std::ranges::find_if(order, [](UOp n) { return n->is(Op::End); });
  CHECK(branch->src(0)->src(0)->dtype == DType::boolean);
  CHECK(at(usual) < at(branch));
  CHECK((at(branch) < at(costly) && at(costly) < at(end)));
  CHECK((at(branch) < at(costly->src(0)) && at(costly->src(0)) < at(end)));
}

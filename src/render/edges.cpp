#include "render/edges.h"

#include <algorithm>
#include <unordered_set>

namespace mote {

namespace {

// By positions alone, and a variable.
bool is_edge(UOp less) {
  const std::vector<UOp> below = toposort(less);
  return std::ranges::any_of(below, [](UOp n) { return n->is(Op::Var); }) &&
         std::ranges::none_of(below, [](UOp n) { return n->is(Op::Load) || n->is(Op::Reduce); });
}

// How far a position goes in each round of a loop; none: not evenly.
std::optional<int64_t> step_of(UOp position, UOp loop) {
  if (position == loop) return 1;
  if (!(position->ranges & slot_bit(loop))) return 0;
  if (position->is(Op::Add)) {
    const std::optional<int64_t> a = step_of(position->src(0), loop),
                                 b = step_of(position->src(1), loop);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  if (position->is(Op::Cast) && keeps_value(position->src(0), position->dtype))
    return step_of(position->src(0), loop);
  const bool scales = position->is(Op::Mul) || position->is(Op::Shl);
  if (!scales || !position->src(1)->is(Op::Const)) return {};
  const std::optional<int64_t> step = step_of(position->src(0), loop);
  const int64_t by = position->src(1)->arg.i;
  return step ? std::optional(position->is(Op::Mul) ? *step * by : *step << by) : std::nullopt;
}

// Of all rounds only the very last goes beyond a size that is a number.
bool is_padding(UOp less, UOp loop) {
  constexpr int64_t kFewRounds = 8;
  const UOp rounds = loop->src(0), size = less->src(1);
  if (!size->is(Op::Const) || !rounds->is(Op::Const) || rounds->arg.i < kFewRounds) return false;
  const std::optional<int64_t> step = step_of(less->src(0), loop);
  return step > 0 && less->src(0)->lo >= 0 && less->src(0)->hi - *step < size->arg.i;
}

// Lt(a, b) over a tile: a - b from the first position to the last one.
std::optional<EdgeTest> test_of(UOp less, UOp loop, Tiles& tiles) {
  const TileSet set = tiles.of(less);
  if (!set || !(less->ranges & slot_bit(loop)) || !is_int(less->src(0)->dtype)) return {};
  const Steps &a = tiles.steps(less->src(0)), &b = tiles.steps(less->src(1));
  if (a.nonlinear | b.nonlinear) return {};
  int64_t up = 0, down = 0;
  for (TileSet rest = set; rest; rest &= rest - 1) {
    const int t = std::countr_zero(rest);
    const int64_t far = (a.of(t) - b.of(t)) * (tiles.extent(t) - 1);
    (far > 0 ? up : down) += far;
  }
  if (up && down) return {};
  if (!is_edge(less) && !(up > 0 && is_padding(less, loop))) return {};
  return EdgeTest{less, up > 0, up + down};
}

}  // namespace

std::map<const Node*, std::vector<EdgeTest>> edge_tests(const Program& program, Tiles& tiles) {
  std::map<const Node*, std::vector<EdgeTest>> out;
  UOp loop;
  std::vector<EdgeTest> tests;
  std::unordered_set<const Node*> registers;
  bool begins_sums = false;  // a register that is declared here must be for both ways
  for (UOp s : program.linear->src()) {
    if (is_loop(s)) {
      loop = s, begins_sums = false;
      tests.clear();
    } else if (s->is(Op::End)) {
      if (loop && s->nsrc == 2 && s->src(1) == loop && !tests.empty() && !begins_sums)
        out.emplace(loop.get(), tests);
      loop = {};
    } else if (s->is(Op::Store) && !s->src(0)->is(Op::Index)) {
      begins_sums |= registers.insert(without_effects(s->src(0)).get()).second;
    } else if (OpSet{Op::Barrier, Op::Shuffle, Op::Fragment, Op::Wait}.has(s->op)) {
      loop = {};  // workers must not go different ways
    } else if (loop && s->is(Op::Lt)) {
      if (std::optional<EdgeTest> test = test_of(s, loop, tiles)) tests.push_back(*test);
    }
  }
  return out;
}

}  // namespace mote

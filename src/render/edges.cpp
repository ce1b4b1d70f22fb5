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
  if ((up && down) || !is_edge(less)) return {};
  return EdgeTest{less, up > 0, up + down};
}

}  // namespace

std::map<const Node*, std::vector<EdgeTest>> edge_tests(const Program& program, Tiles& tiles) {
  std::map<const Node*, std::vector<EdgeTest>> out;
  if (program.vars.empty()) return out;
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

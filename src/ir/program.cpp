#include "ir/program.h"

#include <algorithm>
#include <bit>

#include "ir/build.h"

namespace mote {

UOp value_of_two_vectors(UOp root) {
  uint64_t vectors = 0;
  for (UOp u : toposort(root)) {
    if (u->is(Op::Range) && range_role(u) == Role::Vector) vectors |= u->ranges;
    const bool value = !has(u->op, Effect) || u->is(Op::Store);
    uint64_t ranges = u->ranges;
    if (u->is(Op::Reduce))  // also over vectors that what it folds does not depend on
      for (Node* s : u->src()) ranges |= s->ranges;
    if (value && std::popcount(ranges & vectors) > 1) return u;
  }
  return {};
}

int nest_order(UOp r) {
  const Role role = range_role(r);
  return range_slot(r) - (role == Role::Global ? 2 * kSlots : is_worker(role) ? kSlots : 0);
}

TileProduct tile_product_of(UOp body) {
  TileProduct p;
  std::vector<UOp> ranges;
  for (UOp n : toposort(body)) {
    if (n->is(Op::Range) && range_role(n) == Role::Fragment) ranges.push_back(n);
    for (Node* r : closed_ranges(n)) {
      if (range_role(UOp(r)) != Role::Fragment || n->is(Op::End)) continue;
      if (!n->is(Op::Reduce) || p.sum) return {};
      p.sum = n, p.k = UOp(r);
    }
  }
  if (ranges.size() != 3 || !p.sum || p.sum->ints(0) != static_cast<int64_t>(Op::Add)) return {};
  for (Node* r : closed_ranges(p.sum))
    if (UOp(r) != p.k && range_role(UOp(r)) != Role::Reduce) return {};
  UOp value = p.sum->src(0);
  if (!value->is(Op::Mul)) return {};
  std::erase(ranges, p.k);
  auto core = [](UOp u) { return u->is(Op::Cast) && is_float(u->src(0)->dtype) ? u->src(0) : u; };
  p.a = core(value->src(0)), p.b = core(value->src(1));
  const bool first = p.a->ranges & slot_bit(ranges[0]);
  p.i = ranges[first ? 0 : 1], p.j = ranges[first ? 1 : 0];
  auto moves = [&](UOp factor, UOp with, UOp without) {
    const uint64_t both = slot_bit(with) | slot_bit(p.k);
    return (factor->ranges & (both | slot_bit(without))) == both;
  };
  if (!moves(p.a, p.i, p.j) || !moves(p.b, p.j, p.i)) return {};
  for (Node* end : body->src()) {
    UOp last;
    for (Node* r : closed_ranges(UOp(end)))
      if (is_worker(range_role(UOp(r))) && (!last || nest_order(last) < nest_order(UOp(r))))
        last = UOp(r);
    if (!last || (p.lane && p.lane != last) || (end->sources[0]->ranges & slot_bit(last)))
      return {};
    p.lane = last;
    for (UOp r : {p.i, p.j})
      if (!std::ranges::count(closed_ranges(UOp(end)), r.get())) return {};
  }
  return p;
}

int fragment_row(TileProduct& p, const Target& target) {
  auto is_shared = [](UOp factor) {
    return factor->is(Op::Index) && factor->src(0)->is(Op::Stage) &&
           factor->src(0)->ints(0) == static_cast<int64_t>(Space::Shared);
  };
  auto fits = [&](const Fragment& f) {
    auto has = [](UOp r, int64_t size) { return is_const(r->src(0)) && r->src(0)->hi == size; };
    return has(p.lane, f.lanes) && has(p.i, f.rows) && has(p.j, f.columns) && has(p.k, f.depth) &&
           p.a->dtype == f.factor && p.b->dtype == f.factor && p.sum->dtype == f.sum &&
           (is_shared(p.a) || !f.a_staged) && (is_shared(p.b) || !f.b_staged);
  };
  for (int turn : {0, 1, 2}) {
    for (size_t row = 0; p.sum && turn < 2 && row < target.fragments.size(); ++row)
      if (fits(target.fragments[row])) return static_cast<int>(row);
    std::swap(p.i, p.j), std::swap(p.a, p.b);
  }
  return -1;
}

Arg stage_arg(Space space, int64_t size, int64_t depth, Fill fill) {
  const int64_t ints[] = {static_cast<int64_t>(space), size, depth, static_cast<int64_t>(fill)};
  const bool plain = depth == 1 && fill == Fill::Stores;
  return Arg::of(intern_arg(std::span(ints).first(plain ? 2 : 4)));
}

UOp ring_loop(UOp stage) {
  UOp loop;
  int folds = 0;
  for (UOp r : open_ranges(stage)) {
    const Role role = range_role(r);
    if (role == Role::Reduce) loop = r, ++folds;
    if (role == Role::Loop && !folds && (!loop || nest_order(loop) < nest_order(r))) loop = r;
  }
  return folds > 1 ? UOp() : loop;
}

std::vector<UOp> loops_around(UOp body, UOp loop) {
  std::vector<UOp> around;
  auto add = [&](UOp r) {
    if (is_loop(r) && !is_launched(r) && !std::ranges::count(around, r)) around.push_back(r);
  };
  for (UOp n : toposort(body)) {
    const std::span<Node* const> closed = closed_ranges(n);
    if (n->is(Op::Stage) || !std::ranges::count(closed, loop.get())) continue;
    for (UOp r : open_ranges(n)) add(r);
    for (Node* r : closed)
      if (nest_order(UOp(r)) < nest_order(loop)) add(UOp(r));
  }
  return around;
}

std::vector<std::string> Program::var_names() const {
  std::vector<std::string> names;
  for (UOp v : vars) names.push_back(v->arg.object->str);
  return names;
}

std::span<Node* const> closed_ranges(UOp n) {
  if (n->is(Op::Stage)) return n->src().subspan(2);
  if (n->is(Op::Reduce) || n->is(Op::End)) return n->src().subspan(1);
  return {};
}

UOp row_range(UOp stage) {
  const bool counted = stage->is(Op::Stage) && stage->nsrc == 3 && stage->src(1) == stage->src(2);
  return counted ? stage->src(2) : UOp();
}

std::vector<UOp> accumulated_ranges(UOp n) {
  std::vector<UOp> found;
  if (n->is(Op::Reduce))
    for (Node* r : closed_ranges(n))
      if (r->op == Op::Range && range_role(UOp(r)) == Role::Accumulate) found.emplace_back(r);
  return found;
}

namespace {

// The loops that lowering puts into one another for a Stage, a Reduce or an output.
void add_loops(UOp n, std::vector<UOp>& nest) {
  for (Node* r : closed_ranges(n))
    if (!n->is(Op::Reduce) || range_role(UOp(r)) != Role::Accumulate) nest.emplace_back(r);
  UOp value = n->is(Op::Stage) ? n->src(0) : n;
  if (n->is(Op::End) && n->src(0)->is(Op::Store)) value = n->src(0)->src(1);
  if (value != n)
    for (UOp r : accumulated_ranges(value)) nest.push_back(r);
}

UOp misplaced_in(std::span<const UOp> nest) {
  for (UOp r : nest)
    for (UOp other : nest)
      if ((r->src(0)->ranges & slot_bit(other)) && nest_order(other) >= nest_order(r)) return r;
  return {};
}

}  // namespace

UOp misplaced_loop(UOp root) {
  const std::vector<UOp> order = toposort(root);
  uint64_t tiles = 0, needed = 0;
  for (UOp n : order) {
    if (!n->is(Op::Range)) continue;
    needed |= n->src(0)->ranges;
    if (is_tile(range_role(n))) tiles |= slot_bit(n);
  }
  if (!needed) return {};
  std::vector<UOp> outputs, nest;
  for (UOp n : order) {
    if (n->is(Op::Range) && (n->src(0)->ranges & tiles)) return n;
    nest.clear();
    add_loops(n, n->is(Op::End) ? outputs : nest);
    if (UOp r = misplaced_in(nest)) return r;
  }
  return misplaced_in(outputs);  // all of them stand in one nest
}

}  // namespace mote

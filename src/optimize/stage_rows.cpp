// What a kernel stages or folds for one row is staged for several rows, so that every step of
// the work on a row becomes a nest of its own over those rows, to be tiled by itself.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

UOp with_value(UOp stage, UOp value, UOp place, std::span<const UOp> ranges, int64_t size) {
  std::vector<UOp> src{value, place};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::Stage, stage->dtype, src, stage_arg(Space::Local, size));
}

using Map = std::vector<std::pair<UOp, UOp>>;

// Fresh loops for the ranges that a stage is filled over.
std::vector<UOp> own_loops(UOp stage, int& next_slot, Map& map) {
  const std::span<Node* const> old = stage->src().subspan(2);
  std::vector<UOp> ranges(old.size());
  std::vector<size_t> from_outside(old.size());
  std::iota(from_outside.begin(), from_outside.end(), size_t{0});
  std::ranges::sort(from_outside, {}, [&](size_t i) { return range_slot(UOp(old[i])); });
  // The end of a loop may depend on one outside of it.
  for (size_t i : from_outside) {
    const UOp extent = substitute(old[i]->sources[0], map);
    ranges[i] = range(next_slot + static_cast<int>(i), extent, Role::Loop);
    map.emplace_back(UOp(old[i]), ranges[i]);
  }
  next_slot += static_cast<int>(old.size());
  return ranges;
}

bool shares_loops(UOp stage) {
  return std::ranges::any_of(stage->src().subspan(2),
                             [](Node* r) { return range_role(UOp(r)) == Role::Reduce; });
}

bool moves_with_loops(UOp stage) {
  return std::ranges::all_of(stage->src().subspan(2), [&](Node* r) {
    return (stage->src(0)->ranges & slot_bit(UOp(r))) != 0;
  });
}

// What is filled in the loops of a fold gets loops of its own, and the fold reads it.
UOp separate_folds(UOp body, int& next_slot) {
  while (true) {
    std::vector<UOp> order = toposort(body);
    auto it = std::ranges::find_if(
        order, [](UOp n) { return n->is(Op::Stage) && shares_loops(n); });
    if (it == order.end()) return body;
    UOp old = *it;
    Map map;
    const std::vector<UOp> ranges = own_loops(old, next_slot, map);
    UOp stage = with_value(old, substitute(old->src(0), map), substitute(old->src(1), map), ranges,
                           old->ints(1));
    UOp read = make(Op::Index, old->dtype, {stage, old->src(1)});
    Map whole{{old, stage}};
    // A value that is the same all along the row may be known outside the fold, too.
    if (moves_with_loops(old)) whole.emplace_back(old->src(0), read);
    body = substitute(body, whole);
  }
}

class Widener {
 public:
  Widener(UOp row, int64_t rows, int next_slot)
      : row_(row), rows_(rows), next_slot_(next_slot) {}

  UOp run(UOp body) {
    for (UOp n : toposort(body))
      if (n->is(Op::Stage)) around_ |= n->ranges;
    UOp wide = map_nodes("widen rows", body,
                         [this](UOp n, const Mapped& now) { return changed(n, now); });
    return known_ ? wide : UOp();
  }

 private:
  UOp row_;
  const int64_t rows_;
  int next_slot_;
  uint64_t around_ = 0;  // ranges that stages stand in
  bool known_ = true;    // the longest row

  // Loops whose extent says which of the rows they are for run as far as the longest row; this is
  // where each row goes on. By the loops they became.
  Map inside_;
  static constexpr int64_t kStep = 64;  // extents are multiples of this, to be cut into tiles

  bool depends(UOp n) const { return n->ranges & slot_bit(row_); }
  // The last round of a cut: what is staged has no room for a longer one.
  static bool has_variable(UOp extent) {
    const std::vector<UOp> order = toposort(extent);
    return std::ranges::any_of(order, [](UOp n) { return n->is(Op::Var); });
  }

  UOp longest(UOp loop) {
    UOp counted = loop->src(0);
    if (counted->is(Op::Min)) counted = counted->src(is_const(counted->src(0)) ? 1 : 0);
    Linear extent = linear(counted);
    const int64_t step = extent.coeff_of(row_);
    extent.add(row_, -step);
    extent.add(step > 0 ? step * (rows_ - 1) : 0);
    UOp most = build(extent);
    known_ &= extent.ok && !depends(most) && !has_variable(counted);
    if (!known_) return loop;
    UOp whole = simplify((most + (kStep - 1)) / kStep * kStep);
    const int64_t all = loop->src(0)->hi;
    if (whole->hi > all) whole = simplify(binary(Op::Min, whole, index(all)));
    UOp now = range(range_slot(loop), whole, range_role(loop));
    inside_.emplace_back(now, lt(now, loop->src(0)));
    return now;
  }

  // No read leaves its memory because a loop goes on beyond the end of a row.
  UOp inside_rows(UOp read) const {
    for (const auto& [loop, inside] : inside_)
      if (read->ranges & slot_bit(loop)) read = gated_read(read, inside);
    return read;
  }

  // Zero, or what changes no fold, beyond the end of a row.
  UOp masked(UOp n) {
    UOp value = n->src(0), inside = truth(true);
    for (const auto& [loop, row] : inside_)
      if (std::ranges::count(closed_ranges(n), loop.get())) inside = inside & row;
    if (inside->is_const(1)) return n;
    const bool sums = n->is(Op::Reduce) && static_cast<Op>(n->ints(0)) == Op::Add;
    if (sums && is_zero_beyond(value)) return n;
    UOp other = n->is(Op::Stage) ? zero_like(value)
                                 : fold_identity(static_cast<Op>(n->ints(0)), value->dtype);
    std::vector<Node*> src(n->src().begin(), n->src().end());
    UOp whole = where(inside, value, other);
    src[0] = whole.get();
    return with_src(n, src);
  }

  // What is staged is zero there already.
  bool is_zero_beyond(UOp value) const {
    if (value->is(Op::Mul)) return is_zero_beyond(value->src(0)) || is_zero_beyond(value->src(1));
    return value->is(Op::Index) && value->src(0)->is(Op::Stage) &&
           zeroed_.count(value->src(0).get());
  }
  std::unordered_set<const Node*> zeroed_;

  UOp changed(UOp n, const Mapped& now) {
    if (n->is(Op::Range) && n != row_ && depends(n->src(0))) return longest(n);
    if (n->is(Op::Index)) return widened_read(n, inside_rows(with_src(n, now.src)));
    if (!n->is(Op::Stage) && !n->is(Op::Reduce)) return {};
    UOp whole = with_src(n, now.src), cut = masked(whole);
    if (n->is(Op::Reduce)) return depends(n) && !(n->ranges & ~around_) ? staged(cut) : cut;
    if (!depends(n)) return cut;
    UOp stage = widened(cut);
    if (cut != whole) zeroed_.insert(stage.get());
    return stage;
  }

  UOp widened_read(UOp n, UOp now) const {
    if (!n->src(0)->is(Op::Stage) || !depends(n->src(0))) return now;
    Gated g = split_gate(now->src(1));
    UOp position = gated(g.valid, row_ * n->src(0)->ints(1) + g.idx);
    return make(Op::Index, now->dtype, {now->src(0), position});
  }

  UOp widened(UOp stage) {
    UOp copy = range(next_slot_++, index(rows_), Role::Loop);
    Map map{{row_, copy}};
    std::vector<UOp> ranges = own_loops(stage, next_slot_, map);
    ranges.insert(ranges.begin(), copy);
    const int64_t size = stage->ints(1);
    Gated g = split_gate(substitute(stage->src(1), map));
    return with_value(stage, substitute(stage->src(0), map), gated(g.valid, copy * size + g.idx),
                      ranges, size * rows_);
  }

  // The fold of a row, for all of them.
  UOp staged(UOp reduce) {
    UOp copy = range(next_slot_++, index(rows_), Role::Loop);
    Map map{{row_, copy}};
    UOp stage = with_value(reduce, substitute(reduce, map), copy, {&copy, 1}, rows_);
    return make(Op::Index, reduce->dtype, {stage, row_});
  }
};

int loops_needed(UOp body) {
  int n = 1;
  for (UOp u : toposort(body)) {
    if (u->is(Op::Stage)) n += 2 * static_cast<int>(u->nsrc);
    n += u->is(Op::Reduce);
  }
  return n;
}

}  // namespace

UOp apply_stage_rows(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot);
  if (range_role(r) != Role::Loop) return refuse(refused, "not an output loop");
  const std::vector<UOp> order = toposort(body);
  auto staged = [&](UOp n) { return n->is(Op::Stage) && (n->ranges & slot_bit(r)); };
  if (std::ranges::none_of(order, staged)) return refuse(refused, "nothing is staged in this loop");
  if (ranges.next_slot + loops_needed(body) > kMostRanges)
    return refuse(refused, "too many ranges");
  int next_slot = ranges.next_slot;
  body = separate_folds(body, next_slot);
  UOp split = cut_range(body, a, Ranges(body), refused, true);
  if (!split) return {};
  UOp row = Ranges(split).find(next_slot);
  UOp wide = Widener(row, a.amount, next_slot + 1).run(split);
  return wide ? simplify(wide) : refuse(refused, "the longest row is not known");
}

void propose_stage_rows(const Site& site, std::vector<Action>& out) {
  if (!site.stages) return;
  for (UOp r : site.of_role(Role::Loop))
    for_cuts(r->src(0)->hi, [&](int64_t amount) {
      out.push_back({Action::StageRows, range_slot(r), amount});
    });
}

}  // namespace mote

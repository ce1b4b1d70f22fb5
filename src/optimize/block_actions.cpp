// Actions of targets whose workers stand in blocks.
#include <algorithm>
#include <array>
#include <bit>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

UOp apply_local(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  return launched(body, ranges.find(a.slot), Role::Local, refused);
}

void propose_local(const Site& site, std::vector<Action>& out) {
  if (!site.target.workers) return;
  for (UOp r : site.of_role(Role::Loop)) out.push_back({Action::Local, range_slot(r)});
}

UOp apply_group(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot);
  if (range_role(r) != Role::Reduce) return refuse(refused, "not a reduce loop");
  if (!is_const(r->src(0))) return refuse(refused, "its extent is not a number");
  if (fills_stage(body, r)) return refuse(refused, "something is staged over it");
  return with_role(body, r, Role::Group);
}

void propose_group(const Site& site, std::vector<Action>& out) {
  if (!site.target.workers) return;
  for (UOp r : site.of_role(Role::Reduce)) out.push_back({Action::Group, range_slot(r)});
}

// What is staged by workers together is in memory of their block.
static UOp with_shared_stages(UOp body) {
  return map_nodes("share stages", body, [](UOp n, const Mapped& now) {
    if (!n->is(Op::Stage) || std::ranges::none_of(closed_ranges(n), [](Node* r) {
          return is_worker(range_role(UOp(r)));
        }))
      return UOp();
    return arena().make(Op::Stage, n->dtype, now.src,
                        stage_arg(Space::Shared, n->ints(1), depth_of(n), fill_of(n)));
  });
}

UOp apply_share(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot), w = ranges.find(static_cast<int>(a.amount));
  if (!w || !is_worker(range_role(w))) return refuse(refused, text("no workers ", a.amount));
  if (range_role(r) != Role::Loop && range_role(r) != Role::Reduce)
    return refuse(refused, "not a plain loop");
  if (!is_const(r->src(0))) return refuse(refused, "its extent is not a number");
  for (UOp n : toposort(body)) {
    const std::span<Node* const> closed = closed_ranges(n);
    if (std::ranges::count(closed, r.get())) {
      if (n->is(Op::End)) return refuse(refused, "an output stands in it");
      for (uint32_t i = 0; i < n->nsrc - closed.size(); ++i)
        if (n->src(i)->ranges & slot_bit(w)) return refuse(refused, "these workers are at it");
    }
    if (std::ranges::count(closed, w.get()) && (n->ranges & slot_bit(r)))
      return refuse(refused, "these workers do other work for each of its positions");
  }
  const int64_t n = r->src(0)->hi, each = w->src(0)->hi, rounds = ceil_div(n, each);
  std::vector<UOp> both{w};
  UOp value = w;
  if (rounds > 1) {
    both.insert(both.begin(), range(range_slot(r), index(rounds), range_role(r)));
    value = both[0] * each + w;
  }
  UOp inside = n % each ? lt(value, index(n)) : UOp();
  return simplify(with_shared_stages(change_range(body, r, value, both, inside)));
}

void propose_share(const Site& site, std::vector<Action>& out) {
  for (UOp w : site.ranges.all)
    for (UOp r : site.ranges.all)
      if (is_worker(range_role(w)) && is_plain(r))
        out.push_back({Action::Share, range_slot(r), range_slot(w)});
}

// The only Stage that is filled over this range.
static UOp stage_over(UOp body, UOp r, std::string* refused) {
  UOp found;
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Stage) || !std::ranges::count(closed_ranges(n), r.get())) continue;
    if (found) return refuse(refused, "several stages are filled over it");
    found = n;
  }
  return found ? found : refuse(refused, "nothing is staged over it");
}

// Every place p of the stage becomes moved(p).
static UOp with_places(UOp body, UOp stage, int64_t size, auto moved) {
  auto at = [&](Node* position) {
    const Gated p = split_gate(UOp(position));
    return gated(p.valid, moved(p.idx));
  };
  return simplify(map_nodes("move places", body, [&](UOp n, const Mapped& now) {
    std::vector<UOp> src(now.src.begin(), now.src.end());
    const bool reads = n->is(Op::Index) && n->src(0) == stage;
    if (n != stage && !reads) return UOp();
    src[1] = at(now.src[1]);
    const auto space = static_cast<Space>(stage->ints(0));
    return make(n->op, n->dtype, src,
                reads ? n->arg : stage_arg(space, size, depth_of(stage), fill_of(stage)));
  }));
}

static UOp filled_by(UOp body, UOp stage, int64_t depth, Fill fill) {
  return map_nodes("fill otherwise", body, [&](UOp n, const Mapped& now) {
    if (n != stage) return UOp();
    const auto space = fill == Fill::Boxes ? Space::Shared : static_cast<Space>(n->ints(0));
    const Arg arg = stage_arg(space, n->ints(1), depth, fill);
    return arena().make(Op::Stage, n->dtype, now.src, arg);
  });
}

// From one position of the range to the next, in places of the stage; 0: refused.
static int64_t row_of(UOp stage, UOp r, std::string* refused) {
  const int64_t row = stride_of(split_gate(stage->src(1)).idx, r).value_or(0);
  if (row > 1) return row;
  refuse(refused, "its positions are not rows of the stage");
  return 0;
}

UOp apply_pad(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot), stage = stage_over(body, r, refused);
  const int64_t row = stage ? row_of(stage, r, refused) : 0, more = a.amount;
  if (!row) return {};
  if (more < 1 || more > row) return refuse(refused, "more places than a row has");
  const int64_t rows = ceil_div(stage->ints(1), row);
  return with_places(body, stage, rows * (row + more), [=](UOp p) { return p + p / row * more; });
}

UOp apply_swizzle(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot), stage = stage_over(body, r, refused);
  const int64_t row = stage ? row_of(stage, r, refused) : 0, piece = a.amount;
  if (!row) return {};
  if (piece < 1 || row % piece || row == piece || !std::has_single_bit(uint64_t(row / piece)))
    return refuse(refused, "a row has no 2^n such pieces");
  const int64_t rows = ceil_div(stage->ints(1), row), pieces = row / piece;
  return with_places(body, stage, rows * row, [=](UOp p) {
    UOp other = binary(Op::Xor, p % row / piece, p / row % pieces);
    return p / row * row + other * piece + p % piece;
  });
}

constexpr int64_t kDeepest = 8;

UOp apply_deep(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp stage = stage_over(body, ranges.find(a.slot), refused);
  if (!stage) return {};
  if (a.amount < 2 || a.amount > kDeepest) return refuse(refused, "2 to 8 memories");
  return filled_by(body, stage, a.amount, fill_of(stage));
}

UOp apply_copy(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp stage = stage_over(body, ranges.find(a.slot), refused);
  return stage ? filled_by(body, stage, depth_of(stage), Fill::Copies) : UOp();
}

UOp apply_box(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp stage = stage_over(body, ranges.find(a.slot), refused);
  if (!stage) return {};
  if (a.amount < 2 || a.amount > kDeepest) return refuse(refused, "2 to 8 memories");
  return filled_by(body, stage, a.amount, Fill::Boxes);
}

static void propose_of_stages(const Site& site, std::vector<Action>& out, Action::Kind kind,
                              std::span<const int64_t> amounts) {
  if (!site.target.workers || !site.stages) return;
  for (UOp r : site.ranges.all)
    if (fills_stage(site.body, r))
      for (int64_t amount : amounts) out.push_back({kind, range_slot(r), amount});
}
void propose_pad(const Site& site, std::vector<Action>& out) {
  propose_of_stages(site, out, Action::Pad, std::array<int64_t, 2>{1, 4});
}
void propose_swizzle(const Site& site, std::vector<Action>& out) {
  propose_of_stages(site, out, Action::Swizzle, std::array<int64_t, 3>{1, 4, 8});
}
void propose_deep(const Site& site, std::vector<Action>& out) {
  propose_of_stages(site, out, Action::Deep, std::array<int64_t, 3>{2, 3, 4});
}
void propose_box(const Site& site, std::vector<Action>& out) {
  if (site.target.box) propose_of_stages(site, out, Action::Box, std::array<int64_t, 2>{2, 3});
}
void propose_copy(const Site& site, std::vector<Action>& out) {
  if (site.target.copies) propose_of_stages(site, out, Action::Copy, std::array<int64_t, 1>{0});
}

UOp apply_fragment(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  if (ranges.next_slot >= kMostRanges) return refuse(refused, "too many ranges");
  if (a.amount < 1) return refuse(refused, "no lanes");
  std::vector<int> slots{a.slot};
  slots.insert(slots.end(), a.over.begin(), a.over.end());
  for (int slot : slots) {
    UOp r = ranges.find(slot);
    if (!r || !is_plain(r)) return refuse(refused, "not a plain loop");
    body = with_role(body, r, Role::Fragment);
  }
  UOp lane = range(ranges.next_slot, index(a.amount), Role::Local);
  return map_nodes("add lanes", body, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::End)) return UOp();
    std::vector<UOp> src(now.src.begin(), now.src.end());
    src.push_back(lane);
    return make(Op::End, DType::none, src);
  });
}

void propose_fragment(const Site& site, std::vector<Action>& out) {
  auto has = [](UOp r, int64_t size) { return r->src(0)->hi == size; };
  for (const Fragment& f : site.target.fragments)
    for (UOp i : site.of_role(Role::Loop))
      for (UOp j : site.of_role(Role::Loop))
        for (UOp k : site.of_role(Role::Reduce))
          if (has(i, f.rows) && has(j, f.columns) && has(k, f.depth))
            out.push_back({
                Action::Fragment,
                range_slot(i),
                f.lanes,
                Role::Loop,
                {range_slot(j), range_slot(k)}
            });
}

}  // namespace mote

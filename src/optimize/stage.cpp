// Staging: the reads of one memory, or the sums, held over copies of some ranges.
#include <algorithm>
#include <numeric>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;

UOp only_user(std::span<const UOp> order, UOp value) {
  UOp found;
  for (UOp n : order) {
    if (!std::ranges::count(n->src(), value.get())) continue;
    if (found) return {};
    found = n;
  }
  return found;
}

// Values made of a read that depend on no range the read does not depend on, each of the one before.
// Products of tiles take what was read.
std::vector<UOp> values_alike(UOp read, std::span<const UOp> order) {
  const std::vector<UOp> ranges = open_ranges(read);
  std::vector<UOp> values{read};
  if (std::ranges::count(ranges, Role::Fragment, range_role)) return values;
  while (true) {
    UOp user = only_user(order, values.back());
    if (!user || !has(user->op, Alu) || (user->ranges & ~read->ranges)) return values;
    if (user->dtype == DType::index || user->dtype == DType::boolean) return values;
    values.push_back(user);
  }
}

// What the copy of a range that fills a stage is: to be cut anew, but for lanes.
Role copied_role(Role role) { return role == Role::Vector ? role : Role::Loop; }

struct Staged {
  UOp read;                 // empty: a sum is staged
  std::vector<UOp> values;  // any of these, rather the last; none: refused
};

Staged the_read(UOp body, int param, uint64_t slots, std::string* refused) {
  UOp read = only_read(body, param, slots, refused);
  return {read, read ? values_alike(read, toposort(body)) : std::vector<UOp>()};
}

Staged the_sum(UOp body, uint64_t slots, std::string* refused) {
  UOp sum;
  auto no = [&](const char* why) { return refuse(refused, why), Staged(); };
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Reduce)) continue;
    if (sum) return no("several reduces");
    sum = n;
  }
  if (!sum) return no("no reduce");
  if ((sum->ranges & slots) != slots) return no("the sum does not depend on all of these");
  return {{}, {sum}};
}

// One axis of a stage: a range, or several that together move a read over one stretch of memory.
struct Axis {
  std::vector<UOp> ranges;
  int64_t size = 0;
  UOp at;  // where on the axis a reader looks
  // Of joined ranges: the read is at rest + step * at, or else `unit` is this much ahead of a place.
  UOp rest = {}, unit = {}, ahead = {};
  int64_t step = 1;
  bool joined() const { return ranges.size() > 1; }
};

// None: refused.
std::vector<Axis> axes_of(const Action& a, const Ranges& ranges, std::string* refused) {
  std::vector<Axis> axes;
  std::vector<UOp> seen;
  if (a.over.empty()) refuse(refused, "no ranges to stage over");
  for (int item : a.over) {
    const int slot = item < 0 ? ~item : item;
    UOp r = ranges.find(slot);
    std::string why;
    if (!r)
      why = text("no range of slot ", slot);
    else if (std::ranges::count(seen, r))
      why = text("slot ", slot, " twice");
    else if (most_positions(r) == 0)
      why = "a size that is not constant";
    else if (item < 0 && axes.empty())
      why = "nothing to join it with";
    if (!why.empty()) return refuse(refused, why), std::vector<Axis>();
    seen.push_back(r);
    if (item >= 0) axes.push_back({{}, most_positions(r), r});
    axes.back().ranges.push_back(r);
  }
  return axes;
}

// Runs to its end wherever it is not skipped.
bool ends_alike(UOp r) {
  const UOp extent = r->src(0);
  const bool skipped = extent->is(Op::Where) && is_zero(extent->src(2));
  return !(skipped ? extent->src(1) : extent)->ranges;
}

// The furthest place of a position that is linear in its ranges and starts at 0; -1: it is not, or
// ranges end where others say, so that it is not reached beside all positions of these.
int64_t furthest(UOp position) {
  int64_t far = 0;
  std::vector<std::pair<UOp, UOp>> zeros;
  for (UOp r : open_ranges(position)) {
    const int64_t stride = stride_of(position, r).value_or(-1), size = most_positions(r);
    if (stride < 0 || size == 0 || !ends_alike(r)) return -1;
    far += stride * (size - 1);
    zeros.emplace_back(r, index(0));
  }
  return simplify(substitute(position, zeros))->is_const(0) ? far : -1;
}

// A read never leaves its memory, and where it happens it happens for all positions of the ranges
// that are not joined: the stretch is as long as what the memory has beyond the furthest of these.
bool measure(Axis& axis, UOp read, const Ranges& ranges, std::string* refused) {
  auto no = [&](const char* why) { return refuse(refused, why), false; };
  if (!read) return no("sums have no ranges to join");
  const Gated position = split_gate(read->src(1));
  if (!position.valid->is_const(1)) return no("the read has a gate");
  uint64_t joined = 0;
  std::vector<int64_t> strides;
  axis.step = 0;
  axis.rest = position.idx;
  for (UOp r : axis.ranges) {
    strides.push_back(stride_of(position.idx, r).value_or(0));
    if (!strides.back()) return no("the read is not linear in joined ranges");
    axis.step = std::gcd(axis.step, strides.back());
    joined |= slot_bit(r);
    axis.rest = axis.rest + r * -strides.back();
  }
  axis.rest = simplify(axis.rest);
  for (UOp r : ranges.all)
    if (r->src(0)->ranges & ~joined) return no("the extent of a loop depends on other ranges");
  const int64_t far = furthest(axis.rest), places = read->src(0)->ints(1) - far;
  if (far < 0 || places < 1) return no("joined ranges do not move over one stretch of memory");
  axis.size = (places - 1) / axis.step + 1;
  axis.at = index(0);
  for (size_t i = 0; i < strides.size(); ++i)
    axis.at = axis.at + axis.ranges[i] * (strides[i] / axis.step);
  return true;
}

// The ranges move the read by a sum of steps that leaves out no place, so that copies read what is
// read anyway. The finest of them is a place without the others.
bool combine(Axis& axis, UOp read, const Ranges& ranges) {
  const UOp position = split_gate(read->src(1)).idx;
  std::vector<std::pair<int64_t, UOp>> steps;
  axis.step = 0;
  uint64_t joined = 0;
  for (UOp r : axis.ranges) joined |= slot_bit(r);
  for (UOp r : ranges.all)
    if (r->src(0)->ranges & joined) return false;  // not all are read
  for (UOp r : axis.ranges) {
    steps.emplace_back(stride_of(position, r).value_or(0), r);
    if (!steps.back().first || !is_const(r->src(0))) return false;
    axis.step = std::gcd(axis.step, steps.back().first);
  }
  std::ranges::stable_sort(steps, {}, [](const auto& s) { return std::llabs(s.first); });
  if (steps[0].first < 0) axis.step = -axis.step;
  if (steps[0].first != axis.step) return false;
  UOp others = index(0);
  int64_t low = 0;
  axis.size = 1;
  for (auto [stride, r] : steps) {
    const int64_t by = stride / axis.step, far = by * (r->src(0)->arg.i - 1);
    if (std::llabs(by) > axis.size) return false;
    axis.size += std::llabs(far);
    low += std::min<int64_t>(far, 0);
    if (r != steps[0].second) others = others + r * by;
  }
  axis.unit = steps[0].second;
  axis.ahead = others * -1 + low;
  axis.at = simplify(axis.unit - axis.ahead);
  return true;
}

// Of nests below the value that will be there twice, once for the copies: they get their own.
int loops_copied(UOp value, uint64_t slots) {
  int loops = 0;
  for (UOp n : toposort(value)) {
    if (!(n->ranges & slots)) continue;
    if (n->is(Op::Stage)) loops += static_cast<int>(n->nsrc) - 2;
    if (n->is(Op::Reduce)) loops += static_cast<int>(n->nsrc) - 1;
  }
  return loops;
}

UOp with_stage(UOp body, const Staged& staged, std::span<const Axis> axes, int64_t size,
               int next_slot, std::string* refused) {
  UOp place = index(0), position = index(0), moved = staged.read;
  std::vector<std::pair<UOp, UOp>> copies, units;
  std::vector<UOp> src{UOp(), place};
  int64_t step = size;
  uint64_t joined = 0;
  for (const Axis& axis : axes) {
    const Role role = axis.joined() ? Role::Loop : copied_role(range_role(axis.ranges[0]));
    const UOp extent = axis.joined() ? UOp() : axis.ranges[0]->src(0);
    const bool varies = extent && !extent->ranges && extent->hi == axis.size;
    UOp copy = range(next_slot++, varies ? extent : index(axis.size), role);
    src.push_back(copy);
    step /= axis.size;
    place = place + copy * step;
    position = position + axis.at * step;
    if (!axis.joined()) {
      copies.emplace_back(axis.ranges[0], copy);
      continue;
    }
    for (UOp r : axis.ranges) joined |= slot_bit(r);
    if (axis.unit) {
      units.emplace_back(axis.unit, copy + axis.ahead);
      continue;
    }
    moved = make(Op::Index, moved->dtype, {moved->src(0), axis.rest + copy * axis.step});
  }
  // A copy runs over all positions, where a loop may be skipped for some.
  UOp runs = truth(true);
  for (const auto& [r, copy] : copies) runs = runs & runs_where(r);
  auto filled = [&](UOp of) {
    std::pair<UOp, UOp> map[] = {
        {staged.read, moved}
    };
    if (joined) of = substitute(of, map);
    return simplify(substitute(gated_reads(substitute(of, units), runs, 0), copies));
  };
  // What else is made of the read may depend on joined ranges in other ways.
  std::vector<UOp> values = staged.values;
  while (!values.empty() && ((src[0] = filled(values.back()))->ranges & joined)) values.pop_back();
  if (values.empty()) return refuse(refused, "the read depends on joined ranges in other ways");
  const UOp value = values.back();
  src[1] = place;
  UOp stage = make(Op::Stage, value->dtype, src, stage_arg(Space::Local, size));
  std::pair<UOp, UOp> map[] = {
      {value, make(Op::Index, value->dtype, {stage, position})}
  };
  return simplify(substitute(body, map));
}

}  // namespace

std::vector<UOp> reads_of(UOp body, int param, uint64_t slots, std::string* refused) {
  const std::vector<UOp> order = toposort(body);
  std::vector<UOp> reads;
  auto no = [&](std::string why) { return refuse(refused, std::move(why)), std::vector<UOp>(); };
  auto is_in_it = [&](UOp n) {
    return n->is(Op::Index) && n->src(0)->is(Op::Param) && n->src(0)->ints(0) == param;
  };
  for (UOp n : order) {
    if (n->is(Op::Store) && is_in_it(n->src(0))) return no("the memory is written by this kernel");
    if (n->is(Op::Fetch) && is_in_it(n->src(0))) return no("it is fetched ahead");
    if (is_in_it(n) && (n->ranges & slots) == slots) reads.push_back(n);
  }
  return reads.empty() ? no(text("no read of ", param, " depends on all of these")) : reads;
}

UOp only_read(UOp body, int param, uint64_t slots, std::string* refused) {
  const std::vector<UOp> reads = reads_of(body, param, slots, refused);
  if (reads.size() > 1) return refuse(refused, text("several reads of ", param));
  return reads.empty() ? UOp() : reads[0];
}

// With joined axes of the one kind or the other.
static UOp staged_over(UOp body, const Staged& staged, std::vector<Axis> axes, bool combined,
                       const Ranges& ranges, std::string* refused) {
  int64_t size = 1;
  const bool several = std::ranges::count_if(axes, &Axis::joined) > 1;
  for (Axis& axis : axes) {
    if (axis.joined() && combined && !(staged.read && combine(axis, staged.read, ranges)))
      return {};
    if (axis.joined() && !combined && several)
      return refuse(refused, "only one axis of ranges that are joined unevenly");
    if (axis.joined() && !combined && !measure(axis, staged.read, ranges, refused)) return {};
    size *= axis.size;
    if (size > kMostElements) return refuse(refused, "too much memory");
  }
  return with_stage(body, staged, axes, size, ranges.next_slot, refused);
}

UOp apply_stage(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  const std::vector<Axis> axes = axes_of(a, ranges, refused);
  if (axes.empty()) return {};
  uint64_t slots = 0;
  for (const Axis& axis : axes)
    for (UOp r : axis.ranges) slots |= slot_bit(r);
  const Staged staged = a.slot == Action::kSum ? the_sum(body, slots, refused)
                                               : the_read(body, a.slot, slots, refused);
  if (staged.values.empty()) return {};
  const int loops = static_cast<int>(axes.size()) + loops_copied(staged.values.back(), slots);
  if (ranges.next_slot + loops > kMostRanges) return refuse(refused, "too many ranges");
  if (UOp next = staged_over(body, staged, axes, true, ranges, refused)) return next;
  if (std::ranges::none_of(axes, &Axis::joined)) return {};
  return staged_over(body, staged, axes, false, ranges, refused);
}

namespace {

// The same of all loops, with two as one axis; and of these two alone.
void add_joined(int slot, std::span<const UOp> loops, std::span<const int> tiles,
                std::pair<UOp, UOp> pair, std::vector<Action>& out) {
  const int joined[] = {range_slot(pair.first), ~range_slot(pair.second)};
  std::vector<int> over;
  for (UOp r : loops)
    if (r != pair.first && r != pair.second) over.push_back(range_slot(r));
  for (bool whole : {true, false}) {
    if (!whole) over.clear();
    over.insert(over.end(), std::begin(joined), std::end(joined));
    over.insert(over.end(), tiles.begin(), tiles.end());
    out.push_back({Action::Stage, slot, 0, Role::Loop, over});
  }
}

// Over all tile ranges that the value depends on, and any of its loops: loops outside, tiles
// inside, and the other way round.
void add_stages(int slot, UOp value, std::vector<Action>& out) {
  constexpr size_t kMost = 5;
  std::vector<UOp> loops;
  std::vector<int> tiles;
  for (UOp r : open_ranges(value)) {
    if (is_tile(range_role(r)))
      tiles.push_back(range_slot(r));
    else if (is_plain(r))
      loops.push_back(r);
  }
  std::ranges::stable_sort(loops, {}, [](UOp r) { return range_role(r) == Role::Reduce; });
  if (loops.size() > kMost) loops.erase(loops.begin(), loops.end() - kMost);
  for (uint32_t chosen = 0; chosen < 1u << loops.size(); ++chosen) {
    std::vector<int> over;
    for (size_t i = 0; i < loops.size(); ++i)
      if (chosen >> i & 1) over.push_back(range_slot(loops[i]));
    over.insert(over.end(), tiles.begin(), tiles.end());
    if (over.empty()) continue;
    out.push_back({Action::Stage, slot, 0, Role::Loop, over});
    if (over.size() < 2) continue;
    std::ranges::reverse(over);
    out.push_back({Action::Stage, slot, 0, Role::Loop, over});
  }
  for (UOp a : loops)
    for (UOp b : loops)
      if (a != b && slot != Action::kSum) add_joined(slot, loops, tiles, {a, b}, out);
}

}  // namespace

void propose_stage(const Site& site, std::vector<Action>& out) {
  for (UOp place : site.places) add_stages(param_of(place), place, out);
  if (site.sum) add_stages(Action::kSum, site.sum, out);
}

}  // namespace mote

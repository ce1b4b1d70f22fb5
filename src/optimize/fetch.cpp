// Fetching: what is read later is asked for now, all that the next position of a loop reads, or
// what lies ahead in a stream.
#include <algorithm>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr int64_t kMostLines = 32;

std::vector<UOp> in_order(std::vector<UOp> loops) {
  std::ranges::sort(loops, {}, nest_order);
  return loops;
}

// The loops that all outputs stand in, outermost first; none: some stands in others.
std::vector<UOp> loops_of_outputs(UOp body) {
  std::vector<UOp> loops;
  for (Node* end : body->src()) {
    if (!UOp(end)->src(0)->is(Op::Store)) continue;
    std::vector<UOp> around;
    for (Node* r : end->src())
      if (is_loop(UOp(r))) around.emplace_back(r);
    around = in_order(around);
    if (end == body->src()[0]) loops = around;
    if (loops != around) return {};
  }
  return loops;
}

// The loops that a fold, or what fills a stage, stands in and those it runs over; none: it stands
// in a loop that is not the outputs', or accumulates.
std::vector<UOp> loops_of_nest(UOp nest, std::span<const UOp> outputs) {
  std::vector<UOp> loops;
  auto stands_in = [&](UOp r) { return (nest->ranges & slot_bit(r)) != 0; };
  for (UOp r : open_ranges(nest))
    if (is_loop(r) && !std::ranges::count(outputs, r)) return {};
  for (Node* r : closed_ranges(nest))
    if (range_role(UOp(r)) == Role::Accumulate) return {};
  for (size_t n = outputs.size(); n-- > 0;)
    if (!loops.empty() || stands_in(outputs[n])) loops.push_back(outputs[n]);
  for (Node* r : closed_ranges(nest))
    if (is_loop(UOp(r))) loops.emplace_back(r);
  return in_order(loops);
}

// The loops that the fetches stand in: the outputs', or those of the nest that runs over a slot.
std::vector<UOp> loops_around(UOp body, std::span<const int> over) {
  const std::vector<UOp> outputs = loops_of_outputs(body);
  auto runs_over = [&](Node* r) { return range_slot(UOp(r)) == over[0]; };
  if (over.empty() || std::ranges::count(outputs, over[0], range_slot)) return outputs;
  for (UOp n : toposort(body))
    if ((n->is(Op::Reduce) || n->is(Op::Stage)) && std::ranges::any_of(closed_ranges(n), runs_over))
      return loops_of_nest(n, outputs);
  return {};
}

// A part of memory: its first place and how many follow.
struct Stretch {
  UOp start;
  int64_t size = 0;  // 0: there are gaps
};

// What a position runs over when some of its ranges do.
Stretch stretch_of(UOp position, std::span<const UOp> moved_by) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  std::vector<std::pair<UOp, UOp>> zeros;
  for (UOp r : moved_by) {
    steps.emplace_back(stride_of(position, r).value_or(0), most_positions(r));
    zeros.emplace_back(r, index(0));
  }
  std::ranges::sort(steps);
  int64_t size = 1;
  for (auto [step, count] : steps) {
    if (step != size) return {};
    size *= count;
  }
  return {simplify(substitute(position, zeros)), size};
}

// What one position of a loop, the last of those around, reads. A gate may hide some of it, as it
// does where loops go beyond the end of a row: no more than to the next position's part.
Stretch stretch_read(UOp read, std::span<const UOp> around, const Ranges& ranges) {
  UOp position = split_gate(read->src(1)).idx;
  std::vector<UOp> inside;
  for (UOp r : ranges.all)
    if ((ranges_in(position) & slot_bit(r)) && !std::ranges::count(around, r)) inside.push_back(r);
  Stretch part = stretch_of(position, inside);
  const int64_t step = part.size ? stride_of(part.start, around.back()).value_or(0) : 0;
  if (position != read->src(1) && step > 0) part.size = std::min(part.size, step);
  return part;
}

// The stretch that is read, where all reads are of one; of size 0: refused.
Stretch only_stretch(std::span<const UOp> reads, std::span<const UOp> around, const Ranges& ranges,
                     std::string* refused) {
  Stretch all;
  for (UOp read : reads) {
    const Stretch part = stretch_read(read, around, ranges);
    if (!part.size) return refuse(refused, "what is read is not one stretch of memory"), Stretch();
    if (all.size && (part.start != all.start || part.size != all.size))
      return refuse(refused, "reads of several stretches of memory"), Stretch();
    all = part;
  }
  return all;
}

// How often a nest is run through, and which time this is.
struct Rounds {
  int64_t count = 1;  // 0: not known
  UOp number = index(0);
  explicit Rounds(std::span<const UOp> nest) {
    for (UOp r : nest) count *= most_positions(r), number = number * most_positions(r) + r;
  }
};

UOp with_effect(UOp body, UOp effect) {
  std::vector<UOp> effects(body->src().begin(), body->src().end());
  effects.push_back(effect);
  return make(Op::Sink, DType::none, effects, body->arg);
}

}  // namespace

UOp apply_fetch(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  if (a.over.size() > 1) return refuse(refused, "one nest at most");
  const std::vector<UOp> nest = loops_around(body, a.over);
  if (nest.empty()) return refuse(refused, "no such nest, or not right in the loops of outputs");
  const auto loop = std::ranges::find(nest, static_cast<int>(a.amount), range_slot);
  if (loop == nest.end()) return refuse(refused, "not a loop that all outputs stand in");
  const std::vector<UOp> reads = reads_of(body, a.slot, slot_bit(*loop), refused);
  if (reads.empty()) return {};
  const Stretch part = only_stretch(reads, {nest.begin(), loop + 1}, ranges, refused);
  if (!part.size) return {};
  const std::optional<int64_t> step = stride_of(part.start, *loop);
  const Rounds rounds({loop + 1, nest.end()});
  if (!step || !rounds.count) return refuse(refused, "steps or sizes that are not constant");
  const DType dtype = reads[0]->dtype;
  const int64_t line = kCacheLine / size_of(dtype), all = rounds.count * line;
  const int64_t lines = ceil_div(part.size, all);
  if (2 * part.size <= all || lines > kMostLines)
    return refuse(refused, text("half a line to ", kMostLines, " for each round, not ",
                                static_cast<double>(part.size) / static_cast<double>(all)));
  if (ranges.next_slot >= kMostRanges) return refuse(refused, "too many ranges");

  UOp of_round = range(ranges.next_slot, index(lines), Role::Upcast);
  UOp within = (lines > 1 ? rounds.number * lines + of_round : rounds.number) * line;
  // The last line again and again costs nothing.
  if (lines * all > part.size) within = binary(Op::Min, within, index(part.size - 1));
  UOp place = make(Op::Index, dtype, {reads[0]->src(0), simplify(part.start + *step + within)});
  // What several passes run over would drive out of the nearest cache what the present one needs.
  const int64_t cache = reads.size() > 1 ? 1 : 0;
  std::vector<UOp> end{make(Op::Fetch, DType::none, {place}, Arg::of(cache))};
  end.insert(end.end(), nest.begin(), nest.end());
  if (lines > 1) end.push_back(of_round);
  return with_effect(body, make(Op::End, DType::none, end));
}

// In the outputs' nest, and in that of each fold.
void propose_fetch(const Site& site, std::vector<Action>& out) {
  for (UOp place : site.places)
    for (UOp r : open_ranges(place)) {
      if (is_tile(range_role(r)) || range_role(r) == Role::Reduce) continue;
      out.push_back({Action::Fetch, param_of(place), range_slot(r)});
      for (UOp k : site.of_role(Role::Reduce))
        out.push_back(
            {Action::Fetch, param_of(place), range_slot(r), Role::Loop, {range_slot(k)}});
    }
}

UOp apply_ahead(UOp body, const Action& a, const Ranges&, std::string* refused) {
  UOp read = only_read(body, a.slot, 0, refused);
  if (!read) return {};
  const int64_t element = size_of(read->dtype);
  UOp place = split_gate(read->src(1)).idx;
  std::vector<UOp> around;
  int64_t vector = 0;
  for (UOp r : open_ranges(place)) {
    if (range_role(r) != Role::Vector) {
      around.push_back(r);
      continue;
    }
    if (stride_of(place, r) == 1) vector = most_positions(r) * element;
    std::pair<UOp, UOp> first[] = {{r, index(0)}};
    place = substitute(place, first);
  }
  if (vector < kCacheLine) return refuse(refused, "read by less than lines of memory");
  if (a.amount < kCacheLine || a.amount % element)
    return refuse(refused, text("some lines ahead, not ", a.amount, " bytes"));
  UOp at = make(Op::Index, read->dtype, {read->src(0), simplify(place + a.amount / element)});
  around.insert(around.begin(), make(Op::Fetch, DType::none, {at}, Arg::of(int64_t{1})));
  return with_effect(body, make(Op::End, DType::none, around));
}

void propose_ahead(const Site& site, std::vector<Action>& out) {
  for (UOp place : site.places) out.push_back({Action::Ahead, param_of(place), 4096});
}

}  // namespace mote

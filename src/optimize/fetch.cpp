// Fetching: what the next position of a loop reads is asked for while this one is worked on.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr int64_t kLineBytes = 64, kMostLines = 32;

// The loops that all outputs stand in, outermost first; none: some stands in others.
std::vector<UOp> loops_of_outputs(UOp body) {
  std::vector<UOp> loops;
  auto is_loop = [](Node* r) { return r->op == Op::Range && !is_tile(range_role(UOp(r))); };
  for (Node* end : body->src()) {
    std::vector<UOp> around;
    for (Node* r : end->src())
      if (is_loop(r)) around.emplace_back(r);
    std::ranges::sort(around, {}, nest_order);
    if (end == body->src()[0]) loops = around;
    if (loops != around) return {};
  }
  return loops;
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

// What one position of a loop, the last of those around, reads.
Stretch stretch_read(UOp read, std::span<const UOp> around, const Ranges& ranges) {
  const Gated place = split_gate(read->src(1));
  if (!place.valid->is_const(1)) return {};
  std::vector<UOp> inside;
  for (UOp r : ranges.all)
    if ((ranges_in(place.idx) & slot_bit(r)) && !std::ranges::count(around, r)) inside.push_back(r);
  return stretch_of(place.idx, inside);
}

// How often a nest is run through, and which time this is.
struct Rounds {
  int64_t count = 1;  // 0: not known
  UOp number = index(0);
  explicit Rounds(std::span<const UOp> nest) {
    for (UOp r : nest) count *= most_positions(r), number = number * most_positions(r) + r;
  }
};

}  // namespace

UOp apply_fetch(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  const std::vector<UOp> nest = loops_of_outputs(body);
  const auto loop = std::ranges::find(nest, static_cast<int>(a.amount), range_slot);
  if (loop == nest.end()) return refuse(refused, "not a loop that all outputs stand in");
  UOp read = only_read(body, a.slot, slot_bit(*loop), refused);
  if (!read) return {};
  const Stretch part = stretch_read(read, {nest.begin(), loop + 1}, ranges);
  if (!part.size) return refuse(refused, "what is read is not one stretch of memory");
  const std::optional<int64_t> step = stride_of(part.start, *loop);
  const Rounds rounds({loop + 1, nest.end()});
  if (!step || !rounds.count) return refuse(refused, "steps or sizes that are not constant");
  const int64_t line = kLineBytes / size_of(read->dtype), all = rounds.count * line;
  const int64_t lines = (part.size + all - 1) / all;
  if (lines < 2 || lines > kMostLines)
    return refuse(refused, text("2 to ", kMostLines, " lines for each round, not ", lines));
  if (ranges.next_slot >= kMostRanges) return refuse(refused, "too many ranges");

  UOp of_round = range(ranges.next_slot, index(lines), Role::Upcast);
  UOp next = part.start + *step + (rounds.number * lines + of_round) * line;
  UOp place = make(Op::Index, read->dtype, {read->src(0), simplify(next)});
  std::vector<UOp> end{make(Op::Fetch, DType::none, {place})};
  end.insert(end.end(), nest.begin(), nest.end());
  end.push_back(of_round);
  std::vector<UOp> effects(body->src().begin(), body->src().end());
  effects.push_back(make(Op::End, DType::none, end));
  return make(Op::Sink, DType::none, effects, body->arg);
}

}  // namespace mote

#include "optimize/lanes.h"

#include <algorithm>

#include "ir/freedoms.h"
#include "ir/program.h"

namespace mote {

static constexpr int64_t kMostApart = 4;  // elements from lane to lane, taken apart in registers

bool Lanes::steps_apart() const {
  return std::ranges::any_of(accesses, [&](const Access& a) {
    auto is_apart = [&](UOp r) { return a.step(r) > 1 && a.step(r) <= kMostApart; };
    return !a.store && (std::ranges::any_of(outputs, is_apart) ||
                        std::ranges::any_of(reduces, is_apart));
  });
}

bool Lanes::choose_lane_apart() {
  constexpr int64_t kLeast = 8;
  UOp best;
  for (auto* list : {&outputs, &reduces})
    for (UOp r : *list) {
      bool moves = false, is_apart = false;
      const bool meets = std::ranges::all_of(accesses, [&](const Access& a) {
        const std::optional<int64_t> step = a.stride(r);
        const bool plane = !a.store && a.memory->is(Op::Stage);
        moves |= step == 1, is_apart |= plane && step > 1;
        return step && *step >= 0 && *step <= (plane ? kMostApart : 1);
      });
      if (meets && moves && is_apart && size(r) >= kLeast && (!best || size(r) > size(best)))
        best = r;
    }
  const int64_t width = best ? best_width(best).first : 0;
  if (width < 4) return false;
  return split_lane(best, width);
}

// Ranges that some value depends on together with a lane, and of sums with an order to keep.
uint64_t Lanes::beside_lanes() const {
  uint64_t lanes = 0, beside = 0;
  for (int slot : slots_) lanes |= uint64_t{1} << slot;
  for (UOp n : toposort(body)) {
    if ((n->ranges & lanes) && (!has(n->op, Effect) || n->is(Op::Store))) beside |= n->ranges;
    if (!n->is(Op::Reduce) || may_reorder(n)) continue;
    for (Node* r : closed_ranges(n)) beside |= slot_bit(UOp(r));
  }
  return beside;
}

int64_t Lanes::lanes(UOp r) const {
  int64_t widest = 1;
  for (const Access& a : accesses)
    if (!r || a.depends_on(r)) widest = std::max<int64_t>(widest, size_of(a.dtype()));
  return std::max<int64_t>(1, target->vector_bytes / std::max<int64_t>(widest, 4));
}

// How well vectors along r meet memory: -1 if some access would be scattered. Lanes may step over
// two where the neighbours belong to a loop of two, which is added to `pairs`: then two vectors
// are taken apart.
int Lanes::lane_score(UOp r, std::vector<UOp>* pairs) const {
  int score = 0;
  for (const Access& a : accesses) {
    std::optional<int64_t> stride = a.stride(r);
    for (UOp part : ranges.all)  // words are as wide as their parts together
      if ((words & slot_bit(part)) && stride && a.step(part) == 1 && *stride % size(part) == 0)
        *stride /= size(part);
    if (UOp pair = pairs && stride == 2 ? pair_in(a) : UOp()) {
      if (!std::ranges::count(*pairs, pair)) pairs->push_back(pair);
      stride = 1;
    }
    if (!stride || (*stride != 0 && *stride != 1)) return -1;
    score += static_cast<int>(*stride) * (a.store ? 2 : 1);
  }
  return score;
}

// Elements per vector step when an axis of n is cut into vectors of `width`; gated ones cost
// more.
double Lanes::lane_speed(int64_t n, int64_t width) {
  double steps = static_cast<double>(ceil_div(n, width));
  return static_cast<double>(n) / steps * (n % width ? 0.6 : 1.0);
}

void Lanes::choose_lanes() {
  while (choose_lane()) {}
  if (own_lanes().empty()) choose_paired_lane();
}

// The loop of two that steps through neighbours.
UOp Lanes::pair_in(const Access& a) const {
  for (auto* list : {&outputs, &reduces})
    for (UOp r : *list)
      if (size(r) == 2 && a.stride(r) == 1) return r;
  return {};
}

// Lanes over every other element, and both of two neighbours at a time.
void Lanes::choose_paired_lane() {
  for (UOp r : outputs) {
    std::vector<UOp> pairs;
    const int64_t width = best_width(r).first;
    if (width < 4 || lane_score(r, &pairs) <= 0 || pairs.empty()) continue;
    Sketch trial = *this;
    auto takes_both = [&](UOp pair) {
      const Role role = range_role(pair) == Role::Reduce ? Role::Unroll : Role::Upcast;
      return trial.split(range_slot(pair), 2, role) >= 0;
    };
    if (!std::ranges::all_of(pairs, takes_both)) continue;
    const int lane = trial.split(range_slot(r), width, Role::Vector);
    if (lane < 0) continue;
    take(trial);
    slots_.push_back(lane);
    return;
  }
}

// The width of vectors along r, of equals the narrowest, and its speed.
std::pair<int64_t, double> Lanes::best_width(UOp r) const {
  std::pair<int64_t, double> best{0, 0};
  for (int64_t w = lanes(r); w >= 2; w /= 2) {
    const double speed = may_cut(r, w) ? lane_speed(size(r), w) : -1;
    if (speed >= best.second) best = {w, speed};
  }
  return best;
}

bool Lanes::split_lane(UOp r, int64_t width) {
  slots_.push_back(next_slot());
  return act({Action::Split, range_slot(r), width, Role::Vector});
}

bool Lanes::choose_lane() {
  const uint64_t beside = beside_lanes();
  UOp best;
  int64_t width = 0;
  double best_speed = 1.5;
  for (auto* list : {&outputs, &reduces})
    for (UOp r : *list) {
      if (slot_bit(r) & beside) continue;
      int score = size(r) >= 3 ? lane_score(r) : -1;
      if (score <= 0) continue;
      const auto [width_here, alone] = best_width(r);
      const double speed = alone * (1 + 0.01 * score);
      if (speed > best_speed) best = r, width = width_here, best_speed = speed;
    }
  if (!best) return false;
  return split_lane(best, width);
}

}  // namespace mote

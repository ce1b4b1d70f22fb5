// One sensible choice of loops: merge what is contiguous, vector lanes where memory is, a register
// tile where loads are reused, threads outside.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

#include "algebra/algebra.h"
#include "base/flags.h"
#include "optimize/optimize.h"

namespace mote {

namespace {

struct Access {
  UOp position;  // without its gate
  DType dtype;
  bool store;
  uint64_t nest;  // ranges of the reduces it stands in, and of what is around them
};

class Chooser {
 public:
  Chooser(UOp body, const Target& target) : body_(body), target_(target) {}

  std::vector<Action> run() {
    merge_ranges();
    choose_lanes();
    choose_tile();
    choose_thread();
    return std::move(actions_);
  }

 private:
  UOp body_;
  const Target& target_;
  std::vector<Action> actions_;
  std::vector<UOp> outputs_, reduces_;
  std::vector<Access> accesses_;
  std::vector<int> lanes_;      // slots
  uint64_t beside_lanes_ = 0;   // ranges that some value depends on together with a lane

  bool act(const Action& a) {
    UOp next = apply(body_, a);
    if (!next) return false;
    body_ = next;
    actions_.push_back(a);
    return true;
  }

  void look() {
    outputs_.clear();
    reduces_.clear();
    accesses_.clear();
    beside_lanes_ = 0;
    uint64_t lanes = 0;
    for (int slot : lanes_) lanes |= uint64_t{1} << slot;
    std::unordered_set<const Node*> stores;
    std::unordered_map<const Node*, uint64_t> nests;
    std::vector<UOp> order = toposort(body_);
    for (UOp n : order) {
      if (n->is(Op::Range) && range_role(n) == Role::Loop) outputs_.push_back(n);
      if (n->is(Op::Range) && range_role(n) == Role::Reduce) reduces_.push_back(n);
      if (n->is(Op::Store)) stores.insert(n->src(0).get());
      if (n->is(Op::Reduce))
        for (UOp inside : toposort(n->src(0)))
          if (inside->is(Op::Index)) nests[inside.get()] |= n->src(0)->ranges;
      if ((n->ranges & lanes) && (!has(n->op, Effect) || n->is(Op::Store)))
        beside_lanes_ |= n->ranges;
    }
    for (UOp n : order)
      if (n->is(Op::Index))
        accesses_.push_back({split_gate(n->src(1)).idx, n->dtype, stores.count(n.get()) > 0,
                             nests[n.get()]});
    auto by_slot = [](UOp r) { return range_slot(r); };
    std::ranges::sort(outputs_, {}, by_slot);
    std::ranges::sort(reduces_, {}, by_slot);
  }

  static int64_t size(UOp r) { return is_const(r->src(0)) ? r->src(0)->arg.i : 0; }

  void merge_ranges() {
    for (bool again = true; again;) {
      again = false;
      look();
      for (auto* list : {&outputs_, &reduces_})
        for (size_t i = 0; i + 1 < list->size() && !again; ++i)
          again = act({Action::Merge, range_slot((*list)[i]), range_slot((*list)[i + 1])});
    }
  }

  int64_t lanes() const {
    int64_t widest = 1;
    for (const Access& a : accesses_) widest = std::max<int64_t>(widest, size_of(a.dtype));
    return std::max<int64_t>(1, target_.vector_bytes / std::max<int64_t>(widest, 4));
  }

  // How well vectors along r meet memory: -1 if some access would be scattered.
  int lane_score(UOp r) const {
    int score = 0;
    for (const Access& a : accesses_) {
      std::optional<int64_t> stride = stride_of(a.position, r);
      if (!stride || (*stride != 0 && *stride != 1)) return -1;
      score += static_cast<int>(*stride) * (a.store ? 2 : 1);
    }
    return score;
  }

  // Elements per vector step when an axis of n is cut into vectors of `width`; gated ones cost more.
  static double lane_speed(int64_t n, int64_t width) {
    double steps = static_cast<double>((n + width - 1) / width);
    return static_cast<double>(n) / steps * (n % width ? 0.6 : 1.0);
  }

  // One vector axis for every nest that shares no value with another one's.
  void choose_lanes() {
    while (choose_lane()) {}
  }

  bool choose_lane() {
    look();
    UOp best;
    int64_t best_width = 0;
    double best_speed = 1.5;
    for (auto* list : {&outputs_, &reduces_})
      for (UOp r : *list) {
        if (r->ranges & beside_lanes_) continue;
        int score = size(r) >= 3 ? lane_score(r) : -1;
        if (score <= 0) continue;
        for (int64_t w = lanes(); w >= 2; w /= 2) {
          double speed = lane_speed(size(r), w) * (1 + 0.01 * score);
          // Of equals on one axis the narrowest.
          if (speed > best_speed || (best == r && speed == best_speed))
            best = r, best_width = w, best_speed = speed;
        }
      }
    if (!best) return false;
    lanes_.push_back(next_slot());
    return act({Action::Split, range_slot(best), best_width, Role::Lane});
  }

  int next_slot() const {
    int next = 0;
    for (UOp n : toposort(body_))
      if (n->is(Op::Range)) next = std::max(next, range_slot(n) + 1);
    return next;
  }

  int64_t largest_factor(int64_t n, std::initializer_list<int64_t> wanted) const {
    for (int64_t f : wanted)
      if (n % f == 0 && n >= f) return f;
    return 1;
  }

  // Registers hold a tile of outputs: each load is used for several of them.
  void choose_tile() {
    look();
    if (reduces_.empty()) return;
    int budget = std::max(4, target_.vector_registers * 3 / 4), used = 1;
    std::vector<int> done;
    while (true) {
      look();
      UOp best;
      int best_reuse = 0;
      for (UOp r : outputs_) {
        if (std::ranges::count(done, range_slot(r)) || size(r) < 2) continue;
        int reuse = 0;
        for (const Access& a : accesses_)
          if ((a.nest & r->ranges) && !(a.position->ranges & r->ranges)) ++reuse;
        if (reuse > best_reuse) best = r, best_reuse = reuse;
      }
      if (!best) break;
      done.push_back(range_slot(best));
      int room = budget / used;
      int64_t f = 1;
      for (int64_t c : {6, 4, 3, 8, 5, 2})
        if (c <= room && size(best) % c == 0) {
          f = c;
          break;
        }
      if (f > 1 && act({Action::Split, range_slot(best), f, Role::Upcast}))
        used *= static_cast<int>(f);
    }
    if (used > 1) return;
    for (int lane : lanes_) split_accumulators(lane);
  }

  // A reduce along the lanes keeps several vectors of partial results.
  void split_accumulators(int lane) {
    look();
    for (UOp r : reduces_) {
      int64_t f = largest_factor(size(r), {4, 2});
      if (size(r) < 8 || f == 1 || !folded_together(r, lane)) continue;
      act({Action::Split, range_slot(r), f, Role::Upcast});
      return;
    }
  }

  bool folded_together(UOp r, int lane) const {
    for (UOp n : toposort(body_)) {
      if (!n->is(Op::Reduce)) continue;
      std::span<Node* const> over = n->src().subspan(1);
      bool along = std::ranges::any_of(over, [&](Node* s) { return range_slot(UOp(s)) == lane; });
      if (along && std::ranges::count(over, r.get()) > 0) return true;
    }
    return false;
  }

  void choose_thread() {
    look();
    if (target_.threads < 2) return;
    double work = 1;
    for (UOp n : toposort(body_))
      if (n->is(Op::Range)) work *= static_cast<double>(std::max<int64_t>(n->src(0)->hi, 1));
    if (work < 32768) return;
    UOp best;
    for (UOp r : outputs_)
      if (size(r) >= target_.threads && (!best || size(best) < 4 * target_.threads)) {
        best = !best || size(r) > size(best) ? r : best;
        if (size(best) >= 4 * target_.threads) break;
      }
    if (best) act({Action::Thread, range_slot(best), 0, Role::Loop});
  }
};

}  // namespace

std::vector<Action> choose_actions(UOp body, const Target& target) {
  std::vector<Action> actions = Chooser(body, target).run();
  if (flag(Flag::DEBUG) >= 3) std::fprintf(stderr, "actions: %s\n", to_string(actions).c_str());
  return actions;
}

}  // namespace mote

// The loop that threads share out.
#include <algorithm>

#include "base/integers.h"
#include "ir/program.h"
#include "optimize/sketch.h"

namespace mote {

namespace {

class Sharer {
 public:
  explicit Sharer(Sketch& sketch) : s_(sketch) {}

  void run() {
    if (s_.target->threads < 2) return;
    double work = 1;
    for (UOp r : s_.ranges.all) work *= static_cast<double>(std::max<int64_t>(r->src(0)->hi, 1));
    if (work < 32768) return;
    if (s_.shared >= 0 && s_.act({Action::Global, s_.shared, 0, Role::Loop})) return;
    if ((s_.sweeps || goes_in_order()) && thread_chunks(s_.target->threads)) return;
    UOp best;
    for (UOp r : s_.outputs)
      if (Sketch::size(r) >= s_.target->threads && (!best || Sketch::size(best) < most_chunks()) &&
          !repeats_stages(r, false) && !repeats_stages(r, true) &&
          !repeats_folds(r, Sketch::size(r))) {
        best = !best || Sketch::size(r) > Sketch::size(best) ? r : best;
        if (Sketch::size(best) >= most_chunks()) break;
      }
    if (best)
      s_.act({Action::Global, range_slot(best), 0, Role::Loop});
    else
      thread_chunks(most_chunks());
  }

 private:
  Sketch& s_;

  // Rows go to computed places: each thread writes one long piece of all of them.
  bool goes_in_order() const {
    return std::ranges::any_of(s_.ranges.all,
                               [](UOp r) { return range_role(r) == Role::Ordered; });
  }

  int64_t most_chunks() const { return 4 * s_.target->threads; }

  // The loop of threads stands outside of all others: whatever is staged inside it is staged anew
  // in each of its positions. Packing may be repeated for as many chunks as threads need, sums not.
  bool repeats_stages(UOp r, bool sums) const {
    for (UOp n : toposort(s_.body))
      if (n->is(Op::Stage) && !(n->ranges & slot_bit(r)) && (n == s_.sum_stage) == sums)
        return true;
    return false;
  }

  // Folds outside of it are repeated too: one thread is done before all that share it out.
  bool repeats_folds(UOp r, int64_t parts) const {
    const std::vector<UOp> order = toposort(s_.body);
    return std::ranges::any_of(order, [&](UOp n) {
      if (!n->is(Op::Reduce) || !n->ranges || (n->ranges & slot_bit(r))) return false;
      int64_t steps = 1;
      for (Node* k : closed_ranges(n))
        if (is_loop(UOp(k))) steps *= Sketch::size(UOp(k));
      return parts * steps + Sketch::size(r) > s_.target->threads * (steps + Sketch::size(r));
    });
  }

  // A loop in so few equal parts that each may pack for itself, or sweep long rows_.
  bool thread_chunks(int64_t most) {
    for (UOp r : s_.outputs) {
      int64_t chunks = most;
      while (chunks > 1 && Sketch::size(r) % chunks) --chunks;
      if (chunks < s_.target->threads || repeats_stages(r, true) || repeats_folds(r, chunks))
        continue;
      Sketch trial = s_;
      if ((Sketch::size(r) > chunks &&
           !trial.cut_in_place(range_slot(r), Sketch::size(r) / chunks)) ||
          !trial.act({Action::Global, range_slot(r), 0, Role::Loop}))
        continue;
      s_.take(trial);
      return true;
    }
    return false;
  }
};

}  // namespace

void share_out(Sketch& sketch) { Sharer(sketch).run(); }

}  // namespace mote

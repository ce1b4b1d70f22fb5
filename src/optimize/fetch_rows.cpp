// Rows that come from afar and are passed over several times: only the first pass waits for memory,
// so the next row is asked for in one of the others, the one that has most to compute.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "optimize/sketch.h"

namespace mote {

namespace {

constexpr int64_t kShortRow = 8192;  // bytes; what follows this closely comes by itself

class RowFetcher {
 public:
  explicit RowFetcher(Sketch& s) : s_(s), order_(toposort(s.body)) {
    for (UOp n : order_)
      if (n->is(Op::Reduce)) folds_.push_back(n), around_ |= n->ranges;
    for (UOp r : order_)
      if (is_output_loop(r) && (around_ & slot_bit(r)) &&
          (!row_ || nest_order(r) > nest_order(row_)))
        row_ = r;
  }

  void run() {
    const Pass pass = row_ ? later_pass() : Pass();
    if (pass.work == 0) return;
    for (UOp memory : memories())
      s_.act({Action::Fetch, static_cast<int>(memory->ints(0)), range_slot(row_), Role::Loop,
              pass.over});
  }

 private:
  struct Pass {
    std::vector<int> over;  // a slot of the fold; none: what makes the outputs
    double work = 0;        // for one element; 0: there is no such pass
  };

  Sketch& s_;
  std::vector<UOp> order_, folds_;
  uint64_t around_ = 0;  // ranges that folds stand in
  UOp row_;              // the innermost of these

  static bool is_output_loop(UOp n) {
    return n->is(Op::Range) && (range_role(n) == Role::Loop || range_role(n) == Role::Global);
  }

  // Whether it needs no other fold's result.
  bool is_first(UOp fold) const {
    const std::vector<UOp> below = toposort(fold->src(0));
    return std::ranges::none_of(below, [](UOp n) { return n->is(Op::Reduce); });
  }

  // What is computed for every position of the ranges that this closes inside the row.
  double work(UOp closes, UOp value) const {
    uint64_t inside = 0;
    double sum = 0;
    for (Node* r : closed_ranges(closes)) inside |= slot_bit(UOp(r)) & ~around_;
    if (!inside) return 0;
    for (UOp n : toposort(value)) {
      if (!has(n->op, Alu) || n->dtype == DType::index || !(n->ranges & inside)) continue;
      sum += has(n->op, Curve) ? s_.target->curve_cost : 1;
    }
    return sum;
  }

  // Of equal ones the outputs', which wait for stores anyway.
  Pass later_pass() const {
    Pass best;
    for (Node* end : s_.body->src()) {
      UOp effect = UOp(end)->src(0);
      if (effect->is(Op::Store)) best.work += work(UOp(end), effect->src(1));
    }
    for (UOp f : folds_) {
      const double here = 1 + work(f, f->src(0));
      if (!is_first(f) && here > best.work) best = {{range_slot(UOp(closed_ranges(f)[0]))}, here};
    }
    return best;
  }

  // What first passes read of the row, where two rows and what is staged can be near at a time.
  std::vector<UOp> memories() const {
    std::vector<UOp> found;
    int64_t bytes = 0;
    for (UOp n : order_)
      if (n->is(Op::Stage)) bytes += n->ints(1) * size_of(n->dtype);
    for (UOp f : folds_) {
      if (!is_first(f)) continue;
      for (UOp n : toposort(f->src(0))) {
        if (!n->is(Op::Index) || !comes_from_afar(n) || std::ranges::count(found, n->src(0)))
          continue;
        found.push_back(n->src(0));
        bytes += 2 * row_bytes(n);
      }
    }
    if (bytes > s_.target->l2_bytes / 2) found.clear();
    return found;
  }

  int64_t row_bytes(UOp read) const {
    return stride_of(split_gate(read->src(1)).idx, row_).value_or(0) * size_of(read->dtype);
  }

  bool comes_from_afar(UOp read) const {
    UOp memory = read->src(0);
    return memory->is(Op::Param) && row_bytes(read) >= kShortRow &&
           memory->ints(1) * size_of(memory->dtype) > s_.target->l2_bytes;
  }
};

}  // namespace

void fetch_rows(Sketch& sketch) { RowFetcher(sketch).run(); }

}  // namespace mote

// Bounded rows: where a mask hides the end of every row, loops over rows end before it.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

class Bounder {
 public:
  Bounder(UOp body, UOp row) : body_(body), row_(row), order_(toposort(body)) {}

  UOp run(std::string* refused) {
    find_limit();
    if (!limit_) return refuse(refused, "no mask hides the end of rows");
    find_ranges();
    if (bounded_.empty()) return refuse(refused, "some read needs whole rows");
    return rebuild();
  }

 private:
  UOp body_, row_, limit_;
  std::vector<UOp> order_, bounded_;

  static bool closes(UOp n, UOp k) {
    return std::ranges::count(closed_ranges(n), k.get()) > 0;
  }

  void find_limit() {
    uint64_t around = ~uint64_t{0};
    for (UOp n : order_)
      if (n->is(Op::Stage) && (n->ranges & slot_bit(row_))) around &= n->ranges;
    for (UOp n : order_) {
      if (!n->is(Op::Reduce)) continue;
      for (Node* r : n->src().subspan(1)) {
        UOp found = fold_ends_at(n, UOp(r));
        if (!found || found->lo < 1 || (found->ranges & ~around)) continue;
        if (found->ranges & slot_bit(row_)) limit_ = found;
      }
    }
  }

  bool may_end(UOp k) const {
    if (!is_const(k->src(0)) || k->src(0)->arg.i < limit_->hi) return false;
    if (range_role(k) != Role::Reduce && range_role(k) != Role::Loop) return false;
    bool closed = false;
    for (UOp n : order_) {
      if (!closes(n, k)) continue;
      if (n->is(Op::End) || (n->is(Op::Stage) && row_range(n) != k)) return false;
      if (n->is(Op::Reduce) && fold_ends_at(n, k) != limit_) return false;
      if (!(n->ranges & slot_bit(row_))) return false;
      closed = true;
    }
    return closed;
  }

  // What is staged may end there if it is read nowhere beyond.
  bool is_read_beyond(UOp k) const {
    return std::ranges::any_of(order_, [&](UOp n) {
      return n->is(Op::Index) && n->src(0)->is(Op::Stage) && closes(n->src(0), k) &&
             !std::ranges::count(bounded_, n->src(1));
    });
  }

  void find_ranges() {
    for (UOp n : order_)
      if (n->is(Op::Range) && n != row_ && may_end(n)) bounded_.push_back(n);
    while (std::erase_if(bounded_, [&](UOp k) { return is_read_beyond(k); })) {}
  }

  UOp rebuild() const {
    UOp body = without_masks(body_, bounded_, limit_);
    std::vector<std::pair<UOp, UOp>> map;
    for (UOp k : bounded_)
      map.emplace_back(k, range(range_slot(k), limit_, range_role(k)));
    return simplify(substitute(body, map));
  }
};

}  // namespace

UOp apply_bound(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp row = ranges.find(a.slot);
  if (range_role(row) != Role::Loop) return refuse(refused, "not an output loop");
  return Bounder(body, row).run(refused);
}

void propose_bound(const Site& site, std::vector<Action>& out) {
  if (!site.stages) return;
  for (UOp r : site.of_role(Role::Loop)) out.push_back({Action::Bound, range_slot(r)});
}

}  // namespace mote

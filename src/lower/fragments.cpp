// Products of tiles: positions in them become lanes and registers, as the target's row has them.
#include <algorithm>

#include "algebra/algebra.h"
#include "base/error.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

using Steps = std::vector<Fragment::Step>;
using Map = std::vector<std::pair<UOp, UOp>>;

// The sum of the steps of a number's bits; bits whose steps double are taken together.
UOp moved_by(UOp number, const Steps& steps, int Fragment::Step::*axis) {
  UOp sum = index(0);
  for (size_t bit = 0, next; bit < steps.size(); bit = next) {
    for (next = bit + 1; next < steps.size() && steps[next].*axis == 2 * (steps[next - 1].*axis);)
      ++next;
    sum = sum + number / (int64_t{1} << bit) % (int64_t{1} << (next - bit)) * (steps[bit].*axis);
  }
  return sum;
}

class Maker {
 public:
  Maker(UOp body, const Target& target) : product_(tile_product_of(body)) {
    for (UOp n : toposort(body))
      if (n->is(Op::Range)) slot_ = std::max(slot_, range_slot(n) + 1);
    row_ = fragment_row(product_, target);
    ensure(row_ >= 0, "the target has no such product of tiles");
    row_of_target_ = &target.fragments[static_cast<size_t>(row_)];
    register_ = tile(row_of_target_->c.registers());
    const Fragment::Layout& c = row_of_target_->c;
    outputs_ = {
        {product_.i, at(c, register_, &Fragment::Step::row)   },
        {product_.j, at(c, register_, &Fragment::Step::column)}
    };
  }

  UOp changed(UOp n, const Mapped& now) {
    if (n == product_.sum) return sum();
    for (const auto& [r, position] : outputs_)
      if (n == r) return position;
    if (!n->is(Op::End)) return {};
    std::vector<UOp> src{UOp(now.src[0])};
    for (Node* r : closed_ranges(n))
      if (UOp(r) != product_.i && UOp(r) != product_.j) src.emplace_back(r);
    src.push_back(register_);
    return make(Op::End, DType::none, src);
  }

 private:
  TileProduct product_;
  int slot_ = 0, row_ = -1;
  const Fragment* row_of_target_ = nullptr;
  UOp register_;
  Map outputs_;

  UOp tile(int64_t size) { return range(slot_++, index(size), Role::Upcast); }

  UOp at(const Fragment::Layout& layout, UOp reg, int Fragment::Step::*axis) const {
    return simplify(moved_by(product_.lane, layout.lane, axis) + moved_by(reg, layout.reg, axis));
  }

  // A factor, whose rows and columns are positions of these two; the ranges it is held in.
  UOp factor(UOp value, UOp row, UOp column, const Fragment::Layout& layout, bool staged,
             std::vector<UOp>& ranges) {
    Map map;
    if (staged) {
      for (UOp r : {row, column}) {
        ranges.push_back(tile(r->src(0)->hi));
        map.emplace_back(r, ranges.back());
      }
    } else {
      UOp reg = tile(layout.registers());
      ranges.push_back(reg);
      map = {
          {row,    at(layout, reg, &Fragment::Step::row)   },
          {column, at(layout, reg, &Fragment::Step::column)}
      };
    }
    return simplify(substitute(value, map));
  }

  UOp sum() {
    const Fragment& f = *row_of_target_;
    const TileProduct& p = product_;
    std::vector<UOp> ranges, loops;
    UOp a = factor(p.a, p.i, p.k, f.a, f.a_staged, ranges),
        b = factor(p.b, p.k, p.j, f.b, f.b_staged, ranges);
    std::vector<UOp> src{zero_like(p.sum), a, b, register_};
    src.insert(src.end(), ranges.begin(), ranges.end());
    const int64_t ints[] = {row_, f.a_staged + 2 * f.b_staged};
    UOp value = make(Op::Fragment, p.sum->dtype, src, Arg::of(intern_arg(ints)));
    for (Node* r : closed_ranges(p.sum))
      if (UOp(r) != p.k) loops.emplace_back(r);
    return loops.empty() ? value : reduce_over(Op::Add, value, loops);
  }
};

}  // namespace

UOp make_fragments(UOp body, const Target& target) {
  if (target.fragments.empty()) return body;
  const std::vector<UOp> order = toposort(body);
  if (std::ranges::none_of(
          order, [](UOp n) { return n->is(Op::Range) && range_role(n) == Role::Fragment; }))
    return body;
  Maker maker(body, target);
  return map_nodes("make fragments", body,
                   [&](UOp n, const Mapped& now) { return maker.changed(n, now); });
}

}  // namespace mote

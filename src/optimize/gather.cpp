// Products found, and one side of them brought into the form of a plain matrix.
#include <algorithm>
#include <functional>

#include "optimize/contraction.h"

namespace mote {

namespace {

class Gatherer {
 public:
  Gatherer(const Sketch& sketch, const Product& product, const Access& side)
      : trial_(sketch), p_(product), side_(side) {
    const Access& other = side.memory == p_.first.memory ? p_.second : p_.first;
    for (UOp r : p_.axes)
      if (side.depends_on(r) && !other.depends_on(r) && is_const(r->src(0))) along_.push_back(r);
    std::ranges::stable_sort(along_, std::greater(),
                             [&](UOp r) { return stride_of(p_.result, r).value_or(0); });
    for (UOp r : sketch.reduces)
      if (side.depends_on(r)) folded_.push_back(r);
  }

  // Whether it is not a plain matrix already.
  bool is_wanted() const {
    if (!side_.memory->is(Op::Param) || along_.empty() || folded_.empty()) return false;
    return side_.stride(along_.back()) != 1 || side_.gated || is_read_in_windows();
  }
  // Its elements are used at several places, or there are some that memory does not hold.
  bool is_spread() const { return side_.gated || is_read_in_windows(); }

  bool run(Sketch& out) {
    if (!choose_size() || !cut_sum() || !cut_columns() || !order() || !stage()) return false;
    out.take(trial_);
    return true;
  }

 private:
  Sketch trial_;
  const Product& p_;
  const Access& side_;
  std::vector<UOp> along_, folded_;  // axes of outputs and of the sum that move the read
  UOp longest_;                      // of the latter
  int64_t block_ = 0, columns_ = 0;  // of the sum and of outputs that are staged together
  int blocks_ = -1;                  // slot of the loop over the former
  std::vector<int> inside_, outside_, over_;

  // Two ranges move it over one stretch of memory, such as a position and a place in a window there.
  bool is_read_in_windows() const {
    return std::ranges::any_of(along_, [&](UOp r) {
      return std::ranges::any_of(folded_, [&](UOp k) { return side_.step(k) == side_.step(r); });
    });
  }

  // Half of the second cache, in blocks of the sum if there is room for too few columns otherwise.
  bool choose_size() {
    int64_t depth = p_.words ? p_.bytes : size_of(side_.dtype()), all = 1;
    for (UOp r : folded_) {
      if (!is_const(r->src(0))) return false;
      depth *= Sketch::size(r);
      if (!longest_ || Sketch::size(r) > Sketch::size(longest_)) longest_ = r;
    }
    for (UOp r : along_) all *= Sketch::size(r);
    const Target& target = *trial_.target;
    const int64_t length = Sketch::size(longest_), few = 4 * target.vector_bytes / p_.bytes;
    block_ = length;
    auto fit = [&] { return target.l2_bytes / 2 / (depth / length * block_); };
    while (fit() < std::min(few, all) && block_ % 2 == 0) block_ /= 2;
    columns_ = std::min(fit(), all);
    return columns_ >= 4;
  }

  bool cut_sum() {
    for (UOp r : folded_) over_.push_back(range_slot(r));
    if (block_ == Sketch::size(longest_)) return true;
    blocks_ = range_slot(longest_);
    const int inner = trial_.split(blocks_, block_, Role::Reduce);
    std::ranges::replace(over_, blocks_, inner);
    return inner >= 0 && trial_.act({Action::Accumulate, blocks_});
  }

  // The innermost axes whole, as far as they fit, and a part of the next.
  bool cut_columns() {
    int64_t room = columns_;
    for (size_t i = along_.size(); i-- > 0;) {
      const int64_t n = Sketch::size(along_[i]);
      int slot = range_slot(along_[i]);
      if (room < 2 || n > room) outside_.insert(outside_.begin(), slot);
      if (room < 2) continue;
      if (n > room) slot = trial_.split(slot, part_of(n, room), Role::Loop);
      if (slot < 0) return false;
      inside_.insert(inside_.begin(), slot);
      room /= n;
    }
    return true;
  }

  // At most so much, best an even part.
  static int64_t part_of(int64_t n, int64_t most) {
    for (int64_t part = most; part > most / 2; --part)
      if (n % part == 0) return part;
    return ceil_div(n, ceil_div(n, most));
  }

  // Loops that the stage depends on stand outside of those that find it filled.
  bool order() {
    std::vector<int> nest = outside_, rest = inside_;
    for (UOp r : p_.axes) {
      const int slot = range_slot(r);
      if (std::ranges::count(inside_, slot) || std::ranges::count(outside_, slot)) continue;
      (side_.depends_on(r) ? nest : rest).push_back(slot);
    }
    if (blocks_ >= 0) nest.push_back(blocks_);
    nest.insert(nest.end(), rest.begin(), rest.end());
    over_.insert(over_.end(), inside_.begin(), inside_.end());
    std::vector<int> slots = nest;
    std::ranges::sort(slots);
    if (nest == slots) return true;
    for (int& slot : over_)
      if (auto at = std::ranges::find(nest, slot); at != nest.end())
        slot = slots[static_cast<size_t>(at - nest.begin())];
    return trial_.act({
        Action::Order, nest[0], 0, Role::Loop, {nest.begin() + 1, nest.end()}
    });
  }

  bool stage() {
    const int first = trial_.next_slot(), param = static_cast<int>(side_.memory->ints(0));
    if (!trial_.act({Action::Stage, param, 0, Role::Loop, over_})) return false;
    const int last = trial_.next_slot() - 1;
    uint64_t copies = 0;
    for (int slot = first; slot <= last; ++slot) copies |= uint64_t{1} << slot;
    trial_.nests.push_back(copies);
    trial_.look();
    for (size_t i = 1, into = 0; i < over_.size(); ++i)  // neighbours that are one axis now
      if (!trial_.act({Action::Merge, over_[into], over_[i]})) into = i;
    const int64_t length = Sketch::size(trial_.range_of(last));
    int64_t lanes = trial_.target->vector_bytes / p_.bytes;
    while (lanes > 2 && lanes / 2 >= length) lanes /= 2;
    if (length > 2) trial_.split(last, lanes, Role::Vector);
    return true;
  }
};

// Whatever is made of the sum is stored at one place, maybe of several memories.
bool stores_alike(UOp body) {
  UOp first = body->src(0);
  for (Node* end : body->src()) {
    if (!std::ranges::equal(end->src().subspan(1), first->src().subspan(1))) return false;
    if (UOp(end)->src(0)->src(0)->src(1) != first->src(0)->src(0)->src(1)) return false;
  }
  return true;
}

}  // namespace

std::optional<Product> find_product(const Sketch& s) {
  if (!s.sum || (s.focus < 0 && !stores_alike(s.body))) return {};
  Product p;
  p.bytes = std::max<int64_t>(4, size_of(s.sum->dtype));
  int reads = 0;
  for (const Access& a : s.accesses) {
    if (a.store && !s.sum_stage) p.result = a.position;
    if (a.store || !a.nest) continue;
    if (++reads > 2) return {};
    (reads == 1 ? p.first : p.second) = a;
  }
  p.axes = s.outputs;
  if (s.sum_stage) {
    p.result = s.sum_stage->src(1);
    p.axes.clear();
    for (Node* r : s.sum_stage->src().subspan(2)) p.axes.emplace_back(r);
  }
  p.words = s.words;
  for (UOp r : s.reduces) p.depth *= Sketch::size(r);
  auto is_known = [](UOp r) { return Sketch::size(r) > 0; };
  if (reads != 2 || p.depth < 4 || !std::ranges::all_of(p.axes, is_known)) return {};
  return p;
}

bool gather(Sketch& sketch, int which) {
  const std::optional<Product> product = find_product(sketch);
  if (!product) return false;
  std::vector<const Access*> sides;
  for (const Access* side : {&product->first, &product->second}) {
    const Gatherer g(sketch, *product, *side);
    if (g.is_wanted()) sides.insert(g.is_spread() ? sides.begin() : sides.end(), side);
  }
  if (which > std::ssize(sides)) return false;
  return Gatherer(sketch, *product, *sides[static_cast<size_t>(which) - 1]).run(sketch);
}

}  // namespace mote

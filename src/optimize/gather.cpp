// Products found, and one side of them brought into the form of a plain matrix.
#include <algorithm>
#include <functional>

#include "optimize/contraction.h"

namespace mote {

namespace {

class Gatherer {
 public:
  Gatherer(const Sketch& sketch, const Product& product, const Access& side, Gather how)
      : trial_(sketch), p_(product), side_(side), how_(how) {
    const Access& other = side.memory == p_.first.memory ? p_.second : p_.first;
    for (UOp r : p_.axes)
      if (side.depends_on(r) && !other.depends_on(r) && is_const(r->src(0))) along_.push_back(r);
    std::ranges::stable_sort(along_, std::greater(),
                             [&](UOp r) { return stride_of(p_.result, r).value_or(0); });
    for (UOp r : sketch.reduces)
      if (side.depends_on(r)) folded_.push_back(r);
    if (how_ != Gather::Matrix) find_windows();
  }

  // Whether it is not a plain matrix already.
  bool is_wanted() const {
    if (!side_.memory->is(Op::Param) || along_.empty() || folded_.empty()) return false;
    return side_.stride(along_.back()) != 1 || side_.gated || is_read_in_windows();
  }
  // Its elements are used at several places, or there are some that memory does not hold.
  bool is_spread() const { return side_.gated || is_read_in_windows(); }

  bool run(Sketch& out) {
    const bool fits = how_ == Gather::Matrix ? choose_size() : choose_planes();
    if (!fits || !cut_sum() || !cut_columns() || !order() || !stage()) return false;
    out.take(trial_);
    return true;
  }

 private:
  Sketch trial_;
  const Product& p_;
  const Access& side_;
  const Gather how_;
  std::vector<std::pair<UOp, UOp>> windows_;  // an axis, and what is summed along it
  std::vector<UOp> along_, folded_;  // axes of outputs and of the sum that move the read
  UOp longest_;                      // of the latter
  int64_t block_ = 0, columns_ = 0;  // of the sum and of outputs that are staged together
  int blocks_ = -1, inner_block_ = -1;  // slots of the loops over the former and in one
  std::vector<int> inside_, outside_, over_;

  // Two ranges move it over one stretch of memory, such as a position and a place in a window there.
  bool is_read_in_windows() const {
    return std::ranges::any_of(along_, [&](UOp r) {
      return std::ranges::any_of(folded_, [&](UOp k) { return side_.step(k) == side_.step(r); });
    });
  }

  // Of a pair that moves over one stretch, one goes there in steps of a few of the other's: fewer
  // than that one has.
  void find_windows() {
    std::vector<UOp> left = folded_;
    for (UOp r : along_) {
      const auto apart = [&](UOp k) {
        const int64_t a = std::llabs(side_.step(r)), b = std::llabs(side_.step(k));
        const int64_t low = std::min(a, b), high = std::max(a, b);
        return low && high % low == 0 ? high / low : INT64_MAX;
      };
      const auto k = std::ranges::min_element(left, {}, apart);
      if (k == left.end()) return;
      const UOp finer = std::llabs(side_.step(r)) < std::llabs(side_.step(*k)) ? r : *k;
      if (apart(*k) >= Sketch::size(finer)) continue;
      windows_.emplace_back(r, *k);
      left.erase(k);
    }
  }
  UOp window_of(UOp axis) const {
    const auto found = std::ranges::find(windows_, axis, [](auto& w) { return w.first; });
    return found == windows_.end() ? UOp() : found->second;
  }
  bool is_window(UOp fold) const {
    return std::ranges::any_of(windows_, [&](auto& w) { return w.second == fold; });
  }

  // A panel of the other side in the first cache, nearly, and half of the second one: planes that
  // windows are read from, and the sums, which wait there between blocks.
  bool choose_planes() {
    if (windows_.empty()) return false;
    constexpr int64_t kDepth = 384;
    int64_t taps = 1, all = 1, spread = 1, columns = 1;
    for (UOp r : folded_) {
      if (!is_const(r->src(0))) return false;
      if (is_window(r))
        taps *= Sketch::size(r);
      else if (!longest_ || Sketch::size(r) > Sketch::size(longest_))
        longest_ = r;
    }
    for (UOp r : along_) {
      all *= Sketch::size(r);
      const UOp k = window_of(r);
      if (k) spread *= std::max<int64_t>(1, std::llabs(side_.step(r) / side_.step(k)));
    }
    for (UOp r : p_.axes)
      if (!side_.depends_on(r)) columns *= Sketch::size(r);
    block_ = longest_ ? Sketch::size(longest_) : 1;
    while (longest_ && block_ * taps > kDepth * 3 / 2 && block_ % 2 == 0) block_ /= 2;
    const Target& target = *trial_.target;
    const bool cut = longest_ && block_ < Sketch::size(longest_);
    const int64_t room = how_ == Gather::NearPlanes ? target.l1_bytes : target.l2_bytes / 2,
                  few = target.l2_bytes / 2 / (columns * p_.bytes),
                  more = target.core_cache_bytes / 4 / (columns * p_.bytes);
    columns_ = std::min(all, room / (block_ * spread * size_of(side_.dtype())));
    if (how_ == Gather::MorePlanes && !(cut && few < std::min(columns_, more))) return false;
    if (cut) columns_ = std::min(columns_, how_ == Gather::MorePlanes ? more : few);
    columns_ = std::min(columns_, ceil_div(all, target.threads));  // a part for each of them
    return columns_ >= 4;
  }

  // Half of the second cache, in blocks of the sum if there is room for too few columns otherwise.
  bool choose_size() {
    int64_t depth = size_of(side_.dtype()), all = 1;
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
    for (UOp r : folded_)
      if (!is_window(r)) over_.push_back(range_slot(r));
    if (!longest_ || block_ == Sketch::size(longest_)) return true;
    blocks_ = range_slot(longest_);
    if (block_ > 1) inner_block_ = trial_.split(blocks_, block_, Role::Reduce);
    std::ranges::replace(over_, blocks_, inner_block_);
    std::erase(over_, -1);
    return (block_ == 1 || inner_block_ >= 0) && trial_.act({Action::Accumulate, blocks_});
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
    std::vector<int> slots = nest;
    std::ranges::sort(slots);
    add_columns();
    if (nest == slots) return true;
    for (int& slot : over_)
      if (auto at = std::ranges::find(nest, slot); at != nest.end())
        slot = slots[static_cast<size_t>(at - nest.begin())];
    return trial_.act({
        Action::Order, nest[0], 0, Role::Loop, {nest.begin() + 1, nest.end()}
    });
  }

  // Each axis with what is summed along it; of those outside the latter alone.
  void add_columns() {
    const size_t out = along_.size() - inside_.size();
    for (size_t i = 0; i < along_.size(); ++i) {
      const UOp window = window_of(along_[i]);
      if (i >= out) over_.push_back(inside_[i - out]);
      if (window) over_.push_back(i < out ? range_slot(window) : ~range_slot(window));
    }
  }

  bool stage() {
    const int first = trial_.next_slot(), param = static_cast<int>(side_.memory->ints(0));
    if (!trial_.act({Action::Stage, param, 0, Role::Loop, over_})) return false;
    const int last = trial_.next_slot() - 1;
    uint64_t copies = 0;
    for (int slot = first; slot <= last; ++slot) copies |= uint64_t{1} << slot;
    trial_.nests.push_back(copies);
    trial_.look();
    // Neighbours that are one axis now.
    for (size_t i = 1, into = 0; i < over_.size() && windows_.empty(); ++i)
      if (!trial_.act({Action::Merge, over_[into], over_[i]})) into = i;
    const int64_t length = Sketch::size(trial_.range_of(last));
    int64_t lanes = trial_.target->vector_bytes / p_.bytes;
    while (lanes > 2 && lanes / 2 >= length) lanes /= 2;
    if (length > 2) trial_.split(last, lanes, Role::Vector);
    return windows_.empty() || inner_block_ < 0 || order_taps();
  }

  // All of a plane's windows before the next plane.
  bool order_taps() {
    std::vector<int> taps;
    for (UOp r : folded_)
      if (range_slot(r) != blocks_) taps.push_back(range_slot(r));
    return trial_.act({Action::Order, inner_block_, 0, Role::Loop, taps});
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
  for (UOp r : s.reduces) p.depth *= Sketch::size(r);
  auto is_known = [](UOp r) { return Sketch::size(r) > 0; };
  if (reads != 2 || p.depth < 4 || !std::ranges::all_of(p.axes, is_known)) return {};
  return p;
}

bool gather(Sketch& sketch, int which, Gather how) {
  const std::optional<Product> product = find_product(sketch);
  if (!product) return false;
  std::vector<const Access*> sides;
  for (const Access* side : {&product->first, &product->second}) {
    const Gatherer g(sketch, *product, *side, how);
    if (g.is_wanted()) sides.insert(g.is_spread() ? sides.begin() : sides.end(), side);
  }
  if (which > std::ssize(sides)) return false;
  return Gatherer(sketch, *product, *sides[static_cast<size_t>(which) - 1], how).run(sketch);
}

}  // namespace mote

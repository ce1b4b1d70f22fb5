// Sums of products: what is read for one output axis is reused along the other. A tile of both in
// registers, operands packed where they do not lie well, the reduce in blocks that caches hold.
#include "optimize/contraction.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "algebra/algebra.h"

namespace mote {

namespace {

double waste(int64_t n, int64_t size) {
  return static_cast<double>(ceil_div(n, size) * size) / static_cast<double>(n);
}

struct Tile {
  int64_t rows = 1, vectors = 1, lanes = 1;
  int64_t columns() const { return vectors * lanes; }
};

// One way to see the kernel as a product: rows of the left read, columns of the right one.
struct View {
  UOp row, column;
  Access left, right;
  bool direct = true;   // the result lies along columns
  bool turned = false;  // or else along rows
  bool lies = true;     // the right side lies along columns
  int64_t left_reuse = 1, right_reuse = 1;
  Tile tile;
  double cost = HUGE_VAL;
};

constexpr int64_t kFarBytes = 1024;
constexpr double kFarDearer = 4;

class Contraction {
 public:
  Contraction(Sketch& sketch, const Product& p, const ContractionTaste& taste)
      : s_(sketch),
        target_(*sketch.target),
        taste_(taste),
        axes_(p.axes),
        result_(p.result),
        first_(p.first),
        second_(p.second),
        depth_(p.depth),
        bytes_(p.bytes) {}

  bool run() {
    choose_view();
    if (!view_.row) return false;
    if (!view_.direct) return stage_sums();
    choose_blocks();
    if (taste_.whole) {
      if (!block_depth_ && !block_axis_ && !row_tiles_) return false;  // it is in none anyway
      block_depth_ = row_tiles_ = 0, block_axis_ = {};
    }
    if (needs_place_for_sums() && stage_sums()) return true;
    cut();
    stage();
    return true;
  }

 private:
  Sketch& s_;
  const Target& target_;
  const ContractionTaste taste_;
  const std::vector<UOp> axes_;
  const UOp result_;
  const Access first_, second_;
  const int64_t depth_, bytes_;
  View view_;
  UOp block_axis_;  // of several reduces the one in blocks, of 1 if no depth is given
  int64_t block_depth_ = 0, row_tiles_ = 0;  // of a block, at most; 0: not cut
  bool pack_left_ = false, pack_right_ = false;
  int rows_ = -1, row_blocks_ = -1, columns_ = -1, lane_ = -1, vector_ = -1, row_in_ = -1;
  int block_ = -1, shared_rows_ = -1;  // the latter around a sum that is staged
  std::vector<int> reduces_;           // slots inside a block

  static int64_t size(UOp r) { return Sketch::size(r); }
  static int64_t stride(UOp position, UOp r) { return stride_of(position, r).value_or(0); }

  void choose_view() {
    std::vector<View> views;
    uint64_t steering = first_.filled_by | second_.filled_by;  // and axes that say how far loops go
    for (UOp r : s_.reduces) steering |= r->src(0)->ranges;
    for (UOp column : axes_) {
      const bool second = second_.depends_on(column);
      if (slot_bit(column) & steering) continue;
      if (first_.depends_on(column) == second || size(column) < 4) continue;
      View v;
      v.column = column;
      v.left = second ? first_ : second_, v.right = second ? second_ : first_;
      v.direct = stride(result_, column) == 1;
      if (!v.direct && s_.sum_stage) continue;
      for (UOp row : axes_) {
        if (row == column || (slot_bit(row) & steering)) continue;
        if (!v.left.depends_on(row) || v.right.depends_on(row)) continue;
        if (size(row) < 2) continue;
        // Sums that are staged were found worth it as a whole, not in the shares of threads.
        if (!s_.sum_stage && size(row) * size(column) * depth_ < 4096) continue;
        v.row = row;
        v.turned = !v.direct && stride(result_, row) == 1;
        v.lies = v.right.stride(column) == 1;
        v.left_reuse = reuse(v.left), v.right_reuse = reuse(v.right);
        choose_tile(v);
        views.push_back(v);
      }
    }
    std::ranges::stable_sort(views, {}, &View::cost);
    const auto wanted = static_cast<size_t>(taste_.view);
    if (wanted < views.size() && views[wanted].cost < kFarDearer * views[0].cost)
      view_ = views[wanted];
  }

  // How often a value of the read is used.
  int64_t reuse(const Access& a) const {
    int64_t n = 1;
    for (UOp r : axes_)
      if (!a.depends_on(r)) n *= size(r);
    for (UOp r : loops_outside())
      if (!a.depends_on(r)) n *= std::max<int64_t>(1, size(r));
    return n;
  }

  // The loops that the nest of a stage stands in.
  std::vector<UOp> loops_outside() const {
    if (s_.sum_stage) return open_ranges(s_.sum_stage);
    for (const Access& a : s_.accesses)
      if (a.store && a.memory->is(Op::Stage)) return open_ranges(a.memory);
    return {};
  }

  bool packs_left(const View& v) const {
    const int64_t m = size(v.row);
    if (!v.left.memory->is(Op::Param)) return false;
    if (s_.focus >= 0) return v.left.gated;  // few rows, all near
    return s_.reduces.size() == 1 && ceil_div(size(v.column), v.tile.columns()) >= 4 &&
           (m * depth_ * bytes_ > target_.l2_bytes || m % v.tile.rows != 0);
  }
  bool packs_right(const View& v) const {
    if (!v.right.memory->is(Op::Param)) return false;
    if (!v.lies) return true;
    return s_.reduces.size() == 1 && ceil_div(size(v.row), v.tile.rows) >= 4 &&
           size(v.column) * depth_ * bytes_ > target_.l2_bytes / 4;
  }

  // Time per product: loads beside the multiply-adds, too few chains, padding at both edges,
  // packing, lanes one by one, gates in the inner loop.
  double cost(const View& v) const {
    const Tile& t = v.tile;
    auto real = [](int64_t n) { return static_cast<double>(n); };
    const int64_t m = size(v.row), n = size(v.column);
    const double chains = real(t.rows * t.vectors), wanted = target_.vector_registers * 0.75;
    const bool left = packs_left(v), right = packs_right(v);
    double c = 1 + 0.3 / real(t.rows) + 0.3 / real(t.vectors);
    if (chains < wanted) c += 0.25 * (1 - chains / wanted);
    if (m % t.rows) c += left ? 0.01 : 0.08;
    if (n % t.columns()) c += 0.02;
    if (left) c += 2 * real(t.lanes) / real(v.left_reuse);
    if (right) c += (v.lies ? 2 : 40) / real(v.right_reuse);
    if (!right && !v.lies) c += real(t.lanes);
    if (!v.direct) c += (v.turned ? 6 : 20) / real(depth_);
    if (v.left.gated && !left) c += 0.5;
    if (v.right.gated && !right) c += 0.5;
    const double step = real(std::min(target_.step_bytes, target_.vector_bytes) / bytes_);
    const double narrow = t.lanes < target_.vector_bytes / bytes_ ? 1.1 : 1;
    return c * waste(m, t.rows) * waste(n, t.columns()) * narrow *
           std::max(1.0, step / real(t.lanes));
  }

  void choose_tile(View& v) const {
    const int64_t most = target_.vector_registers * 15 / 16;
    Tile best;
    double least = HUGE_VAL;
    for (v.tile.lanes = target_.vector_bytes / bytes_; v.tile.lanes >= 2; v.tile.lanes /= 2)
      for (v.tile.vectors = 1; v.tile.vectors <= 6; ++v.tile.vectors) {
        if (v.tile.vectors > ceil_div(size(v.column), v.tile.lanes)) continue;
        if (!Sketch::may_cut(v.column, v.tile.columns())) continue;
        for (v.tile.rows = 1;
             (v.tile.rows + 1) * v.tile.vectors + 1 <= most && v.tile.rows <= size(v.row);
             ++v.tile.rows)
          if (const double c = cost(v); c < least) best = v.tile, least = c;
      }
    v.tile = best, v.cost = least;
  }

  // Nothing that is read for one position is used at another.
  bool reuses_nothing_along(UOp r) const { return first_.depends_on(r) && second_.depends_on(r); }

  // All sums of what is read together fit beside it.
  bool sums_fit() const {
    int64_t count = 1;
    for (UOp r : axes_)
      if (!reuses_nothing_along(r)) count *= size(r);
    return count * bytes_ <= target_.l2_bytes / 2;
  }

  // Rows are cut for threads, in whole tiles, unless they have something better.
  int64_t rows_of_share() const {
    return std::max(view_.tile.rows, ceil_div(size(view_.row), 4 * target_.threads));
  }
  bool shares_out_rows() const {
    const int64_t wanted = 4 * target_.threads;
    return target_.threads > 1 && size(view_.row) >= target_.threads * rows_of_share() &&
           std::ranges::none_of(
               axes_, [&](UOp r) { return reuses_nothing_along(r) && size(r) >= wanted; });
  }

  // Blocks of the reduce are wanted, and the outputs cannot hold the sums between them.
  bool needs_place_for_sums() const {
    if (!(block_depth_ || block_axis_) || s_.sum_stage || !sums_fit()) return false;
    return s_.body->nsrc > 1 || s_.body->src(0)->src(0)->src(1) != s_.sum;
  }

  // It stands inside the loop over blocks of the sum.
  bool is_in_block(UOp axis) const {
    return std::ranges::any_of(s_.ranges.all, [&](UOp r) {
      return range_role(r) == Role::Accumulate && range_slot(r) < range_slot(axis);
    });
  }

  // The result lies along another axis than the lanes, or more is made of it between blocks: it is
  // staged along the lanes, then copied.
  bool stage_sums() {
    Sketch trial = s_;
    const bool whole = sums_fit();
    std::vector<int> over, outside;
    for (UOp r : axes_) {
      if (r == view_.row || r == view_.column) continue;
      const bool inside = (whole && !reuses_nothing_along(r)) || is_in_block(r);
      (inside ? over : outside).push_back(range_slot(r));
    }
    over.push_back(range_slot(view_.row));
    int shared_rows = -1;
    if (whole && !is_in_block(view_.row) && shares_out_rows()) {
      shared_rows = over.back();
      outside.push_back(shared_rows);
      over.back() = trial.split(over.back(), rows_of_share(), Role::Loop);
    }
    over.push_back(range_slot(view_.column));
    if (!trial.act({Action::Stage, Action::kSum, 0, Role::Loop, over})) return false;
    ContractionTaste inside = taste_;
    inside.view = 0;
    const std::optional<Product> again = find_product(trial);
    if (!again) return false;
    Contraction staged(trial, *again, inside);
    staged.shared_rows_ = shared_rows;
    if (!staged.run()) return false;
    copy_in_squares(trial, outside, over);
    s_.take(trial);
    return true;
  }

  // Loops around the staged sums first; then squares of what was lanes and of how the result lies.
  void copy_in_squares(Sketch& s, const std::vector<int>& outside, std::vector<int> inside) const {
    int across = inside.back(), along = -1;
    for (UOp r : s.outputs)
      if (stride(result_, r) == 1) along = range_slot(r);
    if (!std::ranges::count(inside, along)) along = -1;
    UOp stored = s.body->src(0)->src(0)->src(0)->src(1);
    std::ranges::sort(inside, std::greater(),
                      [&](int slot) { return stride(split_gate(stored).idx, s.range_of(slot)); });
    std::vector<int> nest = outside;
    nest.insert(nest.end(), inside.begin(), inside.end());
    std::vector<int> slots = nest;
    std::ranges::sort(slots);
    if (nest != slots) {
      const std::vector<int> rest(nest.begin() + 1, nest.end());
      if (!s.act({Action::Order, nest[0], 0, Role::Loop, rest})) return;
      auto moved = [&](int slot) {
        return slots[static_cast<size_t>(std::ranges::find(nest, slot) - nest.begin())];
      };
      across = moved(across);
      if (along >= 0) along = moved(along);
    }
    if (along < 0) return;
    if (along == across) {
      s.split(along, target_.vector_bytes / bytes_, Role::Vector);
      return;
    }
    const int64_t length = size(s.range_of(along)), width = size(s.range_of(across));
    const int64_t lanes = lanes_for(length);
    if (length < 4 || width % lanes || s.split(along, lanes, Role::Vector) < 0) return;
    s.split(across, lanes, Role::Upcast);
  }

  // Of an axis of this length: as few vectors as possible, whole ones if that costs few more.
  int64_t lanes_for(int64_t length) const {
    int64_t best = 2;
    double least = HUGE_VAL;
    for (int64_t lanes = 2; lanes <= target_.vector_bytes / bytes_; lanes *= 2) {
      const double cost = static_cast<double>(ceil_div(length, lanes)) * (length % lanes ? 1.6 : 1);
      if (cost < least) best = lanes, least = cost;
    }
    return best;
  }

  void choose_blocks() {
    const int64_t m = size(view_.row);
    const Tile& t = view_.tile;
    const int64_t tiles_down = ceil_div(m, t.rows);
    pack_left_ = packs_left(view_);
    pack_right_ = packs_right(view_) != taste_.other_right && view_.right.memory->is(Op::Param);
    packs_in_block_ =
        pack_right_ && is_in_block(view_.column) &&
        (view_.left.memory->ints(1) + depth_ * t.columns()) * bytes_ <= target_.l2_bytes / 4 * 3;
    // What is staged in the loops outside would be made for each block.
    if (!s_.nests.empty()) return;
    if (s_.reduces.size() > 1) return choose_block_axis();
    // A panel of the right side in an eighth of L2, a block of the left in half of it.
    const int64_t panel = target_.l2_bytes / 8 / (t.columns() * bytes_);
    const int64_t wanted = std::clamp<int64_t>(panel, 64, 384);
    if (depth_ > wanted * 3 / 2) block_depth_ = even_depth(wanted);
    if (!pack_left_ || !pack_right_) return;
    const int64_t k = block_depth_ ? block_depth_ : depth_;
    const int64_t most = std::max<int64_t>(1, target_.l2_bytes / 2 / (k * t.rows * bytes_));
    if (tiles_down > most) row_tiles_ = most;
  }

  // The longest of several reduces is cut where a cache does not hold all columns beside the rest:
  // if each block is packed once, so that what is packed lies in half of L1.
  void choose_block_axis() {
    const int64_t bytes = size(view_.column) * depth_ * bytes_;
    const bool once = packs_once();
    if (!pack_right_ || bytes <= target_.l2_bytes / (once ? 8 : 2)) return;
    for (UOp r : s_.reduces)
      if (is_const(r->src(0)) && (!block_axis_ || size(r) > size(block_axis_))) block_axis_ = r;
    if (!block_axis_ || !once) return;
    const int64_t length = size(block_axis_), most = target_.l1_bytes / 2 / (bytes / length);
    for (int64_t n = 2; n <= std::min(most, length / 2); ++n)
      if (length % n == 0) block_depth_ = n;
  }

  // No loop around the blocks of the sum packs the same columns anew. Threads do not count: sums
  // have the same blocks without them.
  bool packs_once() const {
    auto moves = [&](UOp r) { return view_.right.depends_on(r) || range_slot(r) == shared_rows_; };
    if (s_.sum_stage) return std::ranges::all_of(open_ranges(s_.sum_stage), moves);
    return std::ranges::all_of(axes_, [&](UOp r) { return r == view_.row || moves(r); });
  }

  // Of the even cuts of the reduce the one nearest to what is wanted.
  int64_t even_depth(int64_t wanted) const {
    int64_t best = 0;
    for (int64_t n = 2; depth_ / n >= wanted / 3; ++n)
      if (depth_ % n == 0 && (!best || std::llabs(depth_ / n - wanted) < std::llabs(best - wanted)))
        best = depth_ / n;
    return best;
  }

  void cut() {
    const Tile& t = view_.tile;
    rows_ = range_slot(view_.row), columns_ = range_slot(view_.column);
    for (UOp r : s_.reduces) reduces_.push_back(range_slot(r));
    std::vector<int> others;
    for (UOp r : axes_)
      if (r != view_.row && r != view_.column) others.push_back(range_slot(r));
    // Tiles are worked through in the order of slots: what the inner axis loads stays in registers,
    // so the shorter one is inside.
    const bool rows_first = t.rows >= t.vectors;
    if (rows_first && t.rows > 1) row_in_ = s_.split(rows_, t.rows, Role::Upcast);
    lane_ = s_.split(columns_, t.lanes, Role::Vector);
    if (t.vectors > 1) vector_ = s_.split(columns_, t.vectors, Role::Upcast);
    if (!rows_first && t.rows > 1) row_in_ = s_.split(rows_, t.rows, Role::Upcast);
    const bool by_rows = shares_rows_rather();
    if (by_rows) share_out(rows_);
    const int64_t tiles = row_tiles_ > 1 ? size(s_.range_of(rows_)) : 0;
    if (tiles > row_tiles_) {
      row_blocks_ = rows_;
      rows_ = s_.split(rows_, ceil_div(tiles, ceil_div(tiles, row_tiles_)), Role::Loop);
    }
    if (!by_rows) share_out(columns_);
    cut_reduce();
    order(others);
    fetch_right(others);
  }

  // Of threads that share out tiles all wait for the one that has most; too few are not shared out,
  // and of a variable size there may be too few.
  double unevenness(UOp axis, int64_t piece) const {
    const int64_t tiles = ceil_div(size(axis), piece);
    if (tiles < 2 * target_.threads) return HUGE_VAL;
    if (!is_const(axis->src(0))) return 2;
    return static_cast<double>(round_up(tiles, target_.threads)) / static_cast<double>(tiles);
  }

  // The axis that parts clearly more evenly, or else the longer one that stays whole in a cache.
  bool shares_rows_rather() const {
    const double rows = unevenness(view_.row, view_.tile.rows),
                 columns = unevenness(view_.column, view_.tile.columns());
    if (std::fmax(rows, columns) > 1.05 * std::fmin(rows, columns)) return rows < columns;
    return size(view_.row) > size(view_.column) && row_tiles_ <= 1;
  }

  // Each worker gets one part of an axis, and packs what it needs once.
  void share_out(int& slot) {
    if (target_.threads < 2 || axes_.size() > 2 || s_.sum_stage || !s_.nests.empty()) return;
    UOp r = s_.range_of(slot);
    if (!r || size(r) < 2 * target_.threads) return;
    const int inner = s_.split(slot, ceil_div(size(r), target_.threads), Role::Loop);
    if (inner < 0) return;
    s_.shared = slot;
    slot = inner;
  }

  // Only where the sums may wait in memory.
  void cut_reduce() {
    if (!block_depth_ && !block_axis_) return;
    Sketch trial = s_;
    int outer = block_axis_ ? range_slot(block_axis_) : reduces_[0], inner = -1;
    if (block_depth_) inner = trial.split(outer, block_depth_, Role::Reduce);
    if ((block_depth_ && inner < 0) || !trial.act({Action::Accumulate, outer})) return;
    s_.take(trial);
    block_ = outer;
    std::erase(reduces_, outer);
    if (inner >= 0) reduces_.push_back(inner);
  }

  // All columns stay in a cache between two tiles of rows.
  bool right_is_near() const {
    return !pack_right_ && s_.reduces.size() == 1 &&
           size(view_.column) * depth_ * bytes_ <= target_.l2_bytes / 4;
  }

  // What comes from afar for each position of another axis, and is then used many times, is asked
  // for one position ahead.
  void fetch_right(std::span<const int> others) {
    const UOp memory = view_.right.memory;
    if (!right_is_near() || !memory->is(Op::Param)) return;
    if (memory->ints(1) * bytes_ <= target_.l2_bytes) return;
    int loop = -1;
    for (int slot : others)
      if (slot >= 0 && view_.right.depends_on(s_.range_of(slot))) loop = std::max(loop, slot);
    if (loop >= 0) s_.last.push_back({Action::Fetch, static_cast<int>(memory->ints(0)), loop});
  }

  // Other axes that the right side is packed for, blocks of the sum, other axes, blocks of rows,
  // panels of columns, tiles of rows; the last two the other way round where that costs no reads,
  // so that results are stored as memory lies: lines fetched to be written come in time.
  void order(std::vector<int>& others) {
    std::vector<int*> nest;
    auto add = [&](int& slot) {
      if (slot >= 0 && s_.range_of(slot))
        nest.push_back(&slot);
      else
        slot = -1;
    };
    auto depends = [&](int slot) {
      UOp r = s_.range_of(slot);
      return r && view_.right.depends_on(r);
    };
    for (int& slot : others)
      if (depends(slot)) add(slot);
    if (packs_in_block_) add(columns_);
    add(block_);
    for (int& slot : others)
      if (!depends(slot)) add(slot);
    lazy_ = std::ranges::none_of(others, [&](int slot) { return slot >= 0 && !depends(slot); }) &&
            row_blocks_ < 0 &&
            std::ranges::all_of(loops_outside(), [&](UOp r) { return view_.right.depends_on(r); });
    lazy_ |= packs_in_block_;
    add(row_blocks_);
    if (packs_in_block_)
      add(rows_);
    else if (right_is_near())
      add(rows_), add(columns_);
    else
      add(columns_), add(rows_);
    std::vector<int> slots;
    for (int* slot : nest) slots.push_back(*slot);
    if (std::ranges::is_sorted(slots)) return;
    const std::vector<int> rest(slots.begin() + 1, slots.end());
    if (!s_.act({Action::Order, slots[0], 0, Role::Loop, rest})) return;
    std::ranges::sort(slots);
    for (size_t i = 0; i < nest.size(); ++i) *nest[i] = slots[i];
  }
  // A panel of the right side is used for all of the left one before the next, inside a loop over
  // blocks of the sum that was there before.
  bool packs_in_block_ = false;
  bool lazy_ = false;  // a panel is used up before the next: it is packed on its own

  void stage() {
    if (pack_right_) stage_right();
    if (!pack_left_) return;
    const int copies = s_.next_slot();
    std::vector<int> over = listed({rows_}, reduces_, {row_in_});
    if (pack(view_.left, over) && row_in_ >= 0)
      s_.split(copies + static_cast<int>(over.size()) - 1, view_.tile.rows, Role::Upcast);
  }

  void stage_right() {
    const int copies = s_.next_slot();
    const bool lies_across = stride(view_.right.position, view_.column) != 1;
    const std::vector<int> over = listed({lazy_ ? -1 : columns_}, reduces_, {vector_, lane_});
    if (!pack(view_.right, over)) return;
    const int first_reduce = copies + (lazy_ || columns_ < 0 ? 0 : 1);
    int last_reduce = first_reduce + static_cast<int>(reduces_.size()) - 1;
    while (lies_across && last_reduce > first_reduce &&
           s_.act({Action::Merge, last_reduce - 1, last_reduce}))
      --last_reduce;
    UOp last = s_.range_of(last_reduce);
    if (lies_across && last && size(last) % view_.tile.lanes == 0)
      s_.split(last_reduce, view_.tile.lanes, Role::Upcast);
    else if (!lies_across && vector_ >= 0)
      s_.split(last_reduce + 1, view_.tile.vectors, Role::Upcast);
  }

  static std::vector<int> listed(std::initializer_list<int> before, const std::vector<int>& middle,
                                 std::initializer_list<int> after) {
    std::vector<int> out(before);
    out.insert(out.end(), middle.begin(), middle.end());
    out.insert(out.end(), after.begin(), after.end());
    std::erase(out, -1);
    return out;
  }

  bool pack(const Access& a, std::vector<int> over) {
    return s_.act(
        {Action::Stage, static_cast<int>(a.memory->ints(0)), 0, Role::Loop, std::move(over)});
  }
};

}  // namespace

bool tile_contraction(Sketch& sketch, const ContractionTaste& taste) {
  Sketch trial = sketch;
  order_reduces(trial, taste.as == Gather::Matrix);
  const bool is_gated = trial.sum && trial.sum->src(0)->is(Op::Where);
  if (taste.masks && !is_gated) return false;
  if (!taste.masks && !taste.gather) skip_gates(trial);
  if (taste.gather && !gather(trial, taste.gather, taste.as)) return false;
  const std::optional<Product> product = find_product(trial);
  if (!product || !Contraction(trial, *product, taste).run()) return false;
  sketch.take(trial);
  return true;
}

}  // namespace mote

// Sums of products: what is read for one output axis is reused along the other. A tile of both in
// registers, operands packed where they do not lie well, the reduce in blocks that caches hold.
#include <algorithm>
#include <cmath>

#include "algebra/algebra.h"
#include "optimize/sketch.h"

namespace mote {

namespace {

int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
int64_t padded(int64_t n, int64_t size) { return pieces(n, size) * size; }

struct Tile {
  int64_t rows = 1, vectors = 1, lanes = 1;
  int64_t columns() const { return vectors * lanes; }
};

class Contraction {
 public:
  explicit Contraction(Sketch& sketch) : s_(sketch), target_(sketch.target) {}

  bool run() {
    if (!find_axes() || !is_worthwhile()) return false;
    choose_tile();
    choose_blocks();
    cut();
    stage();
    return true;
  }

 private:
  Sketch& s_;
  const Target& target_;
  UOp row_, column_;    // the output axes with reuse: stores run along columns
  Access left_, right_; // read for rows and for columns
  int64_t depth_ = 1;   // products per sum
  int64_t bytes_ = 4;   // of an accumulator
  Tile tile_;
  int64_t block_depth_ = 0, row_tiles_ = 0;  // of a block; 0: not cut
  bool pack_left_ = false, pack_right_ = false;
  int rows_ = -1, row_blocks_ = -1, columns_ = -1, lane_ = -1, vector_ = -1, row_in_ = -1;
  int outer_reduce_ = -1, inner_reduce_ = -1;

  static int64_t size(UOp r) { return Sketch::size(r); }
  int64_t stride(const Access& a, UOp r) const { return stride_of(a.position, r).value_or(0); }

  UOp the_reduce() const {
    UOp found;
    for (UOp n : toposort(s_.body))
      if (n->is(Op::Reduce)) {
        if (found) return {};
        found = n;
      }
    return found;
  }

  // Two reads, each along one of the axes and not along the other.
  bool find_axes() {
    UOp reduce = the_reduce();
    if (!reduce || s_.reduces.empty() || s_.body->nsrc != 1) return false;
    bytes_ = std::max<int64_t>(4, size_of(reduce->dtype));
    const Access* store = nullptr;
    std::vector<const Access*> reads;
    for (const Access& a : s_.accesses) {
      if (a.store) store = &a;
      else if (a.nest) reads.push_back(&a);
    }
    if (!store || reads.size() != 2) return false;
    for (UOp r : s_.outputs) {
      if (size(r) == 0) return false;
      if (stride(*store, r) == 1) column_ = r;
    }
    if (!column_) return false;
    if (reads[0]->depends_on(column_)) std::swap(reads[0], reads[1]);
    left_ = *reads[0], right_ = *reads[1];
    if (left_.depends_on(column_) || !right_.depends_on(column_)) return false;
    for (UOp r : s_.outputs)
      if (r != column_ && left_.depends_on(r) && !right_.depends_on(r) &&
          (!row_ || size(r) > size(row_)))
        row_ = r;
    for (UOp r : s_.reduces) {
      if (size(r) == 0 || !left_.depends_on(r) || !right_.depends_on(r)) return false;
      depth_ *= size(r);
    }
    return row_ && s_.reduces.size() == 1;
  }

  bool is_worthwhile() const {
    return size(row_) >= 2 && size(column_) >= 8 && depth_ >= 4 &&
           size(row_) * size(column_) * depth_ >= 4096;
  }

  // Time per product: loads beside the multiply-adds, too few chains, padding at both edges, packing.
  double cost(const Tile& t) const {
    const double loads = 1.0 / static_cast<double>(t.rows) + 1.0 / static_cast<double>(t.vectors);
    const double chains = static_cast<double>(t.rows * t.vectors);
    const double wanted = target_.vector_registers * 0.75;
    const double idle = chains < wanted ? 0.25 * (1 - chains / wanted) : 0;
    const int64_t m = size(row_), n = size(column_);
    const double waste = static_cast<double>(padded(m, t.rows)) / static_cast<double>(m) *
                         static_cast<double>(padded(n, t.columns())) / static_cast<double>(n);
    const double gated_loads = packs_left(t) ? 0.01 : 0.08;
    const double packing = packs_left(t) ? 2.0 * static_cast<double>(t.lanes) / static_cast<double>(n) : 0;
    const double edges = (m % t.rows ? gated_loads : 0) + (n % t.columns() ? 0.02 : 0);
    const double whole = static_cast<double>(target_.vector_bytes / bytes_);
    return (1 + 0.3 * loads + idle + edges + packing) * waste * whole / static_cast<double>(t.lanes);
  }

  bool packs_left(const Tile& t) const {
    const int64_t m = size(row_);
    return pieces(size(column_), t.columns()) >= 4 &&
           (m * depth_ * bytes_ > target_.l2_bytes || m % t.rows != 0);
  }

  void choose_tile() {
    const int64_t most = target_.vector_registers * 15 / 16;
    double best = HUGE_VAL;
    for (int64_t lanes = target_.vector_bytes / bytes_; lanes >= 2; lanes /= 2)
      for (int64_t vectors = 1; vectors <= 6; ++vectors)
        for (int64_t rows = 1; rows * vectors + vectors + 1 <= most; ++rows) {
          if (rows > size(row_) || vectors > pieces(size(column_), lanes)) continue;
          const Tile t{rows, vectors, lanes};
          if (cost(t) < best) best = cost(t), tile_ = t;
        }
  }

  // Of the even cuts of the reduce the one nearest to what is wanted.
  int64_t even_depth(int64_t wanted) const {
    int64_t best = 0;
    for (int64_t n = 2; depth_ / n >= wanted / 3; ++n)
      if (depth_ % n == 0 && (!best || std::llabs(depth_ / n - wanted) < std::llabs(best - wanted)))
        best = depth_ / n;
    return best;
  }

  void choose_blocks() {
    const int64_t m = size(row_), n = size(column_);
    const int64_t tiles_down = pieces(m, tile_.rows);
    pack_right_ = stride(right_, column_) != 1 ||
                  (tiles_down >= 4 && n * depth_ * bytes_ > target_.l2_bytes / 4);
    pack_left_ = packs_left(tile_);
    // A panel of the right side in an eighth of L2, a block of the left in half of it.
    const int64_t wanted = std::max<int64_t>(
        64, std::min<int64_t>(384, target_.l2_bytes / 8 / (tile_.columns() * bytes_)));
    if (depth_ > wanted * 3 / 2) block_depth_ = even_depth(wanted);
    if (!pack_left_ || !pack_right_) return;
    const int64_t k = block_depth_ ? block_depth_ : depth_;
    const int64_t most = std::max<int64_t>(1, target_.l2_bytes / 2 / (k * tile_.rows * bytes_));
    if (tiles_down > most) row_tiles_ = pieces(tiles_down, pieces(tiles_down, most));
  }

  void cut() {
    rows_ = range_slot(row_), columns_ = range_slot(column_);
    outer_reduce_ = range_slot(s_.reduces[0]);
    // Tiles are worked through in the order of slots: what the inner axis loads stays in registers,
    // so the shorter one is inside.
    const bool rows_first = tile_.rows >= tile_.vectors;
    if (rows_first && tile_.rows > 1) row_in_ = s_.split(rows_, tile_.rows, Role::Upcast);
    lane_ = s_.split(columns_, tile_.lanes, Role::Lane);
    if (tile_.vectors > 1) vector_ = s_.split(columns_, tile_.vectors, Role::Upcast);
    if (!rows_first && tile_.rows > 1) row_in_ = s_.split(rows_, tile_.rows, Role::Upcast);
    if (row_tiles_ > 1) {
      row_blocks_ = rows_;
      rows_ = s_.split(rows_, row_tiles_, Role::Loop);
    }
    share_out();
    inner_reduce_ = outer_reduce_;
    outer_reduce_ = -1;
    if (block_depth_) cut_reduce();
    order();
  }

  // Each worker gets a part of the longer axis, and packs what it needs of it.
  void share_out() {
    const int64_t chunks = 4 * target_.threads;
    if (target_.threads < 2 || s_.outputs.size() > 3) return;
    const bool by_rows = size(row_) > size(column_) && row_blocks_ < 0;
    int& slot = by_rows ? rows_ : columns_;
    UOp r = s_.range_of(slot);
    if (!r || size(r) < 2 * target_.threads) return;
    slot = s_.split(slot, pieces(size(r), std::min(chunks, size(r))), Role::Loop);
  }

  void cut_reduce() {
    // Only where the sums may wait in the output.
    UOp before = s_.body;
    const size_t count = s_.actions.size();
    const int outer = inner_reduce_;
    const int inner = s_.split(outer, block_depth_, Role::Reduce);
    if (inner >= 0 && s_.act({Action::Block, outer})) {
      outer_reduce_ = outer, inner_reduce_ = inner;
      return;
    }
    s_.body = before;
    s_.actions.resize(count);
    s_.look();
  }

  // Blocks of the sum, blocks of rows, panels of columns, tiles of rows; other axes outside.
  void order() {
    std::vector<int*> nest;
    for (int* slot : {&outer_reduce_, &row_blocks_, &columns_, &rows_})
      if (*slot >= 0 && s_.range_of(*slot)) nest.push_back(slot);
      else *slot = -1;
    if (nest.size() < 2) return;
    std::vector<int> slots, rest;
    for (int* slot : nest) slots.push_back(*slot);
    rest.assign(slots.begin() + 1, slots.end());
    if (!std::ranges::is_sorted(slots) &&
        !s_.act({Action::Order, slots[0], 0, Role::Loop, rest}))
      return;
    std::ranges::sort(slots);
    for (size_t i = 0; i < nest.size(); ++i) *nest[i] = slots[i];
  }

  void stage() {
    auto listed = [](std::initializer_list<int> slots) {
      std::vector<int> out;
      for (int slot : slots)
        if (slot >= 0) out.push_back(slot);
      return out;
    };
    // Without blocks of rows a panel is used up before the next: it is packed on its own.
    if (pack_right_) {
      const int copies = s_.next_slot();
      const std::vector<int> over =
          listed({row_blocks_ >= 0 ? columns_ : -1, inner_reduce_, vector_, lane_});
      const int depth = copies + (row_blocks_ >= 0 && columns_ >= 0 ? 1 : 0);
      const bool lies_across = stride(right_, column_) != 1;
      if (pack(right_, over)) {
        if (lies_across) s_.split(depth, tile_.lanes, Role::Upcast);
        else if (vector_ >= 0) s_.split(depth + 1, tile_.vectors, Role::Upcast);
      }
    }
    if (!pack_left_) return;
    const int copies = s_.next_slot();
    if (pack(left_, listed({rows_, inner_reduce_, row_in_})) && row_in_ >= 0)
      s_.split(copies + (rows_ >= 0 ? 2 : 1), tile_.rows, Role::Upcast);
  }

  bool pack(const Access& a, std::vector<int> over) {
    return s_.act(
        {Action::Stage, static_cast<int>(a.memory->ints(0)), 0, Role::Loop, std::move(over)});
  }
};

}  // namespace

bool tile_contraction(Sketch& sketch) { return Contraction(sketch).run(); }

}  // namespace mote

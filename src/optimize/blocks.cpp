// The choice of loops for targets with blocks of workers. A product of two operands that are each
// used along another axis is one of tiles that lanes multiply where the target can, else each
// worker has a square of results in registers; the operands are in memory of the block. Rows are
// folded by a block each, columns by lanes that read along them. What is read across rows is turned
// in memory of the block. Of all else the innermost output, in vectors, is shared out to the
// workers of a block, who also share what they would all compute alike.
#include "optimize/blocks.h"

#include <algorithm>

#include "optimize/sketch.h"

namespace mote {

namespace {

constexpr int64_t kWorkers = 256;    // of a block of a plain map
constexpr int64_t kGroup = 128;      // of one that folds together
constexpr int64_t kShortFold = 32;   // one worker does it alone
constexpr int64_t kAhead = 3;        // memories of what is staged for the rounds of a loop
constexpr int64_t kResident = 2048;  // workers that a processor has at once, to hide latency
constexpr int64_t kInFlight = 4;     // reads that a worker of a fold has under way
constexpr int64_t kTurned = 32;      // side of a tile that changes rows for columns
constexpr int64_t kDepth = 16;       // of a tile of an operand, along the sum
constexpr int64_t kPiece = 4;        // columns side by side in registers
constexpr int kDimensions = 3;

class Blocks : Sketch {
 public:
  Blocks(UOp kernel, const Target& on) : Sketch(kernel, on) {}

  Tuned run() {
    while (merge_neighbours()) {}
    if (!multiply_tiles() && !tile_registers() && !tile_product() && !fold_rows() &&
        !fold_columns() && !fold_together() && !keep_rows() && !turn())
      choose_local();
    choose_grid();
    share_alike();
    return {body, std::move(actions)};
  }

 private:
  int kept_ = -1;  // slot of an output loop that a block runs in rounds

  bool merge_neighbours() {
    for (const std::vector<UOp>& list : {outputs, reduces})
      for (size_t i = list.size(); i-- > 1;)
        if (act({Action::Merge, range_slot(list[i - 1]), range_slot(list[i])})) return true;
    return false;
  }

  static bool is_long(UOp r, int64_t least) { return is_const(r->src(0)) && size(r) >= least; }

  // The only read in the sum that moves with these and not with the other; -1: there is none.
  int operand(UOp with, UOp fold, UOp without) const {
    int found = -1;
    for (const Access& a : accesses) {
      if (a.store || !a.memory->is(Op::Param) || !a.depends_on(fold)) continue;
      if (!a.depends_on(with) || a.depends_on(without)) continue;
      if (found >= 0) return -1;
      found = static_cast<int>(a.memory->ints(0));
    }
    return found;
  }

  bool tile_product() {
    const int64_t tile = target->workers >= kWorkers ? 16 : 8;
    if (!sum || reduces.empty() || !is_long(reduces.back(), tile)) return false;
    for (UOp m : outputs)
      for (UOp n : outputs)
        if (m != n && is_long(m, tile) && is_long(n, tile) && tile_along(m, n, tile)) return true;
    return false;
  }

  // An operand in memory of the block, filled ahead by these workers.
  static bool stage_ahead(Sketch& trial, int memory, std::vector<int> over,
                          std::span<const int> workers) {
    int copy = trial.next_slot();
    if (!trial.act({Action::Stage, memory, 0, Role::Loop, std::move(over)})) return false;
    if (trial.target->copies) trial.act({Action::Copy, copy});
    trial.act({Action::Deep, copy, kAhead});
    for (int w : workers)
      if (!trial.act({Action::Share, copy++, w})) return false;
    return true;
  }

  // A product of which each worker has a square of results in registers.
  bool tile_registers() {
    if (!sum || reduces.empty()) return false;
    for (int64_t each : {8, 4})
      for (UOp m : outputs)
        for (UOp n : outputs)
          if (m != n && registers_along(m, n, each)) return true;
    return false;
  }

  // The workers of a block: rows, and columns in two steps, the inner one of those that fill a
  // stretch of an operand.
  struct Square {
    int rows, columns, inner;
  };

  // An operand of which this loop is contiguous: rows of the stage lie along it.
  struct Operand {
    int memory;
    bool deep;  // along the sum
  };
  Operand operand_of(UOp with, UOp fold, UOp without) const {
    const int memory = operand(with, fold, without);
    for (const Access& a : accesses)
      if (memory >= 0 && !a.store && a.memory->is(Op::Param) && a.memory->ints(0) == memory)
        return {memory, a.step(fold) == 1};
    return {memory, false};
  }

  bool registers_along(UOp m, UOp n, int64_t each) {
    const int64_t side = target->workers >= kWorkers ? 16 : 8, block = side * each;
    UOp k = reduces.back();
    const Operand a = operand_of(m, k, n), b = operand_of(n, k, m);
    if (a.memory < 0 || b.memory < 0 || a.memory == b.memory) return false;
    if (!is_long(m, block) || !is_long(n, block) || !is_long(k, kDepth)) return false;
    if (each > 4 && results() / (block * block) < target->parallel_results) return false;
    Sketch trial = *this;
    const int i = trial.split(range_slot(m), block, Role::Loop),
              j = trial.split(range_slot(n), block, Role::Loop),
              r = trial.split(range_slot(k), kDepth, Role::Reduce);
    if (i < 0 || j < 0 || r < 0) return false;
    const int first = stage_tile(trial, a, i, r), second = stage_tile(trial, b, j, r);
    if (first < 0 || second < 0) return false;
    Square w{};
    if (!cut_square(trial, i, j, side, b.deep ? 1 : kPiece, w)) return false;
    if (!fill_tile(trial, first, w) || !fill_tile(trial, second, w)) return false;
    if (!runs_on(trial.body, *target)) return false;
    take(trial);
    return true;
  }

  static Action stage_along(const Operand& o, int along, int fold) {
    std::vector<int> over = {fold, along};
    if (o.deep) std::swap(over[0], over[1]);
    return {Action::Stage, o.memory, 0, Role::Loop, over};
  }

  // The tile of an operand in memory of the block. Its first copied loop's slot, -1: refused.
  int stage_tile(Sketch& s, const Operand& o, int along, int fold) const {
    const int copy = s.next_slot();
    return s.act(stage_along(o, along, fold)) ? copy : -1;
  }

  // Results of a worker lie as far apart as there are workers, but for pieces of columns.
  static bool cut_square(Sketch& s, int i, int j, int64_t side, int64_t piece, Square& w) {
    w.rows = s.split(i, side, Role::Loop);
    if (piece > 1) s.split(j, piece, Role::Vector);
    w.columns = s.split(j, side, Role::Loop);
    if (w.rows < 0 || w.columns < 0) return false;
    auto all = [&](int slot) {
      UOp rest = s.range_of(slot);
      return !rest || s.split(slot, size(rest), Role::Upcast) >= 0;
    };
    if (!all(i) || !all(j)) return false;
    w.inner = s.split(w.columns, kPiece, Role::Loop);
    return w.inner >= 0 && s.act({Action::Local, w.rows}) && s.act({Action::Local, w.columns}) &&
           s.act({Action::Local, w.inner});
  }

  // All workers fill a tile: its rows a vector after the other, by neighbours.
  static bool fill_tile(Sketch& s, int copy, const Square& w) {
    const int row = copy, column = copy + 1, vector = s.next_slot();
    if (!s.range_of(row) || !s.range_of(column)) return false;
    const bool longer = size(s.range_of(column)) > kPiece * kPiece;
    const Action list[] = {
        {Action::Pad,   row,                   kPiece              },
        {Action::Split, column,                kPiece, Role::Vector},
        {Action::Share, column,                w.inner             },
        {Action::Share, longer ? column : row, w.columns           },
        {Action::Share, row,                   w.rows              },
    };
    if (!s.act_all(list)) return false;
    if (s.target->copies) s.act({Action::Copy, vector});
    s.act({Action::Deep, vector, kAhead});
    return true;
  }

  // Each worker an element of the tile, of the operands too.
  bool tile_along(UOp m, UOp n, int64_t tile) {
    UOp k = reduces.back();
    const int a = operand(m, k, n), b = operand(n, k, m);
    if (a < 0 || b < 0 || a == b) return false;
    Sketch trial = *this;
    const int i = trial.split(range_slot(m), tile, Role::Loop),
              j = trial.split(range_slot(n), tile, Role::Loop),
              r = trial.split(range_slot(k), tile, Role::Reduce), workers[] = {i, j};
    if (i < 0 || j < 0 || r < 0 || !trial.act({Action::Local, i}) || !trial.act({Action::Local, j}))
      return false;
    if (!stage_ahead(trial, a, {i, r}, workers) || !stage_ahead(trial, b, {r, j}, workers))
      return false;
    if (!runs_on(trial.body, *target)) return false;
    take(trial);
    return true;
  }

  // Tiles that a group of lanes multiplies; later rows of a target are of larger ones.
  bool multiply_tiles() {
    if (!sum || reduces.empty()) return false;
    for (size_t row = target->fragments.size(); row-- > 0;)
      for (UOp m : outputs)
        for (UOp n : outputs)
          if (m != n && (multiply_blocks(m, n, target->fragments[row]) ||
                         multiply_along(m, n, target->fragments[row])))
            return true;
    return false;
  }

  // Groups of lanes that have several such tiles each, of operands in memory of the block.
  bool multiply_blocks(UOp m, UOp n, const Fragment& f) {
    constexpr int64_t down = 2, across = 4, each = 4;  // groups of lanes; tiles of one, both ways
    const int64_t rows = down * each * f.rows, columns = across * each * f.columns;
    UOp k = reduces.back();
    if (f.a_staged || f.b_staged || down * across * f.lanes > target->workers) return false;
    if (!is_long(m, rows) || !is_long(n, columns) || !is_long(k, f.depth)) return false;
    const Operand a = operand_of(m, k, n), b = operand_of(n, k, m);
    if (a.memory < 0 || b.memory < 0 || a.memory == b.memory) return false;
    Sketch trial = *this;
    const int i = trial.split(range_slot(m), rows, Role::Loop),
              j = trial.split(range_slot(n), columns, Role::Loop),
              r = trial.split(range_slot(k), f.depth, Role::Reduce);
    if (i < 0 || j < 0 || r < 0) return false;
    // The slots are those that the actions give out, one after the other.
    const int row = trial.next_slot(), column = row + 1, lane = row + 4,
              first = lane + 1, second = first + 2,
              piece = target->vector_bytes / static_cast<int>(size_of(f.factor));
    auto stage = [&](const Operand& o, std::vector<int> along) {
      std::vector<int> fold = {r};
      if (o.deep) std::swap(fold, along);
      fold.insert(fold.end(), along.begin(), along.end());
      return Action{Action::Stage, o.memory, 0, Role::Loop, fold};
    };
    std::vector<Action> list{
        {Action::Split,    i,   f.rows,    Role::Loop                },
        {Action::Split,    j,   f.columns, Role::Loop                },
        {Action::Split,    i,   each,      Role::Upcast              },
        {Action::Split,    j,   each,      Role::Upcast              },
        {Action::Local,    i                                         },
        {Action::Local,    j                                         },
        {Action::Fragment, row, f.lanes,   Role::Loop, {column, r}   },
        stage(a, {i, ~(row + 2), ~row}),
        stage(b, {j, ~(row + 3), ~column}),
    };
    for (const int copy : {first, second}) {
      const bool is_deep = copy == first ? a.deep : b.deep;
      list.push_back({Action::Pad, copy, piece});
      list.push_back({Action::Split, copy + 1, piece, Role::Vector});
      list.push_back({Action::Share, copy, lane});
      list.push_back({Action::Share, is_deep ? copy : copy + 1, j});
      list.push_back({Action::Share, copy + 1, i});
    }
    if (!trial.act_all(list)) return false;
    for (const int vector : {second + 2, second + 3}) {
      if (target->copies) trial.act({Action::Copy, vector});
      trial.act({Action::Deep, vector, kAhead});
    }
    take(trial);
    return true;
  }

  bool multiply_along(UOp m, UOp n, const Fragment& f) {
    UOp k = reduces.back();
    if (!is_long(m, f.rows) || !is_long(n, f.columns) || !is_long(k, f.depth)) return false;
    const int a = operand(m, k, n), b = operand(n, k, m);
    if (a < 0 || b < 0 || a == b) return false;
    Sketch trial = *this;
    const int i = trial.split(range_slot(m), f.rows, Role::Loop),
              j = trial.split(range_slot(n), f.columns, Role::Loop),
              r = trial.split(range_slot(k), f.depth, Role::Reduce), lane = trial.next_slot();
    if (i < 0 || j < 0 || r < 0) return false;
    std::vector<Action> list{
        {Action::Fragment, i, f.lanes, Role::Loop, {j, r}}
    };
    auto stage = [&](int memory, std::vector<int> over, int copy) {
      list.push_back({Action::Stage, memory, 0, Role::Loop, std::move(over)});
      if (target->copies) list.push_back({Action::Copy, copy});
      list.push_back({Action::Deep, copy, kAhead});
      list.push_back({Action::Share, copy, lane});
    };
    if (f.a_staged) stage(a, {i, r}, lane + 1);
    if (f.b_staged) stage(b, {r, j}, lane + (f.a_staged ? 3 : 1));
    if (!trial.act_all(list)) return false;
    take(trial);
    return true;
  }

  int64_t results() const {
    int64_t n = 1;
    for (UOp r : outputs) n *= std::max<int64_t>(size(r), 1);
    return n;
  }

  int64_t resident() const { return int64_t{target->parallel_results} * kResident; }

  // How many elements along a loop are accessed at once. 1: some lie apart, or the end cuts them.
  int64_t wide(UOp r) const {
    int64_t bytes = 1;
    for (const Access& a : accesses) {
      if (!a.depends_on(r)) continue;
      if (a.step(r) != 1) return 1;
      bytes = std::max<int64_t>(bytes, size_of(a.dtype()));
    }
    const int64_t n = target->vector_bytes / bytes;
    return is_long(r, 2) && size(r) % n == 0 ? n : 1;
  }

  // Part of a loop as vectors; the rest keeps the slot.
  static void cut_vector(Sketch& s, int slot, int64_t n) {
    if (n > 1) s.split(slot, n, Role::Vector);
  }

  // Rounds of a fold that are written out, so that their reads are under way together.
  static void cut_rounds(Sketch& s, int slot) {
    UOp r = s.range_of(slot);
    if (!r || range_role(r) != Role::Reduce || !is_const(r->src(0))) return;
    for (int64_t n = kInFlight; n > 1; n /= 2)
      if (size(r) % n == 0) return void(s.split(slot, n, Role::Unroll));
  }

  // Whether what is folded is read along this loop, one element after the other.
  bool reads_along(UOp r) const {
    bool any = false;
    for (const Access& a : accesses) {
      if (a.store || !a.nest) continue;
      if (a.depends_on(r) && a.step(r) != 1) return false;
      any |= a.depends_on(r);
    }
    return any;
  }

  // Sums of what lies in a row: a block for each row.
  bool fold_rows() {
    if (!sum || reduces.empty() || !reads_along(reduces.back())) return false;
    UOp k = reduces.back();
    if (!is_long(k, 2 * kShortFold)) return false;
    const int64_t n = wide(k), parts = size(k) / n;
    int64_t workers = std::min<int64_t>(kWorkers, target->workers);
    while (workers > 1 && workers > parts) workers /= 2;
    Sketch trial = *this;
    const int slot = range_slot(k);
    cut_vector(trial, slot, n);
    const int group = workers < parts ? trial.split(slot, workers, Role::Reduce) : slot;
    if (group < 0 || !trial.act({Action::Group, group})) return false;
    cut_rounds(trial, slot);
    take(trial);
    return true;
  }

  // Sums of columns that are too few to keep all workers busy: lanes read along the columns,
  // several such rows of lanes fold together.
  bool fold_columns() {
    if (!sum || reduces.empty() || outputs.empty() || !reads_along(outputs.back())) return false;
    UOp k = reduces.back(), n = outputs.back();
    int64_t rows = target->workers / target->warp;
    while (rows > 1 && (rows * kInFlight > size(k) || results() * rows / 2 >= resident()))
      rows /= 2;
    if (rows < 2 || !is_long(k, 2) || !is_long(n, target->warp)) return false;
    Sketch trial = *this;
    const int slot = range_slot(k), group = trial.split(slot, rows, Role::Reduce),
              lanes = trial.split(range_slot(n), target->warp, Role::Loop);
    if (group < 0 || lanes < 0 || !trial.act({Action::Local, lanes}) ||
        !trial.act({Action::Group, group}))
      return false;
    cut_rounds(trial, slot);
    take(trial);
    return true;
  }

  // Loops of folds and stages, which a block can share.
  std::vector<int> inner_loops() const {
    std::vector<int> slots;
    for (UOp r : ranges.all) {
      const bool own = range_role(r) == Role::Reduce ||
                       (range_role(r) == Role::Loop && !std::ranges::count(outputs, r));
      if (own && is_long(r, kShortFold)) slots.push_back(range_slot(r));
    }
    return slots;
  }

  // Rows of which each output needs the whole one, as a softmax does: a block for each row, in
  // rounds of vectors.
  bool keep_rows() {
    if (outputs.empty() || !is_long(outputs.back(), 2 * kShortFold)) return false;
    const int slot = range_slot(outputs.back());
    Sketch trial = *this;
    int64_t workers = std::min<int64_t>(kWorkers, target->workers);
    const int64_t n = wide(outputs.back()), parts = size(outputs.back()) / n;
    while (workers > parts) workers /= 2;
    cut_vector(trial, slot, n);
    const int worker = workers < parts ? trial.split(slot, workers, Role::Loop) : slot;
    if (worker < 0 || !trial.act({Action::Local, worker})) return false;
    bool shares = false;
    for (int loop : inner_loops()) {
      UOp r = trial.range_of(loop);
      Sketch with = trial;
      cut_vector(with, loop, wide(r));
      if (!with.act({Action::Share, loop, worker})) continue;
      cut_rounds(with, loop);
      trial = with;
      shares = true;
    }
    if (!shares) return false;
    take(trial);
    if (worker != slot) kept_ = slot;
    return true;
  }

  // What is read in columns where outputs lie in rows is read in rows, by tiles in memory of
  // the block.
  bool turn() {
    if (!reduces.empty() || outputs.size() < 2 || target->workers < 8 * kTurned) return false;
    UOp n = outputs.back();
    for (const Access& a : accesses) {
      if (a.store || !a.memory->is(Op::Param) || a.gated || a.step(n) < 2) continue;
      for (UOp m : outputs)
        if (m != n && a.step(m) == 1 && turn_along(m, n, static_cast<int>(a.memory->ints(0))))
          return true;
    }
    return false;
  }

  bool turn_along(UOp m, UOp n, int memory) {
    if (!is_long(m, kTurned) || !is_long(n, kTurned)) return false;
    Sketch trial = *this;
    const int i = trial.split(range_slot(m), kTurned, Role::Loop),
              j = trial.split(range_slot(n), kTurned, Role::Loop), copy = trial.next_slot();
    if (i < 0 || j < 0 || !trial.act({Action::Stage, memory, 0, Role::Loop, {j, i}})) return false;
    const int rounds = trial.split(i, kTurned / 8, Role::Loop);
    std::vector<Action> list{
        {Action::Pad,   copy,     1},
        {Action::Local, i          },
        {Action::Local, j          },
        {Action::Share, copy,     i},
        {Action::Share, copy + 1, j},
    };
    if (rounds < 0 || !trial.act_all(list)) return false;
    take(trial);
    kept_ = rounds;
    return true;
  }

  // A block for each output.
  bool fold_together() {
    if (!sum || reduces.empty() || results() >= int64_t{target->parallel_results} * target->warp)
      return false;
    UOp k = reduces.back();
    if (!is_long(k, 2 * kShortFold)) return false;
    int64_t workers = std::min<int64_t>(kGroup, target->workers);
    while (workers > size(k)) workers /= 2;
    Sketch trial = *this;
    const int slot = trial.split(range_slot(k), workers, Role::Reduce);
    if (slot < 0 || !trial.act({Action::Group, slot})) return false;
    take(trial);
    return true;
  }

  void choose_local() {
    if (outputs.empty()) return;
    const int64_t most = std::min<int64_t>(kWorkers, target->workers);
    int slot = range_slot(outputs.back());
    if (const int64_t n = wide(outputs.back()); results() / n >= resident())
      cut_vector(*this, slot, n);
    UOp r = range_of(slot);
    if (!r) return;
    if (!is_const(r->src(0)) || size(r) > most) slot = split(slot, most, Role::Loop);
    if (slot >= 0) act({Action::Local, slot});
  }

  // The longest loops; one that is longer than a dimension of the launch is cut.
  void choose_grid() {
    for (int d = 0; d < kDimensions; ++d) {
      UOp longest;
      for (UOp r : outputs)
        if (range_slot(r) != kept_ && is_const(r->src(0)) &&
            (!longest || size(r) > size(longest)))
          longest = r;
      if (!longest) return;
      const int slot = range_slot(longest);
      if (size(longest) > target->max_blocks && split(slot, target->max_blocks, Role::Loop) < 0)
        return;
      if (!act({Action::Global, slot})) return;
    }
  }

  // Folds and stages that do not depend on the worker are the same for all of them.
  void share_alike() {
    const std::vector<UOp> all = Ranges(body).all;
    for (UOp w : all) {
      if (range_role(w) != Role::Local) continue;
      for (UOp r : all)
        if ((range_role(r) == Role::Loop || range_role(r) == Role::Reduce) &&
            is_long(r, kShortFold))
          act({Action::Share, range_slot(r), range_slot(w)});
    }
  }
};

}  // namespace

Tuned choose_blocks(UOp body, const Target& target) { return Blocks(body, target).run(); }

}  // namespace mote

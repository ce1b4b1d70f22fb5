// The choice of loops for targets with blocks of workers. A product of two operands that are each
// used along another axis is one of tiles that lanes multiply where the target can, else has its
// tiles in memory of the block. Of all else the innermost output is
// shared out to the workers of a block, who also share what they would all compute alike; where
// there are few outputs they fold together.
#include "optimize/blocks.h"

#include <algorithm>

#include "optimize/sketch.h"

namespace mote {

namespace {

constexpr int64_t kWorkers = 256;   // of a block of a plain map
constexpr int64_t kGroup = 128;     // of one that folds together
constexpr int64_t kShortFold = 32;  // one worker does it alone
constexpr int64_t kAhead = 3;       // memories of what is staged for the rounds of a loop
constexpr int kDimensions = 3;

class Blocks : Sketch {
 public:
  Blocks(UOp kernel, const Target& on) : Sketch(kernel, on) {}

  Tuned run() {
    while (merge_neighbours()) {}
    if (!multiply_tiles() && !tile_product() && !fold_together()) choose_local();
    choose_grid();
    share_alike();
    return {body, std::move(actions)};
  }

 private:
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
          if (m != n && multiply_along(m, n, target->fragments[row])) return true;
    return false;
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
    UOp r = outputs.back();
    int slot = range_slot(r);
    if (!is_const(r->src(0)) || size(r) > most) slot = split(slot, most, Role::Loop);
    if (slot >= 0) act({Action::Local, slot});
  }

  // The longest loops; one that is longer than a dimension of the launch is cut.
  void choose_grid() {
    for (int d = 0; d < kDimensions; ++d) {
      UOp longest;
      for (UOp r : outputs)
        if (is_const(r->src(0)) && (!longest || size(r) > size(longest))) longest = r;
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

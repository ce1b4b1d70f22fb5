// Ways to choose the loops of a kernel, and the choice between them: what is contiguous is merged,
// then every nest gets the cheapest of the ways that rows of a table propose, then threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>

#include "algebra/algebra.h"
#include "base/flags.h"
#include "base/number.h"
#include "ir/freedoms.h"
#include "ir/program.h"
#include "optimize/blocks.h"
#include "optimize/contraction.h"
#include "optimize/cost.h"
#include "optimize/lanes.h"

namespace mote {

namespace {

class Chooser : Lanes {
 public:
  using Lanes::Lanes;

  // The cheapest first, at most so many.
  std::vector<Tuned> run(size_t most) {
    merge_ranges();
    stage_rows();
    find_nests();
    for (int nest = 0; nest < static_cast<int>(nests.size()); ++nest) {
      look_at(nest);
      std::vector<Chooser> ways = ways_for_nest(false);
      if (!ways.empty()) *this = std::move(ways[0]);
    }
    look_at(-1);
    std::vector<Chooser> ways = ways_for_nest(most > 1);
    if (ways.empty()) ways.push_back(*this);
    if (ways.size() > most) ways.resize(most, *this);
    std::vector<Tuned> out;
    for (Chooser& way : ways) out.push_back(way.finished());
    return out;
  }

 private:
  // Proposals for the loops of one nest, by what they are made for. The n-th of a kind; false: it
  // does not apply here.
  struct Proposal {
    const char* name;
    int variants;
    bool (Chooser::*propose)(int n);
  };
  static const Proposal kProposals[8];

  // All that is proposed, the cheapest first; unless `all` are wanted, no more than until one is near
  // what the machine can do. What is chosen does not depend on threads, for sums may not.
  std::vector<Chooser> ways_for_nest(bool all) {
    begin_nest();
    Target one = *target;
    one.threads = 1, one.cache_bytes = one.core_cache_bytes;
    struct Way {
      const Proposal* row;
      int n;
      Chooser trial;
      double cost = -1;
    };
    auto cost_of = [&](Way& way) {
      if (way.cost >= 0) return way.cost;
      way.cost = cost(way.trial.body, one).total;
      if (flag(Flag::DEBUG) >= 4)
        std::fprintf(stderr, "%s: %s  %s\n", way.row->name, general_text(way.cost, 4).c_str(),
                     to_string(way.trial.actions).c_str());
      return way.cost;
    };
    std::vector<Way> found;
    const double enough = all ? 0 : kNearEnough * least_cost();
    auto is_near = [&] { return enough > 0 && !found.empty() && cost_of(found.back()) < enough; };
    for (const Proposal& row : kProposals)
      for (int n = 0; n < row.variants && !is_near(); ++n) {
        Way way{&row, n, *this};
        way.trial.target = &one;
        if ((way.trial.*row.propose)(n)) found.push_back(std::move(way));
      }
    if (found.size() > 1) {
      for (Way& way : found) cost_of(way);
      std::ranges::stable_sort(found, {}, &Way::cost);
    }
    std::vector<Chooser> ways;
    for (Way& way : found) {
      way.trial.target = target;
      ways.push_back(std::move(way.trial));
      if (!all) break;
    }
    return ways;
  }

  // Of a sum of products: the machine multiplies all the time.
  double least_cost() const {
    double products = sum && !reduces.empty() ? 1 : 0;
    for (const std::vector<UOp>& list : {outputs, reduces})
      for (UOp r : list) products *= static_cast<double>(size(r));
    const Dot* dot = widest_dot(*this);
    return products / static_cast<double>(lanes() * (dot ? dot->parts() : 1));
  }

  Tuned finished() {
    stream_stores(*this);
    share_out(*this);
    for (const Action& a : last) act(a);
    fetch_rows(*this);
    ask_ahead(*this);
    return {body, std::move(actions)};
  }

  static constexpr ContractionTaste kTastes[] = {
      {},
      {.gather = 1, .as = Gather::Planes},
      {.gather = 1, .as = Gather::MorePlanes},
      {.gather = 1},
      {.masks = true},
      {.view = 1},
      {.whole = true},
      {.other_right = true},
      {.gather = 2},
  };
  static constexpr int kWordless = std::ssize(kTastes);
  // All of them with words first, then without.
  bool contraction(int n) {
    ContractionTaste taste = kTastes[n % kWordless];
    taste.words = n < kWordless;
    return tile_contraction(*this, taste);
  }
  bool squares(int) { return transpose_squares(); }
  bool memory_order(int) { return fold_as_memory_lies(); }
  bool sweep(int) {
    if (reduces.empty() || reduces.size() > 2 || outputs.empty()) return false;
    order_reduces(*this, false);
    choose_lanes();
    return sweep_rows();
  }
  bool digits(int n) { return split_digits() && (n ? contraction(kWordless + n - 1) : tile(0)); }
  bool rows(int) {
    choose_lanes();
    return reduces.empty() && own_lanes().empty() && share_places();
  }
  // Planes that windows are read from, and rows of outputs in registers: a row that is read serves
  // all of them that meet it in their windows. Where windows are some positions apart, so may lanes
  // be, instead of along a window: then all places of the window are open at once.
  bool planes(int n) {
    if (n > 0 && !steps_apart()) return false;
    order_reduces(*this, false);
    if (!gather(*this, 1, Gather::NearPlanes)) return false;
    const auto plane = std::ranges::find_if(
        accesses, [](const Access& a) { return !a.store && a.memory->is(Op::Stage); });
    if (plane == accesses.end()) return false;
    const auto [row, rows] = rows_of(*plane);
    if (!row) return false;
    auto apart = [&](UOp k) { return std::llabs(plane->step(k) - plane->step(row)); };
    const UOp window = *std::ranges::min_element(reduces, {}, apart);
    const std::vector<int> taps = n ? taps_of(*plane, row) : std::vector<int>();
    if (n == 0)
      choose_lanes();
    else if (!choose_lane_apart())
      return false;
    if (own_lanes().empty()) return false;
    if (size(window) <= kMostTaps && !open(range_slot(window), size(window), Role::Unroll))
      return false;
    return std::ranges::all_of(taps, [&](int tap) { return open(tap, kMostTaps, Role::Upcast); }) &&
           open(range_slot(row), rows, Role::Upcast);
  }

  // As much of the range as lanes have left.
  bool open(int slot, int64_t most, Role role) {
    const UOp r = range_of(slot);
    return !r || split(slot, std::min(most, size(r)), role) >= 0;
  }

  // The gradient of a window has its places as outputs.
  std::vector<int> taps_of(const Access& plane, UOp row) const {
    std::vector<int> taps;
    for (UOp r : outputs)
      if (r != row && plane.step(r) && size(r) <= kMostTaps && size(r) > 1)
        taps.push_back(range_slot(r));
    return taps;
  }

  // An axis around lanes that windows move along, and as many of its positions as there are registers
  // for and few are left over.
  std::pair<UOp, int64_t> rows_of(const Access& plane) const {
    std::pair<UOp, int64_t> best;
    double least = HUGE_VAL;
    auto has_window = [&](UOp r) {
      return std::ranges::any_of(reduces, [&](UOp k) {
        const int64_t a = std::llabs(plane.step(r)), b = std::llabs(plane.step(k));
        return a && b && std::max(a, b) <= 4 * std::min(a, b);
      });
    };
    for (UOp r : outputs)
      for (int64_t rows = 8; rows > 2 && plane.step(r) > 1 && has_window(r); --rows) {
        const auto n = static_cast<double>(size(r)), whole = static_cast<double>(rows);
        const double spent = std::ceil(n / whole) * (whole + 1);
        if (spent / n < least) best = {r, rows}, least = spent / n;
      }
    return best;
  }
  bool tile(int n) {
    if (n > 0 && !multiply_words(*this)) return false;
    order_reduces(*this, false);
    choose_lanes();
    choose_tile();
    return true;
  }

  // Where values are staged and something is read for all of them alike, several rows are worked on
  // at once, as many as the caches hold.
  void stage_rows() {
    uint64_t around = ~uint64_t{0};
    int64_t bytes = 0;
    divide_sums();
    for (UOp n : toposort(body))
      if (n->is(Op::Stage)) around &= n->ranges, bytes += n->ints(1) * size_of(n->dtype);
    if (!bytes) return;
    UOp row;
    for (UOp r : outputs)
      if (around & slot_bit(r)) row = r;
    if (!row) return;
    // More than one element for each of a row: near memory may not hold it.
    const bool reused = std::ranges::any_of(accesses, [&](const Access& a) {
      return a.nest && a.memory->is(Op::Param) && !a.depends_on(row) &&
             std::popcount(a.moved_by & ~around) > 1;
    });
    const int64_t rows = rows_at_once(size(row), target->l2_bytes / 2 / bytes);
    if (!reused || rows < 2) return;
    act({Action::Bound, range_slot(row)});
    act({Action::StageRows, range_slot(row), rows});
  }

  void divide_sums() {
    for (size_t i = 0; i < reduces.size(); ++i) act({Action::Divide, range_slot(reduces[i])});
  }

  // About as many rows as may be, best in even parts and of whole register tiles.
  static int64_t rows_at_once(int64_t rows, int64_t most) {
    if (most < 2) return 0;
    most = std::min(rows, most);
    for (int64_t n = most; n > most / 2; --n)
      if (rows % n == 0 && n % 4 == 0) return n;
    const int64_t part = ceil_div(rows, ceil_div(rows, most));
    return round_up(part, 4);
  }

  static constexpr int64_t kFarBytes = 1024, kPiece = 1024, kMostStreams = 8;
  static constexpr int64_t kMostTaps = 9;  // of a window that are written out
  static constexpr int64_t kPage = 4096;  // bytes of memory
  static constexpr double kNearEnough = 1.15;

  void merge_ranges() {
    while (merge_one(outputs) || merge_one(reduces)) {}
  }

  bool merge_one(const std::vector<UOp>& list) {
    for (UOp a : list)
      for (UOp b : list)
        if (a != b && may_follow(a, b) && act({Action::Merge, range_slot(a), range_slot(b)}))
          return true;
    return false;
  }

  // Positions that are divided by a number, as those of interleaved parts are, move evenly with the
  // digits of a range.
  bool split_digits() {
    bool found = false;
    while (split_digit()) found = true;
    return found;
  }

  bool split_digit() {
    for (UOp n : toposort(body)) {
      if (!(n->is(Op::FloorMod) || n->is(Op::FloorDiv)) || !n->src(1)->is(Op::Const)) continue;
      const int64_t base = n->src(1)->arg.i;
      const Linear position = linear(n->src(0));
      for (const std::vector<UOp>& list : {outputs, reduces})
        for (UOp r : list)
          if (base > 1 && position.coeff_of(r) == 1 && size(r) > base && may_cut(r, base) &&
              split(range_slot(r), base, range_role(r)) >= 0)
            return true;
    }
    return false;
  }

  // Without lanes: what does not depend on an outer loop, as the places of an index, is computed
  // once for several rows.
  bool share_places() {
    for (size_t i = outputs.size(); i-- > 1;) {
      const int64_t rows = largest_factor(size(outputs[i - 1]), {8, 4, 6, 5, 7, 3, 2});
      if (rows > 1) return act({Action::Split, range_slot(outputs[i - 1]), rows, Role::Upcast});
    }
    return false;
  }

  // Whether, as far as positions are linear, one step of a is all steps of b.
  bool may_follow(UOp a, UOp b) const {
    return std::ranges::all_of(accesses, [&](const Access& at) {
      const std::optional<int64_t> outer = at.stride(a);
      const std::optional<int64_t> inner = at.stride(b);
      return !outer || !inner || *outer == *inner * size(b);
    });
  }

  int64_t largest_factor(int64_t n, std::initializer_list<int64_t> wanted) const {
    for (int64_t f : wanted)
      if (n % f == 0 && n >= f) return f;
    return 1;
  }

  // What is stored along one axis and read along another: squares of both, turned in registers.
  bool transpose_squares() {
    if (!reduces.empty()) return false;
    UOp stored, read;
    bool across = false;
    for (UOp r : outputs)
      for (const Access& a : accesses)
        if (a.stride(r) == 1) (a.store ? stored : read) = r;
    if (!stored || !read || stored == read) return false;
    for (const Access& a : accesses) {
      const std::optional<int64_t> step = a.stride(stored);
      if (!step || a.gated || (*step > 1 && a.stride(read) != 1)) return false;
      across |= *step > 1;
    }
    int64_t width = lanes();
    while (width > 2 && size(read) % width) width /= 2;
    if (!across || width < 4 || size(stored) < width) return false;
    const int rows = range_slot(stored), columns = range_slot(read);
    Sketch trial = *this;
    if (trial.split(rows, width, Role::Vector) < 0 || trial.split(columns, width, Role::Upcast) < 0)
      return false;
    // Few rows of what is read at a time, a long piece of each.
    const int64_t squares = size(read) / width, piece = kPiece / width;
    if (squares % piece == 0 && squares > piece && trial.range_of(rows)) {
      const int inner = trial.split(columns, piece, Role::Loop);
      trial.act({
          Action::Order, columns, 0, Role::Loop, {rows, inner}
      });
    } else if (trial.range_of(rows) && trial.range_of(columns) && columns < rows) {
      trial.act({Action::Order, rows, 0, Role::Loop, {columns}});
    }
    take(trial);
    return true;
  }

  // Columns of a matrix too large to keep: several rows at a time are added to all outputs, rows
  // of parts of the matrix that lie far apart, so that each part is read as it lies. The parts may
  // be there already, as an outer loop of the sum.
  bool sweep_rows() {
    if (reduces.empty() || reduces.size() > 2 || outputs.empty() || own_lanes().size() != 1)
      return false;
    const bool parted = reduces.size() == 2;
    UOp parts = reduces[0], k = reduces.back();
    const std::vector<UOp> swept = outputs_within(k);
    const int64_t streams =
        parted ? size(parts) : largest_factor(size(k), {target->streams, 5, 3, 6, 7, 2});
    if (swept.empty() || streams == 1 || streams > kMostStreams) return false;
    std::vector<int> nest;
    for (UOp r : swept) nest.push_back(range_slot(r));
    Sketch trial = *this;
    int64_t vectors = vectors_of_step(streams);
    while (vectors > 1 && size(swept.back()) % vectors) --vectors;
    if (vectors > 1) trial.split(nest.back(), vectors, Role::Upcast);
    const int slot = range_slot(parts);
    const int rows = parted ? range_slot(k) : trial.split(slot, size(k) / streams, Role::Reduce);
    if (rows < 0 || trial.split(slot, streams, Role::Unroll) < 0 ||
        !trial.act({Action::Accumulate, rows}))
      return false;
    std::erase_if(nest, [&](int n) { return !trial.range_of(n); });
    if (!nest.empty() && !trial.act({Action::Order, rows, 0, Role::Loop, nest})) return false;
    take(trial);
    return true;
  }

  // A sum for each channel of a batch of pictures, (n, c, k) over n and k. Short pieces of memory
  // that lie far apart come slowly, so the sums of all channels are staged, and memory is read as
  // it lies. Nothing that changes a sum depends on threads.
  bool fold_as_memory_lies() {
    if (focus >= 0 || !nests.empty() || !sum || sum->ints(0) != static_cast<int64_t>(Op::Add))
      return false;
    if (outputs.size() != 1 || reduces.size() != 2) return false;
    const UOp c = outputs[0];
    UOp n = reduces[0], k = reduces[1];
    int64_t bytes = 0, piece = 0;
    for (const Access& a : accesses) {
      if (a.store || !(a.moved_by & (slot_bit(n) | slot_bit(k)))) continue;
      auto step = [&](UOp r) { return a.step(r); };
      if (!bytes && step(n) == 1) std::swap(n, k);
      if (a.gated || !a.memory->is(Op::Param) || step(k) != 1 || step(c) != size(k) ||
          step(n) != size(c) * size(k))
        return false;
      piece = std::max(piece, size(k) * size_of(a.dtype()));
      bytes += size(n) * size(c) * size(k) * size_of(a.dtype());
    }
    const int64_t lanes = target->vector_bytes / size_of(sum->dtype), vectors = size(k) / lanes;
    if (bytes <= 4 * target->l2_bytes || piece >= kPage) return false;
    if (size(k) % lanes || vectors < 4 || size(c) < 2) return false;
    Sketch trial = *this;
    const int rows = range_slot(n), along = range_slot(k), copies = trial.next_slot();
    if (!trial.act({Action::Stage, Action::kSum, 0, Role::Loop, {range_slot(c)}})) return false;
    if (trial.split(along, lanes, Role::Vector) < 0) return false;
    if (const int64_t f = largest_factor(size(k) / lanes, {4, 5, 6, 3, 2}); f > 1)
      trial.split(along, f, Role::Upcast);
    if (!trial.act({Action::Accumulate, rows}) ||
        !trial.act({Action::Order, rows, 0, Role::Loop, {copies}}))
      return false;
    take(trial);
    return true;
  }

  // What a step costs beside its loads is shared by several vectors.
  int64_t vectors_of_step(int64_t streams) const {
    return looks_for_nans(sum) ? std::min<int64_t>(target->vector_registers / 2 / streams, 8) : 8;
  }

  // Of the largest of values: in two of them at once, which stay in registers so long.
  static bool looks_for_nans(UOp fold) {
    const Op op = fold ? static_cast<Op>(fold->ints(0)) : Op::Add;
    return (op == Op::Max || op == Op::Min) && is_float(fold->dtype);
  }

  // The outputs that each row of a large matrix has something for, where they are few enough to be
  // added to row by row; none: it is something else.
  std::vector<UOp> outputs_within(UOp row) const {
    UOp lane = range_of(own_lanes()[0]);
    if (!lane) return {};
    std::vector<UOp> within = outputs;
    int64_t read = 0, bytes = 4 * size(lane);
    for (const Access& a : accesses) {
      const int64_t step = a.step(row) * size_of(a.dtype());
      if (a.store || step < kFarBytes || !a.depends_on(outputs.back())) continue;
      const int64_t longest = a.step(reduces[0]) * size_of(a.dtype());
      read = std::max(read, size(reduces[0]) * longest);
      std::erase_if(within, [&](UOp r) { return a.step(r) * size_of(a.dtype()) > step; });
    }
    for (UOp r : within) bytes *= size(r);
    if (read <= target->l2_bytes || bytes == 0 || bytes > target->l2_bytes / 2) within.clear();
    return within;
  }

  // Registers hold a tile of outputs: each load is used for several of them.
  void choose_tile() {
    if (reduces.empty()) return follow_rows();
    int budget = std::max(4, target->vector_registers * 3 / 4), used = 1;
    std::vector<int> done;
    while (true) {
      UOp best;
      int best_reuse = 0;
      for (UOp r : outputs) {
        if (std::ranges::count(done, range_slot(r)) || size(r) < 2) continue;
        int reuse = 0;
        for (const Access& a : accesses)
          if ((a.nest & slot_bit(r)) && !a.depends_on(r)) ++reuse;
        if (reuse > best_reuse) best = r, best_reuse = reuse;
      }
      if (!best) break;
      done.push_back(range_slot(best));
      if (used == 1 && best == outputs.back() && is_streamed(best) && split_streams(best)) return;
      int room = budget / used;
      int64_t f = 1;
      for (int64_t c : {6, 4, 3, 8, 5, 2})
        if (c <= room && size(best) % c == 0) {
          f = c;
          break;
        }
      if (f > 1 && act({Action::Split, range_slot(best), f, Role::Upcast}))
        used *= static_cast<int>(f);
    }
    if (used > 1) return;
    for (int lane : own_lanes()) split_accumulators(lane);
    if (sum && !may_reorder(sum) && !outputs.empty()) {  // other sums in place of accumulators
      const int64_t sums = largest_factor(size(outputs.back()), {8, 4, 2});
      if (sums > 1) act({Action::Split, range_slot(outputs.back()), sums, Role::Upcast});
    }
  }

  // Where each round waits for the one before, those of several rows go on at once.
  void follow_rows() {
    auto is_ordered = [](UOp r) { return range_role(r) == Role::Ordered; };
    if (!own_lanes().empty() || std::ranges::none_of(ranges.all, is_ordered)) return;
    if (waits_little()) return;
    for (size_t i = outputs.size(); i-- > 0;) {
      const int64_t rows = largest_factor(size(outputs[i]), {4, 3, 5, 2});
      if (is_ordered(outputs[i]) || rows == 1) continue;
      if (act({Action::Split, range_slot(outputs[i]), rows, Role::Upcast})) return;
    }
  }

  // Whether each round adds to an integer in a register, which takes no longer than its store.
  bool waits_little() const {
    return std::ranges::all_of(body->src(), [](Node* end) {
      const UOp place = UOp(end)->src(0)->src(0), value = UOp(end)->src(0)->src(1);
      const std::vector<UOp> below = toposort(place->src(1));
      return !is_float(value->dtype) && !value->is(Op::Mul) &&
             std::ranges::none_of(below, [](UOp n) { return n->is(Op::Index); });
    });
  }

  // What is read along r comes from main memory.
  bool is_streamed(UOp r) const {
    return std::ranges::any_of(accesses, [&](const Access& a) {
      const int64_t step = a.step(r) * size_of(a.dtype());
      return !a.store && step * size(r) > target->l2_bytes;
    });
  }

  // Several rows at a time, of parts of the matrix that lie far apart: see sweep_rows.
  bool split_streams(UOp r) {
    const int64_t streams = largest_factor(size(r), {target->streams, 3, 2});
    const int slot = range_slot(r);
    Sketch trial = *this;
    if (streams == 1 || trial.split(slot, size(r) / streams, Role::Loop) < 0 ||
        trial.split(slot, streams, Role::Upcast) < 0)
      return false;
    take(trial);
    return true;
  }

  // A reduce along the lanes keeps several vectors of partial results.
  void split_accumulators(int lane) {
    for (UOp r : reduces) {
      int64_t f = largest_factor(size(r), {4, 2});
      UOp fold = folded_together(r, lane);
      if (size(r) < 8 || f == 1 || !fold) continue;
      const bool pairs = f == 4 && looks_for_nans(fold);
      if (pairs) act({Action::Split, range_slot(r), 2, Role::Unroll});
      act({Action::Split, range_slot(r), pairs ? f / 2 : f, Role::Upcast});
      return;
    }
  }

  UOp folded_together(UOp r, int lane) const {
    for (UOp n : toposort(body)) {
      if (!n->is(Op::Reduce)) continue;
      std::span<Node* const> over = n->src().subspan(1);
      bool along = std::ranges::any_of(over, [&](Node* s) { return range_slot(UOp(s)) == lane; });
      if (along && std::ranges::count(over, r.get()) > 0) return n;
    }
    return {};
  }
};

const Chooser::Proposal Chooser::kProposals[8] = {
    {"contraction",  18, &Chooser::contraction },
    {"planes",       2,  &Chooser::planes      },
    {"squares",      1,  &Chooser::squares     },
    {"memory order", 1,  &Chooser::memory_order},
    {"sweep",        1,  &Chooser::sweep       },
    {"digits",       5,  &Chooser::digits      },
    {"rows",         1,  &Chooser::rows        },
    {"tile",         2,  &Chooser::tile        },
};

}  // namespace

Tuned choose_actions(UOp body, const Target& target) {
  return std::move(proposals(body, target, 1)[0]);
}

std::vector<Tuned> proposals(UOp body, const Target& target, size_t most) {
  if (target.workers) return {choose_blocks(body, target)};
  return Chooser(body, target).run(most);
}

}  // namespace mote

#include "optimize/cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <numeric>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "ir/dots.h"
#include "ir/memo.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr double kTooFew = 2.5;         // places for what one step reads
constexpr double kOpen = 0.8;           // how often a gate is open
constexpr int64_t kUneven = INT64_MIN;  // a step that is not the same everywhere

// Loops that close in one place: the outputs, a Stage or a Reduce.
struct Nest {
  UOp root;
  uint64_t closed = 0, open = 0;
  std::vector<int> loops;  // slots of all it is run in, outermost first
};

struct Access {
  const Node* memory;
  int64_t bytes;  // of an element
  bool store, gated;
  int nest;
  double runs;           // rounds of loops that it is met in
  double elements;       // of the whole memory
  uint64_t moved;        // by ranges of these slots, in such steps of bytes
  int64_t step[kSlots];
};

class Model {
 public:
  Model(UOp body, const Target& target) : target_(target), order_(toposort(body)) {
    for (UOp n : order_) {
      if (n->is(Op::Range)) note_range(n);
      if (is_word(n)) parts_ |= slot_bit(n->src(1));
    }
    find_nests(body);
    for (size_t i = 0; i < nests_.size(); ++i) weigh(static_cast<int>(i));
  }

  Spent cost() {
    find_footprints();
    Spent out;
    for (const Nest& n : nests_) out.steps += positions_of(n.loops);
    for (UOp n : order_) {
      out.tile =
          std::max(out.tile, static_cast<int64_t>(positions(n->ranges & (tiles_ | vectors_))));
      if (!n->is(Op::Stage)) continue;
      ++out.stages;
      out.scratch_bytes += n->ints(1) * size_of(n->dtype) * depth_of(n);
    }
    std::vector<Spent> by_nest(nests_.size());
    for (size_t i = 0; i < nests_.size(); ++i) by_nest[i].compute = compute_[i];
    for (const Access& a : accesses_) {
      Spent& n = by_nest[static_cast<size_t>(a.nest)];
      n.near += fetch(a, kNear), n.far += fetch(a, kFar), n.memory += fetch(a, kMemory);
    }
    for (const Spent& n : by_nest) {
      // What comes from near comes in time, nearly always.
      const double parts[] = {n.compute, n.near, n.far, n.memory}, shown[] = {0.3, 0.1, 0.3, 0.3};
      const auto most = static_cast<size_t>(std::ranges::max_element(parts) - parts);
      Spent::Nest& nest = out.nests.emplace_back();
      for (size_t i = 0; i < 4; ++i) nest.total += parts[i] * (i == most ? 1 : shown[i]);
      for (int s : nests_[out.nests.size() - 1].loops) nest.loops |= uint64_t{1} << s;
      out.total += nest.total;
      out.compute += n.compute, out.near += n.near, out.far += n.far, out.memory += n.memory;
    }
    out.total /= shares();
    return out;
  }

 private:
  const Target& target_;
  std::vector<UOp> order_;
  UOp range_[kSlots];
  double extent_[kSlots];
  uint64_t loops_ = 0, vectors_ = 0, tiles_ = 0, accumulated_ = 0;
  uint64_t parts_ = 0;    // of words
  uint64_t workers_ = 0;  // of the launch: all do what does not depend on them
  std::vector<Nest> nests_;
  std::vector<Access> accesses_;
  std::vector<double> compute_;  // by nest

  void note_range(UOp r) {
    const int slot = range_slot(r);
    range_[slot] = r;
    extent_[slot] = static_cast<double>(std::max<int64_t>(r->src(0)->hi, 1));
    if (r->src(0)->is(Op::Where)) extent_[slot] *= kOpen;
    const Role role = range_role(r);
    if (is_launched(r)) workers_ |= slot_bit(r);
    if (role == Role::Fragment) return;  // lanes share out what it has
    if (role == Role::Vector)
      vectors_ |= slot_bit(r);
    else if (is_tile(role))
      tiles_ |= slot_bit(r);
    else
      loops_ |= slot_bit(r);
    if (role == Role::Accumulate) accumulated_ |= slot_bit(r);
  }

  static void for_slots(uint64_t slots, auto f) {
    for (; slots; slots &= slots - 1) f(std::countr_zero(slots));
  }
  double positions(uint64_t slots) const {
    double n = 1;
    for_slots(slots, [&](int s) { n *= extent_[s]; });
    return n;
  }

  // ---- nests

  static bool is_nest(UOp n) { return n->is(Op::Stage) || (n->is(Op::Reduce) && !is_word(n)); }

  // Its parts are neighbours in memory, and the words of all lanes are.
  bool is_read_as_word(UOp word) const {
    const UOp part = word->src(1);
    const std::vector<UOp> below = toposort(word->src(0));
    return std::ranges::all_of(below, [&](UOp n) {
      if (!n->is(Op::Index)) return true;
      const Gated g = split_gate(n->src(1));
      bool along = false;
      for_slots(vectors_ & g.idx->ranges,
                [&](int s) { along = stride_of(g.idx, range_[s]) == part->src(0)->hi; });
      return along && stride_of(g.idx, part) == 1 && !(g.valid->ranges & slot_bit(part));
    });
  }

  void find_nests(UOp body) {
    Nest outputs{body, 0, 0, {}};
    for (Node* end : body->src()) outputs.closed |= closed_slots(UOp(end));
    for (UOp n : order_) {
      if (!is_nest(n)) continue;
      Nest nest{n, 0, n->ranges, {}};
      nest.closed = closed_slots(n);
      if (n->is(Op::Reduce)) {  // these are loops of what stores it
        nest.open |= nest.closed & accumulated_;
        nest.closed &= ~accumulated_;
      }
      if (n->is(Op::Stage)) nest.closed |= accumulated_in(n->src(0));
      nests_.push_back(nest);
    }
    for (Node* end : body->src())
      if (UOp effect = UOp(end)->src(0); effect->is(Op::Store))
        outputs.closed |= accumulated_in(effect->src(1));
    nests_.push_back(outputs);
    std::vector<uint64_t> open;
    for (const Nest& n : nests_) open.push_back(around(n.closed | n.open | workers_) & ~n.closed);
    for (size_t i = 0; i < open.size(); ++i) nests_[i].open = open[i];
    for (Nest& n : nests_) n.loops = in_order(n);
  }

  static uint64_t closed_slots(UOp n) {
    uint64_t slots = 0;
    for (Node* r : closed_ranges(n))
      if (r->op == Op::Range) slots |= slot_bit(UOp(r));
    return slots;
  }

  uint64_t accumulated_in(UOp value) const {
    uint64_t slots = 0;
    for (UOp r : accumulated_ranges(value)) slots |= slot_bit(r);
    return slots;
  }

  // A nest stands in the loops of another up to the innermost one it depends on.
  uint64_t around(uint64_t loops) const {
    for (uint64_t before = ~loops; before != loops;) {
      before = loops;
      for (const Nest& n : nests_) {
        if (!(n.closed & loops)) continue;
        int innermost = INT_MIN;
        for_slots(n.closed & loops & loops_,
                  [&](int s) { innermost = std::max(innermost, nest_order(range_[s])); });
        for_slots(n.closed & loops_, [&](int s) {
          if (nest_order(range_[s]) < innermost) loops |= slot_bit(range_[s]);
        });
        loops |= n.open;
      }
    }
    return loops;
  }

  std::vector<int> in_order(const Nest& nest) const {
    std::vector<int> out;
    for_slots((nest.open | nest.closed) & loops_, [&](int s) { out.push_back(s); });
    auto depth = [&](int s) {
      if (range_role(range_[s]) == Role::Global) return std::pair(-1, s);
      if (nest.closed >> s & 1) return std::pair(kSlots + 1, s);
      int d = kSlots;
      for (const Nest& n : nests_)
        if (n.closed >> s & 1) d = std::min(d, std::popcount(n.open & loops_));
      return std::pair(d, s);
    };
    std::ranges::sort(out, {}, depth);
    return out;
  }

  // ---- operations

  // Rounds of loops that a value of the nest is computed in: it is hoisted as far as may be.
  double runs(const Nest& nest, uint64_t ranges) const {
    double n = 1, all = 1;
    for (int s : nest.loops) {
      all *= extent_[s];
      if (ranges >> s & 1) n = all;
    }
    return n;
  }

  double copies(UOp n) const { return positions(n->ranges & tiles_); }
  // Vector operations for one copy. One of few bytes may take less time than a whole one, but is one
  // more instruction.
  double width(uint64_t ranges, int64_t bytes) const {
    constexpr double kNarrow = 1.1;
    const double needed = positions(ranges & vectors_) * static_cast<double>(bytes);
    const auto whole = static_cast<double>(target_.vector_bytes);
    if (needed >= whole) return needed / whole;
    return kNarrow * std::max(needed, std::min<double>(target_.step_bytes, whole)) / whole;
  }

  std::vector<UOp> values_of(const Nest& nest) const {
    std::vector<UOp> roots;
    if (nest.root->is(Op::Sink))
      for (Node* end : nest.root->src()) roots.emplace_back(end);
    else
      roots.push_back(nest.root);
    auto is_own = [&](UOp n) { return n == nest.root || !is_nest(n); };
    std::vector<UOp> all = toposort(roots, is_own);
    std::erase_if(all, [&](UOp n) { return !is_own(n); });
    return all;
  }

  static double weight(UOp n, const Target& target) {
    switch (n->op) {
      case Op::Div: return 8;
      case Op::Sqrt: return 12;
      default: return has(n->op, Curve) ? target.curve_cost : 1;
    }
  }

  // Products that are part of a multiply-add, or of words, and gates on what is summed, which are
  // masks.
  void find_free(std::span<const UOp> values, Memo<bool>& free) const {
    for (UOp n : values) {
      if (is_word(n) && is_read_as_word(n))
        for (UOp at = n->src(0); !at->is(Op::Index) && at->nsrc; at = at->src(0)) free[at] = true;
      if (!n->is(Op::Reduce) && !n->is(Op::Add)) continue;
      UOp gate = n->is(Op::Reduce) && n->src(0)->is(Op::Where) ? n->src(0) : UOp();
      if (gate) free[gate] = true;
      for (Node* s : (gate ? gate : n)->src()) {
        const bool fused = s->op == Op::Mul && is_float(s->dtype) && target_.fma;
        if (fused || dot_of(s->op)) free[s] = true;
      }
    }
  }

  void weigh(int at) {
    // A round of a loop; a scalar operation beside vectors; what several units do at once; and
    // instructions of a body, beyond which they are not kept decoded.
    constexpr double kRound = 0.5, kScalar = 0.3, kTogether = 0.6, kLongBody = 1000;
    const Nest& nest = nests_[static_cast<size_t>(at)];
    const std::vector<UOp> values = values_of(nest);
    MemoLease<bool> free, written;
    find_free(values, *free);
    double operations = 0, scalars = 0, loads = 0, stores = 0;
    for (UOp n : values)
      if (n->is(Op::Store)) (*written)[n->src(0)] = true;
    for (UOp n : values) {
      if (n->is(Op::Index)) {
        const bool store = (*written)[n];
        (store ? stores : loads) += note_access(n->src(0), n->src(1), n->dtype, store, at);
      } else if (n->is(Op::Stage)) {
        stores += note_access(n, n->src(1), n->dtype, true, at);
      } else if (n->is(Op::Reduce) && !is_word(n)) {
        operations += fold(nest, n);
      } else if (has(n->op, Alu) && !(*free)[n]) {
        const bool vector = (n->ranges & vectors_) || (is_float(n->dtype) && !vectors_);
        (vector ? operations : scalars) += runs(nest, n->ranges) * copies(n) * position_weight(n) *
                                           width(n->ranges, size_of(n->dtype));
      }
    }
    const double rounds = positions_of(nest.loops);
    const double body = (operations + loads + stores) / rounds;
    const double slower = std::clamp(body / kLongBody, 1.0, 2.0);
    operations *= slower, loads *= slower;
    compute_.push_back(std::max({operations, loads, stores * 2, scalars * kScalar,
                                 (operations + loads + stores) * kTogether}) +
                       kRound * rounds);
  }

  double positions_of(const std::vector<int>& loops) const {
    double n = 1;
    for (int s : loops) n *= extent_[s];
    return n;
  }

  // Sums and products of positions are part of addresses.
  double position_weight(UOp n) const {
    if (n->dtype != DType::index && n->dtype != DType::boolean) return weight(n, target_);
    if (n->is(Op::Add) || n->is(Op::Mul) || n->is(Op::Neg)) return 0;
    if (!n->ranges) return 0;
    return n->is(Op::FloorDiv) || n->is(Op::FloorMod) ? 4 : 1;
  }

  // The folding itself: chains of operations of which each waits for the one before.
  double fold(const Nest& nest, UOp n) const {
    constexpr double kChains = 8;
    const uint64_t of_value = n->src(0)->ranges | nest.closed;
    const double rounds = runs(nest, of_value & loops_);
    const double steps = positions(of_value & tiles_) * width(of_value, size_of(n->dtype));
    double unrolled = 1;
    for_slots(nest.closed & tiles_, [&](int s) {
      if (range_role(range_[s]) == Role::Unroll) unrolled *= extent_[s];
    });
    const double chains = steps / unrolled;
    double out = rounds * std::max(steps, unrolled * kChains * std::min(1.0, kChains / chains));
    const double spilled = chains + 2 - target_.vector_registers;
    if (spilled > 0) out += rounds * spilled * 2;
    if (nest.closed & vectors_) out += 8 * runs(nest, n->ranges);  // one number of each vector
    return out;
  }

  // ---- memory

  // Gives what its instructions cost, were everything near.
  double note_access(UOp memory, UOp place, DType dtype, bool store, int at) {
    const Nest& nest = nests_[static_cast<size_t>(at)];
    const Gated g = split_gate(place);
    Access a{memory.get(), size_of(dtype), store, g.idx != place, at, 0, 1, 0, {}};
    a.runs = runs(nest, place->ranges);
    a.elements = static_cast<double>(memory->ints(1));
    const Linear sum = linear(g.idx);
    const uint64_t in_place = ranges_in(g.idx);
    for_slots(in_place, [&](int s) {
      const std::optional<int64_t> step = stride_of(sum, range_[s]);
      a.step[s] = step ? *step * a.bytes : kUneven;
      if (a.step[s]) a.moved |= uint64_t{1} << s;
    });
    double each = positions(in_place & tiles_);
    for_slots(in_place & vectors_, [&](int s) { each *= lanes(a, s); });
    if (a.gated) each *= 1.5;
    accesses_.push_back(a);
    return each * a.runs;
  }

  // Vector instructions for the elements of all lanes of slot s.
  double lanes(const Access& a, int s) const {
    const double vectors = width(uint64_t{1} << s, a.bytes), n = extent_[s];
    const double apart = static_cast<double>(a.step[s]) / static_cast<double>(a.bytes);
    if (a.step[s] == kUneven) return 2 * n;
    double word = 0;
    for_slots(parts_, [&](int p) {
      if (a.step[p] == a.bytes && apart == extent_[p])
        word = width(uint64_t{1} << s, a.bytes * static_cast<int64_t>(apart)) / apart;
    });
    if (word > 0) return word;
    if (apart == 1) return vectors;
    if (apart > 0 && apart <= 4) return vectors * apart * 1.5;
    bool square = false;  // loaded along another axis of the tile, and turned
    for_slots(tiles_, [&](int t) { square |= a.step[t] == a.bytes && extent_[t] >= 4; });
    return square ? vectors * (1 + std::log2(n)) : 1.5 * n;
  }

  // Bytes that an access touches in so many of its innermost loops, whole lines, and how many
  // stretches they are.
  struct Touched {
    double bytes = 0, stretches = 1, length = 0;
    double apart = 0, count = 1;  // stretches at even distances
  };
  Touched touched(const Access& a, uint64_t inside) const {
    constexpr double kLine = kCacheLine;
    struct Step {
      double bytes, count;
      auto operator<=>(const Step&) const = default;
    } room[kSlots];
    size_t moving = 0;
    double scattered = 1;
    for_slots((inside | tiles_ | vectors_) & a.moved, [&](int s) {
      if (a.step[s] == kUneven)
        scattered *= extent_[s];
      else
        room[moving++] = {std::fabs(static_cast<double>(a.step[s])), extent_[s]};
    });
    // Places along an axis stay within a step of the axis around it.
    for_slots(a.moved, [&](int s) {
      if (a.step[s] != kUneven && std::abs(a.step[s]) > a.bytes)
        scattered = std::min(scattered,
                             std::max(1.0, static_cast<double>(std::abs(a.step[s])) / kLine));
    });
    const std::span steps = std::span(room).first(moving);
    std::ranges::sort(steps);
    double length = static_cast<double>(a.bytes), pieces = 1, unit = 0, count = 1;
    for (auto [step, n] : steps) {
      if (pieces == 1 && count == 1 && step <= std::max(length, kLine)) {
        length += step * (n - 1);
      } else if (step <= unit * count) {
        count += step / unit * (n - 1);
      } else {
        pieces *= count;
        unit = step, count = n;
      }
    }
    Touched out;
    out.stretches = pieces * count * scattered;
    out.length = length, out.apart = unit, out.count = count;
    const double whole = a.elements * static_cast<double>(a.bytes);
    out.bytes = std::min(out.stretches * std::max(length, kLine), std::max(whole, kLine));
    return out;
  }

  // Bytes that are read one after the other.
  double streak(const Access& a) const {
    double length = touched(a, 0).length;
    const std::vector<int>& loops = nests_[static_cast<size_t>(a.nest)].loops;
    for (size_t i = loops.size(); i-- > 0;) {
      if (!a.step[loops[i]]) continue;
      if (std::fabs(static_cast<double>(a.step[loops[i]])) > length * 1.5) break;
      length *= extent_[loops[i]];
    }
    return length;
  }

  // A cache, and what a line from beyond it costs: one that is expected, and one that is waited for.
  struct Level {
    int64_t Target::*bytes;
    double line, wait;
  };
  static constexpr int kLevels = 3;
  static constexpr Level kLevel[kLevels] = {
      {&Target::l1_bytes,         2,   0.5},
      {&Target::l2_bytes,         2.5, 4  },
      {&Target::core_cache_bytes, 9,   30 }
  };
  static constexpr int kNear = 0, kFar = 1, kMemory = 2;

  // By nest, depth and level: bytes touched in the loops inside, by all nests that stand there.
  std::vector<std::vector<std::array<double, kLevels>>> inside_;

  static uint64_t inner(const std::vector<int>& loops, size_t depth) {
    uint64_t slots = 0;
    for (size_t i = depth; i < loops.size(); ++i) slots |= uint64_t{1} << loops[i];
    return slots;
  }

  std::array<double, kLevels> footprint(const std::vector<int>& outer) const {
    std::vector<std::pair<const Node*, std::array<double, kLevels>>> by_memory;
    std::array<double, kLevels> sum{};
    for (const Access& a : accesses_) {
      const std::vector<int>& loops = nests_[static_cast<size_t>(a.nest)].loops;
      if (loops.size() < outer.size() || !std::equal(outer.begin(), outer.end(), loops.begin()))
        continue;
      const Touched t = touched(a, inner(loops, outer.size()));
      auto known = std::ranges::find(by_memory, a.memory, [](auto& m) { return m.first; });
      if (known == by_memory.end()) known = by_memory.insert(known, {a.memory, {}});
      for (int l = 0; l < kLevels; ++l) {
        double& most = known->second[static_cast<size_t>(l)];
        most = std::max(most, t.bytes * crowding(t, l));
      }
    }
    for (auto& [memory, bytes] : by_memory)
      for (size_t l = 0; l < kLevels; ++l) sum[l] += bytes[l];
    return sum;
  }

  // Lines a power of two apart share few places of a cache.
  double crowding(const Touched& t, int level) const {
    constexpr int64_t kWays = 8;
    const int64_t sets = std::max<int64_t>(1, target_.*kLevel[level].bytes / kCacheLine / kWays);
    const auto apart = static_cast<int64_t>(t.apart) / kCacheLine;
    if (level == kMemory || apart < 2 || t.count <= kWays) return 1;
    const int64_t used = sets / std::gcd(apart, sets) *
                         std::max<int64_t>(1, static_cast<int64_t>(t.length) / kCacheLine);
    if (t.count <= static_cast<double>(used * kWays)) return 1;
    return static_cast<double>(sets) / static_cast<double>(used);
  }

  void find_footprints() {
    for (const Nest& n : nests_) {
      auto& sizes = inside_.emplace_back();
      for (size_t d = 0; d <= n.loops.size(); ++d)
        sizes.push_back(footprint({n.loops.begin(), n.loops.begin() + static_cast<long>(d)}));
    }
  }

  // What waiting for lines from beyond a cache costs.
  double fetch(const Access& a, int level) const {
    const auto at = static_cast<size_t>(level);
    const auto capacity = static_cast<double>(target_.*kLevel[level].bytes);
    const std::vector<int>& loops = nests_[static_cast<size_t>(a.nest)].loops;
    const auto& sizes = inside_[static_cast<size_t>(a.nest)];
    if (sizes[0][at] <= capacity) return 0;
    size_t depth = 0;  // all loops from here on fit
    while (depth <= loops.size() && sizes[depth][at] > capacity * 0.8) ++depth;
    if (depth > 0) --depth;  // what the loop around finds again counts once
    double rounds = 1;
    for (size_t i = 0; i < depth; ++i) rounds *= extent_[loops[i]];
    const Touched t = touched(a, inner(loops, depth));
    // What is kept in a memory of the kernel's own was written just before.
    if (a.memory->op == Op::Stage && t.bytes <= capacity) return 0;
    double lines = t.bytes / kCacheLine * rounds * (a.store ? 1.5 : 1);
    if (depth == loops.size()) lines *= kTooFew;
    const double waits = a.store ? 0 : lines * std::min(1.0, 2 * kCacheLine / streak(a));
    return lines * kLevel[level].line + waits * kLevel[level].wait;
  }

  double shares() const {
    double n = 1;
    for_slots(loops_, [&](int s) {
      if (range_role(range_[s]) == Role::Global) n *= extent_[s];
    });
    const double workers = target_.threads;
    return n / (std::ceil(n / workers));
  }
};

}  // namespace

Spent cost(UOp body, const Target& target) { return Model(body, target).cost(); }

}  // namespace mote

// A sum of much into little, whose outputs cannot be shared out without each thread reading nearly
// everything: partial sums over parts of its longest way through memory, and a kernel that folds
// them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "ir/freedoms.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

// What is made for more threads may cost so little of the whole.
constexpr double kLittle = 1.0 / 32;
constexpr int64_t kTile = 256;  // outputs that registers hold

// At most, where a variable counts its positions.
int64_t size(UOp r) { return r->src(0)->ranges ? 0 : r->src(0)->hi; }

int64_t count(std::span<const UOp> ranges) {
  int64_t n = 1;
  for (UOp r : ranges) n *= size(r);
  return n;
}

struct Read {
  UOp position;
  double bytes = 0;
};

// Two kernels over the arguments of one and a last one, the memory of the parts.
struct TwoKernels {
  UOp parts, whole;   // empty: it stays one
  int64_t count = 0;  // of the partial sums
  DType dtype = DType::none;
};

class PartialSums {
 public:
  PartialSums(UOp body, const KernelFacts& facts, const Target& target)
      : body_(body), facts_(facts), target_(target) {}

  TwoKernels run() {
    if (!find_sum()) return {};
    find_reads();
    if (!pays(target_.parallel_results) || !goes_evenly() || is_shared_out()) return {};
    std::vector<UOp> loops = over_;
    std::ranges::stable_sort(loops, std::greater(), [&](UOp r) { return steps(r); });
    // Parts of another than the longest are small products: only where outputs are few tiles.
    if (count(outputs_) > 2 * target_.parallel_results * kTile && !loops.empty()) loops.resize(1);
    for (UOp r : loops)
      for (int64_t least : {2 * target_.parallel_results, target_.parallel_results}) {
        longest_ = r, parts_ = steps(r) ? parts_of(r, least) : 0;
        if (parts_ && pays(parts_)) return split();
      }
    return {};
  }

 private:
  UOp body_;
  const KernelFacts& facts_;
  const Target& target_;
  UOp sum_;
  std::vector<UOp> over_, outputs_;  // its loops, and those it is made for
  uint64_t slots_ = 0;               // that the kernel uses
  int arguments_ = 0;                // that it has
  std::vector<Read> reads_;          // that matter
  double bytes_ = 0;                 // of all reads
  UOp longest_;                      // the loop that is parted: of those that can be
  int64_t parts_ = 0;

  // The only one, at known sizes, and nothing staged for it.
  bool find_sum() {
    if (facts_.staged) return false;
    for (UOp n : toposort(body_)) {
      if (n->is(Op::Reduce) && sum_) return false;
      if (n->is(Op::Reduce)) sum_ = n;
      if (n->is(Op::Range) && range_role(n) == Role::Ordered) return false;
      if (n->is(Op::Range)) slots_ |= n->ranges;
      arguments_ += n->is(Op::Param);
    }
    if (!sum_ || !may_reorder(sum_)) return false;
    for (Node* r : sum_->src().subspan(1)) over_.emplace_back(r);
    outputs_ = open_ranges(sum_);
    return count(over_) > 0 && count(outputs_) > 0;
  }

  void find_reads() {
    for (UOp n : toposort(sum_->src(0))) {
      if (!n->is(Op::Index) || !n->src(0)->is(Op::Param)) continue;
      double places = 1;
      for (UOp r : open_ranges(n->src(1))) places *= static_cast<double>(size(r));
      places = std::fmin(places, static_cast<double>(n->src(0)->ints(1)));
      reads_.push_back({n->src(1), places * size_of(n->dtype)});
      bytes_ += reads_.back().bytes;
    }
    std::erase_if(reads_, [&](const Read& r) { return r.bytes <= kLittle * bytes_; });
  }

  // It can be told how they go through memory.
  bool goes_evenly() const {
    return !reads_.empty() && std::ranges::all_of(reads_, [](const Read& read) {
      return std::ranges::all_of(open_ranges(read.position),
                                 [&](UOp r) { return stride_of(read.position, r).has_value(); });
    });
  }

  static int64_t step(const Read& read, UOp r) {
    return std::llabs(stride_of(read.position, r).value_or(0));
  }

  // The outputs that r counts are made of memory of their own, and not of every few bytes of it.
  bool parts(const Read& read, UOp r) const {
    return std::ranges::any_of(
        over_, [&](UOp k) { return step(read, k) > 0 && step(read, k) < step(read, r); });
  }

  // Threads that share out r read little that others read too.
  bool shares_out(UOp r) const {
    double again = 0;
    for (const Read& read : reads_)
      if (!parts(read, r)) again += read.bytes;
    return again * target_.parallel_results * target_.byte_cost <= kLittle * work();
  }

  bool is_shared_out() const {
    int64_t results = 1;
    for (UOp r : outputs_)
      if (shares_out(r)) results *= size(r);
    return results >= target_.parallel_results;
  }

  int64_t steps(UOp r) const {
    int64_t sum = 0;
    for (const Read& read : reads_) sum += step(read, r);
    return sum;
  }

  // So many parts or some more, the fewest of those that are nearest to equal; 0: there are none.
  static int64_t parts_of(UOp r, int64_t least) {
    if (!is_const(r->src(0))) return least < size(r) ? least : 0;
    int64_t best = 0, padding = size(r) / 8;
    for (int64_t n = least; n <= 4 * least && n < size(r); ++n) {
      const int64_t length = ceil_div(size(r), n), more = length * n - size(r);
      if (ceil_div(size(r), length) == n && more < padding) best = n, padding = more;
    }
    return best;
  }

  double work() const {
    const double each = 2 * static_cast<double>(count(over_));
    return each * static_cast<double>(count(outputs_)) + bytes_ * target_.byte_cost;
  }

  // Some of what is read is used for several outputs.
  bool reuses() const {
    return std::ranges::any_of(reads_, [&](const Read& read) {
      return std::ranges::any_of(outputs_,
                                 [&](UOp r) { return !(read.position->ranges & r->ranges); });
    });
  }

  // A part stays near while it is made, in the first cache where nothing but sums is used again.
  // Folding all parts is little beside making them.
  bool pays(int64_t parts) const {
    const int64_t bytes = count(outputs_) * size_of(sum_->dtype);
    const double moved = 2 * static_cast<double>(parts * bytes);
    return bytes <= (reuses() ? target_.l2_bytes / 2 : target_.l1_bytes) &&
           moved * target_.byte_cost + target_.launch_cost <= kLittle * work();
  }

  // What is read once comes fastest from several places that lie far apart: a part has a piece at
  // each, and those of the next part follow.
  int64_t streams_of_part() const {
    const bool even = size(longest_) % (parts_ * target_.streams) == 0;
    return reuses() || !even || !is_const(longest_->src(0)) ? 1 : target_.streams;
  }

  UOp new_range(int64_t n, Role role) { return new_range(index(n), role); }
  UOp new_range(UOp n, Role role) { return range(take_slot(slots_), n, role); }

  UOp place(UOp part) {
    std::vector<UOp> at{part};
    std::vector<Dim> dims{Dim(parts_)};
    for (UOp r : outputs_) {
      at.push_back(r);
      dims.emplace_back(size(r));
    }
    return Positions().flatten(at, dims);
  }

  int64_t length_of_part() const { return ceil_div(size(longest_), parts_); }

  // So many as have something to sum.
  UOp parts_of_size() const {
    const UOp n = longest_->src(0);
    return is_const(n) ? index(parts_) : simplify((n + (length_of_part() - 1)) / length_of_part());
  }

  // What is summed in a part; of the last part nothing beyond the end.
  UOp summed(UOp position) const {
    const std::pair<UOp, UOp> moved[] = {
        {longest_, position}
    };
    const UOp value = sum_->src(0), n = longest_->src(0);
    if (is_const(n) && size(longest_) % parts_ == 0) return simplify(substitute(value, moved));
    const UOp inside = lt(position, n);
    const UOp other = fold_identity(static_cast<Op>(sum_->ints(0)), value->dtype);
    return simplify(where(inside, gated_reads(substitute(value, moved), inside, 0), other));
  }

  // The loop that is parted, inside the part; loops of the sum are then those of a part.
  UOp position_in(UOp part) {
    const int64_t streams = streams_of_part(), length = length_of_part() / streams;
    const UOp inner = new_range(length, Role::Reduce);
    std::ranges::replace(over_, longest_, inner);
    if (streams == 1) return part * length + inner;
    over_.push_back(new_range(streams, Role::Reduce));
    return (over_.back() * parts_ + part) * length + inner;
  }

  TwoKernels split() {
    if (std::popcount(slots_) + 4 > kFusedLoops || arguments_ >= target_.max_buffers) return {};
    const int64_t held = parts_ * count(outputs_);
    const UOp memory = param(arguments_, sum_->dtype, held);
    const UOp many = parts_of_size();
    const UOp part = new_range(many, Role::Loop), again = new_range(many, Role::Reduce);
    const auto op = static_cast<Op>(sum_->ints(0));
    auto at = [&](UOp of_part) { return make(Op::Index, sum_->dtype, {memory, place(of_part)}); };
    const std::pair<UOp, UOp> folded[] = {
        {sum_, reduce_over(op, at(again), {&again, 1})}
    };
    const UOp value = summed(position_in(part));  // and then over other loops
    const UOp sum = reduce_over(op, value, over_);
    std::vector<UOp> end{make(Op::Store, DType::none, {at(part), sum}), part};
    end.insert(end.end(), outputs_.begin(), outputs_.end());
    const UOp effect = make(Op::End, DType::none, end);
    return {make(Op::Sink, DType::none, {effect}, Arg::of(intern_arg({}))),
            substitute(body_, folded), held, sum_->dtype};
  }
};

}  // namespace

UOp partial_sums(UOp plan, const Targets& targets) {
  std::map<std::pair<const Node*, uint8_t>, TwoKernels> known;  // by body and device
  Facts facts;
  Bodies bodies;
  int slots = 0;
  for (UOp memory : memories_of(plan)) slots = std::max(slots, slot_of(memory) + 1);
  return map_steps(plan, [&](const std::vector<UOp>& steps) {
    std::vector<UOp> out;
    for (UOp step : steps) {
      out.push_back(step);
      if (!is_kernel(step)) continue;
      const UOp body = step->src(0);
      auto [it, fresh] = known.try_emplace({body.get(), step->device});
      if (fresh) it->second = PartialSums(body, facts.of(body), targets[step->device]).run();
      const TwoKernels& two = it->second;
      if (!two.parts) continue;
      std::vector<UOp> places(places_of(step).begin(), places_of(step).end());
      places.push_back(param(slots++, two.dtype, two.count, Space::Local, step->device));
      out.back() = bodies.call(two.parts, places, provenance_of(step));
      out.push_back(bodies.call(two.whole, places, provenance_of(step)));
    }
    return out;
  });
}

}  // namespace mote

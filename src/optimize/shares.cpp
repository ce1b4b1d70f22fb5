// What threads share out: up to three loops, each in parts, chosen by how long the kernel then
// takes. What stands in none of a loop's parts is done again for each of them.
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/integers.h"
#include "ir/program.h"
#include "optimize/cost.h"
#include "optimize/sketch.h"

namespace mote {

namespace {

constexpr size_t kDimensions = 3;
// Parts of each worker, at most: a slow one leaves some to others.
constexpr int64_t kPartsEach = 8;
// Of a part the time that others wait for the last one, and where parts are not alike.
constexpr double kWaits = 0.01, kWaitsUneven = 0.5;
// A loop inside others in as many parts as there are workers: shorter ways through memory.
constexpr double kShorter = 0.012;
constexpr double kClearly = 0.98, kBalanced = 1.08;

struct Candidate {
  UOp loop;
  std::vector<Follower> followers;
  uint64_t slots = 0;    // of the loop and its followers
  uint64_t outside = 0;  // of loops that it stands in
  int64_t unit = 1;      // lengths of parts are multiples of it

  int64_t size() const { return Sketch::size(loop); }
  bool is_number() const { return is_const(loop->src(0)); }
  // All followers have as many parts.
  bool has_parts(int64_t length) const {
    return std::ranges::all_of(followers,
                               [&](const Follower& f) { return follows(f, loop, length); });
  }
};

struct Cut {
  const Candidate* of;
  int64_t length;
  int64_t parts() const { return ceil_div(of->size(), length); }
};

struct Plan {
  std::vector<Cut> cuts;
  double time = 0;
};

class Sharer {
 public:
  explicit Sharer(Sketch& sketch) : s_(sketch), workers_(sketch.target->threads) {}

  void run() {
    if (workers_ < 2) return;
    spent_ = cost(s_.body, *s_.target);
    best_.time = spent_.total;
    if (best_.time < kClearly * time_of(spent_.total / 2, 2)) return;
    find_candidates();
    uneven_ = std::ranges::any_of(s_.ranges.all, [](UOp r) { return r->src(0)->ranges != 0; });
    const double ideal = time_of(spent_.total / workers_, workers_);
    for (most_ = 1; most_ <= kDimensions && best_.time > kBalanced * ideal; ++most_) add_cuts(0, 1);
    for (const Cut& c : best_.cuts) s_.act({Action::Part, range_slot(c.of->loop), c.length});
  }

 private:
  Sketch& s_;
  const int workers_;
  Spent spent_;
  bool uneven_ = false;
  std::vector<Candidate> candidates_;
  size_t most_ = 0;
  std::vector<Cut> cuts_;
  Plan best_;

  // To send a kernel to workers takes time, too.
  double time_of(double each, int64_t workers) const {
    return each + s_.target->worker_cost * static_cast<double>(workers + 2);
  }

  void find_candidates() {
    for (UOp r : s_.outputs) {
      if (!may_launch(s_.body, r, Role::Global, nullptr)) continue;
      Candidate c{r, followers(s_.body, r), slot_bit(r), 0, 1};
      for (const Follower& f : c.followers) {
        c.slots |= slot_bit(f.loop);
        c.unit = std::lcm(c.unit, f.den);
      }
      c.outside = outside(c.slots);
      if (c.size() > c.unit) candidates_.push_back(std::move(c));
    }
  }

  // Loops that some of these stand in.
  uint64_t outside(uint64_t slots) const {
    uint64_t out = 0;
    for (const Spent::Nest& n : spent_.nests)
      for (UOp inner : s_.ranges.all)
        for (UOp r : s_.ranges.all) {
          const Role role = range_role(r);
          const bool is_outer =
              role == Role::Loop || role == Role::Accumulate || role == Role::Ordered;
          const bool both = (n.loops & slots & slot_bit(inner)) && (n.loops & slot_bit(r));
          if (is_outer && both && nest_order(r) < nest_order(inner)) out |= slot_bit(r);
        }
    return out & ~slots;
  }

  // Of so many parts at most; of a variable size each position is one.
  static std::vector<int64_t> lengths(const Candidate& c, int64_t most) {
    if (!c.is_number()) return std::vector<int64_t>(c.has_parts(1), 1);
    std::vector<int64_t> out;
    for (int64_t n = 2; n <= most; ++n) {
      const int64_t length = round_up(ceil_div(c.size(), n), c.unit);
      if (length >= c.size() || !c.has_parts(length)) continue;
      if (out.empty() || out.back() != length) out.push_back(length);
    }
    return out;
  }

  void add_cuts(size_t first, int64_t parts) {
    if (cuts_.size() == most_) return consider(parts);
    for (size_t i = first; i < candidates_.size(); ++i) {
      const Candidate& c = candidates_[i];
      for (int64_t length : lengths(c, kPartsEach * workers_ / parts)) {
        cuts_.push_back({&c, length});
        add_cuts(i + 1, parts * cuts_.back().parts());
        cuts_.pop_back();
      }
    }
  }

  void consider(int64_t parts) {
    double part = 0, work = 0, shorter = 0;
    uint64_t done = 0;
    for (const Spent::Nest& n : spent_.nests) {
      double own = n.total;
      double again = n.total;
      for (const Cut& c : cuts_)
        if (n.loops & c.of->slots)
          own *= static_cast<double>(c.length) / static_cast<double>(c.of->size());
        else
          again *= static_cast<double>(c.parts());
      part += own, work += again;
    }
    for (const Cut& c : cuts_) {
      if (c.of->outside & ~done) shorter += kShorter * static_cast<double>(c.parts()) / workers_;
      if (c.length == 1) done |= c.of->slots;
    }
    const int64_t workers = std::min<int64_t>(parts, workers_), rounds = ceil_div(parts, workers);
    const double waits = uneven_ ? kWaitsUneven : kWaits;
    // What is done again keeps memory busy, too.
    const double slower = work / spent_.total + shorter;
    const double time = time_of(part * slower * (static_cast<double>(rounds) + waits), workers);
    if (time < kClearly * best_.time || (cuts_.size() == best_.cuts.size() && time < best_.time))
      best_ = {cuts_, time};
  }
};

}  // namespace

void share_out(Sketch& sketch) { Sharer(sketch).run(); }

}  // namespace mote

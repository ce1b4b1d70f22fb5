// Loops that copy from several places one after the other, as cat, roll and mirrored edges do: each
// element would choose among them. Cut where the choice changes, a loop becomes kernels that do not
// choose and read straight.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "algebra/algebra.h"
#include "rewrite/rewrite.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

constexpr size_t kMostPieces = 3;  // of one loop
// Vectors choose between two reads by their masks, and rows are written once and in order.
constexpr size_t kFewReads = 2;

bool reads_memory(UOp value) {
  return std::ranges::any_of(toposort(value), [](UOp n) { return n->is(Op::Index); });
}

class Pieces {
 public:
  Pieces(UOp body, const KernelFacts& facts, const Target& target)
      : body_(body), facts_(facts), target_(target) {}

  // Bodies over the same arguments, that together do what the kernel does; empty: it stays whole.
  std::vector<UOp> run() {
    if (body_->nsrc != 1 || !facts_.inner.empty() || facts_.staged) return {};
    find_cuts();
    if (cuts_.empty() || !pays()) return {};
    std::vector<UOp> out{body_};
    for (const auto& [loop, places] : cuts_) {
      std::vector<UOp> more;
      for (UOp body : out) cut(body, loop, places, more);
      out = std::move(more);
    }
    return out;
  }

 private:
  UOp body_;
  const KernelFacts& facts_;
  const Target& target_;
  std::map<uint64_t, std::set<int64_t>> cuts_;  // by loop (its bit): where pieces begin

  UOp loop_of(uint64_t bit) const {
    for (UOp r : facts_.outputs)
      if (r->ranges == bit && is_const(r->src(0))) return r;
    return {};
  }

  void add(UOp loop, int64_t place) {
    if (loop && place > 0 && place < loop->src(0)->hi) cuts_[loop->ranges].insert(place);
  }

  // loop < c
  void add_condition(UOp condition) {
    for (UOp n : toposort(condition))
      if (n->is(Op::Lt) && n->src(0)->is(Op::Range) && is_const(n->src(1)))
        add(loop_of(n->src(0)->ranges), n->src(1)->lo);
  }

  // (loop + c) % n, where that wraps once
  void add_wrap(UOp mod) {
    const UOp sum = mod->src(0), loop = loop_of(sum->ranges);
    if (!loop || !is_const(mod->src(1))) return;
    const bool straight = sum->hi - sum->lo == loop->src(0)->hi - 1;
    const int64_t n = mod->src(1)->lo, next = (sum->lo / n + 1) * n;
    if (straight && sum->lo >= 0 && sum->lo % n && sum->hi >= next && sum->hi < next + n)
      add(loop, next - sum->lo);
  }

  void find_cuts() {
    const UOp store = body_->src(0)->is(Op::End) ? body_->src(0)->src(0) : body_->src(0);
    const bool many = facts_.reads.size() > kFewReads;
    for (UOp n : toposort(store->src(1))) {
      if (many && n->is(Op::Where) && n->dtype != DType::index && reads_memory(n->src(1)) &&
          reads_memory(n->src(2)))
        add_condition(n->src(0));
      if (n->is(Op::FloorMod)) add_wrap(n);
    }
    std::erase_if(cuts_, [&](const auto& c) {
      return c.second.size() >= kMostPieces || !has_vectors(loop_of(c.first), c.second);
    });
  }

  // Whether the longest piece of an innermost loop fills a vector.
  bool has_vectors(UOp loop, const std::set<int64_t>& places) const {
    if (loop != facts_.outputs.back()) return true;
    int64_t longest = 0, begin = 0;
    for (int64_t end : places) longest = std::max(longest, end - std::exchange(begin, end));
    longest = std::max(longest, loop->src(0)->hi - begin);
    return longest * size_of(body_->src(0)->src(0)->src(1)->dtype) >= target_.vector_bytes;
  }

  bool pays() const {
    double elements = 1, kernels = 1;
    for (UOp r : facts_.outputs) elements *= static_cast<double>(r->src(0)->hi);
    for (const auto& [loop, places] : cuts_) kernels *= static_cast<double>(places.size() + 1);
    return elements * target_.load_cost > (kernels - 1) * target_.launch_cost / 8;
  }

  void cut(UOp body, uint64_t bit, std::set<int64_t> places, std::vector<UOp>& out) const {
    const UOp loop = loop_of(bit);
    places.insert(loop->src(0)->hi);
    int64_t begin = 0;
    for (int64_t end : places) {
      const UOp piece = range(static_cast<int>(loop->ints(0)), index(end - begin), Role::Loop);
      out.push_back(moved(body, loop, piece, begin));
      begin = end;
    }
  }

  static UOp moved(UOp body, UOp loop, UOp piece, int64_t begin) {
    const UOp end = body->src(0), store = end->src(0);
    const std::pair<UOp, UOp> map[] = {
        {loop, piece + begin}
    };
    std::vector<UOp> src{simplify(substitute(store, map))};
    for (UOp r : end->src().subspan(1)) src.push_back(r == loop ? piece : r);
    return make(Op::Sink, DType::none, {make(Op::End, DType::none, src)}, body->arg);
  }
};

}  // namespace

UOp cut_to_pieces(UOp plan, const Targets& targets) {
  std::map<std::pair<const Node*, uint8_t>, std::vector<UOp>> known;  // by body and device
  Facts facts;
  Bodies bodies;
  return map_steps(plan, [&](const std::vector<UOp>& steps) {
    std::vector<UOp> out;
    for (UOp step : steps) {
      if (!is_kernel(step)) {
        out.push_back(step);
        continue;
      }
      const UOp body = step->src(0);
      auto [it, fresh] = known.try_emplace({body.get(), step->device});
      if (fresh) it->second = Pieces(body, facts.of(body), targets[step->device]).run();
      if (it->second.empty()) out.push_back(step);
      const std::vector<UOp> places(places_of(step).begin(), places_of(step).end());
      for (UOp piece : it->second) out.push_back(bodies.call(piece, places, provenance_of(step)));
    }
    return out;
  });
}

}  // namespace mote

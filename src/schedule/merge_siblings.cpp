// Kernels that need not wait for each other, have the same loops and read the same memory become
// one: what they share is read once.
#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/freedoms.h"
#include "rewrite/rewrite.h"
#include "schedule/costs.h"
#include "schedule/plan.h"

namespace mote {

namespace {

class Merger {
 public:
  explicit Merger(const Targets& targets) : targets_(targets) {}

  std::vector<UOp> run(std::vector<UOp> steps) {
    steps_ = std::move(steps);
    into_.resize(steps_.size());
    looks_.resize(steps_.size());
    std::iota(into_.begin(), into_.end(), 0);
    std::vector<Edge> edges = dependences(steps_, facts_);
    for (const std::vector<int>& level : levels_of(edges)) merge_within(level);
    // Nothing has changed but that a merged kernel waits for all that either did.
    for (Edge& e : edges) e = {into(e.later), into(e.earlier)};
    std::vector<UOp> left;
    for (int i : sorted(steps_.size(), edges, [](int at) { return -at; }))
      if (into(i) == i) left.push_back(step(i));
    return left;
  }

 private:
  // What is asked of a step with each other one of its level.
  struct Look {
    const KernelFacts* facts = nullptr;
    std::vector<uint32_t> reads;  // places by id, sorted
    size_t memories() const { return reads.size() + facts->written.size() + facts->staged; }
  };

  const Targets& targets_;
  std::vector<UOp> steps_;
  std::vector<int> into_;    // by step: the one that it is a part of
  std::vector<Look> looks_;  // by step, once asked for
  Facts facts_;
  Bodies bodies_;
  ByWords<UOp> known_;  // merged bodies, before they get their numbers
  std::vector<uint64_t> words_;

  UOp& step(int i) { return steps_[static_cast<size_t>(i)]; }
  int& into(int i) { return into_[static_cast<size_t>(i)]; }

  // Steps by the longest chain of others that they wait for.
  std::vector<std::vector<int>> levels_of(std::span<const Edge> edges) const {
    std::vector<size_t> level(steps_.size());
    for (Edge e : edges) {  // those of a step come before those of the next
      size_t& later = level[static_cast<size_t>(e.later)];
      later = std::max(later, level[static_cast<size_t>(e.earlier)] + 1);
    }
    std::vector<std::vector<int>> levels;
    for (size_t i = 0; i < level.size(); ++i) {
      if (levels.size() <= level[i]) levels.resize(level[i] + 1);
      levels[level[i]].push_back(static_cast<int>(i));
    }
    return levels;
  }

  void merge_within(std::span<const int> level) {
    for (size_t i = 0; i < level.size(); ++i) {
      const int a = level[i];
      if (into(a) != a || !is_kernel(step(a))) continue;
      for (size_t j = i + 1; j < level.size() && has_room(a); ++j) {
        const int b = level[j];
        if (into(b) != b || !is_kernel(step(b)) || !may_merge(a, b)) continue;
        const UOp both = merged(step(a), step(b));
        if (!both) continue;
        step(a) = both, into(b) = a;
        looks_[static_cast<size_t>(a)] = {};
      }
    }
  }

  const KernelFacts& facts(UOp step) { return facts_.of(step->src(0)); }
  const Target& target(int i) { return targets_[step(i)->device]; }

  const Look& look(int i) {
    Look& l = looks_[static_cast<size_t>(i)];
    if (l.facts) return l;
    l.facts = &facts(step(i));
    for (uint32_t p = 0; p < places_of(step(i)).size(); ++p)
      if (facts_.reads(step(i), p)) l.reads.push_back(places_of(step(i))[p]->id);
    std::ranges::sort(l.reads);
    return l;
  }

  bool has_room(int i) {
    return look(i).memories() < static_cast<size_t>(target(i).max_buffers) &&
           look(i).facts->ops < target(i).max_ops;
  }

  // A launch, and what both read.
  bool pays(int a, int b) {
    const KernelFacts &x = *look(a).facts, &y = *look(b).facts;
    if (x.inner.empty() || y.inner.empty()) return true;
    double saved = target(a).launch_cost;
    for (UOp p : places_of(step(a)))
      if (std::ranges::count(places_of(step(b)), p.get()))
        saved += static_cast<double>(bytes_of(memory_of(p))) * target(a).byte_cost;
    return lost_beside_others(x.products + y.products, std::max(x.across, y.across), target(a)) <= saved;
  }

  bool may_merge(int a, int b) {
    const Look &x = look(a), &y = look(b);
    if (step(a)->device != step(b)->device || x.facts->outputs != y.facts->outputs) return false;
    if (x.facts->ops + y.facts->ops > target(a).max_ops) return false;
    if (x.facts->is_heavy() != y.facts->is_heavy()) return false;
    size_t shared = 0;
    for (auto i = x.reads.begin(), j = y.reads.begin(); i != x.reads.end() && j != y.reads.end();) {
      shared += *i == *j;
      const bool before = *i <= *j, after = *j <= *i;
      i += before, j += after;
    }
    if (!shared) return false;
    if (x.memories() + y.memories() - shared > static_cast<size_t>(target(a).max_buffers))
      return false;
    return pays(a, b);
  }

  // Empty where it would have too many loops.
  UOp merged(UOp a, UOp b) {
    std::vector<UOp> places;
    for (UOp p : places_of(a)) places.push_back(p);
    words_ = {word(a->src(0)), word(b->src(0))};
    std::vector<int> slots;  // of b's places, in both
    for (UOp p : places_of(b)) {
      const auto at = std::ranges::find(places, p) - places.begin();
      if (at == std::ssize(places)) places.push_back(p);
      slots.push_back(static_cast<int>(at));
      words_.push_back(static_cast<uint64_t>(at));
    }
    auto [body, fresh] = known_(words_);
    if (fresh) body = joined(a, b, slots);
    if (!body) return {};
    std::vector<uint32_t> provenance = provenance_of(a);
    for (uint32_t p : provenance_of(b))
      if (provenance.size() < kMaxPlaces && !std::ranges::count(provenance, p))
        provenance.push_back(p);
    return bodies_.call(body, places, provenance);
  }

  static bool is_nested(const KernelFacts& f, UOp r) { return f.nested & slot_bit(r); }

  // The inner loops of b become those of a that are alike, in the order they end in: then none can
  // need another's result that comes later. Others get slots of their own. Matrix products keep
  // their loops: the registers hold one tile at a time. So do sums with an order to keep: other loops
  // of the kernel would be in another one.
  bool match_loops(UOp a, UOp b, std::vector<std::pair<UOp, UOp>>& map) {
    const KernelFacts &x = facts(a), &y = facts(b);
    uint64_t used = 0;
    for (const std::vector<UOp>* loops : {&x.outputs, &x.inner})
      for (UOp r : *loops) used |= slot_bit(r);
    auto next = x.inner.begin();
    for (UOp r : y.inner) {
      const bool keeps = x.is_heavy() || !allows(Freedom::Reassociate);
      const bool apart = (keeps && range_role(r) == Role::Reduce) || is_nested(y, r);
      auto alike = std::find_if(next, x.inner.end(), [&](UOp m) {
        return !apart && m->src(0) == r->src(0) && range_role(m) == range_role(r) &&
               !is_nested(x, m);
      });
      if (alike != x.inner.end()) {
        map.emplace_back(r, *alike);
        next = alike + 1;
        continue;
      }
      const int slot = take_slot(used);
      if (slot >= kFusedLoops) return false;
      map.emplace_back(r, range(slot, r->src(0), range_role(r)));
    }
    return true;
  }

  UOp joined(UOp a, UOp b, std::span<const int> slots) {
    std::vector<std::pair<UOp, UOp>> map;
    if (!match_loops(a, b, map)) return {};
    for (size_t i = 0; i < slots.size(); ++i) {
      const UOp memory = memory_of(places_of(b)[i]);
      map.emplace_back(param(static_cast<int>(i), memory->dtype, count_of(memory)),
                       param(slots[i], memory->dtype, count_of(memory)));
    }
    const UOp second = substitute(b->src(0), map);
    std::vector<UOp> effects(a->src(0)->src().begin(), a->src(0)->src().end());
    effects.insert(effects.end(), second->src().begin(), second->src().end());
    return make(Op::Sink, DType::none, effects, Arg::of(intern_arg({})));
  }
};

}  // namespace

UOp merge_siblings(UOp plan, const Targets& targets) {
  return map_steps(plan, [&](std::vector<UOp> s) { return Merger(targets).run(std::move(s)); });
}

// A kernel whose temporaries are nothing beside those it reads can only end the life of some.
static bool needs_no_memory(UOp step, Facts& facts) {
  constexpr int64_t kMention = 4096, kFolds = 8;
  int64_t makes = 0, reads = 0;
  const std::span<Node* const> places = places_of(step);
  for (uint32_t i = 0; i < places.size(); ++i) {
    const UOp memory = memory_of(places[i]);
    if (!is_temporary(memory)) continue;
    if (i < written_by(step)) makes += bytes_of(memory);
    if (facts.reads(step, i)) reads += bytes_of(memory);
  }
  return makes <= std::max(kMention, reads / kFolds);
}

UOp arrange(UOp plan, const Targets&) {
  Facts facts;
  return map_steps(plan, [&](const std::vector<UOp>& steps) {
    const auto count = static_cast<int64_t>(steps.size());
    const std::vector<Edge> edges = dependences(steps, facts);
    std::vector<UOp> order;
    // So that gradients are used up as they are made; of others those that came first.
    for (int i : sorted(steps.size(), edges, [&](int at) {
           const UOp step = steps[static_cast<size_t>(at)];
           return (needs_no_memory(step, facts) ? count : 0) - at;
         }))
      order.push_back(steps[static_cast<size_t>(i)]);
    return order;
  });
}

}  // namespace mote

// What kernels have in common: those of equal layers have the same expressions, and what is found
// out about one of them or made of it holds for all.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "rewrite/rewrite.h"
#include "schedule/plan.h"

namespace mote {

namespace {

// Of an argument; a stage is its own.
bool is_read(UOp n) { return n->is(Op::Index) && n->src(0)->is(Op::Param); }

KernelFacts::Read read_of(UOp index) { return {slot_of(index->src(0)), index->src(1)}; }

UOp store_of(UOp effect) { return effect->is(Op::End) ? effect->src(0) : effect; }

// A gate only leaves some of them out.
Elements written_at(UOp place) {
  UOp at = place->src(1);
  if (at->is(Op::Where) && at->src(2)->is(Op::Invalid)) at = at->src(1);
  return {std::max<int64_t>(at->lo, 0), std::min(at->hi, count_of(place->src(0)) - 1) + 1};
}

double positions(uint64_t slots, const std::vector<UOp>& order) {
  double n = 1;
  for (UOp r : order)
    if (r->is(Op::Range) && (slots & slot_bit(r))) n *= static_cast<double>(r->src(0)->hi);
  return n;
}

// The slot of the loop with the shortest steps through memory.
uint64_t shortest_steps(UOp position) {
  int64_t shortest = INT64_MAX;
  uint64_t slot = 0;
  for (UOp r : open_ranges(position)) {
    const int64_t step = std::llabs(stride_of(position, r).value_or(0));
    if (step && step < shortest) shortest = step, slot = slot_bit(r);
  }
  return slot;
}

void add_fold(UOp reduce, KernelFacts& f) {
  const uint64_t all = reduce->src(0)->ranges;
  uint64_t own = 0;
  for (Node* r : reduce->src().subspan(1)) own |= r->ranges;
  bool reuses = false;
  const std::vector<UOp> order = toposort(reduce->src(0));
  for (UOp i : order) {
    if (!is_read(i) || !(i->src(1)->ranges & own)) continue;
    reuses |= (i->src(1)->ranges & all) != all;
    const UOp position = split_gate(i->src(1)).idx;
    if (!(shortest_steps(position) & own))
      f.across = std::max(f.across, static_cast<double>(bytes_of(i->src(0))));
  }
  if (reuses) f.products += positions(all, order);
}

// Those of the effect in most loops come first: others stand in some of them.
std::vector<UOp> output_loops(UOp body) {
  std::vector<UOp> effects(body->src().begin(), body->src().end()), loops;
  std::ranges::stable_sort(effects, std::greater(), [](UOp e) { return e->nsrc; });
  for (UOp effect : effects)
    if (effect->is(Op::End))
      for (UOp r : effect->src().subspan(1))
        if (!std::ranges::count(loops, r)) loops.push_back(r);
  return loops;
}

KernelFacts facts_of(UOp body) {
  KernelFacts f;
  std::vector<UOp> values, roots;
  f.outputs = output_loops(body);
  uint64_t outputs = 0;
  for (UOp r : f.outputs) outputs |= slot_bit(r);
  for (UOp effect : body->src()) {
    const UOp store = store_of(effect);
    values.push_back(store->src(1));
    roots.insert(roots.end(), {store->src(1), store->src(0)->src(1)});
    f.written.push_back(written_at(store->src(0)));
  }
  for (UOp n : toposort(values)) {
    ++f.ops;
    f.staged += n->is(Op::Stage);
    if (n->is(Op::Reduce)) add_fold(n, f);
  }
  for (UOp n : toposort(roots)) {
    if (is_read(n)) f.reads.push_back(read_of(n));
    for (UOp r : closed_ranges(n)) {
      if (!std::ranges::count(f.inner, r)) f.inner.push_back(r);
      if (n->ranges & ~outputs) f.nested |= slot_bit(r);
    }
  }
  for (const KernelFacts::Read& r : f.reads) {
    const auto slot = static_cast<size_t>(r.slot);
    if (f.is_read.size() <= slot) f.is_read.resize(slot + 1);
    f.is_read[slot] = true;
  }
  return f;
}

}  // namespace

const KernelFacts& Facts::of(UOp body) {
  auto [it, fresh] = known_.try_emplace(body.get());
  if (fresh) it->second = facts_of(body);
  return it->second;
}

bool Facts::reads(UOp step, uint32_t place) {
  if (!is_kernel(step)) return place >= written_by(step);
  const std::vector<bool>& is_read = of(step->src(0)).is_read;
  return place < is_read.size() && is_read[place];
}

Bodies::Body Bodies::numbered(UOp given) {
  Body body;
  std::vector<std::pair<UOp, UOp>> map;
  std::vector<UOp> roots, done;
  int ranges = 0;
  auto number = [&](UOp leaf) {
    if (std::ranges::count(done, leaf)) return;
    done.push_back(leaf);
    if (leaf->is(Op::Range)) {
      map.emplace_back(leaf, range(ranges++, leaf->src(0), range_role(leaf)));
      return;
    }
    const auto slot = static_cast<int>(body.slots.size());
    map.emplace_back(leaf, param(slot, leaf->dtype, count_of(leaf)));
    body.slots.push_back(slot_of(leaf));
  };
  for (UOp effect : given->src()) {
    const UOp store = store_of(effect), place = store->src(0);
    number(place->src(0));
    roots.insert(roots.end(), {place->src(1), store->src(1)});
  }
  for (UOp r : output_loops(given)) number(r);
  for (UOp leaf : canonical_leaves(roots, std::vector(done))) number(leaf);
  // All at once; Params and Ranges are leaves, so new ones are never looked at again.
  body.sink = substitute(given, map);
  return body;
}

UOp Bodies::call(UOp given, std::span<const UOp> places, std::span<const uint32_t> provenance) {
  auto [it, fresh] = known_.try_emplace(given.get());
  if (fresh) it->second = numbered(given);
  std::vector<UOp> in_order;
  for (int slot : it->second.slots) in_order.push_back(places[static_cast<size_t>(slot)]);
  return mote::call(it->second.sink, in_order, provenance);
}

}  // namespace mote

#include "schedule/bodies.h"

#include <algorithm>

#include "rewrite/rewrite.h"

namespace mote {

namespace {

// Of an argument; a stage is its own.
bool is_read(UOp n) { return n->is(Op::Index) && n->src(0)->is(Op::Param); }

Content content_of(const DrawnKernel& k) {
  Content c;
  std::vector<UOp> roots;
  for (const Write& w : k.writes) roots.push_back(w.value);
  for (UOp n : toposort(roots)) {
    ++c.ops;
    c.staged += n->is(Op::Stage);
    if (!n->is(Op::Reduce)) continue;
    uint64_t all = n->src(0)->ranges, own = 0;
    for (Node* r : n->src().subspan(1)) own |= r->ranges;
    for (UOp i : toposort(n->src(0)))
      if (is_read(i) && (i->src(1)->ranges & all) != all && (i->src(1)->ranges & own))
        c.operands.push_back({static_cast<int>(i->src(0)->ints(0)), i->src(1)});
  }
  for (const Write& w : k.writes) roots.push_back(w.position);
  for (UOp n : toposort(roots)) {
    if (is_read(n)) c.reads.push_back({static_cast<int>(n->src(0)->ints(0)), n->src(1)});
    if (n->is(Op::Param)) c.slots.push_back(static_cast<int>(n->ints(0)));
    if (n->is(Op::Range)) c.loops.push_back(n);
  }
  return c;
}

}  // namespace

const Content& Contents::of(const DrawnKernel& k) {
  words_.clear();
  for (const Write& w : k.writes) {
    words_.push_back(word(w.value));
    words_.push_back(word(w.position));
  }
  auto [content, fresh] = known_(words_);
  if (fresh) content = content_of(k);
  return content;
}

Bodies::Body Bodies::made_of(const Drawn& d, const DrawnKernel& k,
                             std::span<const UOp> priors) const {
  Body body;
  std::vector<std::pair<UOp, UOp>> map;
  std::vector<UOp> roots, numbered;
  int params = 0, ranges = 0;
  auto number_param = [&](UOp p) { map.emplace_back(p, param(params++, p->dtype, p->ints(1))); };
  auto number_range = [&](UOp r) {
    map.emplace_back(r, range(ranges++, r->src(0), range_role(r)));
  };
  for (UOp p : priors) number_param(p);
  for (UOp r : k.ranges) number_range(r);
  for (const auto& [from, to] : map) numbered.push_back(from);
  for (const Write& w : k.writes) {
    roots.push_back(w.position);
    roots.push_back(w.value);
  }
  for (UOp n : canonical_leaves(roots, numbered)) {
    if (std::ranges::count(numbered, n)) continue;
    if (n->is(Op::Range)) number_range(n);
    if (!n->is(Op::Param)) continue;
    body.slots.push_back(static_cast<int>(n->ints(0)));
    number_param(n);
  }
  // All substituted at once; Params and Ranges are leaves, so new ones are never looked at again.
  std::vector<UOp> effects;
  for (size_t i = 0; i < k.writes.size(); ++i) {
    const Write& w = k.writes[i];
    const PlannedBuffer& b = d.buffer(w.holder);
    UOp to = param(static_cast<int>(i), b.dtype, b.count);
    UOp place = make(Op::Index, b.dtype, {to, substitute(w.position, map)});
    UOp store = make(Op::Store, DType::none, {place, substitute(w.value, map)});
    std::vector<UOp> src{store};
    for (UOp r : k.ranges)
      if (w.slots & r->ranges) src.push_back(substitute(r, map));
    effects.push_back(make(Op::End, DType::none, src));
  }
  body.sink = make(Op::Sink, DType::none, effects, Arg::of(intern_arg({})));
  return body;
}

Step Bodies::step_of(Drawn& d, DrawnKernel& k) {
  Step step;
  step.device = k.device;
  step.provenance = k.places;
  // What stands for the memory that is overwritten: it becomes the Param of the output.
  std::vector<UOp> priors;
  words_.assign(1, k.writes.size());
  for (const Write& w : k.writes) {
    const PlannedBuffer& b = d.buffer(w.holder);
    priors.push_back(d.argument(k, {w.holder.buffer, w.before}).param);
    step.buffers.push_back(w.holder.buffer);
    for (UOp n : {w.position, w.value, priors.back()}) words_.push_back(word(n));
    for (uint64_t n : {w.slots, static_cast<uint64_t>(b.dtype), static_cast<uint64_t>(b.count)})
      words_.push_back(n);
  }
  for (UOp r : k.ranges) words_.push_back(word(r));
  step.outputs = static_cast<int>(step.buffers.size());
  auto [body, fresh] = known_(words_);
  if (fresh) body = made_of(d, k, priors);
  step.body = body.sink;
  for (int slot : body.slots)
    step.buffers.push_back(d.holders[k.arguments[static_cast<size_t>(slot)].holder].buffer);
  return step;
}

}  // namespace mote

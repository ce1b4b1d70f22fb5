// Staged values become local memory: what fills it is an effect that its readers come after.
#include <algorithm>
#include <unordered_map>

#include "lower/lower.h"

namespace mote {

namespace {

// Stage(value, place, ranges...) as a memory that has been filled.
UOp filled(UOp stage, std::span<Node* const> src, int slot) {
  UOp memory = param(slot, stage->dtype, stage->ints(1), Space::Local);
  UOp place = make(Op::Index, stage->dtype, {memory, UOp(src[1])});
  std::vector<UOp> end{make(Op::Store, DType::none, {place, UOp(src[0])})};
  for (Node* r : src.subspan(2)) end.emplace_back(r);
  return make(Op::After, stage->dtype, {memory, make(Op::End, DType::none, end)});
}

}  // namespace

UOp place_stages(UOp body) {
  std::vector<UOp> order = toposort(body);
  if (std::ranges::none_of(order, [](UOp n) { return n->is(Op::Stage); })) return body;
  int slot = 0;
  for (UOp n : order)
    if (n->is(Op::Param)) slot = std::max(slot, static_cast<int>(n->ints(0)) + 1);
  std::unordered_map<const Node*, Node*> done;
  std::vector<Node*> src;
  for (UOp n : order) {
    src.clear();
    for (Node* s : n->src()) src.push_back(done.at(s));
    done[n.get()] = n->is(Op::Stage) ? filled(n, src, slot++).get()
                    : n->nsrc        ? with_src(n, src).get()
                                     : n.get();
  }
  return done.at(body.get());
}

}  // namespace mote

// Staged values become local memory: what fills it is an effect that its readers come after.
#include <algorithm>

#include "lower/lower.h"
#include "rewrite/rewrite.h"

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
  int slot = 0;
  for (UOp n : toposort(body))
    if (n->is(Op::Param)) slot = std::max(slot, static_cast<int>(n->ints(0)) + 1);
  return map_nodes("fill stages", body, [&](UOp n, const Mapped& now) {
    return n->is(Op::Stage) ? filled(n, now.src, slot++) : UOp();
  });
}

}  // namespace mote

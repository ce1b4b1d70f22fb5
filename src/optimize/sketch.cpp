#include "optimize/sketch.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "algebra/algebra.h"

namespace mote {

void Sketch::look() {
  outputs.clear();
  reduces.clear();
  accesses.clear();
  sum = sum_stage = {};
  int sums = 0;
  std::unordered_set<const Node*> stores;
  std::unordered_map<const Node*, uint64_t> nests;
  std::vector<UOp> order = toposort(body);
  for (UOp n : order) {
    if (n->is(Op::Range) && range_role(n) == Role::Reduce) reduces.push_back(n);
    if (n->is(Op::Store)) stores.insert(n->src(0).get());
    if (n->is(Op::Reduce)) sum = ++sums == 1 ? n : UOp();
    if (n->is(Op::Stage) && n->src(0)->is(Op::Reduce)) sum_stage = n;
    if (n->is(Op::Reduce))
      for (UOp inside : toposort(n->src(0)))
        if (inside->is(Op::Index)) nests[inside.get()] |= n->src(0)->ranges;
  }
  for (UOp n : order)
    if (n->is(Op::Index))
      accesses.push_back({n->src(0), split_gate(n->src(1)).idx, stores.count(n.get()) > 0,
                          n->src(1)->is(Op::Where), nests[n.get()]});
  for (Node* end : body->src())
    for (Node* r : end->src().subspan(1))
      if (range_role(UOp(r)) == Role::Loop && !std::ranges::count(outputs, UOp(r)))
        outputs.emplace_back(r);
  std::ranges::sort(outputs, {}, range_slot);
  std::ranges::sort(reduces, {}, range_slot);
}

bool Sketch::act(const Action& a) {
  UOp next = apply(body, a);
  if (!next) return false;
  body = next;
  actions.push_back(a);
  look();
  return true;
}

void Sketch::take(const Sketch& trial) {
  body = trial.body;
  actions = trial.actions;
  look();
}

int Sketch::split(int slot, int64_t amount, Role role) {
  const int inner = next_slot();
  return act({Action::Split, slot, amount, role}) ? inner : -1;
}

}  // namespace mote

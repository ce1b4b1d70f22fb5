#include "optimize/sketch.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "algebra/algebra.h"

namespace mote {

static uint64_t slots_in(UOp position) {
  uint64_t slots = 0;
  std::unordered_set<const Node*> seen;
  std::vector<UOp> stack{position};
  while (!stack.empty()) {
    UOp n = stack.back();
    stack.pop_back();
    if (!n->ranges || !seen.insert(n.get()).second) continue;
    if (n->is(Op::Range)) slots |= uint64_t{1} << range_slot(n);
    else for (Node* s : n->src()) stack.emplace_back(s);
  }
  return slots;
}

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
  for (UOp n : order) {
    if (!n->is(Op::Index)) continue;
    UOp position = split_gate(n->src(1)).idx;
    accesses.push_back({n->src(0), position, stores.count(n.get()) > 0, n->src(1)->is(Op::Where),
                        nests[n.get()], slots_in(position)});
  }
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
  shared = trial.shared;
  look();
}

int Sketch::split(int slot, int64_t amount, Role role) {
  const int inner = next_slot();
  return act({Action::Split, slot, amount, role}) ? inner : -1;
}

bool Sketch::cut_in_place(int slot, int64_t amount) {
  const int inner = split(slot, amount, Role::Loop);
  std::vector<int> nest;
  for (UOp r : outputs) {
    if (range_slot(r) != inner) nest.push_back(range_slot(r));
    if (range_slot(r) == slot) nest.push_back(inner);
  }
  if (inner < 0 || nest.empty()) return false;
  const std::vector<int> rest(nest.begin() + 1, nest.end());
  return rest.empty() || act({Action::Order, nest[0], 0, Role::Loop, rest});
}

void order_reduces(Sketch& s, bool longest_inside) {
  if (!s.sum || s.reduces.size() < 2) return;
  UOp value = s.sum->src(0);
  const uint64_t gate = value->is(Op::Where) ? value->src(0)->ranges : 0;
  auto steps = [&](UOp r) {
    int64_t sum = 0;
    for (const Access& a : s.accesses)
      if (!a.store && a.nest) sum += std::llabs(stride_of(a.position, r).value_or(0));
    return std::pair((gate & r->ranges) != 0, sum);
  };
  std::vector<UOp> nest = s.reduces;
  std::ranges::stable_sort(nest, std::greater(), steps);
  auto longest = std::ranges::max_element(nest, {}, Sketch::size);
  const bool longer = Sketch::size(*longest) > Sketch::size(nest.back());
  if (longest_inside && longer && !steps(*longest).first)
    std::rotate(longest, longest + 1, nest.end());
  if (nest == s.reduces) return;
  std::vector<int> rest;
  for (UOp r : nest)
    if (r != nest[0]) rest.push_back(range_slot(r));
  s.act({Action::Order, range_slot(nest[0]), 0, Role::Loop, rest});
}

}  // namespace mote

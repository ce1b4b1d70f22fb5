#include "optimize/sketch.h"

#include <algorithm>
#include <functional>

#include "algebra/algebra.h"
#include "ir/memo.h"

namespace mote {

static uint64_t slots_filling(UOp stage) {
  uint64_t slots = 0;
  for (Node* r : stage->src().subspan(2)) slots |= slot_bit(UOp(r));
  return slots;
}

int Sketch::nest_of(UOp stage) const {
  const uint64_t slots = slots_filling(stage);
  for (size_t i = 0; i < nests.size(); ++i)
    if (nests[i] & slots) return static_cast<int>(i);
  return -1;
}

void Sketch::find_nests() {
  nests.clear();
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Stage)) continue;
    const bool own = std::ranges::all_of(n->src().subspan(2), [](Node* r) {
      return range_role(UOp(r)) == Role::Loop;
    });
    if (own) nests.push_back(slots_filling(n));
  }
}

// The Sink, or the Stage that the nest fills.
UOp Sketch::root() const {
  if (focus < 0) return body;
  for (UOp n : toposort(body))
    if (n->is(Op::Stage) && nest_of(n) == focus) return n;
  return body;
}

void Sketch::note_accesses(std::span<const UOp> order) {
  MemoLease<bool> stores;
  MemoLease<uint64_t> around;
  for (UOp n : order) {
    if (n->is(Op::Store)) (*stores)[n->src(0)] = true;
    if (n->is(Op::Reduce))
      for (UOp inside : toposort(n->src(0)))
        if (inside->is(Op::Index)) (*around)[inside] |= n->src(0)->ranges;
  }
  for (UOp n : order)
    if (n->is(Op::Index)) note_access(n->src(0), n->src(1), (*stores)[n], (*around)[n]);
}

void Sketch::note_access(UOp memory, UOp place, bool store, uint64_t nest) {
  UOp position = split_gate(place).idx;
  // What is staged is another element wherever the stage is filled again.
  const uint64_t filled = !store && memory->is(Op::Stage) ? memory->ranges : 0;
  accesses.push_back({memory, position, store, place != position, nest, ranges_in(position), filled,
                      linear(position)});
}

void Sketch::look() {
  std::vector<Known::Look>& looks = known_->looks[body.get()];
  const auto same = std::ranges::find_if(
      looks, [&](const Known::Look& l) { return l.focus == focus && l.nests == nests; });
  if (same != looks.end()) return void(Looked::operator=(same->seen));
  look_anew();
  looks.push_back({focus, nests, *this});
}

void Sketch::look_anew() {
  Looked::operator=({});
  std::vector<UOp> order = toposort(body);
  ranges = Ranges(order);
  int sums = 0;
  const UOp top = root();
  auto foreign = [&](UOp n) { return n != top && n->is(Op::Stage) && nest_of(n) >= 0; };
  if (!nests.empty()) order = toposort({&top, 1}, [&](UOp n) { return !foreign(n); });
  std::erase_if(order, foreign);
  for (UOp n : order) {
    if (n->is(Op::Range) && range_role(n) == Role::Reduce) reduces.push_back(n);
    if (n->is(Op::Reduce)) sum = ++sums == 1 ? n : UOp();
    if (n->is(Op::Stage) && n != top && n->src(0)->is(Op::Reduce)) sum_stage = n;
  }
  note_accesses(order);
  if (top->is(Op::Stage))
    note_access(top, top->src(1), true, 0);
  auto add_outputs = [&](std::span<Node* const> closed) {
    for (Node* r : closed)
      if (range_role(UOp(r)) == Role::Loop && !std::ranges::count(outputs, UOp(r)))
        outputs.emplace_back(r);
  };
  if (top->is(Op::Stage)) add_outputs(top->src().subspan(2));
  else
    for (Node* end : body->src()) add_outputs(end->src().subspan(1));
  std::ranges::sort(outputs, {}, range_slot);
  std::ranges::sort(reduces, {}, range_slot);
}

UOp Sketch::after(const Action& a) {
  std::vector<Known::Step>& steps = known_->steps[body.get()];
  const auto same = std::ranges::find(steps, a, &Known::Step::action);
  if (same != steps.end()) return same->next;
  UOp next = apply(body, a);
  if (next && !runs_on(next, *target, body)) next = {};
  steps.push_back({a, next});
  return next;
}

bool Sketch::act(const Action& a) {
  const UOp next = after(a);
  if (!next) return false;
  if (a.kind == Action::Split)
    for (uint64_t& slots : nests)
      if (slots >> a.slot & 1) slots |= uint64_t{1} << next_slot();
  body = next;
  actions.push_back(a);
  look();
  return true;
}

bool Sketch::act_all(std::span<const Action> list) {
  UOp next = apply_all(body, list);
  if (!next || !runs_on(next, *target, body)) return false;
  body = next;
  actions.insert(actions.end(), list.begin(), list.end());
  look();
  return true;
}

int Sketch::split(int slot, int64_t amount, Role role) {
  const int inner = next_slot();
  return act({Action::Split, slot, amount, role}) ? inner : -1;
}

bool Sketch::may_cut(UOp r, int64_t piece) {
  return !r->src(0)->ranges || divides(piece, r->src(0));
}

bool Sketch::cut_in_place(int slot, int64_t amount) {
  const int inner = split(slot, amount, Role::Loop);
  std::vector<UOp> loops = outputs;
  for (UOp r : ranges.all)
    if (range_role(r) == Role::Ordered) loops.push_back(r);
  std::ranges::sort(loops, {}, range_slot);
  std::vector<int> nest;
  for (UOp r : loops) {
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
      if (!a.store && a.nest) sum += std::llabs(a.step(r));
    return std::pair((gate & slot_bit(r)) != 0, sum);
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

void skip_gates(Sketch& s) {
  if (!s.sum || !s.sum->src(0)->is(Op::Where)) return;
  for (UOp r : s.reduces) {
    if (Sketch::size(r) < 8 || (s.sum->src(0)->src(0)->ranges & slot_bit(r))) continue;
    if (s.act({Action::Skip, range_slot(r)})) return;
  }
}

}  // namespace mote

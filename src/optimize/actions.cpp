// Actions: printing, parsing, applying.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <unordered_map>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/program.h"
#include "optimize/optimize.h"

namespace mote {

static constexpr const char* kind_names[] = {"split", "merge", "move", "thread"};

std::string to_string(const Action& a) {
  std::string out = text(kind_names[a.kind], " ", a.slot);
  if (a.kind != Action::Thread) out += text(" ", a.amount);
  if (a.kind == Action::Split) out += text(" ", name(a.role));
  return out;
}

std::string to_string(std::span<const Action> list) {
  std::string out;
  for (const Action& a : list) out += text(out.empty() ? "" : "; ", to_string(a));
  return out;
}

std::vector<Action> parse_actions(std::string_view given) {
  std::vector<Action> out;
  std::istringstream lines{std::string(given)};
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string kind, role;
    Action a;
    words >> kind >> a.slot;
    auto it = std::ranges::find(kind_names, kind);
    bool ok = static_cast<bool>(words) && it != std::end(kind_names);
    if (ok) a.kind = static_cast<Action::Kind>(it - kind_names);
    if (ok && a.kind != Action::Thread) ok = static_cast<bool>(words >> a.amount);
    if (ok && a.kind == Action::Split)
      ok = static_cast<bool>(words >> role) && parse_role(role, &a.role);
    std::string rest;
    check(ok && !(words >> rest), "[actions] cannot read '", line,
          "'; write for example 'split 0 8 upcast'");
    out.push_back(a);
  }
  return out;
}

namespace {

// What changes no fold of values like this one: of indices their bound, so intervals stay small.
UOp neutral(Op op, UOp value) {
  if (value->dtype == DType::index && op == Op::Max) return index(value->lo);
  if (value->dtype == DType::index && op == Op::Min) return index(value->hi);
  return fold_identity(op, value->dtype);
}

// Replaces range r by an expression of `ranges` everywhere; `inside`, where given, says which of
// the new positions exist.
class RangeChange {
 public:
  RangeChange(UOp from, UOp value, std::vector<UOp> ranges, UOp inside)
      : from_{from}, value_{value}, ranges_(std::move(ranges)), inside_(inside) {}
  RangeChange(std::vector<UOp> from, std::vector<UOp> values, std::vector<UOp> ranges)
      : from_(std::move(from)), value_(std::move(values)), ranges_(std::move(ranges)) {}

  UOp run(UOp body) {
    for (size_t i = 0; i < from_.size(); ++i) done_[from_[i].get()] = value_[i].get();
    for (UOp n : toposort(body))
      if (!done_.count(n.get())) done_[n.get()] = changed(n).get();
    return done_.at(body.get());
  }

 private:
  std::vector<UOp> from_, value_, ranges_;
  UOp inside_;
  std::unordered_map<const Node*, Node*> done_;

  bool depends(UOp n) const {
    return std::ranges::any_of(from_, [&](UOp r) { return n->ranges & r->ranges; });
  }

  UOp changed(UOp n) {
    std::vector<UOp> src;
    bool closes = n->is(Op::End) || n->is(Op::Reduce), replaced = false;
    for (uint32_t i = 0; i < n->nsrc; ++i) {
      UOp s = n->src(i);
      if (closes && i > 0 && std::ranges::count(from_, s)) {
        if (!replaced) src.insert(src.end(), ranges_.begin(), ranges_.end());
        replaced = true;
        continue;
      }
      src.push_back(UOp(done_.at(s.get())));
    }
    if (inside_ && n->is(Op::Index) && depends(n->src(1)))
      src[1] = gated(inside_ & split_gate(src[1]).valid, split_gate(src[1]).idx);
    if (inside_ && n->is(Op::Reduce) && replaced)
      src[0] = where(inside_, src[0], neutral(static_cast<Op>(n->ints(0)), src[0]));
    return n->nsrc ? make(n->op, n->dtype, src, n->arg) : n;
  }
};

struct Ranges {
  std::vector<UOp> all;
  int next_slot = 0;
  explicit Ranges(UOp body) {
    for (UOp n : toposort(body)) {
      if (!n->is(Op::Range)) continue;
      all.push_back(n);
      next_slot = std::max(next_slot, range_slot(n) + 1);
    }
  }
  UOp find(int slot) const {
    for (UOp r : all)
      if (range_slot(r) == slot) return r;
    return {};
  }
};

UOp refuse(std::string* refused, std::string why) {
  if (refused) *refused = std::move(why);
  return {};
}

UOp apply_split(UOp body, const Action& a, UOp r, int next_slot, std::string* refused) {
  Role role = range_role(r);
  if (role != Role::Loop && role != Role::Reduce) return refuse(refused, "not a plain loop");
  if (a.amount < 2) return refuse(refused, "a split by less than 2");
  if ((a.role == Role::Loop || a.role == Role::Reduce) && a.role != role)
    return refuse(refused, "the inner loop must have the role of the range");
  if (a.role == Role::Unroll && role != Role::Reduce)
    return refuse(refused, "only reduces are unrolled");
  if (next_slot >= 63) return refuse(refused, "too many ranges");
  UOp n = r->src(0);
  bool exact = is_const(n) && n->arg.i % a.amount == 0;
  UOp outer_size = simplify((n + (a.amount - 1)) / a.amount);
  UOp outer = range(range_slot(r), outer_size, role);
  UOp inner = range(next_slot, index(a.amount), a.role);
  UOp value = outer * a.amount + inner;
  UOp inside = exact ? UOp() : lt(value, n);
  std::vector<UOp> both;
  // A loop that is run once is none.
  if (outer_size->is_const(1)) value = inner;
  else both.push_back(outer);
  if (outer_size->is_const(1) && !exact) inside = lt(inner, n);
  both.push_back(inner);
  UOp next = simplify(RangeChange(r, value, both, inside).run(body));
  if (a.role == Role::Lane && value_of_two_lanes(next))
    return refuse(refused, "some value has lanes already");
  return next;
}

int divisions(UOp body) {
  int n = 0;
  for (UOp u : toposort(body)) n += u->is(Op::FloorDiv) || u->is(Op::FloorMod);
  return n;
}

UOp apply_merge(UOp body, UOp a, UOp b, std::string* refused) {
  if (range_role(a) != range_role(b)) return refuse(refused, "roles differ");
  for (UOp n : toposort(body))
    if (n->is(Op::End) || n->is(Op::Reduce)) {
      bool has_a = false, has_b = false;
      for (Node* s : n->src()) has_a |= UOp(s) == a, has_b |= UOp(s) == b;
      if (has_a != has_b) return refuse(refused, "the ranges are not closed together");
    }
  UOp merged = range(range_slot(a), simplify(a->src(0) * b->src(0)), range_role(a));
  UOp next = simplify(
      RangeChange({a, b}, {merged / b->src(0), merged % b->src(0)}, {merged}).run(body));
  if (divisions(next) > divisions(body)) return refuse(refused, "positions would need division");
  return next;
}

// The nest is in the order of slots, so moving a range is renumbering those between.
UOp apply_move(UOp body, const Ranges& ranges, UOp r, UOp before, std::string* refused) {
  if (range_role(r) != range_role(before)) return refuse(refused, "roles differ");
  std::vector<UOp> nest = ranges.all;
  std::ranges::sort(nest, {}, [](UOp x) { return range_slot(x); });
  std::vector<int> slots;
  for (UOp x : nest) slots.push_back(range_slot(x));
  std::erase(nest, r);
  nest.insert(std::ranges::find(nest, before), r);
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t i = 0; i < nest.size(); ++i)
    if (range_slot(nest[i]) != slots[i])
      map.emplace_back(nest[i], range(slots[i], nest[i]->src(0), range_role(nest[i])));
  return simplify(substitute(body, map));
}

UOp apply_thread(UOp body, UOp r, std::string* refused) {
  if (range_role(r) != Role::Loop) return refuse(refused, "not an output loop");
  for (Node* end : body->src()) {
    bool found = false;
    for (Node* s : end->src()) {
      found |= UOp(s) == r;
      if (s->op == Op::Range && range_role(UOp(s)) == Role::Thread)
        return refuse(refused, "there are threads already");
    }
    if (!found) return refuse(refused, "some output does not stand in this loop");
  }
  UOp t = range(range_slot(r), r->src(0), Role::Thread);
  return RangeChange(r, t, {t}, {}).run(body);
}

}  // namespace

UOp apply(UOp body, const Action& a, std::string* refused) {
  Ranges ranges(body);
  UOp r = ranges.find(a.slot);
  if (!r) return refuse(refused, text("no range of slot ", a.slot));
  if (a.kind == Action::Thread) return apply_thread(body, r, refused);
  if (a.kind == Action::Split) return apply_split(body, a, r, ranges.next_slot, refused);
  UOp inner = ranges.find(static_cast<int>(a.amount));
  if (!inner || inner == r) return refuse(refused, text("no range of slot ", a.amount));
  if (a.kind == Action::Move) return apply_move(body, ranges, r, inner, refused);
  return apply_merge(body, r, inner, refused);
}

}  // namespace mote

// Actions: printing, parsing, applying.
#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_set>

#include "algebra/algebra.h"
#include "base/error.h"
#include "base/number.h"
#include "ir/flat.h"
#include "ir/freedoms.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

const ActionRow action_rows[] = {
#define ACTION(kind, text, operands) {#text, operands, apply_##text, propose_##text},
#include "optimize/actions.def"
#undef ACTION
};

constexpr int kAmount = Cut | SecondRange | Number;

std::string to_string(const Action& a) {
  const ActionRow& row = action_rows[a.kind];
  std::string out = text(row.text, " ");
  out += row.has(OrSum) && a.slot == Action::kSum ? "sum" : text(a.slot);
  if (row.has(kAmount)) out += text(" ", a.amount);
  if (row.has(InnerRole)) out += text(" ", name(a.role));
  for (int slot : a.over) out += slot < 0 ? text("+", ~slot) : text(" ", slot);
  return out;
}

std::string to_string(std::span<const Action> list) {
  std::string out;
  for (const Action& a : list) out += text(out.empty() ? "" : "; ", to_string(a));
  return out;
}

// "2" or, where more loops may be named with it, "2+0+1".
static bool parse_slots(std::string_view word, bool may_add, std::vector<int>* out) {
  int slot = 0;
  if (!take_number(word, slot)) return false;
  out->push_back(slot);
  for (; may_add && word.starts_with('+'); out->push_back(~slot)) {
    word.remove_prefix(1);
    if (!take_number(word, slot) || slot < 0) return false;
  }
  return word.empty();
}

static bool parse_action(std::string_view line, Action* a) {
  const auto kind = std::ranges::find(action_rows, take_word(line),
                                      [](const ActionRow& r) { return std::string_view(r.text); });
  if (kind == std::end(action_rows)) return false;
  a->kind = static_cast<Action::Kind>(kind - action_rows);
  const std::string_view slot = take_word(line);
  if (kind->has(OrSum) && slot == "sum")
    a->slot = Action::kSum;
  else if (!read_number(slot, a->slot) || a->slot < 0)
    return false;
  if (kind->has(kAmount) && !read_number(take_word(line), a->amount)) return false;
  if (kind->has(InnerRole) && !parse_role(take_word(line), &a->role)) return false;
  std::string_view word = take_word(line);
  for (; kind->has(List | MaybeList) && !word.empty(); word = take_word(line))
    if (!parse_slots(word, kind->has(Joins), &a->over)) return false;
  return word.empty() && !(kind->has(List) && a->over.empty());
}

std::vector<Action> parse_actions(std::string_view given) {
  std::vector<Action> out;
  while (!given.empty()) {
    const std::string_view line = given.substr(0, given.find(';'));
    given.remove_prefix(std::min(line.size() + 1, given.size()));
    Action a;
    check(parse_action(line, &a), "[actions] cannot read '", line,
          "'; write for example 'split 0 8 upcast'");
    out.push_back(a);
  }
  return out;
}

Ranges::Ranges(std::span<const UOp> order) {
  for (UOp n : order) {
    if (!n->is(Op::Range)) continue;
    all.push_back(n);
    next_slot = std::max(next_slot, range_slot(n) + 1);
  }
}

UOp Ranges::find(int slot) const {
  for (UOp r : all)
    if (range_slot(r) == slot) return r;
  return {};
}

uint64_t ranges_in(UOp position) {
  uint64_t slots = 0;
  for (UOp n : toposort({&position, 1}, [](UOp u) { return u->ranges && !u->is(Op::Range); }))
    if (n->is(Op::Range)) slots |= slot_bit(n);
  return slots;
}

int64_t most_positions(UOp r) {
  UOp n = r->src(0);
  if (n->is(Op::Where)) n = n->src(1)->is_const(0) ? n->src(2) : n->src(1);
  if (is_const(n)) return n->arg.i == r->src(0)->hi ? n->arg.i : 0;
  // A bound by other loops or a variable is at most what it is for their largest values.
  const std::vector<UOp> order = toposort(n);
  const bool is_bounded = std::ranges::all_of(order, [](UOp u) {
    return u->is(Op::Range) || u->is(Op::Var) || u->is(Op::Const) || has(u->op, Alu);
  });
  return is_bounded ? n->hi : 0;
}

int64_t usual_positions(UOp r) {
  const UOp n = r->src(0);
  const int64_t most = most_positions(r);
  if (is_const(n) || n->ranges || n->lo > 2) return most;
  const auto half = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most) / 2));
  return std::max(std::min(most, kFew), half);
}

UOp runs_where(UOp r) {
  UOp runs = truth(true), n = r->src(0);
  while (n->is(Op::Where)) {
    const bool otherwise = n->src(1)->is_const(0);
    runs = runs & (otherwise ? logical_not(n->src(0)) : n->src(0));
    n = n->src(otherwise ? 2 : 1);
  }
  return n->ranges ? runs & lt(r, n) : runs;
}

UOp only_reduce(UOp body, UOp r, std::string* refused) {
  UOp found;
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Reduce) || !std::ranges::count(closed_ranges(n), r.get())) continue;
    if (found) return refuse(refused, "several reduces run over it");
    found = n;
  }
  return found ? found : refuse(refused, "nothing is folded over it");
}

UOp refuse(std::string* refused, std::string why) {
  if (refused) *refused = std::move(why);
  return {};
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
    if (inside_ && range_role(from_[0]) != Role::Reduce && !is_const(from_[0]->src(0)))
      find_loose_reads(body);
    return map_nodes("change ranges", body,
                     [this](UOp n, const Mapped& now) { return changed(n, now); });
  }

 private:
  std::vector<UOp> from_, value_, ranges_;
  UOp inside_;
  // Reads that need no gate where they stay in their memory: beyond the end of a variable size
  // there are other elements, and nothing is made of them.
  std::unordered_set<const Node*> loose_;

  void find_loose_reads(UOp body) {
    const std::vector<UOp> order = toposort(body);
    for (UOp n : order)
      if (n->is(Op::Index)) loose_.insert(n.get());
    for (UOp n : order)
      if (n->is(Op::Store)) loose_.erase(n->src(0).get());
  }

  // `place` in a memory of which `user` is an element.
  UOp gated_place(UOp user, UOp memory, UOp place) const {
    const Gated g = split_gate(place);
    const UOp at = simplify(g.idx);
    if (loose_.count(user.get()) && at->lo >= 0 && at->hi < memory->ints(1)) return place;
    return gated(inside_ & g.valid, g.idx);
  }

  bool depends(UOp n) const {
    return std::ranges::any_of(from_, [&](UOp r) { return n->ranges & slot_bit(r); });
  }
  bool moves(UOp position) const {
    if (!depends(position)) return false;
    const uint64_t slots = ranges_in(position);
    return std::ranges::any_of(from_, [&](UOp r) { return slots & slot_bit(r); });
  }

  // Reads beyond the end give 0.
  bool zero_outside(UOp n) const {
    if (n->is(Op::Index)) return moves(n->src(1));
    return n->is(Op::Cast) && is_float(n->dtype) && zero_outside(n->src(0));
  }

  // What is folded, made neutral beyond the end. Factors of a product are masked each, where a
  // stage may take the mask over.
  UOp masked(UOp value, Op op, const Mapped& now) const {
    if (op == Op::Add && zero_outside(value)) return now(value);
    if (op == Op::Add && value->is(Op::Mul) && depends(value->src(0)) && depends(value->src(1)))
      return masked(value->src(0), op, now) * masked(value->src(1), op, now);
    return where(inside_, now(value), neutral(op, now(value)));
  }

  UOp changed(UOp n, const Mapped& now) const {
    if (auto at = std::ranges::find(from_, n); at != from_.end())
      return value_[static_cast<size_t>(at - from_.begin())];
    if (std::ranges::equal(now.src, n->src())) return n;
    std::vector<UOp> src;
    src.reserve(n->nsrc + ranges_.size());
    const bool closes = n->is(Op::End) || n->is(Op::Reduce) || n->is(Op::Stage);
    const uint32_t first_range = n->is(Op::Stage) ? 2 : 1;
    bool replaced = false;
    for (uint32_t i = 0; i < n->nsrc; ++i) {
      UOp s = n->src(i);
      if (closes && i >= first_range && std::ranges::count(from_, s)) {
        if (!replaced) src.insert(src.end(), ranges_.begin(), ranges_.end());
        replaced = true;
        continue;
      }
      src.push_back(UOp(now.src[i]));
    }
    // Positions beyond the end are no reason for other loops to go further.
    if (inside_ && n->is(Op::Range) && src[0]->hi > n->src(0)->hi)
      src[0] = simplify(binary(Op::Min, src[0], index(n->src(0)->hi)));
    if (inside_ && n->is(Op::Index) && moves(n->src(1))) src[1] = gated_place(n, src[0], src[1]);
    if (inside_ && n->is(Op::Stage) && replaced)
      src[1] = gated(inside_ & split_gate(src[1]).valid, split_gate(src[1]).idx);
    if (inside_ && n->is(Op::Reduce) && replaced)
      src[0] = masked(n->src(0), static_cast<Op>(n->ints(0)), now);
    return make(n->op, n->dtype, src, n->arg);
  }
};

// Of a size that d divides.
UOp quotient(UOp n, int64_t d) {
  if (!n->is(Op::Min) && !n->is(Op::Max)) return simplify(n / d);
  return simplify(binary(n->op, quotient(n->src(0), d), quotient(n->src(1), d)));
}

// Of a size of whole pieces it is said by their elements: what is gated by them already needs no
// other gate.
UOp lies_below(UOp position, UOp n) {
  if (n->is(Op::FloorDiv) && is_const(n->src(1))) {
    const int64_t piece = n->src(1)->arg.i;
    const UOp last = simplify(n->src(0) + (1 - piece));
    return lies_below(simplify(position * piece), last);
  }
  return lt(position, n);
}

}  // namespace

bool fills_stage(UOp body, UOp r) {
  const std::vector<UOp> order = toposort(body);
  return std::ranges::any_of(order, [&](UOp n) {
    return n->is(Op::Stage) && std::ranges::count(closed_ranges(n), r.get()) > 0;
  });
}

UOp change_range(UOp body, UOp from, UOp to, std::vector<UOp> ranges, UOp inside) {
  return RangeChange(from, to, std::move(ranges), inside).run(body);
}

UOp cut_range(UOp body, const Action& cut, const Ranges& ranges, std::string* refused, bool whole) {
  const UOp r = ranges.find(cut.slot);
  const int64_t amount = cut.amount;
  const Role role = range_role(r), of_inner = cut.role;
  const int next_slot = ranges.next_slot;
  if (role != Role::Loop && role != Role::Reduce) return refuse(refused, "not a plain loop");
  if (amount < 2) return refuse(refused, "a split by less than 2");
  if ((of_inner == Role::Loop || of_inner == Role::Reduce) && of_inner != role)
    return refuse(refused, "the inner loop must have the role of the range");
  if (of_inner == Role::Unroll && role != Role::Reduce)
    return refuse(refused, "only reduces are unrolled");
  if (next_slot >= kMostRanges) return refuse(refused, "too many ranges");
  UOp n = r->src(0);
  if (n->ranges && (n->is(Op::Where) || !divides(amount, n)))
    return refuse(refused, "its extent depends on other loops");
  const bool exact = n->ranges || divides(amount, n);
  UOp outer_size = exact ? quotient(n, amount) : simplify((n + (amount - 1)) / amount);
  UOp outer = range(range_slot(r), outer_size, role);
  UOp inner = range(next_slot, index(amount), of_inner);
  // A loop of a variable size may end early in its last round, a tile may not.
  const bool ends = !whole && !exact && !is_const(n) && is_plain(inner) && !outer_size->is_const(1);
  if (ends)
    inner =
        range(next_slot, simplify(binary(Op::Min, index(amount), n - outer * amount)), of_inner);
  UOp value = outer * amount + inner;
  UOp inside = exact || ends ? UOp() : is_const(n) ? lt(value, n) : lies_below(value, n);
  std::vector<UOp> both;
  // A loop that is run once is none.
  if (outer_size->is_const(1))
    value = inner;
  else
    both.push_back(outer);
  if (outer_size->is_const(1) && !exact) inside = is_const(n) ? lt(inner, n) : lies_below(inner, n);
  both.push_back(inner);
  return simplify(RangeChange(r, value, both, inside).run(body));
}

UOp apply_split(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  return cut_range(body, a, ranges, refused);
}

void propose_split(const Site& site, std::vector<Action>& out) {
  constexpr int64_t kMostOfTile = 32;
  for (UOp r : site.ranges.all) {
    if (!is_plain(r)) continue;
    const int slot = range_slot(r);
    const int64_t most = std::max<int64_t>(r->src(0)->hi, 2);
    auto add = [&](int64_t amount) {
      out.push_back({Action::Split, slot, amount, range_role(r)});
      if (amount > kMostOfTile) return;
      out.push_back({Action::Split, slot, amount, Role::Upcast});
      if (range_role(r) == Role::Reduce) out.push_back({Action::Split, slot, amount, Role::Unroll});
      if (amount <= site.target.vector_bytes)
        out.push_back({Action::Split, slot, amount, Role::Vector});
    };
    for_cuts(most, add);
    if (most > 2 && std::ranges::find(kCuts, most) == std::end(kCuts)) add(most);
  }
}

static int divisions(UOp body) {
  int n = 0;
  for (UOp u : toposort(body)) n += u->is(Op::FloorDiv) || u->is(Op::FloorMod);
  return n;
}

UOp apply_merge(UOp body, const Action& action, const Ranges& ranges, std::string* refused) {
  UOp a = ranges.find(action.slot), b = ranges.find(static_cast<int>(action.amount));
  if (!b || b == a) return refuse(refused, text("no range of slot ", action.amount));
  if (range_role(a) != range_role(b)) return refuse(refused, "roles differ");
  if (range_role(a) == Role::Ordered) return refuse(refused, "its rounds have an order");
  if (a->src(0)->ranges || b->src(0)->ranges)
    return refuse(refused, "its extent depends on other loops");
  for (UOp n : toposort(body)) {
    const std::span<Node* const> closed = closed_ranges(n);
    if (std::ranges::count(closed, a.get()) != std::ranges::count(closed, b.get()))
      return refuse(refused, "the ranges are not closed together");
    const auto first = std::ranges::find(closed, a.get());
    if (n->is(Op::Reduce) && first != closed.end() && !may_reorder(n) &&
        (first + 1 == closed.end() || first[1] != b.get()))
      return refuse(refused, "a sum is to be made in its order");
  }
  UOp merged = range(range_slot(a), simplify(a->src(0) * b->src(0)), range_role(a));
  UOp next =
      simplify(RangeChange({a, b}, {merged / b->src(0), merged % b->src(0)}, {merged}).run(body));
  if (divisions(next) > divisions(body)) return refuse(refused, "positions would need division");
  return next;
}

void propose_merge(const Site& site, std::vector<Action>& out) {
  for (UOp a : site.ranges.all)
    for (UOp b : site.ranges.all)
      if (a != b && range_role(a) == range_role(b) && is_plain(a))
        out.push_back({Action::Merge, range_slot(a), range_slot(b)});
}

// The nest is in the order of slots, so ordering ranges is giving their slots out anew.
UOp apply_order(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  std::vector<int> slots{a.slot};
  slots.insert(slots.end(), a.over.begin(), a.over.end());
  std::vector<UOp> nest;
  for (int slot : slots) {
    UOp r = ranges.find(slot);
    if (!r) return refuse(refused, text("no range of slot ", slot));
    if (std::ranges::count(nest, r)) return refuse(refused, text("slot ", slot, " twice"));
    nest.push_back(r);
  }
  auto kind = [](UOp r) {
    const Role role = range_role(r);
    return role == Role::Accumulate || role == Role::Ordered ? Role::Loop : role;
  };
  for (UOp r : nest)
    if (kind(r) != kind(nest[0]) || (kind(r) != Role::Loop && kind(r) != Role::Reduce))
      return refuse(refused, "roles differ");
  const std::vector<int> wanted = slots;
  std::ranges::sort(slots);
  std::vector<std::pair<UOp, UOp>> map;
  // From outside in as they stand: what an extent depends on has its new slot by then.
  for (int slot : slots) {
    const auto place = static_cast<size_t>(std::ranges::find(wanted, slot) - wanted.begin());
    UOp r = nest[place];
    map.emplace_back(r, range(slots[place], substitute(r->src(0), map), range_role(r)));
  }
  return simplify(substitute(body, map));
}

void propose_order(const Site& site, std::vector<Action>& out) {
  for (UOp a : site.ranges.all)
    for (UOp b : site.ranges.all)
      if (range_slot(a) < range_slot(b) && !is_tile(range_role(a)) && !is_tile(range_role(b)))
        out.push_back({Action::Order, range_slot(b), 0, Role::Loop, {range_slot(a)}});
}

UOp with_role(UOp body, UOp r, Role role) {
  UOp t = range(range_slot(r), r->src(0), role);
  return RangeChange(r, t, {t}, {}).run(body);
}

bool may_launch(UOp body, UOp r, Role role, std::string* refused) {
  const char* why = nullptr;
  if (range_role(r) != Role::Loop) why = "not an output loop";
  else if (r->src(0)->ranges) why = "its extent depends on other loops";
  else if (role != Role::Global && !is_const(r->src(0))) why = "its extent is not a number";
  for (Node* end : body->src())
    if (!why && !std::ranges::count(closed_ranges(UOp(end)), r.get()))
      why = "some output does not stand in this loop";
  if (why) refuse(refused, why);
  return !why;
}

UOp launched(UOp body, UOp r, Role role, std::string* refused) {
  return may_launch(body, r, role, refused) ? with_role(body, r, role) : UOp();
}

UOp apply_global(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  return launched(body, ranges.find(a.slot), Role::Global, refused);
}

void propose_global(const Site& site, std::vector<Action>& out) {
  for (UOp r : site.of_role(Role::Loop)) out.push_back({Action::Global, range_slot(r)});
}

UOp apply_accumulate(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot);
  if (range_role(r) != Role::Reduce) return refuse(refused, "not a reduce loop");
  if (r->src(0)->ranges) return refuse(refused, "its extent depends on other loops");
  return with_role(body, r, Role::Accumulate);
}

void propose_accumulate(const Site& site, std::vector<Action>& out) {
  for (UOp r : site.of_role(Role::Reduce)) out.push_back({Action::Accumulate, range_slot(r)});
}

// What a range runs over, and with it all in its loop, needs no more than the loops outside.
static bool is_index_arithmetic(UOp gate) {
  const std::vector<UOp> order = toposort(gate);
  return std::ranges::none_of(order, [](UOp n) { return n->is(Op::Reduce) || n->is(Op::Stage); });
}

// Where the gate is false nothing is folded, so the loop need not run; in it the gate is true.
UOp apply_skip(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot);
  if (range_role(r) != Role::Reduce) return refuse(refused, "not a reduce loop");
  if (fills_stage(body, r)) return refuse(refused, "something is staged over it");
  UOp reduce = only_reduce(body, r, refused);
  if (!reduce) return {};
  UOp gate = gate_of_fold(reduce);
  if (!gate) return refuse(refused, "what is folded has no gate");
  if (!is_index_arithmetic(gate)) return refuse(refused, "the gate is a result of folds");
  for (UOp g : open_ranges(gate)) {
    const bool inside = range_role(g) == Role::Reduce && range_slot(g) >= range_slot(r);
    if (inside || is_tile(range_role(g)))
      return refuse(refused, text("the gate depends on range ", range_slot(g)));
  }
  std::pair<UOp, UOp> map[] = {
      {reduce, fold_where_open(reduce, r)}
  };
  return simplify(substitute(body, map));
}

void propose_skip(const Site& site, std::vector<Action>& out) {
  for (UOp r : site.of_role(Role::Reduce)) out.push_back({Action::Skip, range_slot(r)});
}

UOp apply_divide(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  UOp r = ranges.find(a.slot);
  UOp fold = only_reduce(body, r, refused);
  if (!fold) return {};
  UOp divided = divide_after_sum(fold, r);
  if (!divided) return refuse(refused, "no sum of products with a row divided by its sum");
  std::pair<UOp, UOp> map[] = {
      {fold, divided}
  };
  return simplify(substitute(body, map));
}

void propose_divide(const Site& site, std::vector<Action>& out) {
  if (!site.stages) return;
  for (UOp r : site.of_role(Role::Reduce)) out.push_back({Action::Divide, range_slot(r)});
}

UOp apply_stream(UOp body, const Action& a, const Ranges&, std::string* refused) {
  const std::vector<UOp> order = toposort(body);
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp n : order) {
    if (!n->is(Op::Store) || n->src(0)->src(0)->ints(0) != a.slot) continue;
    if (n->arg.i) return refuse(refused, "they do already");
    if (is_read(order, n->src(0)->src(0))) return refuse(refused, "it is read too");
    map.emplace_back(n, make(Op::Store, DType::none, {n->src(0), n->src(1)}, Arg::of(int64_t{1})));
  }
  if (map.empty()) return refuse(refused, text("nothing is stored to ", a.slot));
  return substitute(body, map);
}

void propose_stream(const Site& site, std::vector<Action>& out) {
  for (int memory : site.stored) out.push_back({Action::Stream, memory});
}

UOp apply(UOp body, const Action& a, std::string* refused) {
  std::vector<UOp> order;
  return apply(body, Ranges(body), a, order, refused);
}

UOp apply(UOp body, const Ranges& ranges, const Action& a, std::vector<UOp>& order_of_new,
          std::string* refused) {
  if (row(a.kind).has(OfRange) && !ranges.find(a.slot))
    return refuse(refused, text("no range of slot ", a.slot));
  UOp next = row(a.kind).apply(body, a, ranges, refused);
  if (!next) return {};
  order_of_new = toposort(next);
  if (std::string why = broken_law(next, order_of_new); !why.empty())
    return refuse(refused, std::move(why));
  if (Trace::is_on()) Trace::tell({Change::Pass, row(a.kind).text, body, next});
  return next;
}

}  // namespace mote

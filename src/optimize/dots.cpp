// Products of narrow numbers as products of words: a part of a sum that is one instruction.
#include "ir/dots.h"

#include "algebra/algebra.h"
#include "ir/freedoms.h"
#include "ir/program.h"
#include "optimize/dots.h"

namespace mote {

namespace {

bool holds(DType d, DType value) {
  if (is_float(d) || is_float(value)) return d == value;
  return row(d).lo <= row(value).lo && row(value).hi <= row(d).hi;
}

// What is cast to the dtype of the sum, with the gate that hides it; empty: nothing narrow.
UOp narrow_value(UOp u) {
  if (u->is(Op::Cast)) return u->src(0)->dtype == DType::boolean ? UOp() : u->src(0);
  if (!u->is(Op::Where) || !is_zero(u->src(2))) return {};
  const UOp value = narrow_value(u->src(1));
  return value ? where(u->src(0), value, zero_like(value)) : UOp();
}

// The sum's value: narrow factors, and a gate on their product.
struct Factors {
  UOp gate, a, b;
};
Factors factors_of(UOp sum) {
  Factors f;
  UOp value = sum->src(0);
  if (value->is(Op::Where) && is_zero(value->src(2))) f.gate = value->src(0), value = value->src(1);
  if (!value->is(Op::Mul) || static_cast<Op>(sum->ints(0)) != Op::Add) return {};
  f.a = narrow_value(value->src(0)), f.b = narrow_value(value->src(1));
  return f;
}

// Which of two factors is which one of the row's; no Mul commutes in a word.
bool orient(Factors& f, const Dot& dot) {
  if (holds(dot.a, f.a->dtype) && holds(dot.b, f.b->dtype)) return true;
  std::swap(f.a, f.b);
  return holds(dot.a, f.a->dtype) && holds(dot.b, f.b->dtype);
}

UOp word_of(UOp value, DType part, UOp inner, UOp gate) {
  if (gate) value = where(gate, value, zero_like(value));
  return word_over(value->dtype == part ? value : cast(value, part), inner);
}

// The sum over the words that `inner` counts the parts of.
UOp sum_of_words(UOp sum, const Dot& dot, UOp inner) {
  Factors f = factors_of(sum);
  if (!f.a || !f.b || !orient(f, dot)) return {};
  const bool within = f.gate && (f.gate->ranges & slot_bit(inner));
  const UOp hidden = within ? f.gate : UOp();
  UOp zero = constant(dot.sum, 0);
  UOp value = make(dot.op, dot.sum,
                   {word_of(f.a, dot.a, inner, hidden), word_of(f.b, dot.b, inner, hidden), zero});
  if (f.gate && !within) value = where(f.gate, value, zero);
  std::vector<UOp> rest;
  for (Node* r : closed_ranges(sum))
    if (UOp(r) != inner) rest.emplace_back(r);
  return rest.empty() ? UOp() : reduce_over(Op::Add, value, rest);
}

// Products that are too few for a word are added to the sum of the others, so that what is read of
// whole words needs no gate.
UOp rest_of(UOp sum, UOp r, int parts) {
  UOp rest;
  const int64_t n = r->src(0)->arg.i;
  for (int64_t at = n / parts * parts; at < n; ++at) {
    const std::pair<UOp, UOp> map[] = {
        {r, index(at)}
    };
    const UOp one = substitute(sum->src(0), map);
    rest = rest ? rest + one : one;
  }
  return rest;
}

bool leaves_rest(UOp sum, UOp r, int parts) {
  return is_const(r->src(0)) && closed_ranges(sum).size() == 1 && sum->src(0)->is(Op::Mul) &&
         r->src(0)->arg.i >= 2 * parts && r->src(0)->arg.i % parts != 0;
}

// The range counts words, the one of the next slot their parts.
UOp cut_into_words(UOp body, UOp r, int parts, const Ranges& ranges, bool rest,
                   std::string* refused) {
  const int slot = range_slot(r);
  if (!rest) return cut_range(body, {Action::Split, slot, parts, Role::Unroll}, ranges, refused);
  const UOp words = range(slot, index(r->src(0)->arg.i / parts), Role::Reduce),
            inner = range(ranges.next_slot, index(parts), Role::Unroll);
  return change_range(body, r, words * parts + inner, {words, inner}, {});
}

}  // namespace

bool may_be_words(UOp sum, const Dot& dot) {
  Factors f = factors_of(sum);
  if (!f.a || !f.b || sum->dtype != dot.sum || !orient(f, dot)) return false;
  return !is_float(dot.sum) || (may_reorder(sum) && allows(Freedom::BF16Pairs));
}

UOp apply_dot(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  if (a.amount < 0 || a.amount >= std::ssize(dots())) return refuse(refused, "no such product");
  const Dot& dot = dots()[static_cast<size_t>(a.amount)];
  const UOp r = ranges.find(a.slot), sum = only_reduce(body, r, refused);
  if (!sum) return {};
  if (!may_be_words(sum, dot)) return refuse(refused, "no sum of such products");
  if (range_role(r) != Role::Reduce) return refuse(refused, "not a plain loop");
  const bool rest = leaves_rest(sum, r, dot.parts());
  const UOp parted = cut_into_words(body, r, dot.parts(), ranges, rest, refused);
  if (!parted) return {};
  const UOp inner = Ranges(parted).find(ranges.next_slot),
            of_parts = only_reduce(parted, inner, refused);
  UOp words = of_parts ? sum_of_words(of_parts, dot, inner) : UOp();
  if (!words) return refuse(refused, "fewer products than a word has parts");
  if (rest) words = words + rest_of(sum, r, dot.parts());
  std::pair<UOp, UOp> map[] = {
      {of_parts, words}
  };
  return simplify(substitute(parted, map));
}

void propose_dot(const Site& site, std::vector<Action>& out) {
  for (UOp r : site.of_role(Role::Reduce))
    for (size_t i = 0; i < dots().size(); ++i)
      if (site.target.dots.has(dots()[i].op))
        out.push_back({Action::Dot, range_slot(r), static_cast<int64_t>(i)});
}

}  // namespace mote

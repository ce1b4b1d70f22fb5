// Reduces that no kernel does well as they are become several.
#include <algorithm>

#include "base/hash.h"
#include "ir/freedoms.h"
#include "rewrite/rewrite.h"
#include "schedule/costs.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

UOp listed(Op op, UOp a, std::span<const int64_t> ints) {
  return make(op, a->dtype, {a}, Arg::of(intern_arg(ints)));
}

// Far more products than there are factors.
bool is_product(UOp term, const Target& target) {
  constexpr double kUses = 8;
  const UOp mul = under_movement(term);
  if (!mul->is(Op::Mul)) return false;
  const double products = element_count(mul);
  const double factors =
      element_count(under_movement(mul->src(0))) + element_count(under_movement(mul->src(1)));
  return products > kUses * factors && lost_beside_others(products, 0, target) > target.launch_cost;
}

// How a product is made of its factors, as far as equal layers have it alike.
uint64_t form_of(UOp product) {
  uint64_t form = 0;
  for (UOp at : under_movement(product)->src()) {
    uint64_t side = 0;
    for (;; at = at->src(0)) {
      const bool moves = has(at->op, Movement), cuts = at->is(Op::Shrink);
      side = mix(side + 1, static_cast<uint64_t>(at->op));
      if (moves && !cuts) side = mix(side + 1, at->arg.object->hash);
      if (!moves) break;
    }
    form += side;
  }
  return form;
}

// By their form: operands of Add have no order that equal layers share.
std::vector<UOp> terms_of(UOp sum) {
  std::vector<UOp> terms, rest{sum};
  while (!rest.empty()) {
    const UOp n = rest.back();
    rest.pop_back();
    if (n->is(Op::Add))
      rest.insert(rest.end(), {n->src(1), n->src(0)});
    else
      terms.push_back(n);
  }
  std::ranges::stable_sort(terms, {}, form_of);
  return terms;
}

// The sum of several sums of products, such as the gradient of a weight that was used several
// times: each of them has loops of its own. Every few, one adds those before it to its own, so that
// not all of them are kept until the last one is there.
UOp product_by_product(UOp n, UOp value, const Target& target) {
  constexpr size_t kFew = 4;
  if (static_cast<Op>(n->ints(0)) != Op::Add || !value->is(Op::Add) || !may_reorder(n)) return {};
  std::vector<UOp> terms = terms_of(value);
  const auto others = std::ranges::stable_partition(
      terms, [&](UOp term) { return is_product(term, target); });
  const size_t products = terms.size() - others.size();
  if (!products) return {};
  auto stored = [](UOp v) { return make(Op::Contiguous, v->dtype, {v}); };
  UOp sum, rest;
  for (UOp term : others) rest = rest ? rest + term : term;
  if (rest) sum = listed(Op::Reduce, rest, n->ints());
  for (size_t i = 0; i < products; ++i) {
    const bool last = i + 1 == products, adds = last || (i + 1) % kFew == 0;
    const UOp more = listed(Op::Reduce, terms[i], n->ints());
    const UOp one = adds ? more : stored(more);
    sum = sum ? sum + one : one;
    if (adds && !last) sum = stored(sum);
  }
  return sum;
}

// A reduce of very much into very little runs on one core: it becomes two, the first with an axis
// of partial results.
UOp in_two_steps(UOp n, UOp value, const Target& target) {
  if (value->shape->symbolic || !may_reorder(n)) return {};
  double out = static_cast<double>(n->shape->count());
  double in = static_cast<double>(value->shape->count());
  if (out == 0 || out >= target.parallel_results || in < target.launch_cost) return {};
  std::vector<int64_t> sizes = value->shape->sizes();
  int64_t axis = -1;
  for (size_t i = 1; i < n->ints().size(); ++i)
    if (axis < 0 || sizes[static_cast<size_t>(n->ints(i))] > sizes[static_cast<size_t>(axis)])
      axis = n->ints(i);
  int64_t length = sizes[static_cast<size_t>(axis)], parts = 0;
  for (int64_t f = std::min<int64_t>(256, length / kMuch); f >= 8; --f)
    if (length % f == 0) {
      parts = f;
      break;
    }
  if (!parts) return {};
  // (.., length, ..) as (.., parts, length/parts, ..): all but `parts` is folded first.
  std::vector<int64_t> shape = sizes, first{n->ints(0)}, second{n->ints(0)};
  shape[static_cast<size_t>(axis)] = parts;
  shape.insert(shape.begin() + axis + 1, length / parts);
  for (size_t i = 1; i < n->ints().size(); ++i) {
    int64_t a = n->ints(i);
    first.push_back(a >= axis ? a + 1 : a);
  }
  second.push_back(axis);
  UOp partial = listed(Op::Reduce, listed(Op::Reshape, value, shape), first);
  partial = make(Op::Contiguous, partial->dtype, {partial});
  UOp whole = listed(Op::Reduce, partial, second);
  return listed(Op::Reshape, whole, n->shape->sizes());
}

}  // namespace

UOp split_reduces(UOp sink, const Targets& targets) {
  return map_nodes("split reduces", sink, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::Reduce)) return UOp();
    const Target& target = targets[n->device];
    const UOp sums = product_by_product(n, now.src[0], target);
    return sums ? sums : in_two_steps(n, now.src[0], target);
  });
}

}  // namespace mote

// Reduces that no kernel does well as they are become several.
#include <algorithm>

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

// From left to right.
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
  return terms;
}

// The sum of several sums of products, such as the gradient of a weight that was used several
// times: each of them has loops of its own, and adds to what those before it gave.
UOp product_by_product(UOp n, UOp value, const Target& target) {
  if (static_cast<Op>(n->ints(0)) != Op::Add || !value->is(Op::Add) || !may_reorder(n)) return {};
  std::vector<UOp> terms = terms_of(value);
  const auto rest = std::ranges::stable_partition(
      terms, [&](UOp term) { return is_product(term, target); });
  const auto products = std::ssize(terms) - std::ssize(rest);
  if (products < 1 || terms.size() < 2) return {};
  UOp sum;
  for (UOp term : rest) sum = sum ? sum + term : term;
  if (sum) sum = listed(Op::Reduce, sum, n->ints());
  for (UOp term : std::span(terms).first(static_cast<size_t>(products))) {
    const UOp more = listed(Op::Reduce, term, n->ints());
    sum = sum ? make(Op::Contiguous, n->dtype, {sum}) + more : more;
  }
  return sum;
}

// Whether a kernel of its value would sum products.
bool adds_products(UOp n, const Target& target) {
  auto sums = [&](UOp v) {
    v = under_movement(v);
    return v->is(Op::Reduce) && is_product(v->src(0), target);
  };
  n = under_movement(n);
  return sums(n) || (n->is(Op::Add) && (sums(n->src(0)) || sums(n->src(1))));
}

// Of two such values a kernel makes one, and adds it to the other, which is in memory: of many each
// adds to those before it, and they are not all kept until the last one is there.
UOp one_by_one(const Mapped& now, const Target& target) {
  const UOp a(now.src[0]), b(now.src[1]);
  if (!adds_products(a, target) || !adds_products(b, target)) return {};
  return make(Op::Contiguous, a->dtype, {a}) + b;
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
    const Target& target = targets[n->device];
    if (n->is(Op::Add) && n->shape) return one_by_one(now, target);
    if (!n->is(Op::Reduce)) return UOp();
    const UOp sums = product_by_product(n, now.src[0], target);
    return sums ? sums : in_two_steps(n, now.src[0], target);
  });
}

}  // namespace mote

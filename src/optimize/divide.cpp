// A sum of weights times values, where each weight was divided by the sum of all: divided once,
// after the sum, instead of term by term.
#include "algebra/algebra.h"
#include "optimize/apply.h"

namespace mote {

namespace {

// The row that is staged and read at r; empty: something else.
UOp row_read_at(UOp value, UOp r) {
  if (!value->is(Op::Index) || value->src(1) != r) return {};
  return row_range(value->src(0)) ? value->src(0) : UOp();
}

bool is_fold(UOp n, Op op) {
  return n->is(Op::Reduce) && n->nsrc == 2 && static_cast<Op>(n->ints(0)) == op;
}

// exp(a - the largest a of the row): at most 1, and 1 somewhere.
bool is_at_most_one(UOp value, UOp r) {
  if (!value->is(Op::Exp) || !value->src(0)->is(Op::Add)) return false;
  for (uint32_t i : {0u, 1u}) {
    UOp a = value->src(0)->src(i), less = value->src(0)->src(1 - i);
    if (!less->is(Op::Neg) || !is_fold(less->src(0), Op::Max)) continue;
    UOp most = less->src(0);
    std::pair<UOp, UOp> map[] = {{most->src(1), r}};
    if (substitute(most->src(0), map) == a) return true;
  }
  return false;
}

struct Weight {
  UOp part, sum;  // the weight is part / sum
};

// Only such weights whose parts are at most 1 and sum at least 1: then no sum overflows that would
// not have done so before.
Weight weight_at(UOp value, UOp r) {
  UOp weights = row_read_at(value, r);
  if (!weights || !weights->src(0)->is(Op::Div)) return {};
  UOp part = weights->src(0)->src(0), sum = weights->src(0)->src(1), at = weights->src(2);
  UOp parts = row_read_at(part, at);
  if (!parts || !is_fold(sum, Op::Add) || sum->src(0) != parts->src(0) ||
      sum->src(1) != parts->src(2) || !is_at_most_one(parts->src(0), parts->src(2)))
    return {};
  return {make(Op::Index, part->dtype, {parts, r}), sum};
}

}  // namespace

UOp apply_divide(UOp body, UOp r, std::string* refused) {
  UOp fold = only_reduce(body, r, refused);
  if (!fold) return {};
  if (!is_fold(fold, Op::Add) || !fold->src(0)->is(Op::Mul))
    return refuse(refused, "no sum of products runs over it alone");
  for (uint32_t i : {0u, 1u}) {
    Weight w = weight_at(fold->src(0)->src(i), r);
    if (!w.part) continue;
    UOp over[] = {r};
    UOp sum = reduce_over(Op::Add, w.part * fold->src(0)->src(1 - i), over);
    std::pair<UOp, UOp> map[] = {{fold, binary(Op::Div, sum, w.sum)}};
    return simplify(substitute(body, map));
  }
  return refuse(refused, "no factor is a row divided by its sum");
}

}  // namespace mote

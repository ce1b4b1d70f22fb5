// Folds of kernels: gates and divisors that go out of them.
#include "algebra/algebra.h"
#include "ir/freedoms.h"
#include "ir/program.h"

namespace mote {

UOp gated_read(UOp read, UOp gate) {
  const Gated at = split_gate(read->src(1));
  if (at.idx->lo >= 0 && at.idx->hi < read->src(0)->ints(1)) return read;
  return make(Op::Index, read->dtype, {read->src(0), gated(gate & at.valid, at.idx)});
}

UOp gated_reads(UOp value, UOp gate, uint64_t except) {
  return map_nodes("gate reads", value, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::Index) || (n->ranges & except)) return UOp();
    return gated_read(with_src(n, now.src), gate);
  });
}

UOp gate_of_fold(UOp reduce) {
  UOp value = reduce->src(0);
  const Op op = static_cast<Op>(reduce->ints(0));
  const bool is_gated = value->is(Op::Where) && value->src(2) == fold_identity(op, value->dtype);
  return is_gated ? value->src(0) : UOp();
}

UOp fold_where_open(UOp reduce, UOp r) {
  const UOp gate = gate_of_fold(reduce);
  UOp some = range(range_slot(r), where(gate, r->src(0), index(0)), range_role(r));
  std::vector<std::pair<UOp, UOp>> within{{r, some}};
  for (UOp holds : conjuncts(gate)) within.emplace_back(holds, truth(true));
  // What does not move with the loop may be read before it, where the gate is not known.
  UOp inside = substitute(simplify_given(reduce->src(0)->src(1), gate), within);
  std::vector<UOp> src{gated_reads(inside, gate, slot_bit(r))};
  for (Node* s : reduce->src().subspan(1)) src.push_back(UOp(s) == r ? some : UOp(s));
  return make(Op::Reduce, reduce->dtype, src, reduce->arg);
}

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

UOp divide_after_sum(UOp sum, UOp r) {
  if (!is_fold(sum, Op::Add) || !sum->src(0)->is(Op::Mul)) return {};
  if (!allows(Freedom::DivideOnce)) return {};
  for (uint32_t i : {0u, 1u}) {
    Weight w = weight_at(sum->src(0)->src(i), r);
    if (!w.part) continue;
    UOp over[] = {r};
    UOp parts = reduce_over(Op::Add, w.part * sum->src(0)->src(1 - i), over);
    return binary(Op::Div, parts, w.sum);
  }
  return {};
}

}  // namespace mote

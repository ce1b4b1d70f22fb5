// Reductions, scans, sorts and products.
#include "ops_table.h"

namespace mote::test {

namespace {

Outputs both(ValuesIndices r) { return {r.values, r.indices}; }

Outputs run_max(const Call& c) {
  return c.has("dim") ? both(c.x().max(c.integer("dim"), c.flag("keepdim"))) : Outputs{c.x().max()};
}

Outputs run_min(const Call& c) {
  return c.has("dim") ? both(c.x().min(c.integer("dim"), c.flag("keepdim"))) : Outputs{c.x().min()};
}

Outputs run_argmax(const Call& c) {
  return {c.has("dim") ? c.x().argmax(c.integer("dim"), c.flag("keepdim")) : c.x().argmax()};
}

Outputs run_argmin(const Call& c) {
  return {c.has("dim") ? c.x().argmin(c.integer("dim"), c.flag("keepdim")) : c.x().argmin()};
}

Outputs run_median(const Call& c) {
  if (!c.has("dim")) return {c.x().median()};
  return both(c.x().median(c.integer("dim"), c.flag("keepdim")));
}

Outputs run_addmm(const Call& c) {
  if (!c.has("beta")) return {c.x(0).addmm(c.x(1), c.x(2))};
  return {c.x(0).addmm(c.x(1), c.x(2), c.number("beta"), c.number("alpha"))};
}

#define REDUCE(name) MOTE_ROW(#name, c.x().name(c.ints("dim"), c.flag("keepdim")))

const TestedOp rows[] = {
    MOTE_ROW("sum", c.x().sum(c.ints("dim"), c.flag("keepdim"), c.dtype())),
    MOTE_ROW("prod", c.x().prod(c.ints("dim"), c.flag("keepdim"), c.dtype())),
    REDUCE(mean), REDUCE(amax), REDUCE(amin), REDUCE(any), REDUCE(all), REDUCE(logsumexp),
    REDUCE(nansum),
    MOTE_ROW("var", c.x().var(c.ints("dim"), c.real("correction", 1), c.flag("keepdim"))),
    MOTE_ROW("std", c.x().std(c.ints("dim"), c.real("correction", 1), c.flag("keepdim"))),
    {"max", run_max},
    {"min", run_min},
    {"argmax", run_argmax},
    {"argmin", run_argmin},
    MOTE_ROW("count_nonzero", c.x().count_nonzero(c.ints("dim"))),
    MOTE_ROW("norm", c.x().norm(c.real("p", 2), c.ints("dim"), c.flag("keepdim"))),
    MOTE_ROW("normalize", c.x().normalize(c.real("p", 2), c.integer("dim", 1))),
    MOTE_ROW("trace", c.x().trace()),
    // Scans and order.
    MOTE_ROW("cumsum", c.x().cumsum(c.integer("dim"))),
    MOTE_ROW("cumprod", c.x().cumprod(c.integer("dim"))),
    {"cummax", [](const Call& c) { return both(c.x().cummax(c.integer("dim"))); }},
    {"cummin", [](const Call& c) { return both(c.x().cummin(c.integer("dim"))); }},
    MOTE_ROW("logcumsumexp", c.x().logcumsumexp(c.integer("dim"))),
    {"sort", [](const Call& c) {
       return both(c.x().sort(c.integer("dim", -1), c.flag("descending")));
     }},
    MOTE_ROW("argsort", c.x().argsort(c.integer("dim", -1), c.flag("descending"))),
    {"topk", [](const Call& c) {
       return both(c.x().topk(c.integer("k"), c.integer("dim", -1), c.flag("largest", true)));
     }},
    {"kthvalue", [](const Call& c) {
       return both(c.x().kthvalue(c.integer("k"), c.integer("dim", -1), c.flag("keepdim")));
     }},
    {"median", run_median},
    // Products.
    MOTE_ROW("matmul", c.x(0).matmul(c.x(1))),
    MOTE_ROW("mm", c.x(0).mm(c.x(1))),
    MOTE_ROW("bmm", c.x(0).bmm(c.x(1))),
    MOTE_ROW("mv", c.x(0).mv(c.x(1))),
    MOTE_ROW("dot", c.x(0).dot(c.x(1))),
    MOTE_ROW("outer", c.x(0).outer(c.x(1))),
    {"addmm", run_addmm},
    MOTE_ROW("linear", c.x().linear(c.role("weight"), c.role("bias"))),
    MOTE_ROW("tensordot", c.x(0).tensordot(c.x(1), c.integer("dims"))),
    MOTE_ROW("kron", c.x(0).kron(c.x(1))),
    MOTE_ROW("cosine_similarity", c.x(0).cosine_similarity(c.x(1), c.integer("dim", 1))),
    MOTE_ROW("einsum", einsum(c.text("equation"), c.positional())),
};

}  // namespace

std::span<const TestedOp> reduction_rows() { return rows; }

}  // namespace mote::test

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

Outputs run_nanmedian(const Call& c) {
  if (!c.has("dim")) return {c.x().nanmedian()};
  return both(c.x().nanmedian(c.integer("dim"), c.flag("keepdim")));
}

// One number or a list.
Tensor q_of(const Call& c) {
  const std::vector<double> q = c.reals("q");
  const Tensor all = from_data(q, {static_cast<int64_t>(q.size())}, {DType::f64, c.device});
  return std::holds_alternative<double>(c.golden.attrs.at("q")) ? all.squeeze(0) : all;
}
Outputs run_quantile(const Call& c, decltype(&Tensor::quantile) f) {
  const Tensor q = q_of(c).to(c.x().dtype());
  return {(c.x().*f)(q, c.ints("dim"), c.flag("keepdim"), c.text("interpolation", "linear"),
                     std::source_location::current())};
}

Outputs all(const UniqueValues& u) { return {u.values, u.inverse, u.counts}; }

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
    {"nanmedian", run_nanmedian},
    {"mode", [](const Call& c) {
       return both(c.x().mode(c.integer("dim", -1), c.flag("keepdim")));
     }},
    {"quantile", [](const Call& c) { return run_quantile(c, &Tensor::quantile); }},
    {"nanquantile", [](const Call& c) { return run_quantile(c, &Tensor::nanquantile); }},
    {"aminmax", [](const Call& c) -> Outputs {
       const Extremes e = c.x().aminmax(c.ints("dim"), c.flag("keepdim"));
       return {e.min, e.max};
     }},
    MOTE_ROW("msort", c.x().msort()),
    MOTE_ROW("argwhere", c.x().argwhere()),
    {"diff", [](const Call& c) -> Outputs {
       const bool ends = c.inputs.size() > 1;
       return {c.x().diff(c.integer("n", 1), c.integer("dim", -1), ends ? c.x(1) : Tensor(),
                          ends ? c.x(2) : Tensor())};
     }},
    {"unique", [](const Call& c) { return all(c.x().unique(c.ints("dim"))); }},
    {"unique_consecutive", [](const Call& c) {
       return all(c.x().unique_consecutive(c.ints("dim")));
     }},
    MOTE_ROW("searchsorted", searchsorted(c.x(0), c.x(1), {.right = c.flag("right"),
                                                           .out_int32 = c.flag("out_int32")})),
    MOTE_ROW("bucketize", bucketize(c.x(0), c.x(1), {.right = c.flag("right")})),
    MOTE_ROW("isin", isin(c.x(0), c.x(1), false, c.flag("invert"))),
    MOTE_ROW("histc", c.x().histc(c.integer("bins", 100), c.has("min") ? c.number("min") : 0,
                                  c.has("max") ? c.number("max") : 0)),
    MOTE_ROW("bincount", c.x().bincount(c.inputs.size() > 1 ? c.x(1) : Tensor(),
                                        c.integer("minlength"))),
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

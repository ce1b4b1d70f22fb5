// Special functions, splitting and stacking, statistics, distances, further layers and losses.
#include <mote/special.h>

#include "ops_table.h"

namespace mote::test {

namespace {

Outputs both(const std::pair<Tensor, Tensor>& p) { return {p.first, p.second}; }
Outputs both(const ValuesIndices& v) { return {v.values, v.indices}; }

template <class F>
Outputs binary(const Call& c, F f) {
  if (!c.has("other")) return {f(c.x(0), c.x(1))};
  return {f(c.x(), c.number("other"))};
}

double p_of(const Call& c) { return c.real("p", 2); }
Axes dims(const Call& c) { return c.ints("dim"); }
double correction(const Call& c) { return c.flag("unbiased", true) ? 1 : 0; }

Slice slice_of(const Call& c) {
  GoldenCase copy = c.golden;
  copy.attrs["index"] = std::string(c.text("slice"));
  return Call{copy, c.device, c.inputs}.indices().at(0).range;
}

Ints reduced_axes(const Call& c) { return c.has("dim") ? Ints(c.ints("dim")) : Ints(); }

Outputs run_trapezoid(const Call& c, bool running) {
  const int64_t dim = c.integer("dim", -1);
  if (c.positional().size() == 2)
    return {running ? cumulative_trapezoid(c.x(0), c.x(1), dim) : trapezoid(c.x(0), c.x(1), dim)};
  const double dx = c.real("dx", 1);
  return {running ? cumulative_trapezoid(c.x(), dx, dim) : trapezoid(c.x(), dx, dim)};
}

Outputs run_split(const Call& c) {
  const int64_t dim = c.integer("dim", 0);
  if (c.has("before")) return c.x().tensor_split(c.ints("before"), dim);
  return c.x().tensor_split(c.integer("sections"), dim);
}

Ints how(const Call& c) { return c.ints("how"); }
int64_t offset(const Call& c) { return c.integer("offset", 0); }
Number beta(const Call& c) { return c.has("beta") ? c.number("beta") : Number(1); }
Number alpha(const Call& c) { return c.has("alpha") ? c.number("alpha") : Number(1); }

FoldOptions fold_options(const Call& c) {
  FoldOptions o;
  if (c.has("dilation")) o.dilation = c.ints("dilation");
  if (c.has("padding")) o.padding = c.ints("padding");
  if (c.has("stride")) o.stride = c.ints("stride");
  return o;
}
UnpoolOptions unpool_options(const Call& c) {
  UnpoolOptions o;
  if (c.has("output_size")) o.output_size = c.ints("output_size");
  return o;
}

Outputs run_adaptive(const Call& c) {
  const std::vector<int64_t> output = c.ints("output");
  switch (c.integer("spatial")) {
    case 1: return both(adaptive_max_pool1d_with_indices(c.x(), output));
    case 2: return both(adaptive_max_pool2d_with_indices(c.x(), output));
    default: return both(adaptive_max_pool3d_with_indices(c.x(), output));
  }
}

Outputs run_bag(const Call& c) {
  Tensor offsets = c.positional().size() > 2 ? c.x(2) : Tensor();
  return {embedding_bag(c.x(0), c.x(1), offsets, c.text("mode", "mean"),
                        c.role("per_sample_weights"), c.integer("padding_idx", -1))};
}

#define UNARY(name) MOTE_ROW(#name, c.x().name())
#define SPECIAL(name) MOTE_ROW(#name, special::name(c.x()))
#define BINARY(name) {#name, [](const Call& c) { \
    return binary(c, [](Operand a, Operand b) { return name(a, b); }); }}
#define LOSS(name, ...) MOTE_ROW(#name, name(c.x(0), c.x(1), __VA_ARGS__))
#define POOL(name) MOTE_ROW(#name, name(c.x(), c.real("norm_type"), c.ints("kernel_size"), \
    c.ints("stride"), c.flag("ceil_mode")))

const TestedOp rows[] = {
    UNARY(lgamma), UNARY(digamma), UNARY(erfinv), UNARY(i0), UNARY(fliplr), UNARY(flipud),
    SPECIAL(i0e), SPECIAL(i1), SPECIAL(i1e), SPECIAL(erfcx), SPECIAL(entr), SPECIAL(ndtr),
    SPECIAL(log_ndtr), SPECIAL(ndtri),
    MOTE_ROW("polygamma", c.x().polygamma(c.integer("n"))),
    MOTE_ROW("mvlgamma", c.x().mvlgamma(c.integer("p"))),
    MOTE_ROW("xlog1py", special::xlog1py(c.x(0), c.x(1))),
    MOTE_ROW("zeta", special::zeta(c.x(0), c.x(1))),
    BINARY(float_power), BINARY(ldexp), BINARY(nextafter),
    {"frexp", [](const Call& c) { return both(frexp(c.x())); }},
    // Shapes.
    MOTE_ROW("as_strided", c.x().as_strided(c.ints("size"), c.ints("stride"), offset(c))),
    {"tensor_split", run_split},
    {"hsplit", [](const Call& c) -> Outputs { return c.x().hsplit(how(c)); }},
    {"vsplit", [](const Call& c) -> Outputs { return c.x().vsplit(how(c)); }},
    {"dsplit", [](const Call& c) -> Outputs { return c.x().dsplit(how(c)); }},
    MOTE_ROW("atleast_1d", atleast_1d(c.x())),
    MOTE_ROW("atleast_2d", atleast_2d(c.x())),
    MOTE_ROW("atleast_3d", atleast_3d(c.x())),
    MOTE_ROW("dstack", dstack(c.inputs)),
    MOTE_ROW("column_stack", column_stack(c.inputs)),
    MOTE_ROW("row_stack", row_stack(c.inputs)),
    MOTE_ROW("block_diag", block_diag(c.inputs)),
    MOTE_ROW("cartesian_prod", cartesian_prod(c.inputs)),
    MOTE_ROW("combinations", combinations(c.x(), c.integer("r"), c.flag("with_replacement"))),
    {"broadcast_tensors", [](const Call& c) -> Outputs { return broadcast_tensors(c.inputs); }},
    MOTE_ROW("vander", vander(c.x(), c.integer("N", -1), c.flag("increasing"))),
    MOTE_ROW("tril_indices", tril_indices(c.integer("row"), c.integer("col"), offset(c),
                                          {DType::i64, c.device})),
    MOTE_ROW("triu_indices", triu_indices(c.integer("row"), c.integer("col"), offset(c),
                                          {DType::i64, c.device})),
    MOTE_ROW("diagflat", c.x().diagflat(offset(c))),
    MOTE_ROW("sum_to_size", c.x().sum_to_size(c.ints("size"))),
    MOTE_ROW("select_scatter", c.x().select_scatter(c.x(1), c.integer("dim"),
                                                    c.integer("index"))),
    MOTE_ROW("slice_scatter", c.x().slice_scatter(c.x(1), c.integer("dim"), slice_of(c))),
    MOTE_ROW("diagonal_scatter", c.x().diagonal_scatter(c.x(1), offset(c), c.integer("dim1", 0),
                                                        c.integer("dim2", 1))),
    MOTE_ROW("masked_scatter", c.x().masked_scatter(c.x(1), c.x(2))),
    MOTE_ROW("put", c.x().put(c.x(1), c.x(2), c.flag("accumulate"))),
    MOTE_ROW("index_reduce", c.x().index_reduce(c.integer("dim"), c.x(1), c.x(2), c.text("how"),
                                                c.flag("include_self", true))),
    // Statistics and distances.
    MOTE_ROW("nanmean", c.x().nanmean(dims(c), c.flag("keepdim"))),
    {"std_mean", [](const Call& c) {
       return both(std_mean(c.x(), reduced_axes(c), correction(c), c.flag("keepdim"))); }},
    {"var_mean", [](const Call& c) {
       return both(var_mean(c.x(), reduced_axes(c), correction(c), c.flag("keepdim"))); }},
    MOTE_ROW("cov", c.x().cov(c.real("correction", 1))),
    MOTE_ROW("corrcoef", c.x().corrcoef()),
    {"trapezoid", [](const Call& c) { return run_trapezoid(c, false); }},
    {"cumulative_trapezoid", [](const Call& c) { return run_trapezoid(c, true); }},
    MOTE_ROW("dist", c.x().dist(c.x(1), p_of(c))),
    MOTE_ROW("cdist", cdist(c.x(), c.x(1), p_of(c))),
    MOTE_ROW("pdist", pdist(c.x(), p_of(c))),
    MOTE_ROW("pairwise_distance", pairwise_distance(c.x(), c.x(1), p_of(c), c.real("eps", 1e-6),
                                                    c.flag("keepdim"))),
    MOTE_ROW("renorm", c.x().renorm(p_of(c), c.integer("dim"), c.real("maxnorm"))),
    // Products.
    MOTE_ROW("addbmm", c.x().addbmm(c.x(1), c.x(2), beta(c), alpha(c))),
    MOTE_ROW("baddbmm", c.x().baddbmm(c.x(1), c.x(2), beta(c), alpha(c))),
    MOTE_ROW("addmv", c.x().addmv(c.x(1), c.x(2), beta(c), alpha(c))),
    MOTE_ROW("addr", c.x().addr(c.x(1), c.x(2), beta(c), alpha(c))),
    MOTE_ROW("inner", c.x().inner(c.x(1))),
    MOTE_ROW("tensordot_axes", c.x().tensordot(c.x(1), c.ints("axes"), c.ints("others"))),
    MOTE_ROW("cross", c.x().cross(c.x(1), c.integer("dim", -1))),
    MOTE_ROW("chain_matmul", chain_matmul(c.inputs)),
    MOTE_ROW("bilinear", bilinear(c.x(), c.x(1), c.x(2),
                                  c.inputs.size() > 3 ? c.x(3) : Tensor())),
    // Windows and pools.
    MOTE_ROW("im2col", unfold(c.x(), c.ints("kernel"), fold_options(c))),
    MOTE_ROW("fold", fold(c.x(), c.ints("output"), c.ints("kernel"), fold_options(c))),
    POOL(lp_pool1d), POOL(lp_pool2d),
    MOTE_ROW("lp_pool3d", lp_pool3d(c.x(), p_of(c), c.ints("kernel"))),
    MOTE_ROW("adaptive_max_pool3d", adaptive_max_pool3d(c.x(), c.ints("output_size"))),
    {"adaptive_max", run_adaptive},
    MOTE_ROW("max_unpool1d", max_unpool1d(c.x(), c.x(1), c.ints("kernel_size"),
                                          unpool_options(c))),
    MOTE_ROW("max_unpool2d", max_unpool2d(c.x(), c.x(1), c.ints("kernel_size"),
                                          unpool_options(c))),
    MOTE_ROW("max_unpool3d", max_unpool3d(c.x(), c.x(1), c.ints("kernel_size"),
                                          unpool_options(c))),
    MOTE_ROW("local_response_norm", local_response_norm(c.x(), c.integer("size"),
                                                        c.real("alpha", 1e-4),
                                                        c.real("beta", 0.75), c.real("k", 1))),
    MOTE_ROW("channel_shuffle", channel_shuffle(c.x(), c.integer("groups"))),
    {"embedding_bag", run_bag},
    MOTE_ROW("grid_sample", grid_sample(c.x(), c.x(1), c.text("mode", "bilinear"),
                                        c.text("padding_mode", "zeros"),
                                        c.flag("align_corners"))),
    MOTE_ROW("affine_grid", affine_grid(c.x(), c.ints("size"), c.flag("align_corners"))),
    // Losses.
    LOSS(poisson_nll_loss, c.flag("log_input", true), c.flag("full"), 1e-8, c.reduction()),
    LOSS(gaussian_nll_loss, c.x(2), c.flag("full"), 1e-6, c.reduction()),
    LOSS(hinge_embedding_loss, c.real("margin", 1), c.reduction()),
    LOSS(margin_ranking_loss, c.x(2), c.real("margin", 0), c.reduction()),
    LOSS(soft_margin_loss, c.reduction()),
    LOSS(multi_margin_loss, c.integer("p", 1), c.real("margin", 1), c.role("weight"),
         c.reduction()),
    LOSS(multilabel_margin_loss, c.reduction()),
    LOSS(multilabel_soft_margin_loss, c.role("weight"), c.reduction()),
    LOSS(cosine_embedding_loss, c.x(2), c.real("margin", 0), c.reduction()),
    LOSS(triplet_margin_loss, c.x(2), c.real("margin", 1), c.real("p", 2), 1e-6, c.flag("swap"),
         c.reduction()),
    MOTE_ROW("ctc_loss", ctc_loss(c.x(0).log_softmax(-1), c.x(1), c.x(2), c.x(3), 0,
                                  c.reduction(), c.flag("zero_infinity"))),
};

}  // namespace

std::span<const TestedOp> more_rows() { return rows; }

}  // namespace mote::test

// Creation, movement and indexing.
#include "ops_table.h"

namespace mote::test {

namespace {

Outputs run_arange(const Call& c) {
  if (!c.has("start")) return {arange(c.number("end"), c.options())};
  Number step = c.has("step") ? c.number("step") : Number(1);
  return {arange(c.number("start"), c.number("end"), step, c.options())};
}

Outputs run_squeeze(const Call& c) {
  return {c.has("dim") ? c.x().squeeze(c.integer("dim")) : c.x().squeeze()};
}

Outputs run_repeat_interleave(const Call& c) {
  int64_t n = c.integer("repeats");
  return {c.has("dim") ? c.x().repeat_interleave(n, c.integer("dim")) : c.x().repeat_interleave(n)};
}

Outputs run_rot90(const Call& c) {
  int64_t k = c.integer("k");
  return {c.has("dims") ? c.x().rot90(k, c.ints("dims")) : c.x().rot90(k)};
}

Outputs run_setitem(const Call& c) {
  Tensor y = c.x().clone();
  if (c.has("value")) y.set(c.indices(), c.number("value"));
  else y.set(c.indices(), c.inputs.back());
  return {y};
}

Outputs run_index_put(const Call& c) {
  Tensor y = c.x().clone();
  y.index_put_(c.indices(), c.inputs.back(), c.flag("accumulate"));
  return {y};
}

Outputs run_scatter(const Call& c) {
  int64_t dim = c.integer("dim");
  Tensor index = c.role("index"), src = c.role("src");
  if (c.has("value")) return {c.x().scatter(dim, index, c.number("value"))};
  if (!c.has("reduce")) return {c.x().scatter(dim, index, src)};
  bool add = std::string_view(c.text("reduce")) == "add";
  return {c.x().scatter_reduce(dim, index, src, add ? "sum" : "prod")};
}

Outputs run_index_add(const Call& c) {
  Number alpha = c.has("alpha") ? c.number("alpha") : Number(1);
  return {c.x().index_add(c.integer("dim"), c.role("index"), c.role("src"), alpha)};
}

Outputs run_where(const Call& c) {
  Tensor x = c.role("x"), y = c.role("y");
  if (c.has("a")) return {where(c.x(), c.number("a"), y)};
  if (c.has("b")) return {where(c.x(), x, c.number("b"))};
  return {where(c.x(), x, y)};
}

const TestedOp rows[] = {
    MOTE_ROW("full", full(c.ints("size"), c.number("fill_value"), c.options())),
    MOTE_ROW("zeros", zeros(c.ints("size"), c.options())),
    MOTE_ROW("ones", ones(c.ints("size"), c.options())),
    MOTE_ROW("zeros_like", c.x().zeros_like(c.dtype())),
    MOTE_ROW("ones_like", c.x().ones_like(c.dtype())),
    MOTE_ROW("full_like", c.x().full_like(c.number("fill_value"), c.dtype())),
    {"arange", run_arange},
    MOTE_ROW("linspace",
             linspace(c.number("start"), c.number("end"), c.integer("steps"), c.options())),
    MOTE_ROW("eye", eye(c.integer("n"), c.integer("m", -1), c.options())),
    MOTE_ROW("tril", c.x().tril(c.integer("diagonal"))),
    MOTE_ROW("triu", c.x().triu(c.integer("diagonal"))),
    // Movement.
    MOTE_ROW("reshape", c.x().reshape(c.ints("shape"))),
    MOTE_ROW("view", c.x().view(c.ints("shape"))),
    MOTE_ROW("view_as", c.x(0).view_as(c.x(1))),
    MOTE_ROW("permute", c.x().permute(c.ints("dims"))),
    MOTE_ROW("transpose", c.x().transpose(c.integer("dim0"), c.integer("dim1"))),
    MOTE_ROW("swapaxes", c.x().swapaxes(c.integer("axis0"), c.integer("axis1"))),
    MOTE_ROW("movedim", c.x().movedim(c.ints("source"), c.ints("destination"))),
    MOTE_ROW("t", c.x().t()),
    MOTE_ROW("mT", c.x().mT()),
    MOTE_ROW("expand", c.x().expand(c.ints("size"))),
    MOTE_ROW("expand_as", c.x(0).expand_as(c.x(1))),
    MOTE_ROW("broadcast_to", c.x().broadcast_to(c.ints("size"))),
    MOTE_ROW("pad", c.has("value")
                        ? c.x().pad(c.ints("pad"), c.text("mode"), c.number("value"))
                        : c.x().pad(c.ints("pad"), c.text("mode"))),
    MOTE_ROW("shrink", c.x().shrink(c.ints("begin"), c.ints("end"))),
    MOTE_ROW("narrow",
             c.x().narrow(c.integer("dim"), c.integer("start"), c.integer("length"))),
    MOTE_ROW("select", c.x().select(c.integer("dim"), c.integer("index"))),
    MOTE_ROW("flip", c.x().flip(c.ints("dims"))),
    {"squeeze", run_squeeze},
    MOTE_ROW("unsqueeze", c.x().unsqueeze(c.integer("dim"))),
    MOTE_ROW("flatten", c.x().flatten(c.integer("start_dim", 0), c.integer("end_dim", -1))),
    MOTE_ROW("ravel", c.x().ravel()),
    MOTE_ROW("unflatten", c.x().unflatten(c.integer("dim"), c.ints("sizes"))),
    MOTE_ROW("cat", cat(c.positional(), c.integer("dim"))),
    MOTE_ROW("stack", stack(c.positional(), c.integer("dim"))),
    MOTE_ROW("hstack", hstack(c.positional())),
    MOTE_ROW("vstack", vstack(c.positional())),
    {"split", [](const Call& c) { return c.x().split(c.ints("size"), c.integer("dim")); }},
    {"chunk", [](const Call& c) { return c.x().chunk(c.integer("chunks"), c.integer("dim")); }},
    {"unbind", [](const Call& c) { return c.x().unbind(c.integer("dim")); }},
    MOTE_ROW("repeat", c.x().repeat(c.ints("repeats"))),
    MOTE_ROW("tile", c.x().tile(c.ints("dims"))),
    {"repeat_interleave", run_repeat_interleave},
    MOTE_ROW("roll", c.x().roll(c.ints("shifts"), c.ints("dims"))),
    {"rot90", run_rot90},
    MOTE_ROW("unfold", c.x().unfold(c.integer("dim"), c.integer("size"), c.integer("step"))),
    {"meshgrid", [](const Call& c) { return meshgrid(c.positional(), c.text("indexing")); }},
    MOTE_ROW("diagonal",
             c.x().diagonal(c.integer("offset"), c.integer("dim1", 0), c.integer("dim2", 1))),
    MOTE_ROW("diag", c.x().diag(c.integer("diagonal"))),
    MOTE_ROW("diag_embed", c.x().diag_embed(c.integer("offset"))),
    // Indexing.
    MOTE_ROW("index", c.x().index(c.indices())),
    {"setitem", run_setitem},
    {"index_put", run_index_put},
    MOTE_ROW("gather", c.x().gather(c.integer("dim"), c.role("index"))),
    MOTE_ROW("take_along_dim", c.x().take_along_dim(c.role("index"), c.integer("dim"))),
    MOTE_ROW("index_select", c.x().index_select(c.integer("dim"), c.role("index"))),
    MOTE_ROW("take", c.x(0).take(c.x(1))),
    {"scatter", run_scatter},
    MOTE_ROW("scatter_add", c.x().scatter_add(c.integer("dim"), c.role("index"), c.role("src"))),
    MOTE_ROW("scatter_reduce",
             c.x().scatter_reduce(c.integer("dim"), c.role("index"), c.role("src"),
                                  c.text("reduce"), c.flag("include_self", true))),
    {"index_add", run_index_add},
    MOTE_ROW("index_copy", c.x().index_copy(c.integer("dim"), c.role("index"), c.role("src"))),
    MOTE_ROW("index_fill", c.x().index_fill(c.integer("dim"), c.role("index"), c.number("value"))),
    MOTE_ROW("masked_fill", c.x(0).masked_fill(c.x(1), c.number("value"))),
    MOTE_ROW("masked_select", c.x(0).masked_select(c.x(1))),
    MOTE_ROW("nonzero", c.x().nonzero()),
    {"where", run_where},
};

}  // namespace

std::span<const TestedOp> shape_rows() { return rows; }

}  // namespace mote::test

// Which methods give views and which give new tensors: every one of the public headers has rows
// here, called where its arguments make it an identity. A write to one side must show on the other
// for a view, and must not for a new tensor.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "test/amount.h"
#include "test_paths.h"

using namespace mote;

namespace {

using Outputs = std::vector<Tensor>;

enum Kind { Copy, View };

// No output: the row does not speak of such a tensor.
struct Row {
  const char* name;
  Kind kind;
  Outputs (*run)(const Tensor& x);
};

Tensor number_like(const Tensor& x, double v, const Sizes& shape = {}) {
  return full(shape, v, {x.dtype(), x.device()});
}
Tensor whole_like(const Tensor& x, int64_t v, const Sizes& shape) {
  return full(shape, v, {DType::i64, x.device()});
}
Tensor truth_like(const Tensor& x, bool v, const Sizes& shape = {}) {
  return full(shape, v, {DType::boolean, x.device()});
}
std::vector<int64_t> ones_for(const Tensor& x) {
  return std::vector<int64_t>(static_cast<size_t>(x.dim()), 1);
}
std::vector<int64_t> zeros_for(const Tensor& x) {
  return std::vector<int64_t>(static_cast<size_t>(x.dim()), 0);
}
std::vector<int64_t> axes_of(const Tensor& x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.dim()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}
std::vector<int64_t> last_size(const Tensor& x) { return {x.size(-1)}; }
Outputs both(const ValuesIndices& r) { return {r.values, r.indices}; }
Outputs both(const Extremes& r) { return {r.min, r.max}; }
Outputs both(const std::pair<Tensor, Tensor>& r) { return {r.first, r.second}; }
Outputs each(const UniqueValues& r) { return {r.values, r.inverse, r.counts}; }
Tensor places_of(const Tensor& x) { return arange(x.size(0), {DType::i64, x.device()}); }
Tensor one_step(const Tensor& a, const Tensor&) { return a; }
// The rest of a view's rows that would copy: not in order in memory.
bool in_order(const Tensor& x) { return x.is_contiguous(); }

#define ROW(name, kind, ...)                                              \
  {                                                                       \
#name, kind, [](const Tensor& x) -> Outputs { return {__VA_ARGS__}; } \
  }
#define ROWS(name, kind, ...)                                           \
  {                                                                     \
#name, kind, [](const Tensor& x) -> Outputs { return __VA_ARGS__; } \
  }
#define UNARY(name) ROW(name, Copy, x.name(), mote::name(x)),
#define UNARY_ALIAS(alias, name) ROW(alias, Copy, x.alias()),
#define BINARY_ALIAS(alias, name) ROW(alias, Copy, x.alias(x), x.alias(0), x.alias(1)),
#define BINARY(name)                                                               \
  ROW(name, Copy, x.name(x), x.name(number_like(x, 0)), x.name(number_like(x, 1)), \
      mote::name(number_like(x, 1), x), mote::name(number_like(x, 0), x)),         \
      ROW(name, Copy, x.name(0)), ROW(name, Copy, x.name(1)), ROW(name, Copy, x.name(1.0)),

// clang-format off
const Row rows[] = {
    MOTE_UNARY(UNARY) MOTE_BINARY(BINARY) BINARY(mul)
    MOTE_UNARY_ALIAS(UNARY_ALIAS) MOTE_BINARY_ALIAS(BINARY_ALIAS)
    ROW(subtract, Copy, x.subtract(0), x.subtract(x, 0)),
    ROW(divide, Copy, x.divide(1), x.divide(1, "floor"), x.divide(1, "trunc")),
    ROW(polygamma, Copy, x.polygamma(0), x.polygamma(1)), ROW(mvlgamma, Copy, x.mvlgamma(1)),
    ROWS(frexp, Copy, both(frexp(x))),
    ROW(add, Copy, x.add(0), x.add(x, 0), mote::add(0, x)),
    ROW(sub, Copy, x.sub(0), x.sub(x, 0)),
    ROW(div, Copy, x.div(1), x.div(1, "floor"), x.div(1, "trunc")),
    ROW(round, Copy, x.round(0)), ROW(round, Copy, x.round(2)),
    ROW(clamp, Copy, x.clamp(0, 100)), ROW(clip, Copy, x.clip(0, 100)),
    ROW(clamp_min, Copy, x.clamp_min(0)), ROW(clamp_max, Copy, x.clamp_max(100)),
    ROW(lerp, Copy, x.lerp(x, 0), x.lerp(x, 1), number_like(x, 1).lerp(x, 1)),
    ROW(addcmul, Copy, x.addcmul(x, x, 0)), ROW(addcdiv, Copy, x.addcdiv(x, x + 1, 0)),
    ROW(nan_to_num, Copy, x.nan_to_num()), ROW(logit, Copy, x.logit()),
    ROW(isclose, Copy, x.isclose(x)), ROW(gelu, Copy, x.gelu(), x.gelu("tanh")),
    ROW(elu, Copy, x.elu()), ROW(celu, Copy, x.celu()), ROW(leaky_relu, Copy, x.leaky_relu(1)),
    ROW(prelu, Copy, x.prelu(number_like(x, 1, 1))), ROW(hardtanh, Copy, x.hardtanh(0, 100)),
    ROW(prelu, Copy, number_like(x, -1, 1).prelu(x)),
    ROW(hardshrink, Copy, x.hardshrink(0)), ROW(softshrink, Copy, x.softshrink(0)),
    ROW(threshold, Copy, x.threshold(-1, 0)), ROW(softplus, Copy, x.softplus()),
    ROW(softplus, Copy, x.softplus(1, 0)), ROW(glu, Copy, x.glu(0)),
    ROW(softmax, Copy, x.softmax(0)), ROW(log_softmax, Copy, x.log_softmax(0)),
    ROW(softmin, Copy, x.softmin(0)),

    ROW(clone, Copy, x.clone()),
    ROW(zeros_like, Copy, x.zeros_like()), ROW(ones_like, Copy, x.ones_like()),
    ROW(full_like, Copy, x.full_like(1)), ROW(empty_like, Copy, x.empty_like() * 0),
    ROW(rand_like, Copy, x.rand_like()), ROW(randn_like, Copy, x.randn_like()),
    ROW(bitcast, Copy, x.bitcast(x.dtype())), ROW(bitcast, Copy, x.bitcast(DType::u8)),
    ROW(bitcast, Copy, x.bitcast(DType::i32)),

    // Itself where nothing is to be done.
    ROW(to, View, x.to(x.dtype()), x.to(x.device()), x.to(x.device().c_str())),
    ROW(to, Copy, x.to(x.dtype() == DType::i32 ? DType::i16 : DType::i32), x.to("CPU")),
    ROW(cast, View, x.cast(x.dtype())), ROW(cast, Copy, x.cast(DType::i16)),
#define CAST(name, type) \
    ROWS(name, View, x.dtype() == type ? Outputs{x.name()} : Outputs{}), \
    ROWS(name, Copy, x.dtype() != type ? Outputs{x.name()} : Outputs{}),
    CAST(to_bool, DType::boolean) CAST(to_int, DType::i32) CAST(to_long, DType::i64)
    CAST(to_half, DType::f16) CAST(to_bfloat16, DType::bf16) CAST(to_float, DType::f32)
    CAST(to_double, DType::f64)
    ROWS(contiguous, View, in_order(x) ? Outputs{x.contiguous()} : Outputs{}),
    ROWS(contiguous, Copy, !in_order(x) ? Outputs{x.contiguous()} : Outputs{}),

    ROW(detach, View, x.detach(), x.detach().detach()),
    ROWS(reshape, View, in_order(x) ? Outputs{x.reshape(x.shape()), x.reshape({-1})} : Outputs{}),
    ROW(reshape, View, x.reshape(x.shape()), mote::reshape(x, x.shape())),
    ROW(view, View, x.view(x.shape())), ROW(view_as, View, x.view_as(x)),
    ROW(permute, View, x.permute(axes_of(x))), ROW(transpose, View, x.transpose(0, -1)),
    ROW(transpose, View, x.transpose(0, 0)), ROW(swapaxes, View, x.swapaxes(0, -1)),
    ROW(movedim, View, x.movedim(0, -1), x.movedim(0, 0)), ROW(t, View, x.t()),
    ROW(mT, View, x.mT()), ROW(expand, View, x.expand(x.shape())),
    ROW(expand_as, View, x.expand_as(x)), ROW(broadcast_to, View, x.broadcast_to(x.shape())),
    ROW(shrink, View, x.shrink(zeros_for(x), x.shape())),
    ROW(narrow, View, x.narrow(0, 0, x.size(0))), ROW(select, View, x.select(0, 0)),
    ROW(squeeze, View, x.squeeze(), x.squeeze(axes_of(x))), ROW(unsqueeze, View, x.unsqueeze(0)),
    ROWS(flatten, View, in_order(x) ? Outputs{x.flatten()} : Outputs{}),
    ROW(flatten, View, x.flatten(0, 0)),
    ROWS(ravel, View, in_order(x) ? Outputs{x.ravel()} : Outputs{}),
    ROW(unflatten, View, x.unflatten(-1, {x.size(-1)}), x.unflatten(-1, {1, x.size(-1)})),
    ROWS(split, View, x.split(x.size(0))), ROWS(split, View, x.split(1)),
    ROWS(chunk, View, x.chunk(1)), ROWS(unbind, View, x.unbind()),
    ROW(unfold, View, x.unfold(0, x.size(0), 1), x.unfold(0, 1, 1)),
    ROW(diagonal, View, x.diagonal()),
    ROW(swapdims, View, x.swapdims(0, -1)), ROW(moveaxis, View, x.moveaxis(0, -1)),
    ROW(adjoint, View, x.adjoint()), ROW(reshape_as, View, x.reshape_as(x)),
    ROWS(as_strided, View, in_order(x) ? Outputs{x.as_strided(x.shape(), x.stride())} : Outputs{}),
    ROWS(tensor_split, View, x.tensor_split(1)), ROWS(tensor_split, View, x.tensor_split({0, 1})),
    ROWS(hsplit, View, x.hsplit(1)), ROWS(vsplit, View, x.vsplit(1)),
    ROWS(dsplit, View, x.dsplit(1)), ROW(atleast_1d, View, atleast_1d(x)),
    ROW(atleast_2d, View, atleast_2d(x)), ROW(atleast_3d, View, atleast_3d(x)),
    ROWS(broadcast_tensors, View, broadcast_tensors({x})),
    ROW(index, View, x.index({}), x.index({Ellipsis}), x.index({Ellipsis, None})),
    ROW(index, View, x.index({Slice()}), x.index({0}), x.index({Slice(None, None, -1)})),
    ROW(index, Copy, x.index({whole_like(x, 0, 1)}), x.index({whole_like(x, 0, {})})),
    ROW(index, Copy, x.index({truth_like(x, true, x.shape())})),
    ROW(operator(), View, x(0), x(Slice()), x[0], x(Ellipsis)),
    ROW(operator(), View, x(0, 0), x(Slice(), Slice())),
    ROW(operator(), View, x(0, 0, 0), x(Slice(), Slice(), Slice())),
    ROW(operator(), View, x(0, 0, 0, 0), x(Slice(), Slice(), Slice(), Slice())),
    ROW(operator(), View, x(0, 0, 0, 0, Ellipsis), x(None, None, None, None, Ellipsis)),
    ROW(operator(), Copy, x(whole_like(x, 0, {})), x[whole_like(x, 0, 1)]),
    ROW(operator+, Copy, x + 0), ROW(operator-, Copy, x - 0), ROW(operator*, Copy, x * 1),
    ROW(operator/, Copy, x / 1), ROW(operator%, Copy, x % 100), ROW(operator==, Copy, x == x),
    ROW(operator!=, Copy, x != x), ROW(operator<, Copy, x < x), ROW(operator<=, Copy, x <= x),
    ROW(operator>, Copy, x > x), ROW(operator>=, Copy, x >= x), ROW(operator&, Copy, x & x),
    ROW(operator|, Copy, x | x), ROW(operator|, Copy, x | 0), ROW(operator^, Copy, x ^ 0),
    ROW(operator<<, Copy, x << 0), ROW(operator>>, Copy, x >> 0), ROW(operator!, Copy, !x),
    ROW(operator~, Copy, ~x),

    ROW(flip, Copy, x.flip(0)), ROW(flip, Copy, x.flip(-1)), ROW(flip, Copy, x.flip(axes_of(x))),
    ROW(pad, Copy, x.pad({0, 0}), x.pad({})), ROW(pad, Copy, x.pad({0, 0}, "constant", 1)),
    ROW(pad, Copy, x.pad({}, "reflect"), x.pad({}, "replicate"), x.pad({}, "circular")),
    ROW(pad, Copy, x.pad({0, 0}, "reflect")), ROW(pad, Copy, x.pad({0, 0}, "replicate")),
    ROW(pad, Copy, x.pad({0, 0}, "circular")), ROW(pad, Copy, x.pad({1, 0}, "circular")),
    ROW(pad, Copy, x.pad({-1, 0})), ROW(repeat, Copy, x.repeat(ones_for(x))),
    ROW(tile, Copy, x.tile(1), x.tile(ones_for(x))),
    ROW(repeat_interleave, Copy, x.repeat_interleave(1), x.repeat_interleave(1, 0)),
    ROW(roll, Copy, x.roll(0), x.roll(0, 0)), ROW(roll, Copy, x.roll(x.size(0), 0)),
    ROW(rot90, Copy, x.rot90(0)), ROW(rot90, Copy, x.rot90(1)), ROW(rot90, Copy, x.rot90(2)),
    ROW(tril, Copy, x.tril(), x.tril(100)), ROW(triu, Copy, x.triu(), x.triu(-100)),
    ROW(diag, Copy, x.diag()), ROW(diag_embed, Copy, x.diag_embed()),
    ROW(diagflat, Copy, x.diagflat()), ROW(fliplr, Copy, x.fliplr()),
    ROW(flipud, Copy, x.flipud()), ROW(sum_to_size, Copy, x.sum_to_size(x.shape())),
    ROW(sum_to_size, Copy, x.sum_to_size(ones_for(x))),
    ROW(select_scatter, Copy, x.select_scatter(x.select(0, 0), 0, 0)),
    ROW(slice_scatter, Copy, x.slice_scatter(x), x.slice_scatter(x.narrow(0, 0, 0), 0, Slice(0, 0))),
    ROW(diagonal_scatter, Copy, x.diagonal_scatter(x.diagonal())),
    ROW(masked_scatter, Copy, x.masked_scatter(truth_like(x, true), x)),
    ROW(masked_scatter, Copy, x.masked_scatter(truth_like(x, false), x)),
    ROW(masked_scatter, Copy, x.masked_scatter(truth_like(x, false), x.flatten().narrow(0, 0, 0))),
    ROW(put, Copy, x.put(whole_like(x, 0, 1), number_like(x, 1, 1))),
    ROW(put, Copy, x.put(whole_like(x, 0, 0), number_like(x, 1, 0), true)),
    ROW(index_put, Copy, x.index_put({whole_like(x, 0, 1)}, 1),
        x.index_put({truth_like(x, false, x.shape())}, 1)),
    ROW(index_reduce, Copy, x.index_reduce(0, places_of(x), x, "amax"),
        x.index_reduce(0, places_of(x), x, "prod", false)),
    ROW(index_reduce, Copy, x.index_reduce(0, whole_like(x, 0, 0), x.narrow(0, 0, 0), "mean")),
    ROW(gather, Copy, x.gather(0, whole_like(x, 0, x.shape()))),
    ROW(take_along_dim, Copy, x.take_along_dim(whole_like(x, 0, x.shape()), 0)),
    ROW(index_select, Copy, x.index_select(0, whole_like(x, 0, 1))),
    ROW(take, Copy, x.take(whole_like(x, 0, 1)), x.take(whole_like(x, 0, {}))),
    ROW(scatter, Copy, x.scatter(0, whole_like(x, 0, ones_for(x)), 1)),
    ROW(scatter, Copy, x.scatter(0, whole_like(x, 0, x.shape()), x)),
    ROW(scatter_add, Copy, x.scatter_add(0, whole_like(x, 0, x.shape()), x)),
    ROW(scatter_reduce, Copy, x.scatter_reduce(0, whole_like(x, 0, x.shape()), x, "sum"),
        x.scatter_reduce(0, whole_like(x, 0, x.shape()), x, "amax", false)),
    ROW(index_add, Copy, x.index_add(0, arange(x.size(0), {DType::i64, x.device()}), x, 0)),
    ROW(index_copy, Copy, x.index_copy(0, arange(x.size(0), {DType::i64, x.device()}), x)),
    ROW(index_fill, Copy, x.index_fill(0, whole_like(x, 0, 1), 1)),
    ROW(masked_fill, Copy, x.masked_fill(truth_like(x, false), 1)),
    ROW(masked_fill, Copy, truth_like(x, true, 1).masked_fill(truth_like(x, true), x.sum() > 0)),
    ROW(masked_select, Copy, x.masked_select(truth_like(x, true, x.shape()))),
    ROW(nonzero, Copy, x.nonzero()), ROW(one_hot, Copy, x.one_hot(9)),
    ROW(where, Copy, x.where(truth_like(x, true), 0), x.where(truth_like(x, false), x)),
    ROW(where, Copy, mote::where(truth_like(x, true), x, 0)),
    ROW(where, Copy, mote::where(truth_like(x, false), 0, x)),

    ROW(sum, Copy, x.sum(), x.sum({}, true)), ROW(sum, Copy, x.sum(0)),
    ROW(sum, Copy, x.sum(0, true)),
    ROW(sum, Copy, x.sum(0, true, x.dtype())),
    ROW(nansum, Copy, x.nansum()), ROW(nansum, Copy, x.nansum(0, true)),
    ROW(prod, Copy, x.prod()), ROW(prod, Copy, x.prod(0, true)), ROW(prod, Copy, x.prod(0)),
    ROW(mean, Copy, x.mean()), ROW(mean, Copy, x.mean(0, true)), ROW(mean, Copy, x.mean(0)),
    ROW(nanmean, Copy, x.nanmean()), ROW(nanmean, Copy, x.nanmean(0, true)),
    ROWS(std_mean, Copy, both(std_mean(x, 0, 0))), ROWS(var_mean, Copy, both(var_mean(x, 0, 0))),
    ROWS(aminmax, Copy, both(x.aminmax())), ROWS(aminmax, Copy, both(x.aminmax(0, true))),
    ROW(dist, Copy, x.dist(x * 0)), ROW(renorm, Copy, x.renorm(2, 0, 1000)),
    ROW(cov, Copy, x.cov()), ROW(corrcoef, Copy, x.corrcoef()),
    ROW(trapezoid, Copy, trapezoid(x), trapezoid(x, x)),
    ROW(cumulative_trapezoid, Copy, cumulative_trapezoid(x), cumulative_trapezoid(x, x)),
    ROW(cdist, Copy, cdist(x, x)), ROW(pdist, Copy, pdist(x)),
    ROW(pairwise_distance, Copy, pairwise_distance(x, x * 0)),
    ROW(var, Copy, x.var(0, 0)), ROW(std, Copy, x.std(0, 0)),
    ROW(amax, Copy, x.amax(), x.amax({}, true)), ROW(amax, Copy, x.amax(0), x.amax(0, true)),
    ROW(amin, Copy, x.amin(), x.amin({}, true)), ROW(amin, Copy, x.amin(0), x.amin(0, true)),
    ROW(max, Copy, x.max()), ROWS(max, Copy, both(x.max(0))), ROWS(max, Copy, both(x.max(0, true))),
    ROW(min, Copy, x.min()), ROWS(min, Copy, both(x.min(0))), ROWS(min, Copy, both(x.min(0, true))),
    ROW(argmax, Copy, x.argmax(), x.argmax(0)), ROW(argmin, Copy, x.argmin(), x.argmin(0)),
    ROW(any, Copy, x.any()), ROW(any, Copy, x.any(0), x.any(0, true)),
    ROW(all, Copy, x.all()), ROW(all, Copy, x.all(0), x.all(0, true)),
    ROW(count_nonzero, Copy, x.count_nonzero()), ROW(count_nonzero, Copy, x.count_nonzero(0)),
    ROW(logsumexp, Copy, x.logsumexp()), ROW(logsumexp, Copy, x.logsumexp(0, true)),
    ROW(norm, Copy, x.norm(), x.norm(1), x.norm(INFINITY), x.norm(0), x.norm(3)),
    ROW(norm, Copy, x.norm(2, 0, true), x.norm(1, 0, true), x.norm(INFINITY, 0, true)),
    ROW(normalize, Copy, x.normalize(2, 0)), ROW(trace, Copy, x.trace()),
    ROW(cumsum, Copy, x.cumsum(0), x.cumsum(-1)), ROW(cumsum, Copy, x.cumsum(0, x.dtype())),
    ROW(cumprod, Copy, x.cumprod(0), x.cumprod(-1)), ROW(cumprod, Copy, x.cumprod(0, x.dtype())),
    ROWS(cummax, Copy, both(x.cummax(0))), ROWS(cummin, Copy, both(x.cummin(0))),
    ROW(logcumsumexp, Copy, x.logcumsumexp(0)), ROW(logcumsumexp, Copy, x.logcumsumexp(-1)),
    ROWS(sort, Copy, both(x.sort(0))), ROWS(sort, Copy, both(x.sort(-1, true))),
    ROW(argsort, Copy, x.argsort(0)), ROWS(topk, Copy, both(x.topk(1, 0))),
    ROWS(topk, Copy, both(x.topk(x.size(-1)))), ROWS(kthvalue, Copy, both(x.kthvalue(1, 0))),
    ROW(median, Copy, x.median()), ROWS(median, Copy, both(x.median(0))),
    ROWS(median, Copy, both(x.median(0, true))),
    ROW(nanmedian, Copy, x.nanmedian()), ROWS(nanmedian, Copy, both(x.nanmedian(0))),
    ROWS(mode, Copy, both(x.mode(0))), ROWS(mode, Copy, both(x.mode(0, true))),
    ROW(quantile, Copy, x.quantile(0), x.quantile(0.5, 0)), ROW(msort, Copy, x.msort()),
    ROW(nanquantile, Copy, x.nanquantile(1), x.nanquantile(0.5, 0, true)),
    ROW(diff, Copy, x.diff(0), x.diff()), ROW(histc, Copy, x.histc(1)),
    ROW(bincount, Copy, x.abs().flatten().bincount(), x.abs().flatten().bincount({}, 9)),
    ROW(searchsorted, Copy, searchsorted(number_like(x, 1, 1), x)),
    ROW(bucketize, Copy, bucketize(x, number_like(x, 1, 1))),
    ROW(isin, Copy, isin(x, 1), isin(x, x)), ROW(argwhere, Copy, x.argwhere()),
    ROWS(unique, Copy, each(x.unique())), ROWS(unique, Copy, each(x.unique(0))),
    ROWS(unique_consecutive, Copy, each(x.unique_consecutive())),
    ROWS(unique_consecutive, Copy, each(x.unique_consecutive(0))),
    ROW(normal, Copy, normal(x, x * 0), normal(x, x)), ROW(poisson, Copy, poisson(x)),
    ROW(randint_like, Copy, randint_like(x, 0, 5)),
    ROW(multinomial, Copy, x.multinomial(1)), ROW(bernoulli, Copy, (x * 0).bernoulli()),

    ROW(matmul, Copy, x.matmul(x)),
    ROW(matmul, Copy, x.matmul(eye(x.size(-1), -1, {x.dtype(), x.device()}))),
    ROW(mm, Copy, x.mm(eye(x.size(-1), -1, {x.dtype(), x.device()}))),
    ROW(bmm, Copy, x.bmm(number_like(x, 1, {x.size(0), x.size(-1), 1}))),
    ROW(mv, Copy, x.mv(number_like(x, 1, x.size(-1)))), ROW(dot, Copy, x.dot(x)),
    ROW(outer, Copy, x.outer(number_like(x, 1, 1)), number_like(x, 1, 1).outer(x)),
    ROW(addmm, Copy, x.addmm(x, eye(x.size(-1), -1, {x.dtype(), x.device()}), 1, 0)),
    ROW(linear, Copy, x.linear(eye(x.size(-1), -1, {x.dtype(), x.device()}))),
    ROW(tensordot, Copy, x.tensordot(number_like(x, 1), 0)),
    ROW(tensordot, Copy, x.tensordot(x, Axes{-1}, Axes{-1})),
    ROW(addbmm, Copy, x.addbmm(number_like(x, 1, {1, x.size(0), 1}),
        number_like(x, 1, {1, 1, x.size(-1)}), 1, 0)),
    ROW(baddbmm, Copy, x.baddbmm(number_like(x, 1, {x.size(0), x.size(1), 1}),
        number_like(x, 1, {x.size(0), 1, x.size(-1)}), 1, 0)),
    ROW(addmv, Copy, x.addmv(number_like(x, 1, {x.size(0), 1}), number_like(x, 1, 1), 1, 0)),
    ROW(addr, Copy, x.addr(number_like(x, 1, x.size(0)), number_like(x, 1, x.size(-1)), 1, 0)),
    ROW(vdot, Copy, x.vdot(x)), ROW(inner, Copy, x.inner(x), x.inner(number_like(x, 1))),
    ROW(ger, Copy, x.ger(number_like(x, 1, 1))), ROW(cross, Copy, x.cross(x)),
    ROW(chain_matmul, Copy, chain_matmul({x})), ROW(chain_matmul, Copy, chain_matmul({x, x})),
    ROW(bilinear, Copy, bilinear(x, x, number_like(x, 1, {1, x.size(-1), x.size(-1)}))),
    ROW(kron, Copy, x.kron(number_like(x, 1, ones_for(x)))),
    ROW(cosine_similarity, Copy, x.cosine_similarity(x, 0)),
    ROW(conv1d, Copy, x.conv1d(number_like(x, 1, {1, 1, 1}))),
    ROW(conv2d, Copy, x.conv2d(number_like(x, 1, {1, 1, 1, 1}))),
    ROW(conv3d, Copy, x.conv3d(number_like(x, 1, {1, 1, 1, 1, 1}))),
    ROW(conv_transpose1d, Copy, x.conv_transpose1d(number_like(x, 1, {1, 1, 1}))),
    ROW(conv_transpose2d, Copy, x.conv_transpose2d(number_like(x, 1, {1, 1, 1, 1}))),
    ROW(conv_transpose3d, Copy, x.conv_transpose3d(number_like(x, 1, {1, 1, 1, 1, 1}))),
    ROW(max_pool1d, Copy, x.max_pool1d(1)), ROW(max_pool2d, Copy, x.max_pool2d(1)),
    ROW(max_pool3d, Copy, x.max_pool3d(1)), ROW(avg_pool1d, Copy, x.avg_pool1d(1)),
    ROW(avg_pool2d, Copy, x.avg_pool2d(1)), ROW(avg_pool3d, Copy, x.avg_pool3d(1)),
    ROWS(max_pool1d_with_indices, Copy, both(x.max_pool1d_with_indices(1))),
    ROWS(max_pool2d_with_indices, Copy, both(x.max_pool2d_with_indices(1))),
    ROWS(max_pool3d_with_indices, Copy, both(x.max_pool3d_with_indices(1))),
    ROW(adaptive_avg_pool1d, Copy, x.adaptive_avg_pool1d(x.size(-1))),
    ROW(adaptive_avg_pool2d, Copy, x.adaptive_avg_pool2d({x.size(-2), x.size(-1)})),
    ROW(adaptive_avg_pool3d, Copy, x.adaptive_avg_pool3d({x.size(-3), x.size(-2), x.size(-1)})),
    ROW(adaptive_max_pool1d, Copy, x.adaptive_max_pool1d(x.size(-1))),
    ROW(adaptive_max_pool2d, Copy, x.adaptive_max_pool2d({x.size(-2), x.size(-1)})),
    ROW(adaptive_max_pool3d, Copy,
        adaptive_max_pool3d(x, {x.size(-3), x.size(-2), x.size(-1)})),
    ROWS(adaptive_max_pool1d_with_indices, Copy,
         both(adaptive_max_pool1d_with_indices(x, x.size(-1)))),
    ROWS(adaptive_max_pool2d_with_indices, Copy,
         both(adaptive_max_pool2d_with_indices(x, {x.size(-2), x.size(-1)}))),
    ROWS(adaptive_max_pool3d_with_indices, Copy,
         both(adaptive_max_pool3d_with_indices(x, {x.size(-3), x.size(-2), x.size(-1)}))),
    ROW(max_unpool1d, Copy, max_unpool1d(x, whole_like(x, 0, x.shape()), 1)),
    ROW(max_unpool2d, Copy, max_unpool2d(x, whole_like(x, 0, x.shape()), 1)),
    ROW(max_unpool3d, Copy, max_unpool3d(x, whole_like(x, 0, x.shape()), 1)),
    ROW(lp_pool1d, Copy, lp_pool1d(x, 1, 1)), ROW(lp_pool2d, Copy, lp_pool2d(x, 1, 1)),
    ROW(lp_pool3d, Copy, lp_pool3d(x, 1, 1)),
    ROW(unfold, Copy, mote::unfold(x, 1, FoldOptions{})),
    ROW(fold, Copy, fold(x, {1, x.size(-1)}, 1)),
    ROW(grid_sample, Copy, grid_sample(x, affine_grid(
        eye(2, 3, {x.dtype(), x.device()}).unsqueeze(0), x.shape()), "nearest")),
    ROW(affine_grid, Copy, affine_grid(x.unsqueeze(0), {1, 1, 2, 2})),
    ROW(channel_shuffle, Copy, channel_shuffle(x, 1)),
    ROW(local_response_norm, Copy, local_response_norm(x, 1, 0)),
    ROW(interpolate, Copy, x.interpolate({.scale_factor = 1})),
    ROW(interpolate, Copy, x.interpolate({.scale_factor = 1, .mode = "nearest-exact"})),
    ROW(interpolate, Copy, x.interpolate({.scale_factor = 1, .mode = "area"})),
    ROW(interpolate, Copy, x.interpolate({.scale_factor = 1, .mode = "bilinear"})),
    ROW(interpolate, Copy, x.interpolate({.scale_factor = 1, .mode = "bicubic",
        .align_corners = true})),
    ROW(pixel_shuffle, Copy, x.pixel_shuffle(1)), ROW(pixel_unshuffle, Copy, x.pixel_unshuffle(1)),
    ROW(layer_norm, Copy, x.layer_norm(last_size(x))),
    ROW(rms_norm, Copy, x.rms_norm(last_size(x))),
    ROW(batch_norm, Copy, x.batch_norm(number_like(x, 0, x.size(1)), number_like(x, 1, x.size(1)),
        {}, {}, {.eps = 0})),
    ROW(group_norm, Copy, x.group_norm(1)), ROW(instance_norm, Copy, x.instance_norm()),
    ROW(dropout, Copy, x.dropout(0)), ROW(dropout, Copy, x.dropout(0.5, false)),
    ROW(dropout, Copy, x.dropout(0.5)), ROW(dropout, Copy, x.dropout(1)),
    ROW(rrelu, Copy, rrelu(x), rrelu(x, 0, 1, true)),
    ROW(gumbel_softmax, Copy, gumbel_softmax(x), gumbel_softmax(x, 1, true)),
    ROW(alpha_dropout, Copy, alpha_dropout(x), alpha_dropout(x, 0, true),
        alpha_dropout(x, 0.5, true)),
    ROW(feature_alpha_dropout, Copy, feature_alpha_dropout(x), feature_alpha_dropout(x, 0, true)),
    ROW(feature_alpha_dropout, Copy, feature_alpha_dropout(x, 0.5, true)),
    ROW(dropout1d, Copy, dropout1d(x, 0), dropout1d(x, 0.5, false), dropout1d(x)),
    ROW(dropout2d, Copy, dropout2d(x, 0), dropout2d(x, 0.5, false), dropout2d(x)),
    ROW(dropout3d, Copy, dropout3d(x, 0), dropout3d(x, 0.5, false), dropout3d(x)),
    ROW(scaled_dot_product_attention, Copy, x.scaled_dot_product_attention(x, x)),
    ROW(embedding, Copy, whole_like(x, 0, 1).embedding(x), whole_like(x, 0, {}).embedding(x)),
    ROW(embedding_bag, Copy, embedding_bag(whole_like(x, 0, {1, 1}), x),
        embedding_bag(whole_like(x, 0, {1, 1}), x, {}, "max")),
    ROW(embedding_bag, Copy, embedding_bag(whole_like(x, 0, 1), x, whole_like(x, 0, 1), "sum")),
    ROW(cross_entropy, Copy, x.cross_entropy(x.softmax(0), {.reduction = Reduction::none})),
    ROW(nll_loss, Copy, x.nll_loss(whole_like(x, 0, x.size(0)))),
    ROW(nll_loss, Copy, x.nll_loss(whole_like(x, 0, {}), {.reduction = Reduction::none})),
    ROW(binary_cross_entropy, Copy, x.sigmoid().binary_cross_entropy(x, {}, Reduction::none)),
    ROW(binary_cross_entropy_with_logits, Copy, x.binary_cross_entropy_with_logits(x * 0, {}, {},
        Reduction::none)),
    ROW(mse_loss, Copy, x.mse_loss(x, Reduction::none)),
    ROW(l1_loss, Copy, x.l1_loss(x * 0, Reduction::none)),
    ROW(smooth_l1_loss, Copy, x.smooth_l1_loss(x * 0, 1, Reduction::none)),
    ROW(smooth_l1_loss, Copy, x.smooth_l1_loss(x * 0, 0, Reduction::none)),
    ROW(huber_loss, Copy, x.huber_loss(x * 0, 1, Reduction::none)),
    ROW(kl_div, Copy, x.kl_div(x, Reduction::none)),
    ROW(poisson_nll_loss, Copy, poisson_nll_loss(x, x * 0, false, false, 0, Reduction::none)),
    ROW(poisson_nll_loss, Copy, poisson_nll_loss(x, x, true, true, 0, Reduction::none)),
    ROW(gaussian_nll_loss, Copy, gaussian_nll_loss(x, x * 0, number_like(x, 1, ones_for(x)), false,
        0, Reduction::none)),
    ROW(hinge_embedding_loss, Copy,
        hinge_embedding_loss(x, number_like(x, 1), 1, Reduction::none)),
    ROW(margin_ranking_loss, Copy, margin_ranking_loss(x, x * 0, number_like(x, -1), 0,
        Reduction::none)),
    ROW(soft_margin_loss, Copy, soft_margin_loss(x, x, Reduction::none)),
    ROW(multi_margin_loss, Copy, multi_margin_loss(x, whole_like(x, 0, x.size(0)), 1, 1, {},
        Reduction::none)),
    ROW(multi_margin_loss, Copy, multi_margin_loss(x, whole_like(x, 0, {}))),
    ROW(multilabel_margin_loss, Copy, multilabel_margin_loss(x, whole_like(x, 0, x.shape()),
        Reduction::none)),
    ROW(multilabel_soft_margin_loss, Copy, multilabel_soft_margin_loss(x, x, {}, Reduction::none)),
    ROW(cosine_embedding_loss, Copy, cosine_embedding_loss(x, x, whole_like(x, -1, x.size(0)), 0,
        Reduction::none)),
    ROW(triplet_margin_loss, Copy, triplet_margin_loss(x, x, x * 0, 1, 2, 0, true,
        Reduction::none)),
    ROW(triplet_margin_with_distance_loss, Copy, triplet_margin_with_distance_loss(x, x, x,
        one_step, 0, false, Reduction::none)),
    ROW(ctc_loss, Copy, ctc_loss(x, whole_like(x, 0, {x.size(1), 1}),
        whole_like(x, x.size(0), x.size(1)), whole_like(x, 1, x.size(1)), x.size(-1) - 1,
        Reduction::none)),
    ROW(concat, Copy, concat({x})), ROW(concatenate, Copy, concatenate({x})),
    ROW(row_stack, Copy, row_stack({x})), ROW(column_stack, Copy, column_stack({x})),
    ROW(dstack, Copy, dstack({x})), ROW(block_diag, Copy, block_diag({x}), block_diag({x, x})),
    ROW(cartesian_prod, Copy, cartesian_prod({x}), cartesian_prod({x, x})),
    ROW(combinations, Copy, combinations(x, 1), combinations(x, 2, true)),
    ROW(combinations, Copy, combinations(x, 0)), ROW(vander, Copy, vander(x), vander(x, 2, true)),
    ROW(cat, Copy, cat({x}), cat({x, x})), ROW(cat, Copy, cat({x, x.narrow(0, 0, 0)})),
    ROW(cat, Copy, cat({x.narrow(0, 0, 0), x}, -1)),
    ROW(stack, Copy, stack({x}), stack({x, x})), ROW(hstack, Copy, hstack({x})),
    ROW(vstack, Copy, vstack({x})), ROWS(meshgrid, Copy, meshgrid({x})),
    ROWS(meshgrid, Copy, meshgrid({x, number_like(x, 1, 1)}, "xy")),
    ROW(einsum, Copy, einsum("i->i", {x}), einsum("i->i", {x})),
    ROW(einsum, Copy, einsum("ij->ij", {x})),
    ROW(einsum, Copy, einsum("ij->ji", {x})), ROW(einsum, Copy, einsum("ii->i", {x})),
    ROW(einsum, Copy, einsum("...->...", {x})),
};

// They write, mark, run or make, and give no tensor that was made from another one.
const std::set<std::string> not_rows = {
    "add_", "sub_", "mul_", "div_", "clamp_", "assign", "copy_", "fill_", "zero_", "masked_fill_",
    "uniform_", "normal_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_",
    "random_", "set", "index_put_", "scatter_", "scatter_add_", "requires_grad_",
    "grad", "gradient", "realize", "operator", "operator+=", "operator-=", "operator*=",
    "operator/=", "operator=", "operator[]",
    "arange", "empty", "eye", "from_blob", "from_bytes", "from_data", "from_values", "full",
    "glorot_normal", "glorot_uniform", "kaiming_normal", "kaiming_uniform", "linspace",
    "logspace", "tril_indices", "triu_indices", "hann_window", "hamming_window",
    "blackman_window", "bartlett_window", "kaiser_window", "ones", "rand", "randint", "randn", "random_state", "randperm", "scalar", "tensor", "uniform",
    "zeros", "name", "alias"};  // the last two are words of macros
// clang-format on

// How the tensor came to be.
enum Origin { Stored, Computed, Part, Turned, Leaf, kOrigins };

Tensor make(DType dtype, const std::vector<int64_t>& shape, Origin origin) {
  Options o{dtype, "INTERP"};
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  Tensor x = (arange(count + 1, {DType::f32, "INTERP"}).narrow(0, 1, count) * 0.125).reshape(shape);
  x = is_float(dtype) ? x.to(dtype) : (x * 8).to(dtype);
  if (dtype == DType::boolean) x = x.eq(0);
  switch (origin) {
    case Computed: return x;
    case Part: {
      std::vector<int64_t> padded = shape;
      for (int64_t& n : padded) ++n;
      Tensor whole = zeros(padded, o).realize();
      Tensor part = whole.shrink(std::vector<int64_t>(shape.size(), 1), padded);
      part.assign(x);
      return part;
    }
    case Turned: {
      if (shape.empty()) return x.realize();
      Tensor turned = x.transpose(0, -1).clone().realize();
      return turned.transpose(0, -1);
    }
    case Leaf: return is_float(dtype) ? x.requires_grad_() : x.realize();
    default: return x.clone().realize();
  }
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

// Every element of the tensor becomes what it was not.
void change(Tensor t) {
  if (t.dtype() == DType::boolean)
    t.assign(t.logical_not());
  else
    t.assign(number_like(t, 63));
}

struct Trial {
  const Row& row;
  DType dtype;
  std::vector<int64_t> shape;
  Origin origin;
  bool realized;  // before the first write

  Outputs run(const Tensor& x) const {
    manual_seed(1);
    Outputs y = row.run(x);
    if (realized)
      for (Tensor& t : y) t.realize();
    return y;
  }
  // What went wrong, or nothing. Throws mote's errors for what the method does not take.
  std::string failure() const {
    Tensor x = make(dtype, shape, origin);
    Outputs y = run(x), again = run(x);
    std::vector<std::vector<double>> before;
    for (const Tensor& t : again) before.push_back(values(t));
    std::vector<double> old = values(x);
    change(x);
    for (size_t i = 0; i < y.size(); ++i) {
      bool kept = same(values(y[i]), before[i]);
      if (row.kind == Copy && !kept) return "a write to the operand shows in the result";
      if (row.kind == View && kept && !before[i].empty())
        return "a write to the operand does not show in the result";
    }
    return failure_of_results();
  }
  std::string failure_of_results() const {
    for (size_t i = 0;; ++i) {
      Tensor x = make(dtype, shape, origin);
      std::vector<double> old = values(x);
      Outputs y = run(x);
      if (i >= y.size()) return {};
      if (y[i].numel() == 0) continue;
      change(y[i]);
      bool kept = same(values(x), old);
      if (row.kind == Copy && !kept) return "a write to the result shows in the operand";
      if (row.kind == View && kept) return "a write to the result does not show in the operand";
    }
  }
};

constexpr DType dtypes[] = {DType::f32, DType::i64, DType::u8, DType::boolean,
                            DType::f64, DType::f16, DType::i32};
// clang-format off
const std::vector<int64_t> shapes[] = {{},     {1},          {3},          {1, 1},
                                       {2, 3}, {3, 3},       {1, 1, 3},    {1, 1, 2, 2},
                                       {2, 0}, {1, 1, 1, 1}, {1, 2, 2, 2}, {1, 1, 2, 2, 2}};
// clang-format on

// Every row on every shape, with all dtypes and origins or with some of them in turn.
class Trials {
 public:
  void run(bool all) {
    for (const Row& row : rows) {
      taken_[row.name];
      for (const auto& shape : shapes)
        if (all)
          run_each(row, shape);
        else
          run_next(row, shape);
    }
    CHECK(failures_ == 0);
    if (all) check_all_taken();
    int64_t sum = 0;
    for (const auto& [name, count] : taken_) sum += count;
    MESSAGE(sum << " of " << trials_ << " calls are taken, of " << taken_.size() << " methods");
  }

 private:
  std::map<std::string, int64_t> taken_;
  int64_t trials_ = 0, failures_ = 0, next_ = 0;

  void run_each(const Row& row, const std::vector<int64_t>& shape) {
    for (DType dtype : dtypes)
      for (int origin = 0; origin < kOrigins; ++origin)
        for (bool realized : {false, true})
          attempt({row, dtype, shape, static_cast<Origin>(origin), realized});
  }
  // Half of them with the first dtype, which most methods take.
  void run_next(const Row& row, const std::vector<int64_t>& shape) {
    const int64_t n = next_++, turn = n / 2;
    if (n % test::stride_of_cases()) return;  // sanitized runs leave most out
    DType dtype = dtypes[n % 2 ? turn % std::ssize(dtypes) : 0];
    attempt({row, dtype, shape, static_cast<Origin>(n % kOrigins), turn % 3 == 0});
  }
  void attempt(const Trial& t) {
    ++trials_;
    std::string wrong;
    try {
      wrong = t.failure();
      ++taken_[t.row.name];
    } catch (const Error&) { return; }  // the method does not take such a tensor
    if (wrong.empty() || ++failures_ > 20) return;
    std::string what = std::string(t.row.name) + " (row " + std::to_string(&t.row - rows) + ") of ";
    for (int64_t n : t.shape) what += std::to_string(n) + " ";
    what += std::string(name(t.dtype)) + ", origin " + std::to_string(t.origin);
    what += (t.realized ? ", realized: " : ": ") + wrong;
    FAIL_CHECK(what);
  }
  void check_all_taken() {
    for (const auto& [name, count] : taken_) {
      INFO(name);
      CHECK(count > 0);
    }
  }
};

// Every function of a public header that gives tensors.
void add_names(const char* header, std::set<std::string>& names) {
  std::ifstream file(std::string(MOTE_SOURCE_DIR "/include/mote/") + header);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(!text.empty());
  static const std::regex declared(
      R"((?:^|\n)\s*(?:inline |friend )?(?:Tensor&?|ValuesIndices|Extremes|UniqueValues|)"
      R"(std::vector<Tensor>|std::pair<Tensor, Tensor>) )"
      R"((operator[^(]*(?:\(\))?|\w+)\()");
  static const std::regex listed(R"(F\((\w+)(?:\)|, \w))");
  for (const std::regex* r : {&declared, &listed})
    for (std::sregex_iterator i(text.begin(), text.end(), *r), end; i != end; ++i)
      names.insert((*i)[1].str());
}

}  // namespace

TEST_SUITE("aliasing") {
  TEST_CASE("every method of the headers is a view or a copy in the table") {
    std::set<std::string> declared, have;
    for (const char* header : {"tensor.h", "functions.h", "functional.h"})
      add_names(header, declared);
    for (const Row& row : rows) have.insert(row.name);
    CHECK(declared.size() > 300);
    for (const std::string& name : declared) {
      INFO(name);
      CHECK(have.count(name) + not_rows.count(name) == 1);
    }
  }

  TEST_CASE("a view shares memory, anything else does not, identities included") {
    Trials().run(false);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("a view shares memory, anything else does not, on all dtypes and origins") {
    Trials().run(true);
  }
}

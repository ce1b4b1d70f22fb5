#!/usr/bin/env python3
"""Make the golden cases of the functions that are no primitives' near relatives.

    python3 tools/make_more_goldens.py test/goldens/more_ops.gold.gz \\
        test/goldens/more_derivatives.gold.gz

Cases, references and the file's format are those of make_goldens.py, the second file's values those
of make_derivative_goldens.py; torch 1.13 has all that these need.
"""
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

import make_derivative_goldens as derivatives
import make_goldens as base
from make_goldens import B, D, I, INF, N, NAN, NZ, Spec, U, W, Z, add, distinct, ref, reference

REDUCTIONS = ("mean", "sum", "none")


def as_torch(module, *names):
    for name in names:
        ref[name] = getattr(module, name)


as_torch(torch.special, "i0e", "i1", "i1e", "entr", "ndtr", "log_ndtr", "ndtri", "xlog1py", "zeta",
         "erfcx")
as_torch(F, "bilinear", "pairwise_distance", "local_response_norm", "channel_shuffle", "fold",
         "lp_pool1d", "lp_pool2d", "adaptive_max_pool3d", "max_unpool1d", "max_unpool2d",
         "max_unpool3d", "grid_sample", "affine_grid", "poisson_nll_loss", "gaussian_nll_loss",
         "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss", "multi_margin_loss",
         "multilabel_margin_loss", "multilabel_soft_margin_loss", "cosine_embedding_loss",
         "triplet_margin_loss", "pdist")


def positive(*shape):
    return U(0.2, 3, *shape)


# ---------------------------------------------------------------- elementwise
@reference
def polygamma(x, n):
    return torch.polygamma(n, x)


@reference
def mvlgamma(x, p):
    return torch.mvlgamma(x, p)


def special_functions():
    around = [-30.25, -3.5, -2.75, -0.3, 1e-5, 0.25, 0.9, 1.0, 1.1, 1.46, 2.0, 2.5, 7.0, 13.5, 60.0]
    for op in ("lgamma", "digamma"):
        add(op, "around", [D(around)], types="f64", wide=True)
        add(op, "large", [D([1e3, 1e6, 1e10, 1e20])], grad=False, wide=True)
        add(op, "half", [positive(9)], base="f16", grad=False)
    add("lgamma", "poles", [D([0.0, -0.0, -1.0, -2.0, INF, -INF, NAN])], grad=False)
    add("digamma", "poles", [D([0.0, -0.0, -1.0, INF, NAN])], grad=False)
    add("lgamma", "integers", [I(1, 9, 5, dtype="i32")])
    for n in range(5):
        add("polygamma", f"order{n}", [positive(9)], n=n, types="f64", wide=True)
    add("polygamma", "trigamma_below", [D([-3.3, -0.25, 0.25, -7.7])], n=1, types="f64", wide=True)
    add("polygamma", "order_9", [U(1, 5, 6)], n=9, types="f64", wide=True, grad=False)
    for p in (1, 2, 5):
        add("mvlgamma", f"p{p}", [U(3, 9, 7)], p=p, types="f64", wide=True)
    add("erfinv", "inside", [U(-1, 1, 40)], types="f64", wide=True)
    add("erfinv", "tails", [D([0.999, -0.9999, 0.99999, 1e-8, -1e-20, 0.951, 0.9515])],
        types="f64", wide=True)
    add("erfinv", "edges", [D([1.0, -1.0, 1.5, -2.0, NAN, 0.0])], grad=False)
    for op in ("i0", "i0e", "i1", "i1e"):
        add(op, "both_ranges", [D([-40.0, -9.0, -7.9, -2.0, -1e-3, 0.0, 0.4, 3.0, 8.0, 8.1, 30.0])],
            types="f64", wide=True)
    add("i0", "large", [D([80.0, -85.0])], grad=False, wide=True)
    for op in ("i0e", "i1e"):
        add(op, "large", [D([100.0, 1e5, 1e20, INF, -INF])], grad=False, wide=True)
    add("erfcx", "all", [D([-3.0, -0.5, 0.0, 0.3, 0.46, 0.7, 2.0, 10.0, 1e4])], types="f64",
        wide=True)
    add("entr", "all", [D([-1.0, 0.0, 0.3, 1.0, 2.5, INF, NAN])], grad=False)
    add("entr", "inside", [positive(6)], types="f64")
    add("ndtr", "all", [D([-37.0, -6.0, -1.0, 0.0, 0.5, 3.0, 9.0])], types="f64", wide=True)
    add("log_ndtr", "all", [D([-100.0, -37.0, -6.0, -1.0, 0.0, 0.5, 3.0, 9.0])], types="f64",
        wide=True)
    add("ndtri", "all", [D([1e-30, 1e-5, 0.02, 0.03, 0.3, 0.5, 0.8, 0.98, 0.9999])], types="f64",
        wide=True)
    add("ndtri", "edges", [D([0.0, 1.0, -0.5, 1.5])], grad=False)
    add("xlog1py", "all", [D([0.0, 1.0, -2.0, 0.0, 3.0]), D([-0.5, 0.0, 1e-9, -1.0, 10.0])],
        grad=False)
    add("xlog1py", "matrix", [N(3, 4), U(-0.5, 2, 4)], types="f64")
    add("zeta", "inside", [Spec(lambda r: r.uniform(1.5, 9, 8), leaf=False), positive(8)],
        types="f64", wide=True, grad=False)
    add("zeta", "edges", [D([1.0, 0.5, 2.0, 3.0]), D([2.0, 1.0, 0.0, 1.0])], grad=False)


@reference
def float_power(x, y=None, other=None):
    return torch.float_power(x, other if y is None else y)


def float_parts():
    add("float_power", "tensors", [positive(4), N(4)])
    add("float_power", "number", [N(4)], other=3)
    add("float_power", "integers", [I(1, 5, 4)], other=2)
    add("ldexp", "integers", [N(5), D([-3, 0, 2, 10, -20], "i32")])
    add("ldexp", "floats", [N(3, 1), N(4)])
    for d in ("f32", "f64"):
        add("nextafter", f"up_{d}", [D([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3e38, INF, NAN], d),
            D([1.0, 1.0, 2.0, 0.0, 1.0, 1.0, INF, 0.0, 0.0], d)], grad=False)
        add("nextafter", f"down_{d}", [D([0.0, 1.0, 0.5, -2.0], d), D([-1.0, -1.0, 0.5, -3.0], d)],
            grad=False)
    add("frexp", "all", [D([1.0, -3.5, 0.0, 1e-30, 6e4, 0.5])], types="f64", grad=False)
    add("frexp", "matrix", [NZ(2, 3)], types="f64")


# ---------------------------------------------------------------- shape
@reference
def as_strided(x, size, stride, offset=0):
    return torch.as_strided(x, size, stride, offset)


@reference
def tensor_split(x, sections=None, before=None, dim=0):
    return torch.tensor_split(x, sections if before is None else before, dim)


@reference
def hsplit(x, how):
    return torch.hsplit(x, how)


@reference
def vsplit(x, how):
    return torch.vsplit(x, how)


@reference
def dsplit(x, how):
    return torch.dsplit(x, how)


def listed(name):
    ref[name] = lambda *tensors: getattr(torch, name)(tensors)


for list_name in ("dstack", "column_stack", "row_stack"):
    listed(list_name)


@reference
def slice_scatter(x, src, dim, slice):
    start, end, step = [int(s) if s else None for s in (slice + "::").split(":")[:3]]
    return torch.slice_scatter(x, src, dim, start, end, step or 1)


@reference
def put(x, index, src, accumulate=False):
    return x.put(index, src, accumulate)


@reference
def index_reduce(x, index, src, dim, how, include_self=True):
    return x.index_reduce(dim, index, src, how, include_self=include_self)


@reference
def vander(x, N=None, increasing=False):
    n = x.shape[-1] if N is None else N
    powers = [x ** k for k in range(n)]
    return torch.stack(powers if increasing else powers[::-1], -1)


@reference
def sum_to_size(x, size):
    return x.sum_to_size(size)


def shapes():
    add("as_strided", "windows", [N(12)], size=[3, 4], stride=[2, 1], types="f64")
    add("as_strided", "overlap", [N(3, 4)], size=[2, 3, 3], stride=[4, 1, 2], offset=1)
    add("as_strided", "repeat", [N(4)], size=[3, 4], stride=[0, 1])
    for pattern, kw in [("even", dict(sections=3)), ("uneven", dict(sections=4)),
                        ("more_than_rows", dict(sections=8)), ("before", dict(before=[1, 4])),
                        ("before_far", dict(before=[2, 9])), ("negative", dict(before=[-2])),
                        ("backwards", dict(before=[4, 2])), ("axis", dict(sections=2, dim=1))]:
        add("tensor_split", pattern, [N(6, 3)], grad=False, **kw)
    add("tensor_split", "gradient", [N(5, 2)], sections=2)
    add("hsplit", "sections", [N(2, 4)], how=2)
    add("hsplit", "vector", [N(6)], how=[1, 4])
    add("vsplit", "before", [N(4, 2)], how=[1, 3])
    add("dsplit", "sections", [N(2, 2, 4)], how=2)
    for n in (0, 1, 2, 3):
        shape = (2, 3, 4)[:n]
        for k in (1, 2, 3):
            add(f"atleast_{k}d", f"rank{n}", [N(*shape)])
    add("dstack", "vectors", [N(3), N(3)])
    add("dstack", "matrices", [N(2, 3), N(2, 3)])
    add("column_stack", "mixed", [N(3), N(3, 2), N(3)])
    add("row_stack", "vectors", [N(3), N(3)])
    add("block_diag", "mixed", [N(2, 3), N(2), N(), N(3, 1)])
    add("cartesian_prod", "three", [N(2), N(3), N(2)])
    add("cartesian_prod", "one", [N(3)])
    add("combinations", "pairs", [N(4)], r=2)
    add("combinations", "triples_again", [N(4)], r=3, with_replacement=True)
    add("combinations", "too_few", [N(2)], r=3, grad=False)
    add("broadcast_tensors", "two", [N(3, 1), N(4)])
    add("vander", "square", [N(4)])
    add("vander", "increasing", [N(3)], N=5, increasing=True)
    for n, m, k in [(3, 4, 0), (4, 3, 1), (3, 3, -1), (0, 3, 0), (3, 5, -4), (2, 2, 5)]:
        add("tril_indices", f"{n}_{m}_{k}", row=n, col=m, offset=k)
        add("triu_indices", f"{n}_{m}_{k}", row=n, col=m, offset=k)
    for op in ("fliplr", "flipud"):
        add(op, "matrix", [N(3, 4)])
        add(op, "rank3", [N(2, 3, 2)])
    add("diagflat", "matrix", [N(2, 2)])
    add("diagflat", "offset", [N(3)], offset=-1)
    add("sum_to_size", "both", [N(2, 3, 4)], size=[3, 1])
    add("sum_to_size", "same", [N(3)], size=[3])
    add("select_scatter", "row", [N(3, 4), N(4)], dim=0, index=1)
    add("select_scatter", "last", [N(3, 4), N(3)], dim=1, index=-1, types="f64")
    add("slice_scatter", "middle", [N(5, 3), N(2, 3)], dim=0, slice="1:3")
    add("slice_scatter", "steps", [N(3, 6), N(3, 3)], dim=1, slice="0:6:2")
    add("diagonal_scatter", "main", [N(3, 4), N(3)])
    add("diagonal_scatter", "offset", [N(2, 4, 4), N(2, 3)], offset=1, dim1=1, dim2=2)
    add("masked_scatter", "all", [N(3, 4), B(3, 4), N(12)], types="f64")
    add("masked_scatter", "broadcast_mask", [N(3, 4), B(4), N(15)])
    add("put", "write", [N(3, 4), distinct(12, 5), N(5)])
    add("put", "add", [N(3, 4), I(-12, 12, 6), N(6)], accumulate=True)
    for how in ("prod", "mean", "amax", "amin"):
        for self in (True, False):
            add("index_reduce", f"{how}_{self}", [NZ(4, 3), I(0, 4, 6), NZ(6, 3)], dim=0, how=how,
                include_self=self, types="f64")
    add("index_reduce", "axis", [N(3, 4), D([0, 3, 3], "i64"), N(3, 3)], dim=1, how="amax")


# ---------------------------------------------------------------- sums, statistics, products
def statistics():
    holes = D([[1.0, NAN, 2.0], [NAN, NAN, NAN], [0.5, -1.0, 4.0]])
    add("nanmean", "all", [holes], grad=False)
    add("nanmean", "rows", [holes], dim=1, grad=False)
    add("nanmean", "plain", [N(3, 4)], dim=[0], keepdim=True, types="f64 f16")
    for op in ("std_mean", "var_mean"):
        add(op, "all", [N(4, 5)], types="f64")
        add(op, "rows", [N(4, 5)], dim=[1], unbiased=False, keepdim=True)
    add("cov", "rows", [N(3, 6)], types="f64")
    add("cov", "vector", [N(6)])
    add("cov", "biased", [N(2, 5)], correction=0)
    add("corrcoef", "rows", [N(3, 6)], types="f64")
    add("corrcoef", "vector", [N(6)])
    for op in ("trapezoid", "cumulative_trapezoid"):
        add(op, "even", [N(3, 5)], types="f64")
        add(op, "step", [N(3, 5)], dx=0.5, dim=0)
        add(op, "positions", [N(3, 5), N(5)])
        add(op, "positions_each", [N(3, 5), N(3, 5)], dim=0)
        add(op, "one", [N(3, 1)])
    for p in (0.0, 1.0, 2.0, 3.0, INF):
        add("dist", f"p{p}", [N(3, 4), N(3, 4)], p=p, grad=p > 0)
        add("cdist", f"p{p}", [N(2, 3, 4), N(2, 5, 4)], p=p, types="f64")
        add("pairwise_distance", f"p{p}", [N(4, 3), N(4, 3)], p=p)
        if p:
            add("pdist", f"p{p}", [N(5, 3)], p=p)
    add("dist", "broadcast", [N(3, 4), N(4)])
    add("pairwise_distance", "keepdim", [N(4, 3), N(4, 3)], keepdim=True)
    for p in (1.0, 2.0, INF):
        add("renorm", f"p{p}", [N(4, 5)], p=p, dim=0, maxnorm=1.5, types="f64")
    add("renorm", "axis", [N(2, 3, 4)], p=2.0, dim=1, maxnorm=2.0)


def more_products():
    for pattern, kw in [("plain", {}), ("scaled", dict(beta=0.5, alpha=-2.0))]:
        add("addbmm", pattern, [N(3, 5), N(2, 3, 4), N(2, 4, 5)], **kw)
        add("baddbmm", pattern, [N(2, 3, 5), N(2, 3, 4), N(2, 4, 5)], **kw)
        add("addmv", pattern, [N(3), N(3, 4), N(4)], types="f64", **kw)
        add("addr", pattern, [N(3, 4), N(3), N(4)], **kw)
    add("inner", "matrices", [N(2, 3), N(4, 3)])
    add("inner", "vectors", [N(3), N(3)])
    add("inner", "number", [N(2, 3), N()])
    add("tensordot_axes", "two", [N(2, 3, 4), N(4, 2, 5)], axes=[0, 2], others=[1, 0])
    add("cross", "rows", [N(4, 3), N(4, 3)], dim=1, types="f64")
    add("cross", "first", [N(3, 2), N(3, 2)], dim=0)
    add("chain_matmul", "four", [N(3, 7), N(7, 2), N(2, 6), N(6, 4)])
    add("bilinear", "plain", [N(4, 3), N(4, 5), N(2, 3, 5)])
    add("bilinear", "bias", [N(2, 4, 3), N(2, 4, 5), N(2, 3, 5), N(2)])


@reference
def tensordot_axes(x, y, axes, others):
    return torch.tensordot(x, y, (axes, others))


@reference
def chain_matmul(*m):
    return torch.linalg.multi_dot(m)


# ---------------------------------------------------------------- networks
@reference
def im2col(x, kernel, dilation=1, padding=0, stride=1):
    return F.unfold(x, kernel, dilation, padding, stride)


@reference
def fold(x, output, kernel, dilation=1, padding=0, stride=1):
    return F.fold(x, output, kernel, dilation, padding, stride)


@reference
def lp_pool3d(x, p, kernel, stride=None):
    out = F.avg_pool3d(x.pow(p), kernel, stride)
    return (out.sign() * out.abs().relu() * kernel ** 3).pow(1 / p)


@reference
def adaptive_max(x, output, spatial):
    return getattr(F, f"adaptive_max_pool{spatial}d")(x, output, return_indices=True)


@reference
def channel_shuffle(x, groups):
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


@reference
def embedding_bag(indices, weight, offsets=None, mode="mean", per_sample_weights=None,
                  padding_idx=None):
    return F.embedding_bag(indices, weight, offsets, mode=mode, padding_idx=padding_idx,
                           per_sample_weights=per_sample_weights)


def columns_and_pools():
    for pattern, shape, kw in [
            ("plain", (2, 3, 5, 6), dict(kernel=[2, 3])),
            ("all", (2, 2, 7, 6), dict(kernel=[2, 3], dilation=[2, 1], padding=[1, 2],
                                       stride=[2, 1])),
            ("touching", (1, 2, 4, 4), dict(kernel=[2, 2], stride=[2, 2])),
            ("unbatched", (2, 5, 5), dict(kernel=[3, 3], padding=[1, 1]))]:
        add("im2col", pattern, [N(*shape)], **kw)
        n = kw["kernel"][0] * kw["kernel"][1]
        columns = F.unfold(torch.zeros((1, *shape[-3:])), kw["kernel"], kw.get("dilation", 1),
                           kw.get("padding", 0), kw.get("stride", 1)).shape
        assert columns[1] == n * shape[-3]
        add("fold", pattern, [N(*shape[:-3], *columns[1:])], output=list(shape[-2:]), **kw)
    for p in (1.0, 2.0, 3.0):
        add("lp_pool1d", f"p{p}", [positive(2, 3, 8)], norm_type=p, kernel_size=3, stride=2)
        add("lp_pool2d", f"p{p}", [positive(2, 3, 6, 7)], norm_type=p, kernel_size=2)
    add("lp_pool2d", "ceil", [positive(1, 2, 5, 5)], norm_type=2.0, kernel_size=2, ceil_mode=True)
    add("lp_pool3d", "cube", [positive(1, 2, 4, 4, 4)], p=2.0, kernel=2)
    add("adaptive_max_pool3d", "uneven", [N(1, 2, 5, 4, 6)], output_size=[2, 4, 4])
    for spatial, shape, out in [(1, (2, 3, 8), 4), (1, (2, 3, 7), 3), (2, (2, 2, 6, 7), [3, 5]),
                                (2, (3, 5, 5), [2, 2]), (3, (1, 2, 4, 5, 3), [2, 3, 3])]:
        add("adaptive_max", f"{spatial}_{len(shape)}_{shape[-1]}", [N(*shape)], output=out,
            spatial=spatial)
    add("adaptive_max", "ties", [Z(0, 2, 1, 1, 6, 6)], output=[4, 4], spatial=2)
    add("max_unpool1d", "plain", [N(2, 3, 2), D([[[1, 2], [0, 3], [1, 3]]] * 2, "i64")],
        kernel_size=2)
    add("max_unpool2d", "plain", [N(1, 1, 2, 2), D([[[[1, 6], [8, 15]]]], "i64")], kernel_size=2)
    add("max_unpool2d", "size", [N(1, 2, 2, 2), D([[[[1, 7], [10, 18]]] * 2], "i64")],
        kernel_size=2, output_size=[5, 5])
    add("max_unpool3d", "plain", [N(1, 1, 1, 2, 1), D([[[[[3], [6]]]]], "i64")], kernel_size=2)
    for n in (1, 3, 4):
        add("local_response_norm", f"n{n}", [N(2, 5, 3, 3)], size=n, alpha=0.1, k=1.0)
    add("local_response_norm", "line", [N(2, 4, 5)], size=2)
    add("channel_shuffle", "two", [N(2, 6, 2, 2)], groups=2)
    bag = D([0, 2, 2, 4], "i64")
    for mode in ("sum", "mean", "max"):
        add("embedding_bag", f"rows_{mode}", [I(0, 6, 3, 4), N(6, 2)], mode=mode)
        add("embedding_bag", f"offsets_{mode}", [distinct(7, 6), N(7, 2), bag], mode=mode)
        add("embedding_bag", f"padding_{mode}", [D([[1, 1, 0], [1, 1, 1], [2, 1, 3]], "i64"),
            N(4, 2)], mode=mode, padding_idx=1)
    add("embedding_bag", "weights", [I(0, 6, 3, 4), N(6, 2)], per_sample_weights=N(3, 4),
        mode="sum")


def sampling():
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            for mode in ("bilinear", "nearest", "bicubic"):
                add("grid_sample", f"{mode}_{padding}_{corners}", [N(2, 3, 4, 5),
                    U(-1.7, 1.7, 2, 3, 4, 2)], mode=mode, padding_mode=padding,
                    align_corners=corners, types="f64" if mode == "bilinear" else "")
            add("grid_sample", f"volume_{padding}_{corners}", [N(1, 2, 3, 4, 3),
                U(-1.4, 1.4, 1, 2, 2, 3, 3)], padding_mode=padding, align_corners=corners)
    add("grid_sample", "volume_nearest", [N(1, 2, 3, 4, 3), U(-1.4, 1.4, 1, 2, 2, 3, 3)],
        mode="nearest", align_corners=False)
    for corners in (False, True):
        add("affine_grid", f"plane_{corners}", [N(2, 2, 3)], size=[2, 3, 4, 5],
            align_corners=corners)
        add("affine_grid", f"volume_{corners}", [N(1, 3, 4)], size=[1, 2, 2, 3, 4],
            align_corners=corners)


def signs(*shape):
    return Spec(lambda r: r.choice([-1.0, 1.0], shape), leaf=False)


def ctc(name, times, classes, lengths, target_lengths, repeats=False, **kw):
    n, longest = len(lengths), max(target_lengths)
    targets = Spec(lambda r: r.randint(1, 2 if repeats else classes, (n, longest)), "i64")
    add("ctc_loss", name, [N(times, n, classes), targets, D(lengths, "i64"),
        D(target_lengths, "i64")], types="f64", **kw)


@reference
def ctc_loss(x, targets, input_lengths, target_lengths, **kw):   # of logits
    return F.ctc_loss(x.log_softmax(-1), targets, input_lengths, target_lengths, **kw)


def more_losses():
    for r in REDUCTIONS:
        types = "f64" if r == "mean" else ""
        add("poisson_nll_loss", r, [N(3, 4), positive(3, 4)], reduction=r, types=types)
        add("poisson_nll_loss", f"plain_{r}", [positive(3, 4), W(0.2, 3, 3, 4)], log_input=False,
            full=True, reduction=r)
        add("gaussian_nll_loss", r, [N(3, 4), N(3, 4), positive(3, 4)], reduction=r, types=types)
        add("gaussian_nll_loss", f"full_{r}", [N(3, 4), N(3, 4), positive(3, 1)], full=True,
            reduction=r)
        add("hinge_embedding_loss", r, [N(3, 4), signs(3, 4)], reduction=r, types=types)
        add("margin_ranking_loss", r, [N(5), N(5), signs(5)], margin=0.3, reduction=r)
        add("soft_margin_loss", r, [N(3, 4), signs(3, 4)], reduction=r, types=types)
        add("multi_margin_loss", r, [N(3, 4), I(0, 4, 3)], reduction=r, types=types)
        add("multi_margin_loss", f"squares_{r}", [N(3, 4), I(0, 4, 3)], p=2, margin=0.5,
            weight=W(0.2, 2, 4), reduction=r)
        add("multilabel_margin_loss", r, [N(2, 4), D([[3, 0, -1, 1], [1, -1, 2, 0]], "i64")],
            reduction=r, types=types)
        add("multilabel_soft_margin_loss", r, [N(3, 4), Spec(
            lambda g: g.choice([0.0, 1.0], (3, 4)), leaf=False)], reduction=r)
        add("multilabel_soft_margin_loss", f"weight_{r}", [N(3, 4), Spec(
            lambda g: g.choice([0.0, 1.0], (3, 4)), leaf=False)], weight=W(0.2, 2, 4), reduction=r)
        add("cosine_embedding_loss", r, [N(4, 3), N(4, 3), signs(4)], margin=0.2, reduction=r)
        add("triplet_margin_loss", r, [N(4, 3), N(4, 3), N(4, 3)], reduction=r, types=types)
        add("triplet_margin_loss", f"swap_{r}", [N(4, 3), N(4, 3), N(4, 3)], swap=True, p=3.0,
            margin=2.0, reduction=r)
        ctc(r, 6, 4, [6, 5, 4], [3, 2, 1], reduction=r)
        ctc(f"repeats_{r}", 7, 3, [7, 6], [3, 2], repeats=True, reduction=r)
    add("multi_margin_loss", "one", [N(4), D(2, "i64")])
    add("multilabel_margin_loss", "one", [N(4), D([1, 3, -1, 0], "i64")])
    add("cosine_embedding_loss", "one", [N(3), N(3), D(1.0)])
    ctc("impossible", 2, 3, [2, 2], [2, 1], repeats=True, reduction="none", zero_infinity=True)
    ctc("empty_target", 3, 3, [3, 2], [0, 1], reduction="none")


# ---------------------------------------------------------------- signals
def windows():
    for op in ("hann_window", "hamming_window", "blackman_window", "bartlett_window",
               "kaiser_window"):
        for n in (1, 8, 9):
            add(op, f"periodic_{n}", n=n)
            add(op, f"symmetric_{n}", n=n, periodic=False)
        add(op, "double", n=7, dtype="f64")
    add("logspace", "plain", start=-1.0, end=2.0, steps=5)
    add("logspace", "base", start=0.0, end=4.0, steps=5, base=2.0, dtype="f64")


for window_name in ("hann_window", "hamming_window", "blackman_window", "bartlett_window",
                    "kaiser_window"):
    ref[window_name] = lambda n, periodic=True, dtype=torch.float32, f=window_name: getattr(
        torch, f)(n, periodic=periodic, dtype=dtype)


def pairs(*shape):
    return N(*shape, 2)


def transform(name, is_complex, gives_complex):
    def run(x, **kw):
        z = torch.view_as_complex(x.contiguous()) if is_complex else x
        out = getattr(torch.fft, name)(z, **kw)
        return torch.view_as_real(out.resolve_conj()) if gives_complex else out
    ref[name] = run


for n, takes, gives in [("fft", 1, 1), ("ifft", 1, 1), ("rfft", 0, 1), ("irfft", 1, 0),
                        ("hfft", 1, 0), ("ihfft", 0, 1), ("fftn", 1, 1), ("ifftn", 1, 1),
                        ("rfftn", 0, 1), ("irfftn", 1, 0), ("fft2", 1, 1), ("rfft2", 0, 1)]:
    transform(n, takes, gives)
as_torch(torch.fft, "fftfreq", "rfftfreq", "fftshift", "ifftshift")


@reference
def stft(x, n_fft, window=None, **kw):
    return torch.view_as_real(torch.stft(x, n_fft, window=window, return_complex=True, **kw))


@reference
def istft(z, n_fft, window=None, **kw):
    return torch.istft(torch.view_as_complex(z.contiguous()), n_fft, window=window, **kw)


def transforms():
    for n in (1, 2, 3, 7, 16, 30, 67, 96):
        add("fft", f"n{n}", [pairs(2, n)], types="f64")
        add("rfft", f"n{n}", [N(2, n)], types="f64")
    for n in (360, 521, 1018):
        add("fft", f"n{n}", [pairs(n)], base="f64")
    for n in (2, 3, 8, 9, 67):
        add("ifft", f"n{n}", [pairs(n)], types="f64")
        add("irfft", f"n{n}", [pairs(n // 2 + 1)], n=n, types="f64")
    for op, x in [("fft", pairs(3, 6)), ("ifft", pairs(3, 6)), ("rfft", N(3, 6)),
                  ("irfft", pairs(3, 6)), ("hfft", pairs(3, 6)), ("ihfft", N(3, 6))]:
        for norm in ("backward", "ortho", "forward"):
            add(op, norm, [x], norm=norm)
        add(op, "cut", [x], n=4)
        add(op, "filled", [x], n=11)
        add(op, "first_axis", [x], dim=0, n=5)
    for op, x in [("fftn", pairs(3, 4, 5)), ("ifftn", pairs(3, 4, 5)), ("rfftn", N(3, 4, 5)),
                  ("irfftn", pairs(3, 4, 5))]:
        add(op, "all", [x], types="f64")
        add(op, "sizes", [x], s=[6, 4])
        add(op, "axes", [x], dim=[0, 2], norm="ortho")
    add("fft2", "plain", [pairs(2, 4, 6)])
    add("rfft2", "plain", [N(2, 4, 6)])
    for n in (1, 4, 5):
        add("fftfreq", f"n{n}", n=n, d=0.5)
        add("rfftfreq", f"n{n}", n=n, d=2.0)
        add("fftshift", f"n{n}", [N(n, 3)])
        add("ifftshift", f"n{n}", [N(n, 3)], dim=[0])
    add("stft", "plain", [N(40)], n_fft=8)
    add("stft", "window", [N(2, 50)], n_fft=10, hop_length=4, win_length=7, window=W(0.1, 1, 7))
    add("stft", "bare", [N(30)], n_fft=6, hop_length=3, center=False, onesided=False,
        normalized=True)
    add("istft", "plain", [pairs(5, 12)], n_fft=8, window=W(0.5, 1, 8))
    add("istft", "length", [pairs(2, 6, 9)], n_fft=10, hop_length=5, window=W(0.5, 1, 10),
        length=37, normalized=True)


# ---------------------------------------------------------------- linear algebra
def definite(n, *batch):
    return Spec(lambda r: (lambda a: a @ np.swapaxes(a, -1, -2) + n * np.eye(n))(
        r.standard_normal((*batch, n, n))))


def well(n, *batch):
    return Spec(lambda r: r.standard_normal((*batch, n, n)) + 2 * math.sqrt(n) * np.eye(n))


as_torch(torch.linalg, "cholesky", "solve", "inv", "det", "slogdet", "eigvalsh", "svdvals", "pinv",
         "matrix_exp", "matrix_power", "matrix_norm", "vector_norm", "matrix_rank", "vecdot",
         "tensorinv", "tensorsolve", "solve_triangular", "qr")
ref["lu_factor"] = torch.linalg.lu_factor
ref["lu"] = torch.linalg.lu
ref["logdet"] = torch.logdet
ref["multi_dot"] = lambda *m: torch.linalg.multi_dot(m)
ref["cholesky_inverse"] = lambda l: torch.cholesky_inverse(l.tril())


@reference
def cholesky_solve(b, l, upper):
    return torch.cholesky_solve(b, l.triu() if upper else l.tril(), upper)


@reference
def cond(a, p):
    if abs(p) == 2:
        return torch.linalg.cond(a, p)
    return torch.linalg.matrix_norm(a, p) * torch.linalg.matrix_norm(torch.linalg.inv(a), p)


@reference
def lstsq(a, b):
    return torch.linalg.pinv(a) @ b


@reference
def lu_solve(a, b):
    lu, pivots = torch.linalg.lu_factor(a)
    return torch.lu_solve(b, lu, pivots)


@reference
def eigh_abs(a):
    w, v = torch.linalg.eigh(a)
    return w, v.abs()


@reference
def svd_abs(a):
    u, s, v = torch.linalg.svd(a, full_matrices=False)
    return u.abs(), s, v.abs()


@reference
def symmetric_exp(a):
    return torch.linalg.matrix_exp(a - a.mT)


def linear_algebra():
    wide = dict(wide=True, types="f64")
    for n in (1, 2, 5, 17):
        add("cholesky", f"n{n}", [definite(n)], **wide)
        add("inv", f"n{n}", [well(n)], **wide)
        add("det", f"n{n}", [well(n)], **wide)
        add("slogdet", f"n{n}", [well(n)], **wide)
        add("eigvalsh", f"n{n}", [definite(n)], **wide)
        add("eigh_abs", f"n{n}", [definite(n)], base="f64")   # gaps cost an f32 its digits
        add("lu_factor", f"n{n}", [well(n)], **wide)
        add("matrix_exp", f"n{n}", [N(n, n)], **wide)
    add("cholesky", "upper", [definite(4, 2, 3)], upper=True, **wide)
    add("eigvalsh", "upper", [N(2, 4, 4)], UPLO="U", **wide)
    for n, m in [(3, 3), (5, 3), (3, 5), (6, 1), (1, 4)]:
        add("svdvals", f"{n}_{m}", [N(n, m)], **wide)
        add("svd_abs", f"{n}_{m}", [N(n, m)], **wide)
        add("pinv", f"{n}_{m}", [N(n, m)], **wide)
        add("qr", f"{n}_{m}", [N(2, n, m)], **wide)
        add("lu", f"{n}_{m}", [N(n, m)], grad=n == m, **wide)
        if n >= m:
            add("lstsq", f"{n}_{m}", [N(n, m), N(n, 2)], **wide)
    add("qr", "complete", [N(4, 2)], mode="complete", grad=False, **wide)
    add("solve", "vectors", [well(4, 2), N(2, 4)], **wide)
    add("solve", "one_vector", [well(4), N(4)], **wide)
    add("solve", "broadcast", [well(3, 2, 1), N(4, 3, 2)], **wide)
    for upper in (False, True):
        add("solve_triangular", f"left_{upper}", [well(4), N(4, 3)], upper=upper, **wide)
        add("solve_triangular", f"right_{upper}", [well(4), N(2, 3, 4)], upper=upper, left=False,
            **wide)
        add("solve_triangular", f"unit_{upper}", [N(3, 3), N(3, 2)], upper=upper,
            unitriangular=True, **wide)
        add("cholesky_solve", f"{upper}", [N(4, 2), well(4)], upper=upper, **wide)
    add("cholesky_inverse", "plain", [well(3)], **wide)
    add("lu_solve", "plain", [well(4), N(4, 2)], grad=False, **wide)
    add("slogdet", "negative", [D([[0.0, 2.0], [3.0, 1.0]])], **wide)
    add("logdet", "batch", [definite(3, 2)], **wide)
    add("det", "pivoted", [D([[0.0, 1.0, 2.0], [3.0, 0.5, 1.0], [1.0, 4.0, 0.0]])], **wide)
    add("matrix_exp", "large", [Spec(lambda r: 6 * r.standard_normal((2, 4, 4)))], grad=False,
        **wide)
    add("symmetric_exp", "rotation", [N(3, 3)], **wide)
    for n in (-2, 0, 1, 5):
        add("matrix_power", f"n{n}", [well(3)], n=n, grad=n != 0, **wide)
    for p in (1.0, -1.0, 2.0, -2.0, INF, -INF, "fro", "nuc"):
        add("matrix_norm", f"{p}", [N(2, 3, 4)], ord=p, **wide)
    add("matrix_norm", "axes", [N(3, 2, 4)], ord=1.0, dim=[2, 0], keepdim=True, **wide)
    for p in (0.0, 1.0, 2.0, 3.0, INF):
        add("vector_norm", f"{p}", [N(3, 4)], ord=p, grad=p > 0)
    for p in (1.0, 2.0, -2.0, INF):
        add("cond", f"{p}", [well(3)], p=p, **wide)
    add("matrix_rank", "low", [D([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])], grad=False)
    add("multi_dot", "ends", [N(3), N(3, 4), N(4, 2), N(2)], **wide)
    add("vecdot", "plain", [N(3, 4), N(3, 4)])
    add("tensorinv", "plain", [Spec(lambda r: r.standard_normal((4, 6, 8, 3)))], ind=2, **wide)
    add("tensorsolve", "plain", [N(2, 3, 6), N(2, 3)], **wide)


with_poles = {"lgamma", "digamma", "polygamma", "mvlgamma"}
FAMILIES = (special_functions, float_parts, shapes, statistics, more_products, columns_and_pools,
            sampling, more_losses, windows, transforms, linear_algebra)


def declare_all():
    for f in FAMILIES:
        base.family = f.__name__
        f()


if __name__ == "__main__":
    base.declare_all = declare_all
    base.main(sys.argv[1])
    if len(sys.argv) > 2:
        # At the poles PyTorch's sine of pi is not 0, and its slopes are 1e32.
        base.declare_all = lambda: (base.cases.clear(), declare_all(), base.cases.__setitem__(
            slice(None), [c for c in base.cases if c["op"] not in with_poles
                          and c["family"] != "linear_algebra"]))
        derivatives.few |= {"shapes", "columns_and_pools", "transforms", "more_products"}
        derivatives.main(sys.argv[2])

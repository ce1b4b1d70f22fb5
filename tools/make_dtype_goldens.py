#!/usr/bin/env python3
"""Makes test/goldens/dtypes.txt: the dtype that PyTorch gives a result, by function and operands.

    python3 tools/make_dtype_goldens.py > test/goldens/dtypes.txt

The first line lists dtypes. Others are a function's key, the dtypes of all operands but the last,
and the results for a last operand of each dtype, "-" where PyTorch gives an error. Keys are those
of test/dtypes_test.cpp.
"""
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
    "f64": torch.float64,
}
NAMES = {v: k for k, v in DTYPES.items()}

UNARY = """neg positive abs sign sgn signbit square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10
log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sinc floor ceil trunc
round frac isnan isinf isfinite isposinf isneginf logical_not bitwise_not deg2rad rad2deg sigmoid
relu nan_to_num logit""".split()
FUNCTIONAL = """logsigmoid relu6 silu mish selu hardswish hardsigmoid softsign tanhshrink gelu elu
celu leaky_relu hardtanh hardshrink softshrink softplus""".split()
BINARY = """true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign
logaddexp logaddexp2 xlogy heaviside eq ne lt le gt ge logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm add sub mul
div""".split()
SCALARS = {"int": 2, "float": 1.5, "bool": True}

CALLS = {"round_decimals": lambda x: torch.round(x, decimals=1)}
for name in UNARY:
    CALLS[name] = getattr(torch, name)
for name in FUNCTIONAL:
    CALLS[name] = getattr(F, name)
CALLS.update({
    "sum": lambda x: x.sum(), "sum_axis": lambda x: x.sum(0), "nansum": lambda x: x.nansum(),
    "prod": lambda x: x.prod(), "mean": lambda x: x.mean(), "var": lambda x: x.var(0),
    "std": lambda x: x.std(0), "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(0),
    "max": lambda x: x.max(), "min": lambda x: x.min(), "max_axis": lambda x: x.max(0).values,
    "argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(0), "any": lambda x: x.any(),
    "all": lambda x: x.all(0), "count_nonzero": lambda x: x.count_nonzero(),
    "logsumexp": lambda x: x.logsumexp(0), "norm": lambda x: x.norm(),
    "norm_1": lambda x: x.norm(1, 0), "normalize": lambda x: F.normalize(x, dim=0),
    "cumsum": lambda x: x.cumsum(0), "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0).values, "cummax_indices": lambda x: x.cummax(0).indices,
    "logcumsumexp": lambda x: x.logcumsumexp(0), "sort": lambda x: x.sort(0).values,
    "argsort": lambda x: x.argsort(0), "topk": lambda x: x.topk(1, 0).values,
    "kthvalue": lambda x: x.kthvalue(1, 0).values, "median": lambda x: x.median(),
    "softmax": lambda x: x.softmax(0), "log_softmax": lambda x: x.log_softmax(0),
    "clamp_int": lambda x: x.clamp(0, 1), "clamp_float": lambda x: x.clamp(0.5, 1.5),
    "clamp_min_int": lambda x: x.clamp_min(1), "clamp_min_float": lambda x: x.clamp_min(1.5),
    "clamp_max_float": lambda x: x.clamp_max(1.5), "tril": lambda x: x.reshape(2, 2).tril(),
    "trace": lambda x: x.reshape(2, 2).trace(), "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1), "masked_fill_int": lambda x: x.masked_fill(x == x, 1),
    "masked_fill_float": lambda x: x.masked_fill(x == x, 1.5),
    "zeros_like": torch.zeros_like, "full_like": lambda x: torch.full_like(x, 1.5),
    "threshold": lambda x: F.threshold(x, 1, 2), "dropout_none": lambda x: F.dropout(x, 0.0),
    "where_int": lambda x: torch.where(x == x, x, 2), "where_float": lambda x: torch.where(x == x, x, 1.5),
    "one_hot": lambda x: F.one_hot(x), "nonzero": lambda x: x.nonzero(),
    "matmul": lambda x: x.reshape(2, 2) @ x.reshape(2, 2), "dot": lambda x: x.dot(x),
    "outer": lambda x: x.outer(x), "div_floor": lambda x: x.div(2, rounding_mode="floor"),
    "div_trunc": lambda x: x.div(2, rounding_mode="trunc"),
    "div_floor_float": lambda x: x.div(1.5, rounding_mode="floor"),
    "addcmul": lambda x: torch.addcmul(x, x, x), "addcdiv": lambda x: torch.addcdiv(x, x, x),
    "lerp": lambda x: torch.lerp(x, x, 0.5), "isclose": lambda x: torch.isclose(x, x),
    "mse_loss": lambda x: F.mse_loss(x, x), "l1_loss": lambda x: F.l1_loss(x, x),
    "avg_pool1d": lambda x: F.avg_pool1d(x.reshape(1, 1, 4), 2),
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, 4), 2),
    "interpolate": lambda x: F.interpolate(x.reshape(1, 1, 4), size=2),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x, dim=0),
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "diag": lambda x: x.diag(),
})
PAIRS = {name: getattr(torch, name) for name in BINARY}
PAIRS.update({
    "where": lambda x, y: torch.where(x == x, x, y), "cat": lambda x, y: torch.cat([x, y]),
    "matmul": lambda x, y: x.reshape(2, 2) @ y.reshape(2, 2),
    "clamp": lambda x, y: torch.clamp(x, y, y), "result_type": None,
})


def values(dtype):
    return torch.tensor([1, 1, 1, 1]).to(dtype)


def name_of(call):
    try:
        result = call()
    except Exception:
        return "-"
    result = result.dtype if isinstance(result, torch.Tensor) else result
    return NAMES.get(result, "-")


def show(key, call):
    """A line of results for operands of each dtype."""
    print(*key, *[name_of(lambda: call(values(d))) for d in DTYPES.values()])


print(f"# torch {torch.__version__}")
print("dtypes", *DTYPES)
for key, f in CALLS.items():
    show([key], f)
for key, f in PAIRS.items():
    f = f or torch.result_type
    for a, dtype in DTYPES.items():
        x = values(dtype)
        show([key, a], lambda y: f(x, y))
        show([key + "_scalar", a], lambda y: f(x, y[0]))
    if key not in ("matmul", "cat", "where", "clamp"):
        for s, number in SCALARS.items():
            show([f"{key}_{s}"], lambda x: f(x, number))

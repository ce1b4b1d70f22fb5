#!/usr/bin/env python3
"""Make the golden cases of test/ops_test.cpp with PyTorch and NumPy.

    python3 tools/make_goldens.py test/goldens/ops.gold.gz [KEEP]

Cases that the file KEEP has are taken from it: a torch of another version, or on another processor,
lacks some and rounds some differently.

A case is one op with one argument pattern: `add(op, pattern, inputs, **attributes)`. Its name is
"op/pattern"; the same case in another dtype is a variant "op/pattern@dtype" and is not counted.
`ref[op]` (else torch.op) computes what is expected; gradients are those of sum(output * weight)
with a stored random weight per float output. Inputs come from a generator seeded by the case's
name, so a new case changes no other. What the installed torch lacks is skipped with a line.

The file, gzipped; integers little-endian, a string is u32 length + bytes:
    "MOTEGOLD" u32 version, string header, u32 cases, then per case
    string name, string op,
    u32 n attributes: string key, u8 kind ('b' u8, 'i' i64, 'f' f64, 's' string,
                      'I' u32 n + i64s, 'F' u32 n + f64s), value
    u32 n inputs:  string role ("" if positional), tensor
    u32 n outputs: tensor, u8 has weight, [tensor]
    u32 n gradients (0 or one per input): u8 present, [tensor]
    tensor: string dtype, u32 rank, i64 dims, u64 bytes, the elements row-major
"""
import gzip
import math
import operator
import struct
import sys
import time
import zlib
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

SEED = 20260
INF, NAN = math.inf, math.nan

dtypes = {"bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
          "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
          "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
          "f8e5m2": "float8_e5m2"}
torch_dtype = {k: getattr(torch, v) for k, v in dtypes.items() if hasattr(torch, v)}
dtype_name = {v: k for k, v in torch_dtype.items()}
is_float_type = {"f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"}.__contains__
is_unsigned = {"u8", "u16", "u32", "u64"}.__contains__
WIDE_UNSIGNED = {"u16", "u32", "u64"}   # torch has few kernels for these: NumPy is the reference
FLOATS = "f64 f16 bf16"
INTS = "i32 i64 i16 i8 u8"


class Missing(Exception):
    """The installed torch lacks what a case needs."""


# ---------------------------------------------------------------- inputs
class Spec:
    """How to draw one input; `dtype` None follows the variant's dtype (f32 in the case itself)."""

    def __init__(self, draw, dtype=None, leaf=True):
        self.draw, self.dtype, self.leaf = draw, dtype, leaf

    def make(self, rng, dtype):
        values = np.asarray(self.draw(rng))
        dtype = self.dtype or dtype
        if dtype not in torch_dtype:
            raise Missing(f"dtype {dtype}")
        if not is_float_type(dtype) and values.dtype.kind == "f":
            values = values > 0 if dtype == "bool" else np.rint(values * 5).astype(np.int64)
            if is_unsigned(dtype):
                values = np.abs(values)
        if dtype in WIDE_UNSIGNED:
            return torch.from_numpy(np.array(values.astype(dtypes[dtype])))
        return torch.from_numpy(np.array(values)).to(torch_dtype[dtype])


def N(*shape):
    return Spec(lambda r: r.standard_normal(shape))


def U(lo, hi, *shape):
    return Spec(lambda r: r.uniform(lo, hi, shape))


def W(lo, hi, *shape):  # as U, but torch gives it no gradient
    return Spec(lambda r: r.uniform(lo, hi, shape), leaf=False)


def NZ(*shape):  # never near 0
    return Spec(lambda r: r.choice([-1.0, 1.0], shape) * r.uniform(0.3, 2.0, shape))


def I(lo, hi, *shape, dtype="i64"):
    return Spec(lambda r: r.randint(lo, hi, shape), dtype)


def Z(lo, hi, *shape):  # integers that follow the variant's dtype
    return Spec(lambda r: r.randint(lo, hi, shape))


def B(*shape):
    return Spec(lambda r: r.uniform(size=shape) < 0.5, "bool")


def D(data, dtype=None):
    return Spec(lambda r: np.array(data), dtype)


def distinct(n, *shape, dtype="i64"):  # distinct integers below n
    return Spec(lambda r: r.permutation(n)[:math.prod(shape)].reshape(shape), dtype)


SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1e-45, -1e-45, 1e-38, -1e-38, 3.4e38, -3.4e38, 1.0, -1.0,
           0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 88.0, -88.0, 100.0, -104.0, 1e4, -1e4, 1e-4]
LARGE = [-1e4, -200.0, -100.0, -50.0, -20.0, -1.0, 1e-6, 1.0, 20.0, 50.0, 100.0, 200.0, 1e4]

# ---------------------------------------------------------------- cases
cases, family = [], ""


def add(op, pattern, inputs=(), types="", grad=True, base="f32", wide=False, **attrs):
    """wide: the f32 case is computed in f64 and rounded, where torch's own f32 is poor."""
    roles = {k: v for k, v in attrs.items() if isinstance(v, Spec)}
    attrs = {k: v for k, v in attrs.items() if not isinstance(v, Spec) and v is not None}
    cases.append(dict(name=f"{op}/{pattern}", op=op, family=family, grad=grad, wide=wide,
                      attrs=attrs, types=[base] + types.split(),
                      inputs=[("", s) for s in inputs] + list(roles.items())))


ref = {}


def reference(f):
    ref[f.__name__.rstrip("_")] = f
    return f


def call(op, tensors, roles, attrs):
    f = ref.get(op) or getattr(torch, op, None)
    if f is None:
        raise Missing(f"torch.{op}")
    attrs = dict(attrs)
    if "dtype" in attrs:
        if attrs["dtype"] not in torch_dtype:
            raise Missing(f"dtype {attrs['dtype']}")
        attrs["dtype"] = torch_dtype[attrs["dtype"]]
    positional = [t for t, r in zip(tensors, roles) if not r]
    named = {r: t for t, r in zip(tensors, roles) if r}
    out = f(*positional, **named, **attrs)
    return [out] if isinstance(out, torch.Tensor) else list(out)


numpy_ref = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert, "neg": np.negative,
    "lshift": np.left_shift, "rshift": np.right_shift}


def draw(case, dtype):
    rng = np.random.RandomState((zlib.crc32(case["name"].encode()) ^ SEED) & 0x7fffffff)
    return [spec.make(rng, dtype) for _, spec in case["inputs"]], rng


def forward(case, dtype, tensors):
    roles = [r for r, _ in case["inputs"]]
    if dtype in WIDE_UNSIGNED and case["op"] in numpy_ref:
        out = numpy_ref[case["op"]](*[t.numpy() for t in tensors])
        return [torch.from_numpy(np.array(out))]
    if dtype not in ("f16", "bf16"):
        return call(case["op"], tensors, roles, case["attrs"])
    # 16-bit floats: computed in f32, rounded once
    low = torch_dtype[dtype]
    wide = [t.float() if t.dtype == low else t for t in tensors]
    out = call(case["op"], wide, roles, case["attrs"])
    return [o.to(low) if o.dtype == torch.float32 else o for o in out]


def recast(t, source, target):
    return t.to(target) if t is not None and t.dtype == source else t


def build(case, dtype):
    drawn, rng = draw(case, dtype)
    wide = case["wide"] and dtype == "f32"
    tensors = [recast(t, torch.float32, torch.float64) if wide else t for t in drawn]
    leaves = []
    if case["grad"] and dtype in ("f32", "f64"):
        leaves = [i for i, t in enumerate(tensors)
                  if t.is_floating_point() and case["inputs"][i][1].leaf]
    for i in leaves:
        tensors[i].requires_grad_(True)
    outputs = forward(case, dtype, tensors)
    weights = [None] * len(outputs)
    grads = []
    live = [i for i, o in enumerate(outputs) if o.requires_grad]
    if live:
        for i in live:
            w = torch.from_numpy(rng.uniform(-1, 1, outputs[i].shape))
            weights[i] = (w.float() if wide else w).to(outputs[i].dtype)
        found = torch.autograd.grad([outputs[i] for i in live], [tensors[i] for i in leaves],
                                    [weights[i] for i in live], allow_unused=True)
        by_leaf = dict(zip(leaves, found))
        grads = [by_leaf.get(i) for i in range(len(tensors))]
    if wide:
        outputs, weights, grads = ([recast(t, torch.float64, torch.float32) for t in ts]
                                   for ts in (outputs, weights, grads))
    name = case["name"] + ("" if dtype == case["types"][0] else "@" + dtype)
    return dict(name=name, op=case["op"], attrs=case["attrs"],
                inputs=[(r, t) for (r, _), t in zip(case["inputs"], drawn)],
                outputs=list(zip(outputs, weights)), grads=grads)


# ---------------------------------------------------------------- file
def pack_string(s):
    b = s.encode()
    return struct.pack("<I", len(b)) + b


def pack_tensor(t):
    t = t.detach().resolve_neg().contiguous()
    if t._is_zerotensor():   # a gradient that torch knows to be 0 has no memory
        t = torch.zeros(t.shape, dtype=t.dtype)
    data = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return (pack_string(dtype_name[t.dtype]) + struct.pack("<I", t.dim())
            + struct.pack(f"<{t.dim()}q", *t.shape) + struct.pack("<Q", len(data)) + data)


def pack_optional(t):
    return b"\0" if t is None else b"\1" + pack_tensor(t)


def pack_attr(value):
    if isinstance(value, str):
        return b"s" + pack_string(value)
    if isinstance(value, bool):
        return b"b" + struct.pack("<B", value)
    if isinstance(value, int):
        return b"i" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    floats = any(isinstance(v, float) for v in value)
    kind, code = (b"F", "d") if floats else (b"I", "q")
    return kind + struct.pack(f"<I{len(value)}{code}", len(value), *value)


def pack_case(c):
    out = [pack_string(c["name"]), pack_string(c["op"]), struct.pack("<I", len(c["attrs"]))]
    out += [pack_string(k) + pack_attr(v) for k, v in c["attrs"].items()]
    out.append(struct.pack("<I", len(c["inputs"])))
    out += [pack_string(r) + pack_tensor(t) for r, t in c["inputs"]]
    out.append(struct.pack("<I", len(c["outputs"])))
    out += [pack_tensor(o) + pack_optional(w) for o, w in c["outputs"]]
    out.append(struct.pack("<I", len(c["grads"])))
    out += [pack_optional(g) for g in c["grads"]]
    return b"".join(out)


def write_file(path, header, packed):
    blob = (b"MOTEGOLD" + struct.pack("<I", 1) + pack_string(header)
            + struct.pack("<I", len(packed)) + b"".join(packed))
    # no name or time in the gzip header: the same run gives the same bytes
    with open(path, "wb") as raw:
        with gzip.GzipFile("", "wb", 9, raw, 0) as f:
            f.write(blob)


class Reader:
    """The cases of a file as they are packed, by name."""

    def __init__(self, path):
        with gzip.open(path) as file:
            self.data, self.at = file.read(), 12
        self.header = self.string().decode()
        self.cases = dict(self.case() for _ in range(self.number()))

    def skip(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self):
        return struct.unpack("<I", self.skip(4))[0]

    def string(self):
        return self.skip(self.number())

    def attr(self):
        self.string()
        kind = self.skip(1)
        plain = {b"b": 1, b"i": 8, b"f": 8}.get(kind)
        self.skip(plain or self.number() * (1 if kind == b"s" else 8))

    def tensor(self):
        self.string()
        self.skip(8 * self.number())
        self.skip(struct.unpack("<Q", self.skip(8))[0])

    def optional(self):
        if self.skip(1) == b"\1":
            self.tensor()

    def case(self):
        start, name = self.at, self.string().decode()
        self.string()
        for part in (self.attr, lambda: (self.string(), self.tensor()),
                     lambda: (self.tensor(), self.optional()), self.optional):
            for _ in range(self.number()):
                part()
        return name, self.data[start : self.at]


def main(path, keep=None):
    start = time.time()
    kept, before = (Reader(keep).cases, Reader(keep).header) if keep else ({}, "")
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    declare_all()
    names = [c["name"] for c in cases]
    twice = [n for n, k in Counter(names).items() if k > 1]
    assert not twice, f"names used twice: {twice}"
    packed, per_family, variants, with_grad, elements = list(kept.values()), Counter(), 0, 0, 0
    for case in cases:
        for dtype in case["types"]:
            if case["name"] + ("" if dtype == case["types"][0] else "@" + dtype) in kept:
                continue
            try:
                built = build(case, dtype)
            except (Missing, AttributeError, TypeError, RuntimeError, IndexError, ValueError) as e:
                print(f"skip {case['name']}@{dtype}: {str(e).splitlines()[0][:110]}")
                continue
            packed.append(pack_case(built))
            counted = dtype == case["types"][0] and "@" not in case["name"]
            per_family[case["family"]] += counted
            variants += not counted
            with_grad += bool(built["grads"])
            elements = max([elements] + [t.numel() for _, t in built["inputs"]])
    made_with = f"torch {torch.__version__}\nnumpy {np.__version__}\nseed {SEED} ^ crc32(name)\n"
    header = (f"{before}{made_with}cases {sum(per_family.values())}\nvariants {variants}\n")
    write_file(path, header, packed)
    for name, count in per_family.items():
        print(f"{name:16} {count:5}")
    size = len(open(path, "rb").read())
    print(f"{'all':16} {sum(per_family.values()):5} cases, {variants} dtype variants")
    print(f"{with_grad} new with gradients, largest input {elements} elements, {size} bytes, "
          f"{time.time() - start:.1f} s")


# ---------------------------------------------------------------- creation
@reference
def full(size, fill_value, dtype=None):
    return torch.full(size, fill_value, dtype=dtype)


@reference
def zeros(size, dtype=None):
    return torch.zeros(size, dtype=dtype)


@reference
def ones(size, dtype=None):
    return torch.ones(size, dtype=dtype)


@reference
def arange(end, start=0, step=1, dtype=None):
    return torch.arange(start, end, step, dtype=dtype)


@reference
def eye(n, m=None, dtype=None):
    return torch.eye(n, n if m is None else m, dtype=dtype)


def creation():
    for pattern, size, value, dtype in [
            ("matrix", (2, 3), 1.5, "f32"), ("scalar", (), -2.0, "f32"),
            ("empty", (0, 3), 1.0, "f32"), ("int", (4,), 7, "i32"), ("bool", (2, 2), True, "bool"),
            ("f16", (3,), 0.1, "f16"), ("infinite", (2,), -INF, "f32"), ("nan", (2, 1), NAN, "f64"),
            ("int_as_float", (3,), 3, "f32"), ("u8", (2, 2, 2), 255, "u8"),
            ("bf16", (3,), 0.3, "bf16"), ("rank5", (1, 2, 1, 2, 1), 4.0, "f32"),
            ("default_float", (2, 2), 2.5, None), ("default_int", (3,), 9, None),
            ("i64_large", (2,), 2 ** 40 + 1, "i64")]:
        add("full", pattern, size=size, fill_value=value, dtype=dtype)
    for op in ("zeros", "ones"):
        for pattern, size, dtype in [
                ("matrix", (3, 2), None), ("scalar", (), None), ("empty", (2, 0, 3), None),
                ("int", (5,), "i64"), ("bool", (2, 2), "bool"), ("half", (1, 4), "f16")]:
            add(op, pattern, size=size, dtype=dtype)
    for op in ("zeros_like", "ones_like"):
        add(op, "float", [N(2, 3)], grad=False)
        add(op, "int", [I(0, 9, 4, dtype="i32")])
        add(op, "dtype", [N(2, 2)], grad=False, dtype="i64")
        add(op, "empty", [N(0, 2)], grad=False)
        add(op, "scalar", [N()], grad=False)
    add("full_like", "float", [N(2, 3)], grad=False, fill_value=0.25)
    add("full_like", "int", [I(0, 9, 4, dtype="i16")], fill_value=-3)
    add("full_like", "dtype", [N(2, 2)], grad=False, fill_value=2, dtype="f64")
    add("full_like", "empty", [N(3, 0)], grad=False, fill_value=1.0)
    for pattern, kw in {
            "end": dict(end=5), "start_end": dict(start=2, end=7),
            "step": dict(start=1, end=10, step=3), "negative_step": dict(start=5, end=-4, step=-2),
            "empty": dict(start=3, end=3), "float": dict(end=2.5),
            "float_step": dict(start=0.5, end=2.0, step=0.25),
            "float_negative_step": dict(start=1.0, end=-1.0, step=-0.5),
            "as_f32": dict(end=6, dtype="f32"), "as_i32": dict(start=-3, end=4, dtype="i32"),
            "uneven": dict(start=0, end=11, step=4), "one": dict(end=1),
            "f64": dict(start=0.0, end=1.0, step=0.1, dtype="f64"), "u8": dict(end=9, dtype="u8"),
            "zero": dict(end=0), "large": dict(start=2 ** 33, end=2 ** 33 + 4),
            "as_f16": dict(end=5, dtype="f16"), "long": dict(end=300, dtype="i32")}.items():
        add("arange", pattern, **kw)
    for pattern, kw in {
            "five": dict(start=0.0, end=1.0, steps=5), "one": dict(start=3.0, end=7.0, steps=1),
            "none": dict(start=0.0, end=1.0, steps=0), "down": dict(start=2.0, end=-2.0, steps=9),
            "two": dict(start=-1.0, end=1.0, steps=2), "equal_ends": dict(start=4.0, end=4.0,
            steps=3), "many": dict(start=-3.0, end=5.0, steps=50),
            "f64": dict(start=0.0, end=1.0, steps=7, dtype="f64"),
            "int_ends": dict(start=1, end=4, steps=4)}.items():
        add("linspace", pattern, **kw)
    for pattern, kw in {
            "square": dict(n=3), "wide": dict(n=2, m=4), "tall": dict(n=4, m=2), "zero": dict(n=0),
            "one": dict(n=1), "int": dict(n=3, dtype="i32"), "bool": dict(n=2, dtype="bool"),
            "no_columns": dict(n=2, m=0)}.items():
        add("eye", pattern, **kw)
    for op in ("tril", "triu"):
        add(op, "square", [N(4, 4)], types="f64 i32 bool")
        for d in (1, -1, 2, -2, 6, -6):
            add(op, f"diagonal_{d}".replace("-", "minus_"), [N(4, 4)], diagonal=d)
        add(op, "wide", [N(2, 5)], diagonal=1)
        add(op, "tall", [N(5, 2)], diagonal=-1)
        add(op, "batch", [N(2, 3, 3)])
        add(op, "empty", [N(0, 3)])
        add(op, "one_row", [N(1, 4)])


# ---------------------------------------------------------------- movement
@reference
def reshape(x, shape):
    return x.reshape(shape)


@reference
def view(x, shape):
    return x.contiguous().view(shape)


@reference
def permute(x, dims):
    return x.permute(dims)


@reference
def expand(x, size):
    return x.expand(size)


@reference
def pad(x, pad, mode="constant", value=None):
    return F.pad(x, pad, mode, value)


@reference
def shrink(x, begin, end):
    return x[tuple(slice(b, e) for b, e in zip(begin, end))]


@reference
def squeeze(x, dim=None):
    return x.squeeze() if dim is None else x.squeeze(dim)


@reference
def unflatten(x, dim, sizes):
    return x.unflatten(dim, sizes)


@reference
def cat(*xs, dim=0):
    return torch.cat(xs, dim)


@reference
def stack(*xs, dim=0):
    return torch.stack(xs, dim)


@reference
def hstack(*xs):
    return torch.hstack(xs)


@reference
def vstack(*xs):
    return torch.vstack(xs)


@reference
def split(x, size, dim=0):
    return torch.split(x, size if isinstance(size, int) else list(size), dim)


@reference
def repeat(x, repeats):
    return x.repeat(repeats)


@reference
def repeat_interleave(x, repeats, dim=None):
    return torch.repeat_interleave(x, repeats, dim)


@reference
def roll(x, shifts, dims=None):
    return torch.roll(x, shifts) if dims is None else torch.roll(x, shifts, dims)


@reference
def unfold(x, dim, size, step):
    return x.unfold(dim, size, step)


@reference
def meshgrid(*xs, indexing):
    return torch.meshgrid(*xs, indexing=indexing)


@reference
def mT(x):
    return x.mT


@reference
def expand_as(x, y):
    return x.expand_as(y)


@reference
def view_as(x, y):
    return x.view_as(y)


@reference
def rot90(x, k, dims=(0, 1)):
    return torch.rot90(x, k, dims)


@reference
def broadcast_to(x, size):
    return torch.broadcast_to(x, size)


def movement():
    for pattern, shape, to in [
            ("split_axis", (6, 4), (2, 3, 4)), ("merge_axes", (2, 3, 4), (6, 4)),
            ("infer", (3, 8), (-1, 6)), ("flat", (2, 3, 4), (-1,)), ("to_scalar", (1, 1), ()),
            ("from_scalar", (), (1, 1, 1)), ("empty", (0, 4), (2, 0)), ("regroup", (4, 6), (8, 3)),
            ("add_ones", (5,), (1, 5, 1)), ("drop_ones", (1, 5, 1), (5,)), ("same", (2, 3), (2, 3)),
            ("empty_infer", (2, 0, 3), (2, 0)), ("infer_middle", (2, 3, 4), (2, -1, 2))]:
        add("reshape", pattern, [N(*shape)],
            types="i32 bool f16" if pattern == "split_axis" else "", shape=to)
    add("view", "split_axis", [N(4, 6)], shape=(4, 2, 3))
    add("view", "infer", [N(2, 3, 2)], shape=(-1, 2))
    for pattern, shape, dims in [
            ("swap", (2, 3), (1, 0)), ("cycle", (2, 3, 4), (2, 0, 1)),
            ("negative", (2, 3, 4), (-1, 0, -2)), ("identity", (2, 3), (0, 1)),
            ("rank5", (1, 2, 3, 2, 2), (4, 2, 0, 3, 1)), ("empty", (2, 0, 3), (1, 2, 0)),
            ("reverse", (2, 3, 4, 2), (3, 2, 1, 0))]:
        add("permute", pattern, [N(*shape)], types="i64 bf16" if pattern == "cycle" else "",
            dims=dims)
    for pattern, shape, a, b in [
            ("matrix", (2, 3), 0, 1), ("negative", (2, 3, 4), -1, -3), ("same", (2, 3), 1, 1),
            ("inner", (2, 3, 4, 2), 1, 2), ("empty", (0, 2), 0, 1)]:
        add("transpose", pattern, [N(*shape)], dim0=a, dim1=b)
    add("t", "matrix", [N(3, 2)])
    add("t", "vector", [N(3)])
    for pattern, shape, size in [
            ("column", (3, 1), (3, 4)), ("keep", (2, 1, 3), (-1, 5, -1)),
            ("new_axes", (3,), (2, 4, 3)), ("scalar", (), (2, 3)), ("empty", (1, 3), (0, 3)),
            ("both", (1, 1), (3, 4)), ("same", (2, 2), (2, 2))]:
        add("expand", pattern, [N(*shape)], types="i32 f16" if pattern == "column" else "",
            size=size)
    add("broadcast_to", "row", [N(1, 4)], size=(3, 4))
    add("broadcast_to", "rank", [N(2, 1)], size=(3, 2, 2))
    for pattern, shape, p, value in [
            ("last", (2, 3), (1, 2), None), ("value", (2, 3), (1, 2), 2.5),
            ("two", (2, 3), (1, 0, 0, 2), -1.0), ("three", (2, 2, 3), (0, 1, 1, 0, 1, 1), 0.5),
            ("negative", (4, 5), (-1, -2), None), ("mixed", (4, 5), (-1, 2, 3, -1), 9.0),
            ("zero", (2, 3), (0, 0), None), ("empty", (0, 3), (1, 1, 2, 0), 7.0),
            ("infinite", (3,), (1, 1), -INF), ("left_only", (5,), (3, 0), None),
            ("rank4", (1, 2, 3, 3), (1, 1, 2, 2), 0.0), ("nan", (2, 2), (1, 0), NAN),
            ("to_empty", (3,), (-1, -2), None)]:
        add("pad", f"constant_{pattern}", [N(*shape)],
            types="i32 f16" if pattern == "value" else "", pad=p, mode="constant", value=value)
    add("pad", "constant_bool", [B(2, 3)], pad=(1, 1), mode="constant", value=1.0)
    for mode in ("reflect", "replicate", "circular"):
        for pattern, shape, p in [
                ("1d", (1, 2, 5), (2, 3)), ("1d_unbatched", (2, 5), (1, 4)),
                ("2d", (1, 2, 4, 5), (1, 2, 3, 0)), ("2d_unbatched", (2, 4, 3), (2, 1, 1, 2)),
                ("3d", (1, 1, 3, 4, 3), (1, 2, 2, 1, 1, 2)), ("1d_most", (1, 1, 4), (3, 3)),
                ("1d_one_side", (1, 2, 4), (0, 2)), ("2d_last", (1, 1, 3, 4), (2, 2, 0, 0))]:
            if mode == "circular" and "unbatched" in pattern:
                continue   # old torch refuses these
            add("pad", f"{mode}_{pattern}", [N(*shape)], pad=p, mode=mode)
    for pattern, shape, begin, end in [
            ("inside", (4, 5), (1, 2), (3, 5)), ("whole", (2, 3), (0, 0), (2, 3)),
            ("to_empty", (3, 2), (1, 0), (1, 2)), ("rank3", (2, 3, 4), (0, 1, 1), (1, 3, 2))]:
        add("shrink", pattern, [N(*shape)], begin=begin, end=end)
    for pattern, shape, dim, start, length in [
            ("middle", (5, 3), 0, 1, 3), ("negative_dim", (2, 6), -1, 2, 2),
            ("none", (3, 2), 0, 1, 0), ("negative_start", (6,), 0, -3, 2)]:
        add("narrow", pattern, [N(*shape)], dim=dim, start=start, length=length)
    for pattern, shape, dims in [
            ("rows", (3, 2), (0,)), ("negative", (2, 3, 2), (-1,)), ("two", (2, 3, 2), (0, 2)),
            ("all", (2, 3), (0, 1)), ("none", (2, 3), ()), ("empty", (0, 3), (1,)),
            ("scalar", (), ())]:
        add("flip", pattern, [N(*shape)], types="bool i8" if pattern == "rows" else "", dims=dims)
    for pattern, shape, dim in [
            ("all", (1, 3, 1, 2), None), ("one", (1, 3, 1), 0), ("negative", (1, 3, 1), -1),
            ("not_one", (2, 3), 1, ), ("to_scalar", (1, 1), None), ("scalar", (), None),
            ("empty", (0, 1), 1)]:
        add("squeeze", pattern, [N(*shape)], dim=dim)
    for pattern, shape, dim in [
            ("front", (2, 3), 0), ("middle", (2, 3), 1), ("end", (2, 3), 2),
            ("negative", (2, 3), -1), ("negative_front", (2, 3), -3), ("scalar", (), 0),
            ("empty", (0,), 1)]:
        add("unsqueeze", pattern, [N(*shape)], dim=dim)
    for pattern, shape, kw in [
            ("all", (2, 3, 4), {}), ("from", (2, 3, 4), dict(start_dim=1)),
            ("range", (2, 3, 2, 2), dict(start_dim=1, end_dim=2)),
            ("negative", (2, 3, 4), dict(start_dim=-2, end_dim=-1)), ("scalar", (), {}),
            ("empty", (2, 0, 3), dict(start_dim=1)), ("one_axis", (3, 2),
            dict(start_dim=0, end_dim=0))]:
        add("flatten", pattern, [N(*shape)], **kw)
    for pattern, shape, dim, sizes in [
            ("first", (6, 2), 0, (2, 3)), ("negative", (2, 6), -1, (3, 2)),
            ("infer", (2, 12), 1, (2, -1, 3)), ("ones", (4,), 0, (1, 4, 1))]:
        add("unflatten", pattern, [N(*shape)], dim=dim, sizes=sizes)
    for pattern, shapes, dim in [
            ("rows", [(2, 3), (1, 3)], 0), ("columns", [(2, 3), (2, 2)], 1),
            ("negative", [(2, 1, 2), (2, 3, 2)], -2), ("three", [(1, 2), (2, 2), (3, 2)], 0),
            ("one", [(2, 3)], 0), ("zero_size", [(2, 3), (0, 3), (1, 3)], 0),
            ("all_empty", [(0, 2), (0, 2)], 0), ("legacy_empty", [(0,), (2, 3)], 0),
            ("vectors", [(3,), (2,), (4,)], 0), ("many", [(1, 2)] * 12, 0),
            ("last", [(2, 2, 1), (2, 2, 2)], 2)]:
        add("cat", pattern, [N(*s) for s in shapes],
            types="i32 bool f16" if pattern == "rows" else "", dim=dim)
    add("cat", "promote", [I(-5, 5, 2, 2, dtype="i32"), N(1, 2)], dim=0)
    add("cat", "promote_ints", [I(0, 5, 3, dtype="u8"), I(-5, 5, 2, dtype="i16")], dim=0)
    for op, shapes in [("hstack", [(2, 3), (2, 2)]), ("vstack", [(2, 3), (1, 3)])]:
        add(op, "matrices", [N(*s) for s in shapes])
        add(op, "vectors", [N(3), N(3)])
        add(op, "scalars", [N(), N()])
    for pattern, shape, n, dim in [
            ("front", (2, 3), 2, 0), ("middle", (2, 3), 3, 1), ("end", (2, 3), 2, -1),
            ("scalars", (), 4, 0), ("one", (3,), 1, 0), ("empty", (0,), 2, 1),
            ("negative", (2, 2), 2, -2)]:
        add("stack", pattern, [N(*shape) for _ in range(n)], dim=dim)
    for pattern, shape, size, dim in [
            ("even", (6, 2), 2, 0), ("uneven", (7, 2), 3, 0), ("sections", (6, 2), (1, 2, 3), 0),
            ("columns", (2, 5), 2, 1), ("negative", (2, 4, 5), (2, 3), -1),
            ("large", (3, 2), 10, 0), ("zero_section", (3,), (0, 3), 0), ("ones", (3, 2), 1, 0)]:
        add("split", pattern, [N(*shape)], size=size, dim=dim)
    for pattern, shape, chunks, dim in [
            ("even", (6, 2), 3, 0), ("uneven", (7,), 3, 0), ("negative", (2, 5), 2, -1),
            ("more_than_size", (3,), 5, 0), ("fewer_made", (6,), 4, 0), ("one", (2, 2), 1, 0)]:
        add("chunk", pattern, [N(*shape)], chunks=chunks, dim=dim)
    for pattern, shape, repeats in [
            ("rows", (2, 3), (2, 1)), ("both", (2, 3), (2, 3)), ("new_axes", (3,), (2, 2, 1)),
            ("zero", (2, 3), (0, 1)), ("scalar", (), (3,)), ("once", (2, 2), (1, 1)),
            ("rank4", (1, 2), (2, 1, 3, 2))]:
        add("repeat", pattern, [N(*shape)], repeats=repeats)
    for pattern, shape, repeats, dim in [
            ("flat", (2, 3), 2, None), ("rows", (2, 3), 3, 0), ("negative", (2, 2), 2, -1),
            ("zero", (2, 2), 0, 0), ("once", (3,), 1, 0), ("middle", (2, 2, 2), 2, 1)]:
        add("repeat_interleave", pattern, [N(*shape)], repeats=repeats, dim=dim)
    for pattern, shape, shifts, dims in [
            ("vector", (5,), (2,), (0,)), ("negative_shift", (5,), (-2,), (0,)),
            ("flat", (2, 3), (2,), None), ("two", (3, 4), (1, -1), (0, 1)),
            ("negative_dim", (2, 5), (3,), (-1,)), ("over", (4,), (9,), (0,)),
            ("zero", (3, 2), (0,), (0,)), ("empty", (0, 3), (1,), (1,)),
            ("same_twice", (5,), (1, 2), (0, 0))]:
        add("roll", pattern, [N(*shape)], types="i32" if pattern == "two" else "", shifts=shifts,
            dims=dims)
    for pattern, shape, dim, size, step in [
            ("vector", (7,), 0, 3, 2), ("overlap", (6,), 0, 3, 1), ("rows", (5, 2), 0, 2, 2),
            ("negative", (2, 6), -1, 2, 3), ("whole", (4,), 0, 4, 1), ("one", (3, 2), 1, 1, 1),
            ("gap", (9,), 0, 2, 4), ("middle", (2, 5, 2), 1, 3, 2)]:
        add("unfold", pattern, [N(*shape)], dim=dim, size=size, step=step)
    for pattern, sizes in [
            ("two", (2, 3)), ("three", (2, 3, 2)), ("one", (4,)), ("with_scalar", (3, None)),
            ("empty", (0, 2))]:
        for indexing in ("ij", "xy"):
            if pattern == "one" and indexing == "xy":
                continue
            add("meshgrid", f"{pattern}_{indexing}", [N() if s is None else N(s) for s in sizes],
                indexing=indexing)
    for pattern, shape, kw in [
            ("square", (3, 3), {}), ("offset", (3, 4), dict(offset=1)),
            ("below", (4, 3), dict(offset=-2)), ("dims", (2, 3, 4), dict(dim1=1, dim2=2)),
            ("swapped", (2, 3, 4), dict(dim1=2, dim2=0)), ("out", (2, 2), dict(offset=5)),
            ("negative_dims", (2, 3, 3), dict(offset=-1, dim1=-2, dim2=-1)),
            ("wide", (2, 5), dict(offset=2))]:
        add("diagonal", pattern, [N(*shape)], **kw)
    for pattern, shape, a, b in [("one", (2, 3, 4), 0, 2), ("negative", (2, 3, 4), -1, 0),
                                 ("two", (2, 3, 4), (0, 1), (2, 0))]:
        add("movedim", pattern, [N(*shape)], source=a, destination=b)
    add("swapaxes", "matrix", [N(2, 3)], axis0=0, axis1=1)
    add("swapaxes", "negative", [N(2, 3, 4)], axis0=-1, axis1=0)
    add("mT", "matrix", [N(2, 3)])
    add("mT", "batch", [N(2, 3, 4)])
    add("ravel", "matrix", [N(2, 3)])
    add("ravel", "scalar", [N()])
    add("expand_as", "row", [N(1, 4), N(3, 4)])
    add("view_as", "matrix", [N(2, 6), N(3, 4)])
    for pattern, shape, dim in [("rows", (3, 2), 0), ("last", (2, 3), -1), ("vector", (3,), 0)]:
        add("unbind", pattern, [N(*shape)], dim=dim)
    for pattern, shape, dim, i in [("row", (3, 4), 0, 1), ("negative_dim", (3, 4), -1, 2),
                                   ("negative_index", (3, 4), 1, -1), ("vector", (5,), 0, 3)]:
        add("select", pattern, [N(*shape)], dim=dim, index=i)
    for pattern, shape, repeats in [("both", (2, 3), (2, 2)), ("fewer", (2, 3), (2,)),
                                    ("more", (2,), (2, 1, 2)), ("scalar", (), (2,))]:
        add("tile", pattern, [N(*shape)], dims=repeats)
    for k in (0, 1, 2, 3, -1, 5):
        add("rot90", f"turns_{k}".replace("-", "minus_"), [N(2, 3)], k=k)
    add("rot90", "dims", [N(2, 3, 4)], k=1, dims=(1, 2))
    for pattern, shape, d in [("make", (3,), 0), ("make_above", (3,), 1), ("make_below", (2,), -2),
                              ("take", (3, 3), 0), ("take_above", (3, 4), 1),
                              ("take_below", (4, 3), -1)]:
        add("diag", pattern, [N(*shape)], diagonal=d)
    for pattern, shape, d in [("vector", (3,), 0), ("batch", (2, 3), 0), ("above", (2, 2), 1),
                              ("below", (3,), -2)]:
        add("diag_embed", pattern, [N(*shape)], offset=d)


# ---------------------------------------------------------------- indexing
def parse_index(text, tensors):
    """ "1:, ::-2, 3, ..., None, T1": T1 is the case's input 1. """
    out = []
    for token in (t.strip() for t in text.split(",")):
        if token == "...":
            out.append(Ellipsis)
        elif token == "None":
            out.append(None)
        elif token[0] == "T":
            t = tensors[int(token[1:])]
            out.append(t.long() if t.dtype == torch.int32 else t)   # old torch refuses i32
        elif ":" in token:
            out.append(slice(*[int(p) if p else None for p in token.split(":")]))
        else:
            out.append(int(token))
    return out


def flip_steps(x, items):
    """torch has no negative steps: select those axes first and slice them whole afterwards."""
    def takes(i):
        return 0 if i is None else i.dim() if isinstance(i,
            torch.Tensor) and i.dtype == torch.bool else 1
    at = items.index(Ellipsis) if any(i is Ellipsis for i in items) else len(items)
    after = sum(takes(i) for i in items[at + 1:])
    axis = 0
    for k, item in enumerate(items):
        if item is Ellipsis:
            axis = x.dim() - after
            continue
        if isinstance(item, slice) and (item.step or 1) < 0:
            x = x.index_select(axis, torch.tensor(list(range(x.shape[axis])[item]),
                dtype=torch.int64))
            items[k] = slice(None)
        axis += takes(item)
    return x, tuple(items)


@reference
def index(x, *tensors, index):
    x, items = flip_steps(x, parse_index(index, (x,) + tensors))
    return x[items]


@reference
def setitem(x, *tensors, index, value=None):
    y = x.clone()
    if value is None:
        *tensors, value = tensors
    y[tuple(parse_index(index, (x, *tensors)))] = value
    return y


@reference
def take(x, i):
    return torch.take(x, i)


@reference
def masked_fill(x, mask, value):
    return x.masked_fill(mask, value)


@reference
def scatter(x, index=None, src=None, dim=0, value=None, reduce=None):
    kw = {} if reduce is None else {"reduce": reduce}
    return torch.scatter(x, dim, index, src if value is None else value, **kw)


@reference
def gather(x, index, dim):
    return torch.gather(x, dim, index)


@reference
def scatter_add(x, index, src, dim):
    return torch.scatter_add(x, dim, index, src)


@reference
def scatter_reduce(x, index, src, dim, reduce, include_self=True):
    return torch.scatter_reduce(x, dim, index, src, reduce, include_self=include_self)


@reference
def index_select(x, index, dim):
    return torch.index_select(x, dim, index)


@reference
def where(condition, x=None, y=None, a=None, b=None):
    return torch.where(condition, x if a is None else a, y if b is None else b)


@reference
def index_put(x, *tensors, index, accumulate=False):
    *tensors, value = tensors
    return x.index_put(tuple(parse_index(index, (x, *tensors))), value, accumulate)


@reference
def index_add(x, index, src, dim, alpha=1):
    return torch.index_add(x, dim, index, src, alpha=alpha)


@reference
def index_copy(x, index, src, dim):
    return torch.index_copy(x, dim, index, src)


@reference
def index_fill(x, index, dim, value):
    return torch.index_fill(x, dim, index, value)


@reference
def take_along_dim(x, index, dim):
    return torch.take_along_dim(x, index, dim)


def indexing():
    for pattern, shape, text in [
            ("int", (4, 3), "1"), ("negative_int", (4, 3), "-1"), ("ints", (4, 3), "2,1"),
            ("slice", (6,), "1:4"), ("open_start", (6,), ":3"), ("open_end", (6,), "2:"),
            ("negative_ends", (6,), "-4:-1"), ("beyond", (5,), "2:99"), ("before", (5,), "-99:2"),
            ("empty_slice", (5,), "3:3"), ("crossed", (5,), "4:1"), ("step", (9,), "::2"),
            ("step_from", (9,), "1:8:3"), ("step_uneven", (10,), "::4"),
            ("step_two_axes", (5, 7), "::2,1::3"), ("reverse", (5,), "::-1"),
            ("reverse_step", (9,), "::-2"), ("reverse_part", (9,), "7:2:-2"),
            ("reverse_second", (3, 6), ":,4::-2"), ("reverse_to_start", (6,), "3::-1"),
            ("reverse_empty", (6,), "1:4:-1"), ("ellipsis_end", (2, 3, 4), "1,..."),
            ("ellipsis_front", (2, 3, 4), "...,2"), ("ellipsis_middle", (2, 3, 4), "0,...,1:3"),
            ("ellipsis_nothing", (2, 3), "1,...,2"), ("none_front", (3, 2), "None"),
            ("none_middle", (3, 2), ":,None"), ("none_end", (3, 2), "...,None"),
            ("none_twice", (4,), "None,1:,None"), ("mixed", (3, 4, 5), "1:,-1,None,::2"),
            ("int_and_slice", (4, 5), "2,1:4"), ("second_int", (4, 5), ":,-2"),
            ("zero_size", (0, 3), ":,1"), ("rank4", (2, 3, 2, 3), "1,:,0,1:")]:
        add("index", pattern, [N(*shape)], types="i32 bool f16" if pattern == "step" else "",
            index=text)
    for pattern, shape, text, tensors in [
            ("tensor", (5, 3), "T1", [I(0, 5, 4)]), ("tensor_negative", (5, 3), "T1",
            [I(-5, 5, 6)]), ("tensor_2d", (5, 2), "T1", [I(0, 5, 2, 3)]),
            ("tensor_scalar", (5, 2), "T1", [I(0, 5)]), ("tensor_second", (3, 5), ":,T1",
            [I(0, 5, 4)]), ("tensor_last", (2, 3, 4), "...,T1", [I(-4, 4, 5)]),
            ("tensor_i32", (6,), "T1", [I(0, 6, 3, dtype="i32")]),
            ("tensor_repeated", (3, 2), "T1", [D([1, 1, 1, 0], "i64")]),
            ("two_tensors", (4, 5), "T1,T2", [I(0, 4, 6), I(0, 5, 6)]),
            ("two_broadcast", (4, 5), "T1,T2", [I(0, 4, 3, 1), I(-5, 5, 2)]),
            ("two_apart", (3, 4, 5), "T1,:,T2", [I(0, 3, 2), I(0, 5, 2)]),
            ("two_adjacent", (2, 4, 5, 2), ":,T1,T2", [I(0, 4, 3), I(0, 5, 3)]),
            ("tensor_and_int", (3, 4, 5), "T1,2", [I(0, 3, 2)]),
            ("int_then_tensor_apart", (3, 4, 5), "1,:,T1", [I(0, 5, 2)]),
            ("tensor_and_slice", (4, 6), "T1,1:5:2", [I(0, 4, 3)]),
            ("slice_and_tensor", (4, 6), "1:,T1", [I(0, 6, 3)]),
            ("tensor_and_none", (4, 3), "None,T1", [I(0, 4, 2)]),
            ("tensor_none_tensor", (4, 5), "T1,None,T2", [I(0, 4, 2), I(0, 5, 2)]),
            ("three_tensors", (3, 3, 3), "T1,T2,T3", [I(0, 3, 4), I(0, 3, 4), I(0, 3, 4)]),
            ("three_broadcast", (3, 3, 3), "T1,T2,T3", [I(0, 3, 2, 1, 1), I(0, 3, 2, 1),
            I(0, 3, 2)]), ("tensor_empty", (4, 3), "T1", [I(0, 4, 0)]),
            ("tensor_zero_rows", (0, 3), "T1", [I(0, 1, 0)]), ("mask", (4, 3), "T1", [B(4, 3)]),
            ("mask_rows", (4, 3), "T1", [B(4)]), ("mask_second", (2, 5), ":,T1", [B(5)]),
            ("mask_leading", (2, 3, 2), "T1", [B(2, 3)]), ("mask_none_true", (3, 2), "T1",
            [D([False] * 3, "bool")]), ("mask_all_true", (3, 2), "T1", [D([True] * 3, "bool")]),
            ("mask_and_int", (4, 3), "T1,1", [B(4)]), ("mask_and_slice", (4, 5), "T1,1:4", [B(4)]),
            ("mask_and_tensor", (4, 5), "T1,T2", [D([True, False, True, False], "bool"),
            I(0, 5, 2)]), ("ellipsis_tensor", (2, 3, 4), "0,...,T1", [I(0, 4, 3)]),
            ("reverse_and_tensor", (4, 5), "T1,::-1", [I(0, 4, 2)])]:
        add("index", pattern, [N(*shape)] + tensors,
            types="i32 f16" if pattern == "two_broadcast" else "", index=text)
    for pattern, shape, text, rest in [
            ("row", (4, 3), "1", [N(3)]), ("negative_row", (4, 3), "-1", [N(3)]),
            ("row_broadcast", (4, 3), "2", [N()]), ("element", (4, 3), "1,2", [N()]),
            ("slice", (6,), "1:4", [N(3)]), ("step", (7,), "::2", [N(4)]),
            ("step_from", (4, 9), ":,1::3", [N(4, 3)]), ("column", (4, 3), ":,1", [N(4)]),
            ("block", (4, 5), "1:3,2:", [N(2, 3)]), ("block_broadcast", (4, 5), "1:3,2:", [N(3)]),
            ("block_column", (4, 5), "1:3,2:", [N(2, 1)]), ("ellipsis", (2, 3, 4), "...,1",
            [N(2, 3)]), ("all", (2, 3), "...", [N(2, 3)]), ("empty_slice", (4,), "2:2", [N(0)]),
            ("none", (3,), "None", [N(1, 3)]), ("tensor", (5, 2), "T1", [distinct(5, 3), N(3, 2)]),
            ("tensor_broadcast", (5, 2), "T1", [distinct(5, 3), N(2)]),
            ("tensor_negative", (5,), "T1", [D([-1, 0, -3], "i64"), N(3)]),
            ("two_tensors", (4, 5), "T1,T2", [distinct(4, 3), I(0, 5, 3), N(3)]),
            ("tensor_second", (3, 5), ":,T1", [distinct(5, 2), N(3, 2)]),
            ("tensor_and_slice", (4, 6), "T1,1:4", [distinct(4, 2), N(2, 3)]),
            ("mask_scalar", (4, 3), "T1", [B(4, 3), N()]), ("mask_rows", (4, 3), "T1",
            [B(4), N(3)]), ("mask_values", (5,), "T1", [D([True, False, True, True, False], "bool"),
            N(3)]), ("tensor_2d", (6,), "T1", [distinct(6, 2, 2), N(2, 2)])]:
        add("setitem", pattern, [N(*shape)] + rest, types="i32" if pattern in ("block",
            "tensor") else "", index=text)
    for pattern, shape, text, rest, value in [
            ("number_row", (4, 3), "1", [], 2.5), ("number_slice", (6,), "::2", [], -1.0),
            ("number_all", (2, 3), "...", [], 0.0), ("number_element", (3, 3), "0,-1", [], 7.0),
            ("number_tensor", (5, 2), "T1", [distinct(5, 2)], 3.0),
            ("number_mask", (4, 3), "T1", [B(4, 3)], 0.5), ("number_mask_rows", (4, 3), "T1",
            [B(4)], -2.0)]:
        add("setitem", pattern, [N(*shape)] + rest, index=text, value=value)
    add("setitem", "int_into_float", [N(4), I(-4, 4, 2, dtype="i32")], index="1:3")
    add("setitem", "int_tensor", [I(-9, 9, 3, 3, dtype="i32"), I(-9, 9, 3, dtype="i32")],
        index=":,1")
    for pattern, shape, ishape, dim in [
            ("rows", (4, 3), (2, 3), 0), ("columns", (3, 5), (3, 4), 1),
            ("negative", (2, 3, 4), (2, 3, 2), -1), ("smaller", (4, 5), (2, 3), 1),
            ("vector", (6,), (9,), 0), ("empty", (3, 4), (3, 0), 1), ("scalar", (), (), 0),
            ("middle", (2, 4, 3), (2, 5, 3), 1)]:
        limit = shape[dim] if shape else 1
        add("gather", pattern, [N(*shape)], types="i32 bf16" if pattern == "rows" else "",
            index=I(0, limit, *ishape), dim=dim)
    unique_rows = Spec(lambda r: np.stack([r.permutation(5)[:3] for _ in range(4)], 1), "i64")
    add("scatter", "rows", [N(5, 4)], types="i32", index=unique_rows, src=N(3, 4), dim=0)
    add("scatter", "columns", [N(2, 4)], index=D([[0, 3], [2, 1]], "i64"), src=N(2, 2), dim=1)
    add("scatter", "negative_dim", [N(2, 4)], index=D([[3, 0, 1], [2, 1, 0]], "i64"), src=N(2, 3),
        dim=-1)
    add("scatter", "larger_src", [N(3, 4)], grad=False, index=D([[0], [2]], "i64"), src=N(3, 4),
        dim=1)
    add("scatter", "value", [N(3, 4)], index=D([[0, 2], [1, 1], [3, 0]], "i64"), dim=1, value=1.5)
    add("scatter", "empty", [N(3, 2)], index=I(0, 3, 0, 2), src=N(0, 2), dim=0)
    add("scatter", "vector", [N(6)], index=D([4, 0, 2], "i64"), src=N(3), dim=0)
    add("scatter", "reduce_add", [N(3, 4)], index=I(0, 3, 5, 4), src=N(5, 4), dim=0, reduce="add",
        grad=False)
    add("scatter", "reduce_multiply", [N(3, 4)], index=I(0, 3, 5, 4), src=N(5, 4), dim=0,
        reduce="multiply", grad=False)
    add("scatter_add", "rows", [N(3, 4)], types="i32 f16", index=I(0, 3, 5, 4), src=N(5, 4), dim=0)
    add("scatter_add", "columns", [N(3, 4)], index=I(0, 4, 3, 7), src=N(3, 7), dim=1)
    add("scatter_add", "smaller_index", [N(3, 4)], grad=False, index=I(0, 3, 2, 3), src=N(5, 4),
        dim=0)
    add("scatter_add", "negative_dim", [N(2, 3, 4)], index=I(0, 4, 2, 3, 5), src=N(2, 3, 5), dim=-1)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            tail = "" if include else "_without_self"
            add("scatter_reduce", reduce + tail, [N(3, 4)], types="" if reduce == "mean" else "i32",
                index=I(0, 3, 5, 4), src=N(5, 4), dim=0, reduce=reduce, include_self=include)
        add("scatter_reduce", reduce + "_columns", [N(2, 5)], index=I(0, 5, 2, 3), src=N(2, 3),
            dim=-1, reduce=reduce)
    for pattern, shape, ispec, dim in [
            ("rows", (5, 3), I(0, 5, 4), 0), ("columns", (3, 5), I(0, 5, 7), 1),
            ("negative_dim", (2, 3, 4), I(0, 4, 2), -1), ("repeated", (3, 2), D([2, 2, 2], "i64"),
            0), ("empty", (3, 2), I(0, 3, 0), 0), ("i32", (6,), I(0, 6, 3, dtype="i32"), 0)]:
        add("index_select", pattern, [N(*shape)], types="i32" if pattern == "rows" else "",
            index=ispec, dim=dim)
    for pattern, shape, mshape, value in [
            ("same", (3, 4), (3, 4), 9.0), ("broadcast", (3, 4), (4,), -1.5),
            ("column", (3, 4), (3, 1), 0.0), ("infinite", (2, 3), (2, 3), -INF),
            ("scalar_mask", (2, 3), (), 1.0), ("empty", (0, 3), (0, 3), 1.0),
            ("larger_mask", (3,), (2, 3), 4.0)]:
        add("masked_fill", pattern, [N(*shape), B(*mshape)],
            types="i32 f16" if pattern == "same" else "", value=value)
    for pattern, shape, mask in [
            ("same", (3, 4), B(3, 4)), ("broadcast", (3, 4), B(4)),
            ("none", (2, 3), D([[False] * 3] * 2, "bool")), ("all", (2, 2),
            D([[True] * 2] * 2, "bool")), ("vector", (7,), B(7)), ("larger_mask", (3,), B(2, 3))]:
        add("masked_select", pattern, [N(*shape), mask], types="i32" if pattern == "same" else "")
    for pattern, shape, ispec in [
            ("matrix", (3, 4), I(0, 12, 5)), ("negative", (3, 4), I(-12, 12, 2, 3)),
            ("empty", (3, 4), I(0, 1, 0)), ("scalar", (5,), I(0, 5))]:
        add("take", pattern, [N(*shape), ispec])
    for pattern, c, x, y in [
            ("same", (3, 4), (3, 4), (3, 4)), ("broadcast", (3, 1), (1, 4), (3, 4)),
            ("scalar_tensor", (3, 4), (), (4,)), ("empty", (0, 2), (0, 2), (0, 2)),
            ("condition_scalar", (), (2, 3), (2, 3)), ("rank", (2, 1, 1), (3, 1), (4,))]:
        add("where", pattern, [B(*c)], types="i32 bool f16" if pattern == "same" else "", x=N(*x),
            y=N(*y))
    for dim, pattern, shape in [(0, "rows", (3, 4)), (-1, "last", (5, 3))]:
        i, src = I(0, 3, 5), N(5, 4) if dim == 0 else N(5, 5)
        add("index_add", pattern, [N(*shape)], types="i32" if dim == 0 else "", index=i, src=src,
            dim=dim)
    add("index_add", "alpha", [N(3, 4)], index=I(0, 3, 5), src=N(5, 4), dim=0, alpha=-0.5)
    add("index_copy", "rows", [N(5, 2)], index=distinct(5, 3), src=N(3, 2), dim=0)
    add("index_copy", "last", [N(2, 5)], index=distinct(5, 2), src=N(2, 2), dim=-1)
    add("index_fill", "rows", [N(5, 2)], index=I(0, 5, 3), dim=0, value=2.5)
    add("index_fill", "last", [N(2, 5)], index=I(0, 5, 2), dim=-1, value=-1.0)
    add("take_along_dim", "rows", [N(4, 3)], index=I(0, 4, 2, 3), dim=0)
    add("take_along_dim", "last", [N(2, 5)], index=I(0, 5, 2, 4), dim=-1)
    add("take_along_dim", "broadcast", [N(3, 4)], index=I(0, 4, 1, 2), dim=1)
    for pattern, shape, text, rest in [
            ("tensor", (5, 2), "T1", [distinct(5, 3), N(3, 2)]),
            ("two", (4, 5), "T1,T2", [distinct(4, 3), I(0, 5, 3), N(3)])]:
        add("index_put", pattern, [N(*shape)] + rest, index=text)
    for pattern, shape, text, rest in [
            ("accumulate", (5, 2), "T1", [I(0, 5, 7), N(7, 2)]),
            ("accumulate_two", (3, 3), "T1,T2", [I(0, 3, 9), I(0, 3, 9), N(9)]),
            ("accumulate_broadcast", (4, 3), "T1", [I(0, 4, 6), N(3)])]:
        add("index_put", pattern, [N(*shape)] + rest, index=text, accumulate=True)
    add("nonzero", "matrix", [B(3, 4)])
    add("nonzero", "vector", [D([0.0, 1.0, 0.0, -2.0, NAN])], grad=False)
    add("nonzero", "none", [D([0, 0], "i32")])
    add("nonzero", "rank3", [I(0, 2, 2, 3, 2, dtype="i32")])
    add("where", "numbers_right", [B(3, 4)], x=N(3, 4), b=2.5)
    add("where", "numbers_left", [B(3, 4)], y=N(3, 4), a=-1.0)
    add("where", "promote", [B(4)], x=I(-4, 4, 4, dtype="i32"), y=N(4))
    add("where", "nan_unused", [D([True, False, True], "bool")], x=D([1.0, NAN, 2.0]),
        y=D([INF, 3.0, NAN]))


# ---------------------------------------------------------------- elementwise
def binary(f):
    """Two tensors, or one and the number `other` (on the left if `reverse`)."""
    def run(*xs, other=None, reverse=False, **kw):
        if other is None:
            return f(*xs, **kw)
        return f(other, xs[0], **kw) if reverse else f(xs[0], other, **kw)
    return run


for _op in ("sub", "mul", "fmod", "maximum", "minimum", "atan2", "logaddexp", "eq", "ne", "lt",
        "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "copysign",
        "fmax", "fmin", "hypot", "logaddexp2", "xlogy", "heaviside", "true_divide"):
    ref[_op] = binary(getattr(torch, _op))
ref.update({"add": binary(lambda a, b, alpha=1: torch.add(a, b,
    alpha=alpha) if alpha != 1 else a + b), "sub": binary(lambda a, b,
    alpha=1: torch.sub(a, b, alpha=alpha) if alpha != 1 else a - b), "mul": binary(operator.mul),
    "pow": binary(operator.pow), "floor_divide": binary(operator.floordiv),
    "remainder": binary(operator.mod), "bitwise_and": binary(operator.and_),
    "bitwise_or": binary(operator.or_), "bitwise_xor": binary(operator.xor),
    "lshift": binary(operator.lshift), "rshift": binary(operator.rshift),
    "div": binary(lambda a, b, rounding_mode=None: torch.div(a, b,
    rounding_mode=rounding_mode) if rounding_mode else a / b)})


@reference
def clamp(x, lo=None, hi=None, min=None, max=None):
    return torch.clamp(x, lo if min is None else min, hi if max is None else max)


ref["clamp_min"] = lambda x, bound: torch.clamp_min(x, bound)
ref["clamp_max"] = lambda x, bound: torch.clamp_max(x, bound)


@reference
def lerp(a, b, t=None, weight=None):
    return torch.lerp(a, b, t if weight is None else weight)


positive = lambda *s: U(0.1, 4.0, *s)
unit = lambda *s: U(-0.95, 0.95, *s)
# op: (inputs in the domain, dtypes)
UNARY = {"neg": (N, FLOATS + " " + INTS), "abs": (NZ, FLOATS + " i32 i8"),
    "sign": (NZ, FLOATS + " i32"), "square": (N, FLOATS + " i32"), "ceil": (N, FLOATS),
    "floor": (N, FLOATS), "round": (N, FLOATS), "trunc": (N, FLOATS), "frac": (N, "f64"),
    "sqrt": (positive, FLOATS), "rsqrt": (positive, FLOATS), "reciprocal": (NZ, FLOATS),
    "exp": (N, FLOATS), "exp2": (N, FLOATS), "expm1": (N, FLOATS), "log": (positive, FLOATS),
    "log2": (positive, FLOATS), "log10": (positive, FLOATS), "log1p": (positive, FLOATS),
    "sin": (N, FLOATS), "cos": (N, FLOATS), "tan": (unit, FLOATS), "asin": (unit, FLOATS),
    "acos": (unit, FLOATS), "atan": (N, FLOATS), "sinh": (N, FLOATS), "cosh": (N, FLOATS),
    "tanh": (N, FLOATS), "asinh": (N, FLOATS), "acosh": (lambda *s: U(1.1, 5.0, *s), FLOATS),
    "erfc": (N, FLOATS), "sinc": (N, "f64"), "deg2rad": (N, "f64"), "rad2deg": (N, "f64"),
    "sgn": (NZ, "i32"), "positive": (N, "i32"), "signbit": (N, "i32"), "isposinf": (N, "i32"),
    "isneginf": (N, "i32"),
    "atanh": (unit, FLOATS), "erf": (N, FLOATS), "sigmoid": (N, FLOATS), "isnan": (N, FLOATS),
    "isinf": (N, FLOATS), "isfinite": (N, FLOATS), "logical_not": (N, "bool i32 f16")}


def unary():
    for op, (domain, types) in UNARY.items():
        smooth = op not in ("isnan", "isinf", "isfinite", "logical_not", "signbit", "isposinf",
                            "isneginf")
        add(op, "matrix", [domain(3, 7)], types=types, grad=smooth)
        add(op, "special", [D(SPECIAL)], types="f64" if smooth else "", grad=False)
        add(op, "scalar", [domain()], grad=smooth)
        add(op, "empty", [domain(0, 3)], grad=False)
    for op in ("exp", "log1p", "expm1", "sin", "cos", "tanh", "erf", "sigmoid", "atan", "asinh"):
        add(op, "wide_range", [Spec(lambda r: r.standard_normal(40) * np.exp(r.uniform(-12, 3,
            40)))] if op != "log1p" else [Spec(lambda r: np.exp(r.uniform(-14, 10, 40)))],
            types="f64")
    for op in ("sin", "cos", "tan"):
        add(op, "large", [Spec(lambda r: np.exp2(r.uniform(3, 40, 24)) * r.choice([-1, 1], 24))],
            types="f64", grad=False)
    for op in ("sqrt", "exp", "log", "sin", "sigmoid", "reciprocal", "tanh", "rsqrt"):
        add(op, "int_to_float", [I(1, 9, 5, dtype="i32")])
    for op in ("round", "ceil", "floor", "trunc"):
        add(op, "halves", [D([-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 8388607.5, 1e20, -1e20,
            0.49999997, -0.1])], types="f64", grad=False)
        add(op, "int", [I(-9, 9, 4, dtype="i32")], grad=False)
    for d in (1, 2, -1, 0):
        add("round", f"decimals_{d}".replace("-", "minus_"),
            [Spec(lambda r: r.uniform(-99, 99, 9))], decimals=d, grad=False)
    add("nan_to_num", "default", [D(SPECIAL)], grad=False)
    add("nan_to_num", "value", [D([1.0, NAN, -NAN, 2.0])], nan=3.5)
    add("logit", "inside", [U(0.05, 0.95, 3, 4)], types="f64")
    add("logit", "edges", [D([0.0, 1.0, -0.5, 1.5, NAN, 0.5])], grad=False)
    add("logit", "eps", [U(0, 1, 3, 4)], eps=0.2)
    add("abs", "zero_gradient", [D([-1.0, 0.0, 2.0])])
    add("neg", "int_edges", [D([-2 ** 31, 2 ** 31 - 1, 0, 1], "i32")])
    add("abs", "int_edges", [D([-2 ** 31, 2 ** 31 - 1, 0, -1], "i32")])
    add("neg", "unsigned", [Z(0, 256, 5)], base="u8", types="u16 u32 u64")
    add("sign", "zeros", [D([0.0, -0.0, 3.0, -3.0])])
    for dtype in ("bool", "u8", "i8", "i32", "i64"):
        add("bitwise_not", dtype if dtype == "i32" else f"i32@{dtype}",
            [B(6) if dtype == "bool" else I(0, 100, 6, dtype=dtype)])
    add("bitwise_not", "matrix", [I(-99, 99, 3, 4, dtype="i32")])


def binary_ops():
    floats = {"add": (N, N), "sub": (N, N), "mul": (N, N), "div": (N, NZ), "maximum": (N, N),
        "minimum": (N, N), "pow": (positive, N), "fmod": (N, NZ), "remainder": (N, NZ),
        "atan2": (NZ, NZ), "logaddexp": (N, N), "floor_divide": (N, NZ)}
    compares = ("eq", "ne", "lt", "le", "gt", "ge")
    shapes = [("same", (3, 4), (3, 4)), ("row_column", (3, 1), (1, 4)), ("rank", (2, 3, 4), (4,)),
        ("scalar_tensor", (3, 4), ()), ("scalars", (), ()), ("empty", (0, 3), (1, 3)),
        ("both_ways", (2, 1, 3), (4, 1))]
    for op, (a, b) in floats.items():
        smooth = op not in ("fmod", "remainder", "floor_divide")
        types = FLOATS + (" i32 i64 u8 u16 u32 u64 i8" if op in ("add", "sub", "mul", "maximum",
            "minimum") else "" if op == "floor_divide" else "")
        for pattern, s, t in shapes:
            add(op, pattern, [a(*s), b(*t)], types=types if pattern == "same" else "",
                grad=smooth and pattern != "empty")
    for op in compares:
        for pattern, s, t in shapes:
            add(op, pattern, [Z(-2, 3, *s), Z(-2, 3, *t)],
                types="f64 f16 i32 u8 u32 bool" if pattern == "same" else "", grad=False)
        add(op, "number", [Z(-2, 3, 3, 4)], other=1.0, grad=False)
        add(op, "int_number", [I(-3, 4, 6, dtype="i32")], other=1)
        add(op, "special", [D([0.0, -0.0, NAN, INF, -INF, NAN, 1.0, 1e-45]),
            D([-0.0, 0.0, NAN, INF, INF, 1.0, 1.0, 0.0])], grad=False)
        add(op, "int_with_float", [I(-2, 3, 5, dtype="i32"),
            Spec(lambda r: r.choice([-1.0, 0.0, 0.5, 1.0], 5), "f32")], grad=False)
    for op, spec in {"add": N, "sub": N, "mul": N, "div": NZ, "pow": positive}.items():
        add(op, "number", [spec(3, 4)], other=2.5, types="f16 i32" if op != "pow" else "f16")
        add(op, "number_left", [spec(3, 4)], other=1.75, reverse=True)
    for op in ("add", "mul"):
        add(op, "special", [D([0.0, -0.0, INF, INF, NAN, 3.4e38, 1e-45, -1e-45, 1e-38]),
            D([-0.0, -0.0, -INF, 0.0, 1.0, 3.4e38, -1e-45, 0.5, 1e-38])], grad=False)
        add(op, "int_number", [N(4, 3)], other=2)
    add("add", "alpha", [N(2, 3), N(2, 3)], alpha=2.5)
    add("sub", "alpha", [N(2, 3), N(3)], alpha=0.5)
    add("add", "wraps", [D([2 ** 31 - 1, -2 ** 31, 5], "i32"), D([1, -1, 2], "i32")])
    add("mul", "wraps", [D([2 ** 31 - 1, 65536, -2 ** 31], "i32"), D([2, 65536, -1], "i32")])
    add("sub", "wraps_unsigned", [D([0, 5, 255], "u8"), D([1, 7, 255], "u8")])
    add("add", "bools", [B(6), B(6)])
    add("mul", "bools", [B(6), B(6)])
    add("div", "special", [D([0.0, 1.0, -1.0, 0.0, INF, INF, NAN, 1e-45, 3.4e38]),
        D([0.0, 0.0, 0.0, -2.0, INF, 2.0, 1.0, 2.0, 1e-3])], grad=False)
    add("div", "ints", [I(-20, 20, 8, dtype="i32"), D([1, 2, 3, -4, 5, -6, 7, 9], "i32")])
    add("div", "i64", [I(-20, 20, 4), D([1, -2, 3, 7], "i64")])
    for mode in ("trunc", "floor"):
        add("div", f"{mode}_floats", [N(4, 5), NZ(5)], rounding_mode=mode, grad=False, types="f64")
        add("div", f"{mode}_ints", [I(-30, 30, 12, dtype="i32"),
            D([1, 2, 3, -1, -2, -3, 4, -4, 5, -5, 7, -7], "i32")], rounding_mode=mode)
        add("div", f"{mode}_number", [I(-30, 30, 9, dtype="i32")], other=-4, rounding_mode=mode)
        add("div", f"{mode}_unsigned", [I(0, 255, 9, dtype="u8"), I(1, 20, 9, dtype="u8")],
            rounding_mode=mode)
        add("div", f"{mode}_float_number", [N(7)], other=0.75, rounding_mode=mode, grad=False)
    signs = [D([7, -7, 7, -7, 6, -6, 0, 1, -1, 100, -100], "i32"),
             D([3, 3, -3, -3, 3, -3, 5, 7, 7, -9, 9], "i32")]
    for op in ("floor_divide", "remainder", "fmod"):
        add(op, "int_signs", signs)
        add(op, "i64_signs", [D([7, -7, 7, -7], "i64"), D([3, 3, -3, -3], "i64")])
        add(op, "unsigned", [I(0, 255, 8, dtype="u8"), I(1, 9, 8, dtype="u8")])
        add(op, "int_number", [I(-20, 20, 9, dtype="i32")], other=-3)
        add(op, "number", [U(-9, 9, 3, 4)], other=2.25, grad=False)
        add(op, "float_signs", [D([7.5, -7.5, 7.5, -7.5, 0.0, -0.0]),
            D([2.0, 2.0, -2.0, -2.0, 3.0, 3.0])], types="f64", grad=False)
        if op != "floor_divide":
            add(op, "gradient", [U(-9, 9, 6), D([2.0, -2.5, 3.0, 1.5, -0.7, 4.0])])
    add("remainder", "number_left", [D([3, -4, 7, 2], "i32")], other=17, reverse=True)
    add("floor_divide", "number_left", [D([3, -4, 7, 2], "i32")], other=-17, reverse=True)
    add("fmod", "special", [D([INF, 1.0, NAN, 5.0, -0.0]), D([2.0, INF, 1.0, -INF, 1.0])],
        grad=False)
    for e in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, 10):
        add("pow", f"exponent_{e}".replace("-", "minus_").replace(".", "_"),
            [positive(3, 4) if isinstance(e, float) else NZ(3, 4)], other=e,
            types="f64" if e in (2, 0.5) else "")
    add("pow", "square_at_zero", [D([-1.0, 0.0, 2.0])], other=2)
    add("pow", "zeroth_at_zero", [D([-1.0, 0.0, 2.0])], other=0)
    add("pow", "ints", [D([-3, -2, -1, 0, 1, 2, 3, 5], "i32"), D([3, 4, 5, 0, 7, 10, 2, 1], "i32")])
    add("pow", "int_number", [I(-5, 6, 8, dtype="i32")], other=3)
    add("pow", "int_cube_i64", [I(-100, 100, 6)], other=3)
    add("pow", "int_wraps", [D([10, -10, 3, 2], "i32"), D([10, 11, 21, 31], "i32")])
    add("pow", "int_base_number", [I(0, 6, 6, dtype="i32")], other=2, reverse=True)
    add("pow", "float_base_number", [N(3, 4)], other=2.0, reverse=True)
    add("pow", "int_to_float_exponent", [I(1, 6, 5, dtype="i32")], other=0.5)
    add("pow", "negative_base", [D([-2.0, -2.0, -2.0, -2.0, -0.5, -8.0]),
        D([2.0, 3.0, -1.0, 0.5, -3.0, 1 / 3])], grad=False)
    add("pow", "special", [D([0.0, 0.0, -0.0, INF, INF, -INF, -INF, NAN, 1.0, NAN, 2.0, 0.5, 2.0,
        0.0, -1.0]), D([0.0, -1.0, -3.0, 0.0, -1.0, 3.0, 2.0, 0.0, NAN, 1.0, INF, INF, -INF, 2.0,
        INF])], grad=False)
    add("maximum", "nan", [D([1.0, NAN, 3.0, INF]), D([NAN, 2.0, 1.0, -INF])], grad=False)
    add("minimum", "nan", [D([1.0, NAN, 3.0, INF]), D([NAN, 2.0, 1.0, -INF])], grad=False)
    add("maximum", "tie_gradient", [D([1.0, 2.0, 3.0]), D([1.0, 5.0, 3.0])])
    add("minimum", "tie_gradient", [D([1.0, 2.0, 3.0]), D([1.0, 5.0, 3.0])])
    add("logaddexp", "large", [D([1e4, -1e4, 100.0, -INF, INF, 88.0]),
        D([1e4, -1e4, -100.0, 3.0, 1.0, 89.0])], grad=False)
    add("logaddexp", "large_gradient", [D([1e4, -1e4, 100.0, 88.0]), D([1e4, -1e4, -100.0, 89.0])])
    add("atan2", "quadrants", [D([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 1.0, -1.0, INF, INF, NAN, 0.0]),
        D([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, -1.0, -1.0, INF, -INF, 1.0, 0.0])], grad=False)
    for op in ("logical_and", "logical_or", "logical_xor"):
        add(op, "bools", [B(3, 4), B(3, 4)])
        add(op, "ints", [I(-1, 2, 8, dtype="i32"), I(-1, 2, 8, dtype="i32")])
        add(op, "floats", [Z(-1, 2, 8), Z(-1, 2, 8)], grad=False)
        add(op, "broadcast", [B(3, 1), B(4)])
        add(op, "mixed", [B(6), I(0, 2, 6, dtype="u8")])
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        add(op, "ints", [I(-99, 99, 3, 4, dtype="i32"), I(-99, 99, 3, 4, dtype="i32")], types="",
            base="i32")
        add(op, "narrow", [Z(0, 99, 5), Z(0, 99, 5)], base="u8", types="i8 i16 i64 u16 u32 u64")
        add(op, "bools", [B(8), B(8)])
        add(op, "broadcast", [I(-99, 99, 3, 1), I(-99, 99, 4)])
        add(op, "number", [I(-99, 99, 6, dtype="i32")], other=12)
        add(op, "mixed", [I(0, 99, 5, dtype="u8"), I(-99, 99, 5, dtype="i32")])
    for op in ("lshift", "rshift"):
        add(op, "ints", [I(-999, 999, 6, dtype="i32"), I(0, 9, 6, dtype="i32")])
        add(op, "number", [I(-999, 999, 6, dtype="i32")], other=3)
        add(op, "i64", [I(-2 ** 40, 2 ** 40, 4), I(0, 20, 4)])
        add(op, "unsigned", [Z(0, 256, 5), Z(0, 7, 5)], base="u8", types="u16 u32 u64")
        add(op, "broadcast", [I(-99, 99, 3, 1, dtype="i32"), I(0, 5, 4, dtype="i32")])
    add("fmax", "nan", [D([1.0, NAN, 3.0, NAN]), D([NAN, 2.0, 1.0, NAN])], grad=False)
    add("fmin", "nan", [D([1.0, NAN, 3.0, NAN]), D([NAN, 2.0, 1.0, NAN])], grad=False)
    for op, first, second in [("fmax", N, N), ("fmin", N, N), ("hypot", N, NZ),
                              ("xlogy", N, positive), ("logaddexp2", N, N), ("true_divide", N, NZ)]:
        add(op, "same", [first(3, 4), second(3, 4)], types="f64")
        add(op, "broadcast", [first(3, 1), second(4)])
    add("hypot", "large", [D([3e30, 1e-30, INF, 0.0]), D([4e30, 1e-30, NAN, 0.0])], grad=False)
    add("logaddexp2", "large", [D([1e4, -1e4, -INF]), D([1e4, -1e4, 3.0])], grad=False)
    add("xlogy", "zeros", [D([0.0, 0.0, 0.0, 2.0, -1.0]), D([0.0, NAN, 3.0, 0.0, -1.0])],
        grad=False)
    add("heaviside", "floats", [D([-1.0, 0.0, -0.0, 2.0, NAN]), N(5)], grad=False)
    for op in ("addcmul", "addcdiv"):
        add(op, "same", [N(3, 4), N(3, 4), NZ(3, 4)], types="f64")
        add(op, "value", [N(3, 4), N(3, 4), NZ(3, 4)], value=-0.5)
        add(op, "broadcast", [N(3, 4), N(3, 1), NZ(4)])
    for op in ("clamp_min", "clamp_max"):
        add(op, "number", [N(3, 4)], bound=0.2)
        add(op, "int", [I(-9, 9, 6, dtype="i32")], bound=1)
    near = [D([1.0, 1.0 + 1e-7, 0.0, NAN, INF, INF, 1.0]), D([1.0, 1.0, 1e-9, NAN, INF, -INF, 1.1])]
    add("isclose", "default", near, grad=False)
    add("isclose", "equal_nan", near, grad=False, equal_nan=True)
    add("isclose", "loose", [N(6), N(6)], grad=False, rtol=0.5, atol=0.5)
    add("copysign", "floats", [N(6), D([1.0, -1.0, 0.0, -0.0, INF, -INF])], grad=False)
    add("copysign", "number", [N(5)], other=-1.0, grad=False)
    for pattern, kw in {
            "both": dict(min=-0.5, max=0.5), "min": dict(min=0.0), "max": dict(max=0.3),
            "crossed": dict(min=1.0, max=-1.0), "infinite": dict(min=-INF, max=0.5)}.items():
        add("clamp", pattern, [N(3, 5)], types="f64 f16 bf16" if pattern == "both" else "", **kw)
    add("clamp", "int", [I(-9, 9, 6, dtype="i32")], min=-3, max=4)
    add("clamp", "int_min", [I(-9, 9, 6, dtype="i8")], min=2)
    add("clamp", "nan", [D([NAN, INF, -INF, 0.0])], min=-1.0, max=1.0, grad=False)
    add("clamp", "edge_gradient", [D([-1.0, -0.5, 0.5, 1.0])], min=-0.5, max=0.5)
    add("clamp", "scalar", [N()], min=-0.1, max=0.1)
    add("clamp", "empty", [N(0, 2)], min=0.0, grad=False)
    add("clamp", "tensors", [N(3, 4)], lo=U(-1, 0, 3, 4), hi=U(0, 1, 3, 4))
    add("clamp", "tensor_broadcast", [N(3, 4)], lo=U(-1, 0, 4), hi=U(0, 1, 3, 1))
    add("clamp", "tensor_max", [N(3, 4)], hi=U(-1, 1, 4))
    add("lerp", "number", [N(3, 4), N(3, 4)], weight=0.3, types=FLOATS)
    add("lerp", "tensor", [N(3, 4), N(3, 4)], t=U(0, 1, 3, 4))
    add("lerp", "broadcast", [N(3, 1), N(4)], t=U(0, 1, 3, 4))
    add("lerp", "outside", [N(5), N(5)], weight=1.7)
    add("lerp", "scalar_weight", [N(3, 4), N(3, 4)], t=U(0, 1))


# ---------------------------------------------------------------- activations
def functional(name, *alias):
    def run(*xs, **kw):
        f = getattr(F, name, None)
        if f is None:
            raise Missing(f"torch.nn.functional.{name}")
        return f(*xs, **kw)
    for key in (name,) + alias:
        ref[key] = run


for _op in ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
        "hardswish", "hardsigmoid", "hardtanh", "softplus", "softsign", "tanhshrink", "softshrink",
        "hardshrink", "logsigmoid", "prelu", "glu", "softmax", "log_softmax", "softmin",
        "threshold"):
    functional(_op)


def activations():
    plain = ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
        "hardswish", "hardsigmoid", "hardtanh", "softplus", "softsign", "tanhshrink", "softshrink",
        "hardshrink", "logsigmoid")
    for op in plain:
        add(op, "matrix", [Spec(lambda r: r.standard_normal((4, 7)) * 2)], types=FLOATS)
        add(op, "large", [D(LARGE)], types="f64")
        add(op, "scalar", [N()])
        add(op, "empty", [N(0, 2)], grad=False)
        ends = [] if op == "gelu" else [INF, -INF]   # torch's vector code gives gelu(inf) = nan
        add(op, "special", [D([0.0, -0.0, NAN, 1e-45, -1e-38] + ends)], grad=False)
    add("leaky_relu", "slope", [N(3, 4)], negative_slope=0.2)
    add("leaky_relu", "negative_slope", [N(3, 4)], negative_slope=-0.5)
    add("elu", "alpha", [N(3, 4)], alpha=1.7)
    add("celu", "alpha", [N(3, 4)], alpha=0.6)
    add("gelu", "tanh", [N(3, 4)], approximate="tanh", types="f64 f16")
    add("gelu", "tanh_large", [D(LARGE)], approximate="tanh")
    add("hardtanh", "limits", [N(3, 4)], min_val=-0.4, max_val=0.9)
    add("softplus", "beta", [N(3, 4)], beta=2.0)
    add("softplus", "threshold", [U(-4, 4, 3, 4)], beta=1.0, threshold=2.0)
    add("softshrink", "lambda", [N(3, 4)], lambd=0.2)
    add("hardshrink", "lambda", [N(3, 4)], lambd=0.9)
    add("threshold", "basic", [N(3, 4)], threshold=0.1, value=20.0)
    add("relu", "int", [I(-9, 9, 6, dtype="i32")])
    add("relu", "zero_gradient", [D([-1.0, 0.0, -0.0, 1.0])])
    add("relu6", "edges", [D([-1.0, 0.0, 3.0, 6.0, 7.0])])
    add("prelu", "one", [N(2, 3, 4)], weight=U(0, 1, 1))
    add("prelu", "channels", [N(2, 3, 4)], weight=U(0, 1, 3))
    add("glu", "last", [N(3, 6)])
    add("glu", "first", [N(4, 3)], dim=0)
    for op in ("softmax", "log_softmax", "softmin"):
        for pattern, shape, dim in [
                ("last", (3, 5), -1), ("first", (3, 5), 0), ("middle", (2, 4, 3), 1),
                ("vector", (7,), 0), ("one", (3, 1), 1), ("empty", (0, 3), 1), ("scalar", (), 0)]:
            add(op, pattern, [N(*shape)], types=FLOATS if pattern == "last" else "", dim=dim)
        add(op, "large", [D([[1e4, -1e4, 9999.0, 0.0], [-1e4, -1e4, -1e4, -1e4]])], dim=1)
        add(op, "infinite", [D([[0.0, -INF, 1.0], [-INF, 2.0, -INF]])], dim=1, grad=False)
        add(op, "long", [Spec(lambda r: r.standard_normal((2, 150)) * 4)], dim=-1)


# ---------------------------------------------------------------- reductions
def reduction(f):
    def run(x, dim=None, keepdim=False, **kw):
        if dim is None:
            return f(x, **kw) if not keepdim else f(x, dim=tuple(range(x.dim())), keepdim=True,
                **kw)
        dim = dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim
        return f(x, dim=dim, keepdim=keepdim, **kw)
    return run


for _op in ("sum", "mean", "amax", "amin", "any", "all", "logsumexp", "max", "min", "argmax",
        "argmin"):
    ref[_op] = reduction(getattr(torch, _op))
ref["logsumexp"] = lambda x, dim=None, keepdim=False: torch.logsumexp(x,
    dim if dim is not None else tuple(range(x.dim())), keepdim)
ref["norm"] = lambda x, p=2.0, dim=None, keepdim=False: torch.linalg.vector_norm(x, p, dim, keepdim)


@reference
def prod(x, dim=None, keepdim=False, dtype=None):
    return torch.prod(x, dtype=dtype) if dim is None else torch.prod(x, dim, keepdim, dtype=dtype)


def spread(f):
    def run(x, dim=None, keepdim=False, correction=1):
        return f(x, dim=dim, keepdim=keepdim, correction=correction)
    return run


for _op in ("var", "std"):
    ref[_op] = spread(getattr(torch, _op))


def reductions():
    patterns = [("all", (3, 4), {}), ("rows", (3, 4), dict(dim=(0,))),
        ("last", (3, 4), dict(dim=(-1,))), ("keepdim", (3, 4), dict(dim=(1,), keepdim=True)),
        ("two", (2, 3, 4), dict(dim=(0, 2))), ("two_negative_keepdim", (2, 3, 4),
        dict(dim=(-1, -3), keepdim=True)), ("middle", (2, 5, 3), dict(dim=(1,))),
        ("scalar", (), {}), ("size_one", (1, 3), dict(dim=(0,))), ("long", (260,), {}),
        ("empty_kept", (0, 3), dict(dim=(1,)))]
    many = ("two", "two_negative_keepdim")
    for op in ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm", "any", "all"):
        types = {"sum": FLOATS + " i32 i64 u8 bool", "mean": FLOATS,
            "amax": FLOATS + " i32 u8 bool", "amin": FLOATS + " i32 u8 bool", "any": "bool i32",
            "all": "bool i32"}
        for pattern, shape, kw in patterns:
            if op in ("var", "std") and pattern in ("scalar", "size_one"):
                kw = dict(kw, correction=0)
            add(op, pattern,
                [Spec(lambda r, s=shape: r.standard_normal(s) * (r.uniform(size=s) < 0.6),
                None) if op in ("any", "all") else N(*shape)], types=types.get(op,
                "f64 f16") if pattern == "last" else "", grad=op not in ("any",
                "all") and not (op == "std" and pattern in ("scalar", "size_one")), **kw)
        if op not in ("amax", "amin"):
            add(op, "empty", [N(0)], grad=False)
            add(op, "empty_axis", [N(2, 0)], grad=False, dim=(1,))
    for pattern, shape, kw in patterns:
        if pattern not in many:
            kw = {k: v[0] if k == "dim" else v for k, v in kw.items()}
            add("prod", pattern, [NZ(*shape)], types=FLOATS + " i32" if pattern == "last" else "",
                **kw)
            for op in ("argmax", "argmin"):
                add(op, pattern, [N(*shape)], types="i32 f16 f64" if pattern == "last" else "",
                    grad=False, **kw)
            for op in ("max", "min"):
                add(op, pattern, [N(*shape)],
                    types=FLOATS + " i32 u8 i8" if pattern == "last" else "", **kw)
    add("prod", "empty", [N(0)], grad=False)
    add("prod", "one_zero", [D([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [2.0, 3.0, -1.0]])], dim=1)
    add("prod", "ints", [I(1, 5, 3, 4, dtype="i32")], dim=1)
    add("sum", "dtype", [N(2, 3)], dtype="f64", dim=(1,), grad=False)
    add("sum", "bool", [B(3, 4)], dim=(0,))
    add("sum", "u8_is_i64", [I(0, 256, 3, 40, dtype="u8")], dim=(1,))
    add("sum", "half_wide", [Spec(lambda r: r.uniform(0, 64, (2, 200)), "f16")], dim=(1,),
        grad=False)
    add("sum", "nan", [D([[1.0, NAN], [INF, -INF], [INF, 1.0]])], dim=(1,), grad=False)
    add("sum", "rank5", [N(2, 1, 3, 2, 2)], dim=(1, 2, 4))
    add("sum", "no_dims_keepdim", [N(2, 3)], dim=(0, 1), keepdim=True)
    add("mean", "nan", [D([[1.0, NAN], [INF, 1.0]])], dim=(1,), grad=False)
    add("mean", "rank4", [N(2, 3, 2, 2)], dim=(2, 3))
    for op in ("max", "min", "amax", "amin"):
        kw = dict(dim=(1,)) if op[0] == "a" else dict(dim=1)
        add(op, "nan", [D([[1.0, NAN, 3.0], [INF, -INF, 0.0]])], grad=False, **kw)
        add(op, "infinite", [D([[-INF, -INF], [INF, INF]])], grad=False, **kw)
        add(op, "ints", [I(-99, 99, 3, 4, dtype="i32")], **kw)
        add(op, "int_edges", [D([[-2 ** 63, 2 ** 63 - 1], [-2 ** 63, -2 ** 63]], "i64")], **kw)
        add(op, "ties", [D([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])], **kw)
        add(op, "bool", [B(3, 4)], **kw)
    for op in ("argmax", "argmin"):
        add(op, "ties", [D([[1, 3, 3, 1], [5, 5, 5, 5]], "i32")], dim=1)
        add(op, "nan", [D([[1.0, NAN, 3.0, NAN], [INF, -INF, 0.0, 1.0]])], dim=1, grad=False)
        add(op, "flat_matrix", [N(4, 5)], grad=False)
        add(op, "infinite", [D([[-INF, -INF], [INF, INF]])], dim=1, grad=False)
    for op in ("var", "std"):
        for c in (0, 1, 2):
            add(op, f"correction_{c}", [N(3, 5)], dim=(1,), correction=c)
        add(op, "all_correction_0", [N(3, 4)], correction=0)
        add(op, "offset", [Spec(lambda r: r.standard_normal((2, 20)) + 1000)], types="f64",
            dim=(1,), grad=False, wide=True)
    for p in (1.0, 2.0, 3.0, 0.5, 0.0, INF, -INF):
        tag = {INF: "inf", -INF: "minus_inf"}.get(p, str(p).replace(".", "_"))
        add("norm", f"p_{tag}", [NZ(3, 4)], p=p, dim=(1,), grad=p != 0.0)
        add("norm", f"p_{tag}_all", [NZ(2, 3, 2)], p=p, grad=p != 0.0)
    add("norm", "zero_gradient", [D([[0.0, 0.0], [3.0, 4.0]])], dim=(1,))
    for pattern, shape, kw in [("all", (3, 4), {}), ("rows", (3, 4), dict(dim=0)),
                               ("two", (2, 3, 4), dict(dim=(0, -1)))]:
        add("count_nonzero", pattern, [Z(-1, 2, *shape)], grad=False,
            types="i32 bool" if pattern == "all" else "", **kw)
    add("nansum", "all", [D([[1.0, NAN], [3.0, -2.0]])], grad=False)
    add("nansum", "last_keepdim", [D([[1.0, NAN], [NAN, NAN]])], dim=1, keepdim=True, grad=False)
    add("trace", "square", [N(3, 3)], types="i32")
    add("trace", "wide", [N(2, 4)])
    for pattern, shape, kw in [("default", (3, 4), {}), ("last", (2, 3, 4), dict(dim=-1)),
                               ("p_1", (3, 4), dict(p=1.0)), ("first", (3, 4), dict(dim=0, p=3.0))]:
        add("normalize", pattern, [N(*shape)], **kw)
    add("normalize", "zero_row", [D([[0.0, 0.0], [3.0, 4.0]])], grad=False)
    add("logsumexp", "large", [D([[1e4, 9999.0], [-1e4, -1e4]])], dim=(1,), wide=True)
    add("logsumexp", "infinite", [D([[-INF, -INF], [INF, 1.0], [-INF, 2.0]])], dim=(1,), grad=False)


# ---------------------------------------------------------------- scans and sorts
@reference
def sort(x, dim=-1, descending=False):
    return torch.sort(x, dim=dim, descending=descending, stable=True)


@reference
def argsort(x, dim=-1, descending=False):
    return torch.sort(x, dim=dim, descending=descending, stable=True)[1]


@reference
def topk(x, k, dim=-1, largest=True):   # ties: the lower index first
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return (values.narrow(dim, 0, k), indices.narrow(dim, 0, k)) if x.dim() else (values, indices)


def scans():
    patterns = [("vector", (7,), 0), ("rows", (4, 3), 0), ("last", (3, 5), -1),
        ("middle", (2, 4, 3), 1), ("empty", (0, 3), 0), ("size_one", (3, 1), 1), ("scalar", (), 0),
        ("long", (300,), 0)]
    for op in ("cumsum", "cumprod", "cummax", "cummin"):
        types = {"cumsum": FLOATS + " i32 u8 bool", "cumprod": FLOATS + " i32"}.get(op, "f64 i32")
        for pattern, shape, dim in patterns:
            spec = U(0.8, 1.25, *shape) if op == "cumprod" else N(*shape)
            add(op, pattern, [spec], types=types if pattern == "last" else "", dim=dim,
                wide=pattern == "long")
    add("cumprod", "zeros", [D([[2.0, 0.0, 3.0, 4.0], [0.0, 1.0, 0.0, 2.0]])], dim=1)
    add("cumprod", "ints", [I(-3, 4, 2, 5, dtype="i32")], dim=1)
    add("cumsum", "rank4", [N(2, 2, 3, 2)], dim=2)
    add("cumsum", "two_blocks", [N(600)], dim=0)
    add("cumsum", "infinite", [D([1.0, INF, 2.0, -INF, 1.0])], dim=0, grad=False)
    for op in ("cummax", "cummin"):
        add(op, "ties", [D([1, 3, 3, 2, 3, 1], "i32")], dim=0)
        add(op, "nan", [D([1.0, 3.0, NAN, 2.0, NAN])], dim=0, grad=False)
    if hasattr(torch, "logcumsumexp"):
        add("logcumsumexp", "last", [N(3, 5)], dim=-1)
        add("logcumsumexp", "large", [D([1e4, -1e4, 9999.0])], dim=0, wide=True)


def sorts():
    for op in ("sort", "argsort"):
        diff = op == "sort"
        for pattern, shape, kw in [
                ("vector", (7,), {}), ("rows", (5, 3), dict(dim=0)), ("last", (3, 6), dict(dim=-1)),
                ("descending", (3, 6), dict(dim=1, descending=True)),
                ("middle", (2, 5, 3), dict(dim=1)), ("empty", (0,), {}), ("size_one", (3, 1), {}),
                ("scalar", (), dict(dim=0)), ("empty_rows", (0, 4), dict(dim=1)),
                ("long", (2, 65), {}), ("power", (64,), dict(descending=True))]:
            add(op, pattern, [N(*shape)], types="f64 f16 i32 u8" if pattern == "last" else "",
                grad=diff, **kw)
        add(op, "ties", [I(0, 4, 3, 12, dtype="i32")], dim=1)
        add(op, "ties_descending", [I(0, 4, 3, 12, dtype="i32")], dim=1, descending=True)
        add(op, "bool", [B(9)])
        add(op, "nan", [D([3.0, NAN, -1.0, INF, NAN, -INF, 0.0])], grad=False)
        add(op, "nan_descending", [D([3.0, NAN, -1.0, INF, NAN, -INF, 0.0])], descending=True,
            grad=False)
        add(op, "i64_edges", [D([2 ** 63 - 1, -2 ** 63, 0, -1, 2 ** 62], "i64")])
    for pattern, shape, kw in [
            ("largest", (3, 8), dict(k=3)), ("smallest", (3, 8), dict(k=3, largest=False)),
            ("rows", (6, 3), dict(k=2, dim=0)), ("all", (5,), dict(k=5)),
            ("one", (2, 5), dict(k=1)), ("none", (4,), dict(k=0)),
            ("middle", (2, 5, 3), dict(k=2, dim=1)), ("long", (90,), dict(k=7))]:
        add("topk", pattern, [N(*shape)], types="f64 f16 i32" if pattern == "largest" else "", **kw)
    for pattern, shape, kw in [("last", (3, 6), dict(k=2)), ("rows", (5, 3), dict(k=4, dim=0)),
                               ("keepdim", (3, 5), dict(k=1, keepdim=True))]:
        add("kthvalue", pattern, [N(*shape)], **kw)
    for pattern, shape, kw in [("odd", (7,), {}), ("even", (2, 4), {}),
                               ("last", (3, 5), dict(dim=-1)), ("rows_even", (4, 3), dict(dim=0)),
                               ("keepdim", (3, 5), dict(dim=1, keepdim=True))]:
        add("median", pattern, [N(*shape)], **kw)
        add("nanmedian", pattern, [N(*shape)], **kw)
    holes = [[3.0, NAN, -1.0, INF, 2.0, 7.0], [NAN, NAN, 4.0, -INF, 0.5, 1.0]]
    for op in ("median", "nanmedian"):
        add(op, "nan", [D(holes)], dim=1, grad=False)
        add(op, "nan_all", [D(holes)], grad=False)
        add(op, "long", [N(41, 3)], types="f64 f16", dim=0)
    add("kthvalue", "long", [N(3, 70)], types="f64 f16", k=33)
    for t in INTS.split():  # without ties: which of them is meant is open
        add("kthvalue", "long_" + t, [distinct(120, 3, 40, dtype=t)], k=13)
    add("topk", "ties", [I(0, 4, 2, 10, dtype="i32")], k=6)
    add("topk", "nan", [D([3.0, NAN, -1.0, INF, -INF])], k=3, grad=False)


# ---------------------------------------------------------------- counts and quantiles
@reference
def quantile(x, q, dim=None, **kw):
    q = torch.tensor(q, dtype=x.dtype) if isinstance(q, list) else q
    return torch.quantile(x, q, dim, **kw)


@reference
def nanquantile(x, q, dim=None, **kw):
    q = torch.tensor(q, dtype=x.dtype) if isinstance(q, list) else q
    return torch.nanquantile(x, q, dim, **kw)


@reference
def unique(x, dim=None):
    return torch.unique(x, return_inverse=True, return_counts=True, dim=dim)


@reference
def unique_consecutive(x, dim=None):
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)


@reference
def diff(x, prepend=None, append=None, n=1, dim=-1):
    return torch.diff(x, n, dim, prepend, append)


ref["mode"] = lambda x, dim=-1, keepdim=False: torch.mode(x, dim, keepdim)
ref["aminmax"] = lambda x, dim=None, keepdim=False: torch.aminmax(x, dim=dim, keepdim=keepdim)
ref["searchsorted"] = lambda s, v, right=False, out_int32=False: torch.searchsorted(
    s, v, right=right, out_int32=out_int32)
ref["bucketize"] = lambda v, s, right=False: torch.bucketize(v, s, right=right)
ref["isin"] = lambda x, among, invert=False: torch.isin(x, among, invert=invert)


def counts():
    for op in ("quantile", "nanquantile"):
        for pattern, shape, kw in [
                ("all", (3, 5), dict(q=0.3)), ("rows", (3, 5), dict(q=0.75, dim=1)),
                ("several", (4, 6), dict(q=[0.0, 0.25, 0.5, 1.0], dim=0)),
                ("keepdim", (2, 3, 4), dict(q=[0.1, 0.9], dim=1, keepdim=True)),
                ("all_keepdim", (2, 3), dict(q=[0.1, 0.9], keepdim=True)),
                ("one", (1,), dict(q=0.5))]:
            add(op, pattern, [N(*shape)], types="f64" if pattern == "rows" else "", **kw)
        for how in ("lower", "higher", "nearest", "midpoint"):
            add(op, how, [N(3, 8)], q=[0.2, 0.5, 0.9], dim=1, interpolation=how)
        add(op, "nan", [D([[1.0, NAN, 3.0, 2.0], [NAN] * 4, [4.0, 1.0, 0.0, INF]])],
            q=[0.0, 0.4, 0.5], dim=1, grad=False)
    for pattern, spec, kw in [("rows", Z(0, 4, 3, 12), dict(dim=1)),
                              ("ties", D([3, 1, 3, 1, 2]), {}),
                              ("first", Z(0, 3, 9, 2), dict(dim=0, keepdim=True)),
                              ("one", Z(0, 9, 4, 1), {})]:
        add("mode", pattern, [spec], types="f64 i32 i64 u8" if pattern == "rows" else "", **kw)
    for pattern, spec, kw in [
            ("vector", Z(0, 6, 20), {}), ("matrix", Z(-2, 3, 4, 5), {}), ("single", Z(0, 9, 1), {}),
            ("floats", D([1.5, 0.0, -0.0, 1.5, -INF, INF]), {}),
            ("rows", Z(0, 2, 9, 3), dict(dim=0)),
            ("columns", Z(0, 2, 2, 9), dict(dim=1)), ("bool", B(7), {})]:
        for op in ("unique", "unique_consecutive"):
            add(op, pattern, [spec], types="i64 i32 u8 f64" if pattern == "vector" else "",
                grad=False, **kw)
    for pattern, shape, kw in [("all", (3, 4), {}), ("rows", (3, 4), dict(dim=1)),
                               ("keepdim", (3, 4), dict(dim=0, keepdim=True))]:
        add("aminmax", pattern, [N(*shape)], types="i32" if pattern == "all" else "", **kw)
    for pattern, inputs, kw in [
            ("last", [N(3, 5)], {}), ("twice", [N(3, 5)], dict(n=2, dim=1)),
            ("rows", [N(4, 2)], dict(dim=0)),
            ("too_many", [N(3)], dict(n=5)), ("none", [N(3)], dict(n=0)), ("bool", [B(6)], {}),
            ("with_ends", [N(3, 4), N(3, 1), N(3, 2)], dict(n=1, dim=1))]:
        add("diff", pattern, inputs, types="i32" if pattern == "last" else "", **kw)
    steps = D([-1.0, 0.0, 0.0, 2.0, 5.0])
    for op in ("searchsorted", "bucketize"):
        for right in (False, True):
            ends = [steps, D([[-2.0, -1.0, 0.0], [NAN, 5.0, 6.0]])]
            add(op, f"ends_{right}", ends if op == "searchsorted" else ends[::-1], right=right,
                types="f64", grad=False)
            long = [Spec(lambda r: np.sort(r.randint(0, 60, 90)), "i64"), I(-2, 64, 50)]
            add(op, f"long_{right}", long if op == "searchsorted" else long[::-1], right=right)
    add("searchsorted", "batch", [Spec(lambda r: np.sort(r.randint(0, 9, (2, 3, 7))), "i32"),
                                  I(0, 9, 2, 3, 4, dtype="i32")], out_int32=True)
    for pattern, few in [("few", 5), ("many", 40)]:
        add("isin", pattern, [I(0, 60, 4, 6), I(0, 60, few)])
        add("isin", pattern + "_invert", [I(0, 60, 4, 6), I(0, 60, few)], invert=True)
    add("histc", "data", [N(200)], bins=7, grad=False, types="f64")
    add("histc", "range", [N(8, 9)], bins=4, min=-1.0, max=0.5, grad=False)
    add("histc", "constant", [D([2.0, 2.0, 2.0])], bins=3, grad=False)
    add("bincount", "plain", [I(0, 12, 40)], types="")
    add("bincount", "minlength", [I(0, 3, 9, dtype="u8")], minlength=10)
    add("bincount", "weights", [I(0, 5, 30), N(30)], grad=False)
    add("msort", "rows", [N(5, 3)])
    add("argwhere", "matrix", [Z(0, 2, 3, 4)], grad=False)


# ---------------------------------------------------------------- products
functional("linear")
ref["einsum"] = lambda *xs, equation: torch.einsum(equation, *xs)


def products():
    for pattern, s, t in [
            ("2x2", (3, 4), (4, 5)), ("1x1", (4,), (4,)), ("1x2", (4,), (4, 3)),
            ("2x1", (3, 4), (4,)), ("3x3", (2, 3, 4), (2, 4, 2)), ("3x2", (2, 3, 4), (4, 5)),
            ("2x3", (3, 4), (2, 4, 5)), ("3x1", (2, 3, 4), (4,)), ("1x3", (4,), (2, 4, 3)),
            ("4x4", (2, 2, 3, 4), (2, 2, 4, 2)), ("4x4_broadcast", (2, 1, 3, 4), (1, 3, 4, 2)),
            ("4x3", (2, 2, 3, 4), (2, 4, 2)), ("4x1", (2, 1, 3, 4), (4,)),
            ("1x4", (3,), (2, 1, 3, 2)), ("row_column", (1, 5), (5, 1)),
            ("column_row", (4, 1), (1, 3)), ("inner_zero", (3, 0), (0, 2)),
            ("outer_zero", (0, 4), (4, 2)), ("batch_zero", (0, 2, 3), (0, 3, 2)),
            ("one", (1, 1), (1, 1)), ("odd", (7, 13), (13, 5)), ("block", (16, 20), (20, 16)),
            ("long_inner", (2, 130), (130, 3)), ("5x2", (1, 2, 1, 2, 3), (3, 2))]:
        add("matmul", pattern, [N(*s), N(*t)], types=FLOATS + " i32 i64" if pattern in ("2x2",
            "3x2") else "")
    add("mm", "matrix", [N(3, 4), N(4, 2)])
    add("bmm", "batch", [N(2, 3, 4), N(2, 4, 2)])
    add("mv", "matrix", [N(3, 4), N(4)])
    add("dot", "vectors", [N(7), N(7)], types="f64 f16 i32")
    add("dot", "one", [N(1), N(1)])
    add("dot", "empty", [N(0), N(0)])
    add("outer", "vectors", [N(4), N(3)], types="f64 i32")
    add("outer", "one", [N(1), N(3)])
    add("outer", "empty", [N(0), N(3)])
    for pattern, shape, bias in [
            ("batch", (5, 4), True), ("no_bias", (5, 4), False), ("vector", (4,), True),
            ("rank3", (2, 3, 4), True), ("empty", (0, 4), True), ("rank4", (2, 1, 3, 4), False)]:
        add("linear", pattern, [N(*shape)], types=FLOATS if pattern == "batch" else "",
            weight=N(3, 4), bias=N(3) if bias else None)
    add("addmm", "basic", [N(3, 2), N(3, 4), N(4, 2)])
    add("addmm", "scaled", [N(2), N(3, 4), N(4, 2)], beta=0.5, alpha=2.0)
    add("tensordot", "two", [N(2, 3, 4), N(3, 4, 2)], dims=2)
    add("tensordot", "one", [N(2, 3), N(3, 2, 2)], dims=1)
    add("tensordot", "none", [N(2), N(3)], dims=0)
    add("kron", "matrices", [N(2, 3), N(3, 2)])
    add("kron", "ranks", [N(3), N(2, 2)])
    for pattern, shape, kw in [("default", (3, 4), {}), ("last", (2, 3, 4), dict(dim=-1)),
                               ("first", (4, 3), dict(dim=0))]:
        add("cosine_similarity", pattern, [N(*shape), N(*shape)], **kw)
    for pattern, equation, shapes in [
            ("matmul", "ij,jk->ik", [(3, 4), (4, 2)]), ("matmul_implicit", "ij,jk",
            [(3, 4), (4, 2)]), ("transpose", "ij->ji", [(2, 3)]), ("sum", "ij->", [(2, 3)]),
            ("rows", "ij->i", [(2, 3)]), ("batch", "bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
            ("dot", "i,i->", [(4,), (4,)]), ("outer", "i,j->ij", [(3,), (4,)]),
            ("hadamard", "ij,ij->ij", [(2, 3), (2, 3)]), ("bilinear", "bi,oij,bj->bo",
            [(2, 3), (4, 3, 2), (2, 2)]), ("ellipsis", "...ij,...jk->...ik",
            [(2, 3, 4), (2, 4, 2)]), ("ellipsis_one", "...i->...", [(2, 3, 4)]),
            ("ellipsis_broadcast", "...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
            ("diagonal", "ii->i", [(3, 3)]), ("trace", "ii->", [(3, 3)]),
            ("attention", "bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
            ("chain", "ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
            ("permute_out", "abc->cab", [(2, 3, 4)]), ("contract_two", "abc,bcd->ad",
            [(2, 3, 4), (3, 4, 2)]), ("implicit_order", "ba", [(2, 3)]),
            ("spaces", "i j , j k -> i k", [(2, 3), (3, 2)]),
            ("capitals", "aB,Bc->ac", [(2, 3), (3, 2)]), ("scalar", ",i->i", [(), (3,)]),
            ("batch_diagonal", "bii->bi", [(2, 3, 3)])]:
        add("einsum", pattern, [N(*s) for s in shapes],
            types="f64 i32" if pattern == "matmul" else "", equation=equation)


# ---------------------------------------------------------------- convolution, pooling, resizing
for _op in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d",
        "max_pool3d", "interpolate", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "pixel_shuffle",
        "pixel_unshuffle", "cosine_similarity"):
    functional(_op)


def convolutions():
    for pattern, x, w, bias, kw in [
            ("basic", (2, 3, 8), (4, 3, 3), True, {}), ("no_bias", (2, 3, 8), (4, 3, 3), False, {}),
            ("unbatched", (3, 8), (4, 3, 3), True, {}), ("stride", (1, 2, 9), (3, 2, 3), True,
            dict(stride=2)), ("padding", (1, 2, 6), (3, 2, 3), True, dict(padding=2)),
            ("dilation", (1, 2, 9), (3, 2, 3), True, dict(dilation=2)),
            ("groups", (1, 4, 7), (6, 2, 3), True, dict(groups=2)),
            ("depthwise", (2, 3, 7), (3, 1, 3), True, dict(groups=3)),
            ("pointwise", (2, 3, 5), (4, 3, 1), True, {}), ("same", (1, 2, 7), (3, 2, 4), True,
            dict(padding="same")), ("valid", (1, 2, 7), (3, 2, 3), False, dict(padding="valid")),
            ("everything", (2, 4, 11), (4, 2, 3), True, dict(stride=2, padding=1, dilation=2,
            groups=2)), ("whole", (1, 2, 5), (3, 2, 5), True, {}),
            ("batch_zero", (0, 2, 5), (3, 2, 3), True, {})]:
        add("conv1d", pattern, [N(*x)], types=FLOATS if pattern == "basic" else "", weight=N(*w),
            bias=N(w[0]) if bias else None, **kw)
    for pattern, x, w, bias, kw in [
            ("basic", (2, 3, 6, 5), (4, 3, 3, 3), True, {}), ("no_bias", (1, 2, 6, 5), (3, 2, 3, 3),
            False, {}), ("unbatched", (2, 6, 5), (3, 2, 3, 3), True, {}),
            ("stride", (1, 2, 7, 7), (3, 2, 3, 3), True, dict(stride=2)),
            ("stride_pair", (1, 2, 7, 8), (3, 2, 3, 2), True, dict(stride=(2, 3))),
            ("padding", (1, 2, 4, 4), (3, 2, 3, 3), True, dict(padding=1)),
            ("padding_pair", (1, 2, 4, 4), (3, 2, 3, 3), True, dict(padding=(0, 2))),
            ("dilation", (1, 2, 7, 7), (2, 2, 3, 3), True, dict(dilation=2)),
            ("dilation_pair", (1, 1, 7, 6), (2, 1, 3, 2), True, dict(dilation=(1, 3))),
            ("groups", (1, 4, 5, 5), (6, 2, 3, 3), True, dict(groups=2)),
            ("depthwise", (1, 3, 5, 5), (3, 1, 3, 3), True, dict(groups=3)),
            ("depthwise_multiplier", (1, 2, 5, 5), (4, 1, 3, 3), False, dict(groups=2)),
            ("pointwise", (2, 3, 3, 3), (4, 3, 1, 1), True, {}),
            ("same", (1, 2, 5, 6), (2, 2, 3, 4), True, dict(padding="same")),
            ("same_dilated", (1, 1, 6, 6), (1, 1, 3, 3), True, dict(padding="same", dilation=2)),
            ("wide_kernel", (1, 2, 4, 9), (2, 2, 1, 5), True, {}),
            ("everything", (2, 4, 8, 7), (4, 2, 3, 2), True, dict(stride=(2, 1), padding=(1, 2),
            dilation=(1, 2), groups=2)), ("whole", (2, 2, 3, 3), (3, 2, 3, 3), True, {}),
            ("wide_padding", (1, 1, 2, 2), (1, 1, 3, 3), True, dict(padding=3)),
            ("stride_over_kernel", (1, 2, 8, 8), (2, 2, 2, 2), True, dict(stride=3))]:
        add("conv2d", pattern, [N(*x)], types="f64 f16 bf16" if pattern == "basic" else "",
            weight=N(*w), bias=N(w[0]) if bias else None, **kw)
    for pattern, x, w, bias, kw in [
            ("basic", (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), True, {}),
            ("no_bias", (1, 1, 4, 3, 3), (2, 1, 2, 2, 2), False, {}),
            ("unbatched", (1, 4, 3, 3), (2, 1, 2, 2, 2), True, {}),
            ("stride_padding", (1, 1, 5, 4, 4), (2, 1, 3, 3, 3), True, dict(stride=2, padding=1)),
            ("mixed", (1, 1, 5, 4, 6), (2, 1, 2, 3, 2), True,
            dict(stride=(1, 2, 1), padding=(1, 0, 1), dilation=(2, 1, 1))),
            ("groups", (1, 2, 3, 3, 3), (2, 1, 2, 2, 2), True, dict(groups=2))]:
        add("conv3d", pattern, [N(*x)], weight=N(*w), bias=N(w[0]) if bias else None, **kw)
    for pattern, x, w, bias, kw in [
            ("basic", (2, 3, 5), (3, 4, 3), True, {}), ("no_bias", (1, 3, 5), (3, 2, 3), False, {}),
            ("unbatched", (3, 5), (3, 2, 3), True, {}), ("stride", (1, 2, 4), (2, 3, 3), True,
            dict(stride=2)), ("padding", (1, 2, 5), (2, 3, 3), True, dict(padding=1)),
            ("output_padding", (1, 2, 4), (2, 3, 3), True, dict(stride=2, output_padding=1)),
            ("dilation", (1, 2, 4), (2, 3, 3), True, dict(dilation=2)),
            ("groups", (1, 4, 4), (4, 2, 3), True, dict(groups=2)),
            ("everything", (2, 4, 4), (4, 1, 3), True, dict(stride=3, padding=2, output_padding=1,
            dilation=2, groups=2))]:
        add("conv_transpose1d", pattern, [N(*x)], weight=N(*w),
            bias=N(w[1] * kw.get("groups", 1)) if bias else None, **kw)
    for pattern, x, w, bias, kw in [
            ("basic", (2, 2, 3, 4), (2, 3, 3, 3), True, {}), ("no_bias", (1, 2, 3, 3), (2, 2, 2, 2),
            False, {}), ("unbatched", (2, 3, 3), (2, 2, 2, 2), True, {}),
            ("stride", (1, 2, 3, 3), (2, 2, 3, 3), True, dict(stride=2)),
            ("padding", (1, 2, 4, 4), (2, 2, 3, 3), True, dict(padding=1)),
            ("output_padding", (1, 2, 3, 3), (2, 2, 3, 3), True,
            dict(stride=2, padding=1, output_padding=1)), ("dilation", (1, 1, 3, 3), (1, 2, 2, 2),
            True, dict(dilation=2)), ("groups", (1, 4, 3, 3), (4, 2, 2, 2), True, dict(groups=2)),
            ("pairs", (1, 2, 3, 4), (2, 2, 2, 3), True, dict(stride=(2, 3), padding=(0, 1),
            output_padding=(1, 0), dilation=(1, 2)))]:
        add("conv_transpose2d", pattern, [N(*x)], types="f64" if pattern == "basic" else "",
            weight=N(*w), bias=N(w[1] * kw.get("groups", 1)) if bias else None, **kw)
    for pattern, x, w, bias, kw in [
            ("basic", (1, 2, 2, 3, 2), (2, 2, 2, 2, 2), True, {}),
            ("stride_padding", (1, 1, 3, 2, 3), (1, 2, 3, 3, 3), True,
            dict(stride=2, padding=1, output_padding=1)), ("groups", (1, 2, 2, 2, 2),
            (2, 1, 2, 2, 2), False, dict(groups=2))]:
        add("conv_transpose3d", pattern, [N(*x)], weight=N(*w),
            bias=N(w[1] * kw.get("groups", 1)) if bias else None, **kw)


def pooling():
    avg1 = [("basic", (2, 3, 8), dict(kernel_size=2)), ("stride", (1, 2, 9),
        dict(kernel_size=3, stride=1)), ("padding", (1, 2, 7),
        dict(kernel_size=3, stride=2, padding=1)), ("exclude_padding", (1, 2, 7),
        dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
        ("ceil", (1, 2, 8), dict(kernel_size=3, stride=2, ceil_mode=True)),
        ("ceil_padding", (1, 1, 8), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)),
        ("unbatched", (2, 6), dict(kernel_size=2))]
    avg2 = [("basic", (1, 2, 6, 6), dict(kernel_size=2)),
        ("pair", (1, 2, 6, 7), dict(kernel_size=(2, 3))), ("stride_pair", (1, 1, 7, 8),
        dict(kernel_size=3, stride=(1, 2))), ("padding", (1, 2, 5, 5),
        dict(kernel_size=3, stride=2, padding=1)), ("exclude_padding", (1, 2, 5, 5),
        dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
        ("ceil", (1, 1, 6, 7), dict(kernel_size=3, stride=2, ceil_mode=True)),
        ("ceil_padding", (1, 1, 6, 6), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)),
        ("ceil_exclude", (1, 1, 6, 6), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True,
        count_include_pad=False)), ("divisor", (1, 1, 4, 4),
        dict(kernel_size=2, divisor_override=3)), ("unbatched", (2, 4, 4), dict(kernel_size=2)),
        ("gap", (1, 1, 7, 7), dict(kernel_size=2, stride=3)),
        ("whole", (2, 3, 4, 4), dict(kernel_size=4))]
    avg3 = [("basic", (1, 1, 4, 4, 4), dict(kernel_size=2)),
        ("padding", (1, 1, 4, 3, 4), dict(kernel_size=3, stride=2, padding=1,
        count_include_pad=False)), ("mixed", (1, 1, 4, 5, 4),
        dict(kernel_size=(1, 2, 3), stride=(2, 1, 1)))]
    for op, table in (("avg_pool1d", avg1), ("avg_pool2d", avg2), ("avg_pool3d", avg3)):
        for pattern, shape, kw in table:
            add(op, pattern, [N(*shape)], types="f64 f16" if pattern == "basic" else "", **kw)
    max1 = [("basic", (2, 3, 8), dict(kernel_size=2)), ("stride", (1, 2, 9),
        dict(kernel_size=3, stride=1)), ("padding", (1, 2, 7),
        dict(kernel_size=3, stride=2, padding=1)), ("dilation", (1, 2, 9),
        dict(kernel_size=3, stride=1, dilation=2)), ("ceil", (1, 2, 8),
        dict(kernel_size=3, stride=2, ceil_mode=True)), ("indices", (1, 2, 8),
        dict(kernel_size=3, stride=2, return_indices=True)),
        ("unbatched", (2, 6), dict(kernel_size=2))]
    max2 = [("basic", (1, 2, 6, 6), dict(kernel_size=2)),
        ("pair", (1, 2, 6, 7), dict(kernel_size=(2, 3))), ("stride_pair", (1, 1, 7, 8),
        dict(kernel_size=3, stride=(1, 2))), ("padding", (1, 2, 5, 5),
        dict(kernel_size=3, stride=2, padding=1)), ("dilation", (1, 1, 7, 7),
        dict(kernel_size=2, stride=1, dilation=(2, 3))), ("ceil", (1, 1, 6, 7),
        dict(kernel_size=3, stride=2, ceil_mode=True)), ("ceil_padding", (1, 1, 6, 6),
        dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)),
        ("indices", (2, 2, 6, 6), dict(kernel_size=2, return_indices=True)),
        ("indices_padding", (1, 1, 5, 5), dict(kernel_size=3, stride=2, padding=1,
        return_indices=True)), ("indices_dilation", (1, 1, 6, 6),
        dict(kernel_size=2, stride=2, dilation=2, return_indices=True)),
        ("unbatched", (2, 4, 4), dict(kernel_size=2)), ("whole", (2, 3, 4, 4), dict(kernel_size=4)),
        ("gap", (1, 1, 7, 7), dict(kernel_size=2, stride=3))]
    max3 = [("basic", (1, 1, 4, 4, 4), dict(kernel_size=2)),
        ("padding", (1, 1, 4, 3, 4), dict(kernel_size=3, stride=2, padding=1)),
        ("indices", (1, 1, 4, 4, 4), dict(kernel_size=2, return_indices=True))]
    for op, table in (("max_pool1d", max1), ("max_pool2d", max2), ("max_pool3d", max3)):
        for pattern, shape, kw in table:
            add(op, pattern, [N(*shape)], types="f64 f16" if pattern == "basic" else "", **kw)
    for op, rows in {
            "adaptive_avg_pool1d": [("even", (1, 2, 6), (3,)), ("uneven", (1, 2, 7), (3,)),
                                    ("up", (1, 1, 3), (5,)), ("one", (2, 3, 5), (1,))],
            "adaptive_avg_pool2d": [("even", (1, 2, 6, 4), (3, 2)), ("one", (2, 3, 4, 4), (1, 1)),
                                    ("uneven", (1, 2, 5, 7), (3, 4)),
                                    ("unbatched", (2, 5, 5), (2, 3))],
            "adaptive_avg_pool3d": [("uneven", (1, 1, 4, 3, 5), (2, 2, 3))],
            "adaptive_max_pool1d": [("even", (1, 2, 6), (3,)), ("uneven", (1, 2, 7), (3,))],
            "adaptive_max_pool2d": [("even", (1, 2, 6, 4), (3, 2)),
                                    ("uneven", (1, 2, 5, 7), (3, 4))]}.items():
        for pattern, shape, size in rows:
            add(op, pattern, [N(*shape)], output_size=size)
    add("pixel_shuffle", "two", [N(1, 8, 2, 3)], upscale_factor=2)
    add("pixel_shuffle", "three", [N(1, 9, 2, 1)], upscale_factor=3)
    add("pixel_unshuffle", "two", [N(1, 2, 4, 6)], downscale_factor=2)
    add("max_pool2d", "padding_never_wins", [U(-3, -1, 1, 1, 4, 4)], kernel_size=3, stride=2,
        padding=1)
    add("max_pool2d", "indices_ties", [D([[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 0.0],
        [0.0, 3.0, 4.0, 4.0], [3.0, 3.0, 4.0, 4.0]]]])], kernel_size=2, return_indices=True,
        grad=False)


def resizing():
    for pattern, shape, kw in [
            ("up_1d", (1, 2, 4), dict(size=(8,), mode="nearest")),
            ("uneven_1d", (1, 2, 5), dict(size=(7,), mode="nearest")),
            ("down_1d", (1, 2, 7), dict(size=(3,), mode="nearest")),
            ("factor_2d", (1, 2, 3, 3), dict(scale_factor=(2.0, 2.0), mode="nearest")),
            ("size_2d", (1, 1, 4, 5), dict(size=(6, 3), mode="nearest")),
            ("3d", (1, 1, 2, 3, 2), dict(size=(4, 5, 3), mode="nearest")),
            ("exact_2d", (1, 1, 4, 5), dict(size=(6, 3), mode="nearest-exact")),
            ("exact_1d", (1, 1, 5), dict(size=(8,), mode="nearest-exact")),
            ("factor_1_5", (1, 1, 4, 4), dict(scale_factor=(1.5, 1.5), mode="nearest")),
            ("linear_up", (1, 2, 4), dict(size=(7,), mode="linear", align_corners=False)),
            ("linear_corners", (1, 2, 4), dict(size=(7,), mode="linear", align_corners=True)),
            ("linear_down", (1, 2, 8), dict(size=(3,), mode="linear", align_corners=False)),
            ("linear_factor", (1, 1, 5), dict(scale_factor=(1.7,), mode="linear",
            align_corners=False)), ("bilinear_up", (1, 2, 3, 3),
            dict(size=(6, 6), mode="bilinear", align_corners=False)),
            ("bilinear_corners", (1, 2, 3, 4), dict(size=(5, 6), mode="bilinear",
            align_corners=True)), ("bilinear_down", (1, 1, 7, 8),
            dict(size=(3, 5), mode="bilinear", align_corners=False)),
            ("bilinear_factor", (2, 1, 3, 4), dict(scale_factor=(2.0, 1.5), mode="bilinear",
            align_corners=False)), ("bilinear_to_one", (1, 1, 4, 4),
            dict(size=(1, 1), mode="bilinear", align_corners=True)),
            ("bilinear_same", (1, 1, 3, 4), dict(size=(3, 4), mode="bilinear",
            align_corners=False)), ("trilinear", (1, 1, 2, 3, 3),
            dict(size=(3, 4, 5), mode="trilinear", align_corners=False)),
            ("trilinear_corners", (1, 1, 2, 3, 3), dict(size=(3, 4, 5), mode="trilinear",
            align_corners=True)), ("bicubic_up", (1, 1, 4, 4),
            dict(size=(7, 6), mode="bicubic", align_corners=False)),
            ("bicubic_corners", (1, 1, 4, 4), dict(size=(7, 6), mode="bicubic",
            align_corners=True)), ("bicubic_down", (1, 1, 7, 6),
            dict(size=(3, 4), mode="bicubic", align_corners=False)),
            ("area_2d", (1, 2, 5, 6), dict(size=(3, 2), mode="area")),
            ("area_1d", (1, 1, 7), dict(size=(3,), mode="area"))]:
        add("interpolate", pattern, [N(*shape)], types="f64" if pattern == "bilinear_up" else "",
            **kw)


# ---------------------------------------------------------------- normalisation, dropout, attention
for _op in ("layer_norm", "group_norm", "instance_norm", "rms_norm", "dropout",
        "scaled_dot_product_attention", "normalize"):
    functional(_op)


@reference
def batch_norm(x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
    momentum=0.1, eps=1e-5):
    """Also the running statistics after the call, where training updates them."""
    mean, var = (None if t is None else t.detach().clone() for t in (running_mean, running_var))
    out = F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    return [out, mean, var] if training and mean is not None else out


def normalisation():
    for pattern, shape, inner, weight, bias, kw in [
            ("plain", (3, 5), (5,), False, False, {}), ("affine", (3, 5), (5,), True, True, {}),
            ("weight_only", (3, 5), (5,), True, False, {}), ("rank3", (2, 3, 4), (4,), True, True,
            {}), ("two_axes", (2, 3, 4), (3, 4), True, True, {}),
            ("eps", (3, 5), (5,), True, True, dict(eps=0.1)),
            ("vector", (6,), (6,), True, True, {}), ("empty", (0, 4), (4,), False, False, {})]:
        add("layer_norm", pattern, [N(*shape)], types=FLOATS if pattern == "affine" else "",
            weight=N(*inner) if weight else None, bias=N(*inner) if bias else None,
            normalized_shape=inner, **kw)
    add("layer_norm", "offset", [Spec(lambda r: r.standard_normal((2, 16)) + 500)],
        normalized_shape=(16,), grad=False, wide=True)
    for pattern, shape, inner, weight, kw in [
            ("plain", (3, 5), (5,), False, {}), ("weight", (3, 5), (5,), True, {}),
            ("eps", (3, 5), (5,), True, dict(eps=1e-3)), ("two_axes", (2, 3, 4), (3, 4), True, {}),
            ("rank3", (2, 3, 4), (4,), True, {})]:
        add("rms_norm", pattern, [N(*shape)], types="f64 f16" if pattern == "weight" else "",
            weight=N(*inner) if weight else None, normalized_shape=inner, **kw)
    for pattern, shape, stats, affine, kw in [
            ("eval_2d", (4, 3), True, True, {}), ("eval_4d", (2, 3, 2, 2), True, True, {}),
            ("eval_plain", (2, 3, 4), True, False, {}), ("eval_eps", (4, 3), True, True,
            dict(eps=0.01)), ("train_2d", (6, 3), False, True, dict(training=True)),
            ("train_3d", (3, 2, 4), False, True, dict(training=True)),
            ("train_4d", (2, 3, 3, 3), False, True, dict(training=True)),
            ("train_5d", (2, 2, 2, 2, 2), False, True, dict(training=True)),
            ("train_plain", (5, 2), False, False, dict(training=True)),
            ("train_running", (4, 3, 2), True, True, dict(training=True)),
            ("train_momentum", (4, 3), True, True, dict(training=True, momentum=0.5))]:
        c = shape[1]
        add("batch_norm", pattern, [N(*shape)], types="f64" if pattern in ("eval_4d",
            "train_4d") else "", grad=pattern not in ("train_running", "train_momentum"),
            running_mean=N(c) if stats else None, running_var=U(0.5, 2, c) if stats else None,
            weight=N(c) if affine else None, bias=N(c) if affine else None, **kw)
    for pattern, shape, groups, affine, kw in [
            ("two", (2, 4, 3, 3), 2, True, {}), ("one", (2, 4, 5), 1, True, {}),
            ("each", (2, 4, 5), 4, True, {}), ("plain", (2, 6, 3), 3, False, {}),
            ("eps", (2, 4, 3), 2, True, dict(eps=0.1)), ("rank2", (3, 6), 2, True, {})]:
        add("group_norm", pattern, [N(*shape)], types="f64" if pattern == "two" else "",
            num_groups=groups, weight=N(shape[1]) if affine else None,
            bias=N(shape[1]) if affine else None, **kw)
    for pattern, shape, affine, kw in [
            ("1d", (2, 3, 5), True, {}), ("2d", (2, 3, 4, 3), True, {}),
            ("3d", (1, 2, 2, 3, 2), True, {}), ("plain", (2, 3, 5), False, {}),
            ("eps", (2, 3, 5), True, dict(eps=0.1))]:
        add("instance_norm", pattern, [N(*shape)], weight=N(shape[1]) if affine else None,
            bias=N(shape[1]) if affine else None, **kw)
    add("dropout", "p_0", [N(3, 4)], p=0.0, training=True)
    add("dropout", "p_1", [N(3, 4)], p=1.0, training=True)
    add("dropout", "eval", [N(3, 4)], p=0.5, training=False)
    q, k = (2, 4, 8), (2, 5, 8)
    for pattern, qs, ks, vs, kw in [
            ("basic", (2, 2, 4, 6), (2, 2, 5, 6), (2, 2, 5, 3), {}), ("rank3", q, k, k, {}),
            ("rank2", (4, 8), (5, 8), (5, 6), {}), ("causal", (2, 5, 4), (2, 5, 4), (2, 5, 4),
            dict(is_causal=True)), ("causal_wide", (1, 3, 4), (1, 5, 4), (1, 5, 4),
            dict(is_causal=True)), ("causal_tall", (1, 5, 4), (1, 3, 4), (1, 3, 4),
            dict(is_causal=True)), ("scale", q, k, k, dict(scale=0.5)),
            ("mask_float", q, k, k, dict(attn_mask=N(2, 4, 5))),
            ("mask_float_broadcast", q, k, k, dict(attn_mask=N(4, 5))),
            ("mask_bool", q, k, k, dict(attn_mask=D([[True, False, True, True,
            False]] * 3 + [[True] * 5], "bool"))), ("mask_infinite", q, k, k,
            dict(attn_mask=D([[0.0, -INF, 0.0, 0.0, -INF]] * 4))),
            ("mask_heads", (2, 3, 4, 4), (2, 3, 5, 4), (2, 3, 5, 4), dict(attn_mask=N(2, 1, 1, 5))),
            ("grouped", (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), dict(enable_gqa=True)),
            ("large", (1, 3, 4), (1, 3, 4), (1, 3, 4), dict(scale=100.0)),
            ("one_key", (1, 2, 4), (1, 1, 4), (1, 1, 4), {})]:
        add("scaled_dot_product_attention", pattern, [N(*qs), N(*ks), N(*vs)],
            types="f64 f16" if pattern == "basic" else "", **kw)


# ---------------------------------------------------------------- losses
for _op in ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "one_hot", "embedding"):
    functional(_op)


def losses():
    ignored = D([1, -100, 0, 2, -100], "i64")
    for r in ("mean", "sum", "none"):
        add("cross_entropy", r, [N(5, 4), I(0, 4, 5)], types="f64 f16" if r == "mean" else "",
            reduction=r)
        add("cross_entropy", f"weight_{r}", [N(5, 4), I(0, 4, 5)], weight=W(0.2, 2, 4), reduction=r)
        add("cross_entropy", f"ignore_{r}", [N(5, 3), ignored], reduction=r)
        add("cross_entropy", f"smoothing_{r}", [N(5, 4), I(0, 4, 5)], reduction=r,
            label_smoothing=0.1)
        add("cross_entropy", f"smoothing_weight_ignore_{r}", [N(5, 3), ignored],
            weight=W(0.2, 2, 3), reduction=r, label_smoothing=0.2)
        add("cross_entropy", f"probabilities_{r}", [N(4, 3),
            Spec(lambda g: g.dirichlet([1, 1, 1], 4))], reduction=r)
        add("cross_entropy", f"spatial_{r}", [N(2, 3, 4), I(0, 3, 2, 4)], reduction=r)
        add("nll_loss", r, [N(5, 4), I(0, 4, 5)], reduction=r)
        add("nll_loss", f"weight_{r}", [N(5, 4), I(0, 4, 5)], weight=W(0.2, 2, 4), reduction=r)
        add("nll_loss", f"ignore_{r}", [N(5, 3), ignored], reduction=r)
        add("nll_loss", f"spatial_{r}", [N(2, 3, 2, 2), I(0, 3, 2, 2, 2)], reduction=r)
        add("binary_cross_entropy", r, [U(0.05, 0.95, 3, 4), U(0, 1, 3, 4)], reduction=r)
        add("binary_cross_entropy", f"weight_{r}", [U(0.05, 0.95, 3, 4), U(0, 1, 3, 4)],
            weight=W(0.2, 2, 4), reduction=r)
        add("binary_cross_entropy_with_logits", r, [N(3, 4), U(0, 1, 3, 4)], reduction=r)
        add("binary_cross_entropy_with_logits", f"weight_{r}", [N(3, 4), U(0, 1, 3, 4)],
            weight=W(0.2, 2, 4), reduction=r)
        add("binary_cross_entropy_with_logits", f"pos_weight_{r}", [N(3, 4), U(0, 1, 3, 4)],
            pos_weight=W(0.2, 2, 4), reduction=r)
        for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            add(op, r, [N(3, 4), N(3, 4)], types="f64" if r == "mean" else "", reduction=r)
        add("kl_div", r, [N(3, 4), U(0.05, 1, 3, 4)], reduction=r)
        add("kl_div", f"log_target_{r}", [N(3, 4), N(3, 4)], reduction=r, log_target=True)
    add("kl_div", "batchmean", [N(3, 4), U(0.05, 1, 3, 4)], reduction="batchmean")
    add("kl_div", "zero_target", [N(3), D([0.0, 0.4, 0.6])], reduction="none", grad=False)
    add("cross_entropy", "one_sample", [N(4), D(2, "i64")])
    add("cross_entropy", "spatial_2d_ignore", [N(2, 3, 2, 2),
        Spec(lambda g: g.choice([-1, 0, 1, 2], (2, 2, 2)), "i64")], ignore_index=-1)
    add("cross_entropy", "ignore_class", [N(6, 4), I(0, 4, 6)], ignore_index=1)
    add("cross_entropy", "large", [D([[1e4, -1e4, 0.0], [-1e4, -1e4, 1e4]]), D([1, 2], "i64")])
    add("cross_entropy", "smoothing_probabilities", [N(4, 3),
        Spec(lambda g: g.dirichlet([1, 1, 1], 4))], label_smoothing=0.3)
    add("cross_entropy", "all_ignored", [N(2, 3), D([-100, -100], "i64")], grad=False)
    add("nll_loss", "ignore_class", [N(6, 4), I(0, 4, 6)], ignore_index=2, weight=W(0.2, 2, 4))
    add("binary_cross_entropy_with_logits", "large", [D([-1e4, -100.0, 100.0, 1e4, 0.0]),
        D([0.0, 1.0, 1.0, 0.0, 0.5])], reduction="none", grad=False)
    add("binary_cross_entropy_with_logits", "large_gradient",
        [D([-200.0, -100.0, 100.0, 150.0]), D([0.0, 1.0, 1.0, 0.0], "f32")])
    add("binary_cross_entropy", "edges", [D([0.0, 1.0, 0.0, 1.0]), D([0.0, 1.0, 1.0, 0.0])],
        reduction="none", grad=False)
    add("smooth_l1_loss", "beta", [N(3, 4), N(3, 4)], beta=0.5)
    add("huber_loss", "delta", [N(3, 4), N(3, 4)], delta=0.4)
    add("mse_loss", "scalar", [N(), N()])
    add("mse_loss", "empty", [N(0, 2), N(0, 2)], reduction="sum", grad=False)
    for pattern, spec, kw in [
            ("given", I(0, 5, 4), dict(num_classes=5)), ("matrix", I(0, 4, 2, 3),
            dict(num_classes=4)), ("scalar", I(0, 4), dict(num_classes=4)),
            ("empty", I(0, 4, 0), dict(num_classes=3)), ("inferred", D([0, 3, 1], "i64"), {})]:
        add("one_hot", pattern, [spec], **kw)
    for pattern, spec, kw in [
            ("vector", I(0, 6, 4), {}), ("matrix", I(0, 6, 2, 3), {}), ("scalar", I(0, 6), {}),
            ("repeated", D([1, 1, 4, 1], "i64"), {}), ("empty", I(0, 6, 0), {}),
            ("i32", I(0, 6, 4, dtype="i32"), {}), ("padding", D([1, 0, 3, 0], "i64"),
            dict(padding_idx=0))]:
        add("embedding", pattern, [spec], types="f16" if pattern == "vector" else "",
            weight=N(6, 3), **kw)


# ---------------------------------------------------------------- dtypes
@reference
def cast(x, to):
    if to not in torch_dtype:
        raise Missing(f"dtype {to}")
    return x.to(torch_dtype[to])


@reference
def bitcast(x, to):
    if to not in torch_dtype:
        raise Missing(f"dtype {to}")
    return x.contiguous().view(torch_dtype[to])


ALL = list(dtypes)
FP8 = ("f8e4m3", "f8e5m2")


def sample(dtype, to=None, n=6):
    """Values that both dtypes can hold after truncation, so that no cast is out of range."""
    if dtype == "bool":
        return Spec(lambda r: r.uniform(size=n) < 0.5, "bool")
    signed = not is_unsigned(dtype) and not is_unsigned(to or dtype) and to != "bool"
    if is_float_type(dtype):
        return Spec(lambda r: np.round(r.uniform(-90 if signed else 0, 90, n), 2), dtype)
    return Spec(lambda r: r.randint(-99 if signed else 0, 100, n), dtype)


def casts():
    for a in ALL:
        for b in ALL:
            if a != b:
                add("cast", f"f32_to_i32@{a}_{b}", [sample(a, b)], grad=False, to=b)
    add("cast", "float_to_int", [D([-2.7, -0.5, 0.0, 0.9, 1.5, 100.99])], grad=False, to="i32")
    add("cast", "int_wraps", [D([256, -1, 130, -129, 2 ** 31 - 1, -2 ** 31], "i32")], to="u8")
    add("cast", "int_wraps_signed", [D([128, 255, -129, 70000], "i32")], to="i8")
    add("cast", "int_extends", [D([-1, -128, 127], "i8")], to="i64")
    add("cast", "unsigned_extends", [D([0, 128, 255], "u8")], to="i64")
    add("cast", "i64_to_f32_rounds", [D([2 ** 24 + 1, 2 ** 53 + 1, -2 ** 62 - 12345, 2 ** 63 - 1],
        "i64")], to="f32")
    add("cast", "i64_to_f64_rounds", [D([2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63], "i64")], to="f64")
    add("cast", "to_bool", [D([0.0, -0.0, 0.5, NAN, INF, 1e-45])], grad=False, to="bool")
    add("cast", "int_to_bool", [D([0, 2, -1, 256], "i32")], to="bool")
    add("cast", "f64_to_f32", [D([0.1, 1e300, -1e300, 1e-46, 1.00000005960464, NAN], "f64")],
        grad=False, to="f32")
    add("cast", "f32_to_f64_gradient", [N(2, 3)], to="f64")
    add("cast", "f32_to_f16_gradient", [N(2, 3)], to="f16")
    add("cast", "f32_to_f16", [D([65504.0, 65519.0, 65520.0, 1e9, -1e9, 6e-8, 3e-8, 2.9e-8,
        1.00048828125, 1.00146484375, NAN, INF, -0.0])], grad=False, to="f16")
    add("cast", "f32_to_bf16", [D([1.00390625, 1.01171875, 3.39e38, 3.4e38, 1e-40, NAN, INF, -0.0,
        1.0 / 3])], grad=False, to="bf16")
    add("cast", "f16_to_f32", [D([6e-8, 65504.0, -0.0, INF, NAN, 0.1], "f16")], grad=False,
        to="f32")
    add("cast", "bf16_to_f32", [D([1e-40, 3e38, -0.0, INF, NAN, 0.1], "bf16")], grad=False,
        to="f32")
    add("cast", "f32_to_f8e4m3", [D([0.0, -0.0, 1.0, 1.0625, 1.1875, 448.0, -448.0, 0.001953125,
        0.0009765625, 0.0029296875, 0.015, 17.0, 19.0, NAN])], grad=False, to="f8e4m3")
    add("cast", "f32_to_f8e5m2", [D([0.0, -0.0, 1.0, 1.125, 1.375, 57344.0, -57344.0,
        1.52587890625e-05, 7.6e-06, 0.1, 9.0, 11.0, INF, NAN])], grad=False, to="f8e5m2")
    add("cast", "f8e4m3_all", [Spec(lambda r: np.array([m * 2.0 ** e for e in (-9, -6, 0,
        5) for m in (1, 1.25, 1.5, 1.75)]), "f8e4m3")], grad=False, to="f32")
    add("cast", "f8e5m2_all", [Spec(lambda r: np.array([m * 2.0 ** e for e in (-16, -14, 0,
        15) for m in (1, 1.25, 1.5, 1.75)]), "f8e5m2")], grad=False, to="f32")
    add("cast", "matrix", [N(3, 4)], grad=False, to="i64")
    add("cast", "scalar", [N()], grad=False, to="f64")
    add("cast", "empty", [N(0, 3)], grad=False, to="i32")
    for a, b in [
            ("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64"), ("f16", "i16"),
            ("bf16", "i16"), ("i16", "f16"), ("i16", "bf16"), ("u8", "i8"), ("i8", "u8"),
            ("f32", "u32"), ("u8", "f8e4m3"), ("f8e5m2", "u8"), ("i32", "u32")]:
        counted = (a, b) in (("f32", "i32"), ("i32", "f32"))
        add("bitcast", f"{a}_to_{b}" if counted else f"f32_to_i32@{a}_{b}", [sample(a)], grad=False,
            to=b)
    add("bitcast", "special", [D([0.0, -0.0, INF, -INF, 1e-45, 3.4e38])], grad=False, to="i32")
    add("bitcast", "matrix", [N(3, 4)], grad=False, to="i32")
    add("bitcast", "scalar", [N()], grad=False, to="i32")
    add("bitcast", "empty", [N(0, 4)], grad=False, to="i32")


def promotion():
    plain = [d for d in ALL if d not in FP8]
    for i, a in enumerate(plain):
        for b in plain[i:]:
            if a == b and a in WIDE_UNSIGNED:
                continue
            try:
                torch.promote_types(torch_dtype[a], torch_dtype[b])
            except (RuntimeError, KeyError):
                continue   # unsigned with signed: torch refuses
            unsigned = "u8" if is_unsigned(a) or is_unsigned(b) else None
            add("add", f"promote@{a}_{b}", [sample(a, unsigned, 3), sample(b, unsigned, 3)],
                grad=False)
    for a in plain:
        if a not in WIDE_UNSIGNED:
            for kind, number in (("bool", True), ("int", 3), ("float", 2.5)):
                add("add", f"promote_number@{a}_{kind}", [sample(a, None, 3)], other=number,
                    grad=False)
    zero_d = [("i32", "i64"), ("f16", "f32"), ("f32", "f64"), ("i32", "f32"), ("bool", "i64"),
        ("u8", "i32"), ("f32", "i64"), ("i64", "f64")]
    for a, b in zero_d:
        add("add", f"promote_scalar_tensor@{a}_{b}", [sample(a, None, 3), Spec(lambda r: 2, b)],
            grad=False)
    for op in ("mul", "div", "maximum", "pow", "sub"):
        add(op, "promote_int_float", [I(1, 5, 4, dtype="i32"), positive(4)])
        add(op, "promote_f64", [positive(3), Spec(lambda r: r.uniform(1, 2, 3), "f64")])
        add(op, "promote_ints", [I(1, 5, 4, dtype="i16"), I(1, 4, 4, dtype="i32")])
    for op in ("mul", "maximum"):
        add(op, "promote_u8_i8", [I(0, 99, 4, dtype="u8"), I(-99, 99, 4, dtype="i8")])
    add("add", "promote_half_bfloat", [Spec(lambda r: r.standard_normal(4), "f16"),
        Spec(lambda r: r.standard_normal(4), "bf16")], grad=False)
    add("add", "promote_bool_bool", [B(4), B(4)])
    add("sub", "promote_u8_i16", [I(0, 255, 4, dtype="u8"), I(0, 255, 4, dtype="i16")])
    add("mul", "number_keeps_half", [Spec(lambda r: r.standard_normal(4), "f16")], other=2.5,
        grad=False)
    add("mul", "float_number_int_tensor", [I(-9, 9, 4, dtype="i64")], other=0.5)
    add("mul", "int_number_bool_tensor", [B(4)], other=3)
    add("div", "int_number_int_tensor", [I(-9, 9, 4, dtype="i32")], other=2)


# ---------------------------------------------------------------- symbolic sizes
SYMBOLIC = {   # x and y are cut to their first n rows; n is a variable with the bounds 1..rows
    "sum": lambda x, y, n: x[:n].sum(), "mean": lambda x, y, n: x[:n].mean(0),
    "max": lambda x, y, n: x[:n].amax(0), "prod": lambda x, y, n: x[:n].prod(0),
    "product": lambda x, y, n: x[:n].t() @ y[:n],
    "softmax": lambda x, y, n: x[:n].softmax(0).square().sum(0),
    "chain": lambda x, y, n: ((x[:n] * 2 + y[:n]).exp() - 1).sum(0),
    "attention": lambda x, y, n: (y @ x[:n].t()).softmax(-1) @ x[:n],
    "row": lambda x, y, n: x[n - 1] + y[n - 1], "window": lambda x, y, n: x[n - 1:n + 1] * 2,
    "arange": lambda x, y, n: torch.arange(n).sum() + 0 * x.sum(),
    "number": lambda x, y, n: x * n, "cat": lambda x, y, n: torch.cat([x[:n], y]).sum(0),
    "where": lambda x, y, n: torch.where(torch.arange(len(x))[:, None] < n, x, y),
    "reshape": lambda x, y, n: x[:n].reshape(-1).square().sum()}


@reference
def symbolic(x, y, what, n):
    return SYMBOLIC[what](x, y, n)


def symbolic_sizes():
    for what in SYMBOLIC:
        for n in (1, 4):
            add("symbolic", f"{what}_{n}", [N(5, 3), N(5, 3)], what=what, n=n)


def declare_all():
    global family
    for f in (creation, movement, indexing, unary, binary_ops, activations, reductions, scans,
            sorts, counts, products, convolutions, pooling, resizing, normalisation, losses, casts,
            promotion, symbolic_sizes):
        family = f.__name__
        f()


if __name__ == "__main__":
    main(*sys.argv[1:])

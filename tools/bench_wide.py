"""PyTorch's side of `mote bench wide`: THREADS FILE.

Reads lines, answers each with one line:
  row PROGRAM   makes the inputs, runs it three times and writes the results to FILE: "ok"
  time N        runs it N times: milliseconds a run by the clock, and by processor time
An error is answered by "error: ...".

A program (tools/bench_wide.rows) is Python but for `repeat N:` and the input calls F, I and many.
Functions are those of torch.nn.functional or torch unless they are defined here.
"""
import ast
import gc
import os
import re
import sys
import time

import numpy as np
import torch
from torch.nn import functional

from bench_wide_models import MODELS, attend

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
          "f64": torch.float64, "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16,
          "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}


# ---- inputs, by the rule of src/cli/bench_wide_inputs.cpp


def mixed(first, count, seed):
    x = np.arange(first, first + count, dtype=np.uint32)
    x *= np.uint32(0x9E3779B1)
    x += np.uint32(seed * 0x85EBCA77 & 0xFFFFFFFF)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x2C1B3C6D)
    x ^= x >> np.uint32(12)
    x *= np.uint32(0x297A2D39)
    x ^= x >> np.uint32(15)
    return x


def in_parts(count, dtype, part_of):
    out = np.empty(count, dtype)
    step = 1 << 20
    for i in range(0, count, step):
        n = min(step, count - i)
        out[i : i + n] = part_of(i, n)
    return torch.from_numpy(out)


def uniform(count, seed, spread, middle):
    def part(i, n):
        unit = (mixed(i, n, seed) >> np.uint32(8)).astype(np.float32) * np.float32(2**-23)
        return np.float32(middle) + np.float32(spread) * (unit - np.float32(1))

    return in_parts(count, np.float32, part)


def integers(count, seed, below, low):
    return in_parts(count, np.int64, lambda i, n: low + (mixed(i, n, seed) % np.uint32(below)))


def name_seed(name):
    h = 2166136261
    for c in name.encode():
        h = (h ^ c) * 16777619 & 0xFFFFFFFF
    return h


def make_input(index, callee, sizes, options):
    if callee == "many":
        count, *sizes = sizes
        return [make_one(index * 1000 + i, "F", sizes, **options) for i in range(count)]
    return make_one(index, callee, sizes, **options)


def make_one(seed, callee, sizes, k=1, b=0, n=2, low=0, dtype=None):
    count = int(np.prod(sizes))
    values = uniform(count, seed, k, b) if callee == "F" else integers(count, seed, n, low)
    return values.to(DTYPES[dtype or ("f32" if callee == "F" else "i64")]).reshape(sizes)


# ---- functions that PyTorch has not, or has by another name


def conv_backward(which):
    def backward(x, w, g, stride=1, padding=0, dilation=1, output_padding=0, groups=1):
        def each(v):
            return list(v) if isinstance(v, (list, tuple)) else [v] * (x.dim() - 2)

        mask = [which.endswith("i"), which.endswith("w"), False]
        out = torch.ops.aten.convolution_backward(
            g, x, w, None, each(stride), each(padding), each(dilation), which.startswith("T"),
            each(output_padding), groups, mask)
        return out[0] if mask[0] else out[1]

    return backward


def by_axes(kind):
    return lambda x, *args, **options: getattr(functional, f"{kind}{x.dim() - 2}d")(
        x, *args, **options)


def recurrent(f, state):
    def run(x, *weights):
        h = x.new_zeros(1, x.shape[1], weights[1].shape[1])
        out = f(x, (h, h) if state == 2 else h, weights, True, 1, 0.0, True, False, False)
        return out[0]

    return run


def causal_attention(q, k, v, mask=None, causal=0):
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return attend(q, k, v, mask)


def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w


def batch_norm(x, mean, var, w, b, training=0):
    kept = (None, None) if training else (mean, var)
    return functional.batch_norm(x, *kept, w, b, bool(training))


def resize(x, mode, size, align_corners=None):
    corners = None if align_corners is None else bool(align_corners)
    return functional.interpolate(x, size=tuple(size), mode=mode, align_corners=corners)


OWN = {
    "to": lambda x, dtype: x.to(DTYPES[dtype]),
    "conv": by_axes("conv"),
    "convT": by_axes("conv_transpose"),
    "conv_bi": conv_backward("i"),
    "conv_bw": conv_backward("w"),
    "convT_bi": conv_backward("Ti"),
    "convT_bw": conv_backward("Tw"),
    "lstm": recurrent(torch.lstm, 2),
    "gru": recurrent(torch.gru, 1),
    "rnn": recurrent(torch.rnn_tanh, 1),
    "attention": causal_attention,
    "rms_norm": rms_norm,
    "batch_norm": batch_norm,
    "resize": resize,
    "grad": lambda y, targets, g=None: list(torch.autograd.grad(y, targets, g)),
    "matmul_f16": lambda a, b: (a.float() @ b.float()).half(),
    "matmul_each": lambda xs, w: [x @ w for x in xs],
    "einsum": lambda equation, operands: torch.einsum(equation, *operands),
    "every": lambda x, step: x[..., ::step].contiguous(),
    "unfold": lambda x, dim, size, step: x.unfold(dim, size, step).contiguous(),
    "contiguous": lambda x: x.contiguous(),
    "tril": torch.tril,
    "max": lambda x, dim: list(torch.max(x, dim)),
    "sort": lambda x, dim=-1, descending=0: torch.sort(x, dim, bool(descending))[0],
    "argsort": lambda x, dim=-1: torch.argsort(x, dim=dim, stable=True),  # as ours
    "topk": lambda x, k, dim=-1: torch.topk(x, k, dim)[0],
    "kthvalue": lambda x, k, dim=-1: torch.kthvalue(x, k, dim)[0],
    "median": lambda x, dim: torch.median(x, dim)[0],
    "mode": lambda x, dim=-1: torch.mode(x, dim)[0],
    "nanmedian": lambda x, dim: torch.nanmedian(x, dim)[0],
    "quantile": lambda x, q, dim=None: torch.quantile(x, q, dim),
    "diff": lambda x, dim=-1: torch.diff(x, dim=dim),
    "cummax": lambda x, dim: torch.cummax(x, dim)[0],
    "sum": torch.sum,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "norm": lambda x, p=2, dim=None: torch.norm(x, p, dim),
    "layer_norm": lambda x, shape, *wb: functional.layer_norm(
        x, shape if isinstance(shape, list) else [shape], *wb),
    "multinomial": lambda x, n: torch.multinomial(x, n, True),
    "dropout": lambda x, p=0.5: functional.dropout(x, p),
    "narrow": torch.narrow,
    "rsqrt": torch.rsqrt,
    "mish": functional.mish,
}


def find_function(name):
    if name in OWN:
        return OWN[name]
    for module in (functional, torch):
        if hasattr(module, name):
            return getattr(module, name)
    raise NameError(f"no function {name}")


# ---- models


def make_model(name):
    net = MODELS[name]()
    with torch.no_grad():
        for full, p in net.named_parameters():
            full = full.replace("self_.", "self.")
            weight = p.dim() > 1
            spread = np.sqrt(np.float32(3) / (p.numel() // p.shape[0])) if weight else 0.1
            middle = 1 if not weight and full.endswith("weight") else 0
            p.copy_(uniform(p.numel(), name_seed(full), spread, middle).reshape(p.shape))
    return net


def classify(net):
    def loss(x, wanted):
        y = net(x)
        return functional.cross_entropy(y.flatten(0, y.dim() - 2), wanted.flatten())

    return loss


OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
              "sgd": lambda p: torch.optim.SGD(p, 1e-6, momentum=0.9)}


def make_held(callee, name, optimizer=None):
    net = make_model(name)
    if callee == "model":
        net.eval()
        return lambda _name, *inputs: net(*inputs)
    if hasattr(net, "phases"):
        phases = net.phases()
    else:
        phases = [(net.parameters(), net.loss if hasattr(net, "loss") else classify(net))]
    phases = [(OPTIMIZERS[optimizer](list(p)), loss) for p, loss in phases]

    def step(_name, _optimizer, *inputs):
        losses = []
        for adam, loss in phases:
            adam.zero_grad(set_to_none=True)
            value = loss(*inputs)
            value.backward()
            adam.step()
            losses.append(value.detach())
        return losses

    return step


# ---- programs


class Prepare(ast.NodeTransformer):
    """Replaces inputs and models by names of what they are, made once, in the text's order."""

    def __init__(self):
        self.names = {}
        self.inputs = 0

    def keep(self, value):
        name = f"_held{len(self.names)}"
        self.names[name] = value
        return ast.Name(name, ast.Load())

    def visit_Call(self, node):
        callee = node.func.id
        if callee in ("F", "I", "many"):
            self.inputs += 1
            sizes = [ast.literal_eval(a) for a in node.args]
            options = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
            return self.keep(make_input(self.inputs, callee, sizes, options))
        if callee in ("model", "train"):
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            node.func = self.keep(make_held(callee, *words))
            node.args = [self.visit(a) for a in node.args]
            return node
        if callee != "range":  # of `repeat`
            self.names[callee] = find_function(callee)
        return self.generic_visit(node)


def targets_of(tree):
    """Names that gradients are asked for."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "grad":
            out |= {item.id for item in node.args[1].elts}
    return out


def compile_program(text):
    lines = [re.sub(r"^repeat (\d+):", r"for _ in range(\1):", s.strip()) for s in text.split(";")]
    lines[-1] = "_result = " + lines[-1]
    tree = ast.parse("\n".join(lines))
    targets = targets_of(tree)
    prepare = Prepare()
    tree = ast.fix_missing_locations(prepare.visit(tree))
    # Names that are inputs are bound before the run, so that a gradient's target is marked once.
    names, body = prepare.names, []
    for s in tree.body:
        held = isinstance(s, ast.Assign) and isinstance(s.value, ast.Name) and s.value.id in names
        if held and s.targets[0].id in targets:
            names[s.value.id].requires_grad_()
        body.append(s)
    function = ast.parse("def _program():\n  pass").body[0]
    function.body = body + [ast.Return(ast.Name("_result", ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([function], []))
    exec(compile(module, "row", "exec"), names)
    with_grad = bool(targets) or "train(" in text
    return names["_program"], with_grad


def flat(value):
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return [value]


def write(path, tensors):
    with open(path, "wb") as file:
        for t in tensors:
            t = t.detach()
            floats = t.is_floating_point()
            t = t.to(torch.float32 if floats else torch.int64).contiguous()
            file.write(np.array([1 if floats else 0, t.numel()], np.int64).tobytes())
            file.write(t.numpy().data)


class Child:
    def __init__(self, path):
        self.path, self.program, self.with_grad = path, None, False

    def run(self):
        with torch.set_grad_enabled(self.with_grad):
            return self.program()

    def row(self, text):
        self.program = None
        gc.collect()
        self.program, self.with_grad = compile_program(text)
        for _ in range(3):
            out = None
            out = self.run()
        write(self.path, flat(out))
        return "ok"

    def time(self, count):
        start, used = time.perf_counter(), time.process_time()
        for _ in range(int(count)):
            out = self.run()
            del out
        used, took = time.process_time() - used, time.perf_counter() - start
        return f"{took * 1e3 / int(count)} {used * 1e3 / int(count)}"


def blas_is_fast():
    with open("/proc/self/maps") as maps:
        text = maps.read()
    return any(name in text for name in ("openblas", "libmkl", "libblis"))


def main():
    torch.ones(2, 2) @ torch.ones(2, 2)
    if not blas_is_fast():
        sys.exit("PyTorch uses the reference BLAS; package libopenblas0-pthread has a fast one")
    torch.set_num_threads(int(sys.argv[1]))
    child = Child(sys.argv[2])
    print("ready", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # from here on, lines are answers
    for line in sys.stdin:
        word, rest = line.strip().split(" ", 1)
        try:
            answer = child.row(rest) if word == "row" else child.time(rest)
        except Exception as error:
            answer = "error: " + " ".join(f"{type(error).__name__}: {error}".split())[:300]
        print(answer, flush=True)
    os._exit(0)


main()

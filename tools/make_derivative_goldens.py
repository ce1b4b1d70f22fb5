#!/usr/bin/env python3
"""Make the golden derivatives of test/derivative_goldens_test.cpp with PyTorch.

    python3 tools/make_derivative_goldens.py test/goldens/derivatives.gold.gz

The cases are those of make_goldens.py that have gradients, with other values: instead of drawn ones,
those at which formulas break (`kinds` below). Everything is computed in f64. The file has the format
of make_goldens.py; second derivatives are attributes: "second<i>" is the gradient with respect to
input i of the sum over all inputs k of (gradient of input k) * strewn(k).
"""
import math
import sys
import time
import zlib
from collections import Counter

import numpy as np
import torch

import make_goldens as base

SEED = 20261
TINY, HUGE = 1e-300, 1e300
MOST = 160   # elements of a case

# Names of values to draw from. Few values make ties; `one` is drawn once for a whole input.
kinds = {
    "ties": [-1.0, 0.0, 1.0, 2.0],
    "edges": [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 1.5, -1.5, 0.25],
    "inside": [math.nextafter(1, 0), math.nextafter(-1, 0), 1e-12, -1e-12, 1 - 1e-9, 1e-9 - 1,
               1 + 1e-9, -1 - 1e-9, math.nextafter(1, 2), 1e-5, -1e-5],
    "saturated": [-120.0, -100.0, -89.0, -20.0, -1.0, 0.0, 1.0, 20.0, 89.0, 100.0, 120.0],
    "probable": [0.0, 1.0, 0.0, 1.0, 0.25, 0.5, 0.75, 1e-13, 1 - 1e-13],
    "scales": [1e-30, -1e-30, 1e30, -1e30, 1e-8, 1e8, 1.0, -1.0, 0.0],
    "extreme": [TINY, -TINY, HUGE, -HUGE, 5e-324, 1.0, -1.0, 0.0],
    "infinite": [math.inf, -math.inf, 0.0, 1.0, -1.0],
    "same": None,
}
same_values = [0.0, 1.0, -1.0, 3.0, 0.5]

# Families without a float that is computed with, and cases whose results are random.
left_out = {"creation", "casts", "promotion", "symbolic_sizes"}
# Movement and indexing only carry values: two kinds say all.
few = {"movement", "indexing", "resizing", "convolutions", "products"}


def strewn(i, count):
    k = np.arange(count, dtype=np.float64)
    return 0.5 + 1.5 * np.fmod((k + 0.3 + 1.7 * i) * 0.6180339887498949, 1.0)


def values(kind, rng, shape):
    if kind == "same":
        return np.full(shape, rng.choice(same_values))
    return rng.choice(kinds[kind], shape)


def second_derivatives(tensors, leaves, found):
    """By leaf; None where torch has none."""
    total = None
    for i, g in zip(leaves, found):
        if g is None or not g.requires_grad:
            continue
        weight = torch.from_numpy(strewn(i, g.numel()).reshape(g.shape))
        part = (g * weight).sum()
        total = part if total is None else total + part
    if total is None:
        return None
    return torch.autograd.grad(total, [tensors[i] for i in leaves], allow_unused=True)


def build(case, kind):
    drawn, _ = base.draw(case, "f64")
    if sum(t.numel() for t in drawn) > MOST:
        return None
    name = f"{case['name']}@{kind}"
    rng = np.random.RandomState((zlib.crc32(name.encode()) ^ SEED) & 0x7fffffff)
    tensors = []
    for t, (_, spec) in zip(drawn, case["inputs"]):
        if t.is_floating_point() and spec.leaf:
            t = torch.from_numpy(np.array(values(kind, rng, tuple(t.shape)), dtype=np.float64))
        tensors.append(t)
    leaves = [i for i, t in enumerate(tensors)
              if t.is_floating_point() and case["inputs"][i][1].leaf]
    inputs = [t.clone() for t in tensors]
    for i in leaves:
        tensors[i].requires_grad_(True)
    outputs = base.forward(case, "f64", tensors)
    live = [i for i, o in enumerate(outputs) if o.requires_grad]
    if not live:
        return None
    weights = [None] * len(outputs)
    for i in live:
        weights[i] = torch.from_numpy(rng.choice([0.5, 0.75, 1.0, 1.25, 1.5], outputs[i].shape))
    found = torch.autograd.grad([outputs[i] for i in live], [tensors[i] for i in leaves],
                                [weights[i] for i in live], allow_unused=True, create_graph=True)
    attrs = dict(case["attrs"])
    try:
        second = second_derivatives(tensors, leaves, found)
        for i, s in zip(leaves, second or []):
            if s is not None and s.numel():
                attrs[f"second{i}"] = [float(v) for v in s.reshape(-1)]
    except RuntimeError as e:
        print(f"no second derivative of {name}: {str(e).splitlines()[0][:90]}")
    by_leaf = dict(zip(leaves, found))
    return dict(name=name, op=case["op"], attrs=attrs,
                inputs=[(r, t) for (r, _), t in zip(case["inputs"], inputs)],
                outputs=list(zip(outputs, weights)),
                grads=[by_leaf.get(i) for i in range(len(tensors))])


def chosen_kinds(case, before, of_op):
    """Three kinds, by turns, so that an op's cases together have them all; of few cases all."""
    if case["family"] in few:
        return ["ties", "infinite"]
    names = list(kinds)
    return names if of_op < 4 else [names[(before * 3 + k) % len(names)] for k in range(3)]


def main(path):
    start = time.time()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    base.declare_all()
    usable = [c for c in base.cases if c["grad"] and c["family"] not in left_out
              and c["types"][0] in ("f32", "f64")]
    of_op, before, packed = Counter(c["op"] for c in usable), Counter(), []
    for case in usable:
        chosen = chosen_kinds(case, before[case["op"]], of_op[case["op"]])
        before[case["op"]] += 1
        for kind in chosen:
            try:
                built = build(case, kind)
            except (base.Missing, AttributeError, TypeError, RuntimeError, IndexError,
                    ValueError) as e:
                print(f"skip {case['name']}@{kind}: {str(e).splitlines()[0][:110]}")
                continue
            if built:
                packed.append(base.pack_case(built))
    base.write_file(path, f"torch {torch.__version__}\nnumpy {np.__version__}\n"
                          f"seed {SEED} ^ crc32(name)\ncases {len(packed)}\n", packed)
    print(f"{len(packed)} cases, {len(open(path, 'rb').read())} bytes, "
          f"{time.time() - start:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])

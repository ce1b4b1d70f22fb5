#!/usr/bin/env python3
"""Makes test/goldens/interpolate.txt: what PyTorch's interpolate gives at sizes and factors where
formulas of positions differ.

    python3 tools/make_interpolate_goldens.py > test/goldens/interpolate.txt

A line is mode, align_corners, channels, spatial axes, input size, "size" or "factor", its value, and
the output of interpolating i * i + i / 2, i = 0, 1, ..., in f64 along the first spatial axis. The
others have size 1, and all channels are the same.
"""
import random

import torch
import torch.nn.functional as F

random.seed(11)
MODES = {1: ("nearest", "nearest-exact", "linear", "area"),
         2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
         3: ("nearest", "nearest-exact", "trilinear")}
FACTORS = (0.3, 0.5, 0.99, 1.0, 1.1, 1.24, 1.3, 1.5, 2.0, 2.1, 2.5, 3.3)


def line(mode, align, channels, axes, n, kind, value):
    x = torch.arange(n, dtype=torch.float64)
    x = (x * x + x / 2).reshape(1, 1, n, *[1] * (axes - 1)).expand(1, channels, n, *[1] * (axes - 1))
    options = {"mode": mode}
    if mode.endswith("linear") or mode == "bicubic":
        options["align_corners"] = align
    if kind == "size":
        options["size"] = (value,) + (1,) * (axes - 1)
    else:
        options["scale_factor"] = (value,) + (1.0,) * (axes - 1)
    try:
        y = F.interpolate(x.contiguous(), **options)[0, 0].flatten().tolist()
    except RuntimeError:
        return
    print(mode, int(align), channels, axes, n, kind, repr(value), *["%.9g" % v for v in y])


print(f"# torch {torch.__version__}")
for axes, modes in MODES.items():
    for mode in modes:
        for align in (False, True) if mode.endswith("linear") or mode == "bicubic" else (False,):
            for channels in (1, 2):
                for n in (1, 3, 4, 7):
                    for size in (1, 2, 4, 9):
                        line(mode, align, channels, axes, n, "size", size)
                    for factor in FACTORS:
                        line(mode, align, channels, axes, n, "factor", factor)
                for _ in range(8):
                    n, size = random.randint(1, 40), random.randint(1, 40)
                    factor = round(random.uniform(0.2, 3), 2)
                    line(mode, align, channels, axes, n, "size", size)
                    line(mode, align, channels, axes, random.randint(1, 30), "factor", factor)

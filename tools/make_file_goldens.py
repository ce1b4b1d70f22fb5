#!/usr/bin/env python3
"""Make the files that test/files_test.cpp reads, with PyTorch, NumPy and (if there) safetensors.

    python3 tools/make_file_goldens.py test/goldens/files.tar.gz

The archive holds small files as the reference libraries write them, and for each file X a list
X.expected of what is in it: one line per tensor, "name<TAB>dtype<TAB>d0,d1,...<TAB>hex", the hex
being its elements row-major and little-endian. What the installed libraries lack is skipped with a
line. Where the safetensors package is missing its files are written by hand, by the format's
description.
"""
import collections
import gzip
import io
import json
import struct
import sys
import tarfile

import numpy as np
import torch

try:
    import safetensors.torch
except ImportError:
    safetensors = None

SEED = 20261
DTYPES = {"bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
          "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
          "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
          "f8e5m2": "float8_e5m2"}
TORCH = {k: getattr(torch, v) for k, v in DTYPES.items() if hasattr(torch, v)}
NAMES = {v: k for k, v in TORCH.items()}
SAFETENSORS = {"bool": "BOOL", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2"}
SHAPES = [(), (1,), (5,), (2, 3), (3, 1, 4), (0, 3)]

rng = np.random.default_rng(SEED)
files = []


def raw(tensor):
    """The elements row-major, whatever the dtype."""
    t = tensor.detach().contiguous()
    if t.numel() == 0:
        return b""
    return t.reshape(-1).view(torch.uint8).numpy().tobytes()


def draw(name, shape):
    """A tensor of random bits that are no NaN."""
    if name == "bool":
        return torch.from_numpy(np.array(rng.integers(0, 2, shape), dtype=bool))
    if name.startswith(("f", "bf")):
        return torch.from_numpy(np.array(rng.normal(size=shape) * 3)).to(TORCH[name])
    size = TORCH[name].itemsize if hasattr(TORCH[name], "itemsize") else int(name[1:]) // 8
    bits = rng.integers(0, 256, (*shape, size)).astype(np.uint8)
    return torch.from_numpy(bits.view(f"<{'u' if name[0] == 'u' else 'i'}{size}").reshape(shape)
                            .view(f"<i{size}" if name in ("u16", "u32", "u64") else
                                  f"<{name[0]}{size}").copy()).view(TORCH[name])


def add(path, data, tensors):
    lines = [f"{name}\t{NAMES[t.dtype]}\t{','.join(map(str, t.shape))}\t{raw(t).hex()}\n"
             for name, t in tensors.items()]
    files.append((path, data))
    files.append((path + ".expected", "".join(lines).encode()))


def safetensors_bytes(tensors, metadata):
    if safetensors:
        return safetensors.torch.save(tensors, metadata)
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, t in tensors.items():
        begin = len(data)
        data += raw(t)
        kind = SAFETENSORS.get(NAMES[t.dtype], NAMES[t.dtype].upper())
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def to_bytes(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def make_safetensors():
    every = {f"{name}.{'x'.join(map(str, shape)) or 'scalar'}": draw(name, shape)
             for name in TORCH for shape in SHAPES}
    metadata = {"format": "pt", "note": "é \"quoted\""}
    add("all.safetensors", safetensors_bytes(every, metadata), every)
    add("empty.safetensors", safetensors_bytes({}, None), {})


def make_numpy():
    def numpy_of(t):
        return t.numpy() if t.dtype != torch.bfloat16 else None
    for name in ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64"):
        for shape in SHAPES:
            t = draw(name, shape)
            path = f"{name}.{'x'.join(map(str, shape)) or 'scalar'}.npy"
            add(path, to_bytes(lambda out: np.save(out, numpy_of(t))), {"": t})
    t = draw("f32", (3, 4, 2))
    add("fortran.npy", to_bytes(lambda out: np.save(out, np.asfortranarray(t.numpy()))), {"": t})
    for version in ((1, 0), (2, 0), (3, 0)):
        add(f"version{version[0]}.npy", to_bytes(
            lambda out: np.lib.format.write_array(out, t.numpy(), version=version)), {"": t})
    parts = {"a": draw("f32", (4, 4)), "b": draw("i64", ()), "long/name": draw("u8", (0,)),
             "zeros": torch.zeros(1000)}
    arrays = {k: v.numpy() for k, v in parts.items()}
    add("stored.npz", to_bytes(lambda out: np.savez(out, **arrays)), parts)
    add("deflated.npz", to_bytes(lambda out: np.savez_compressed(out, **arrays)), parts)
    wide = {"u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
    for name, kind in wide.items():
        if name in TORCH:
            t = draw(name, (3,))
            add(f"{name}.npy", to_bytes(
                lambda out: np.save(out, np.frombuffer(raw(t), kind))), {"": t})


def make_torch():
    def save(obj, **options):
        return to_bytes(lambda out: torch.save(obj, out, **options))
    every = {name: draw(name, (2, 3)) for name in TORCH}
    readable = {}
    for name, t in every.items():
        try:
            save(t)
            readable[name] = t
        except (RuntimeError, KeyError, TypeError) as error:
            print(f"skipped in torch.save: {name} ({error})")
    add("all.pt", save(readable), readable)
    base = draw("f32", (4, 6))
    views = {"base": base, "t": base.t(), "rows": base[1:3], "columns": base[:, ::2],
             "permuted": base.reshape(2, 2, 6).permute(2, 0, 1), "expanded": base[:1].expand(3, 6),
             "scalar": base[2, 3], "empty": base[:0]}
    add("views.pt", save(views), views)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7,
                  "history": [0.5, 0.25], "names": ("a", "b"), "best": None,
                  "extra": [{"w": base}, torch.Size([2, 3])]}
    flat = collections.OrderedDict((f"model.{k}", v) for k, v in net.state_dict().items())
    for i, state in optimizer.state_dict()["state"].items():
        flat.update((f"optimizer.state.{i}.{k}", v) for k, v in state.items())
    flat["extra.0.w"] = base
    add("checkpoint.pt", save(checkpoint), flat)
    add("protocol4.pt", save(checkpoint, pickle_protocol=4), flat)
    add("parameter.pt", save(torch.nn.Parameter(base)), {"": base})
    add("module.pt", save(net), {})  # refused by mote, with the class's name


def main(path):
    torch.manual_seed(SEED)
    make_safetensors()
    make_numpy()
    make_torch()
    versions = f"torch {torch.__version__}, numpy {np.__version__}, safetensors " + (
        safetensors.__version__ if safetensors else "absent")
    files.insert(0, ("versions", versions.encode()))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    packed = gzip.compress(out.getvalue(), 9, mtime=0)
    with open(path, "wb") as f:
        f.write(packed)
    print(f"{path}: {len(files)} files, {len(packed)} bytes; {versions}")


if __name__ == "__main__":
    main(sys.argv[1])

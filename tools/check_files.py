#!/usr/bin/env python3
"""Read files that mote has written with NumPy, PyTorch and (if there) safetensors.

    MOTE_FILES_OUT=build/written ./mote test "files for other libraries"
    python3 tools/check_files.py build/written

Beside each file X lies X.expected, what it must hold: one line per tensor,
"name<TAB>dtype<TAB>d0,d1,...<TAB>hex" (see make_file_goldens.py). Where the safetensors package is
missing, its files are read by a parser of a few lines and the line printed says so.
"""
import json
import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

try:
    import safetensors
    import safetensors.torch
except ImportError:
    safetensors = None

NUMPY = {"bool": "|b1", "u8": "|u1", "i8": "|i1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
         "i16": "<i2", "i32": "<i4", "i64": "<i8", "f16": "<f2", "f32": "<f4", "f64": "<f8"}
TORCH = {"bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
         "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
         "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
         "f8e5m2": "float8_e5m2"}
WRITTEN = {"bool": "BOOL", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2"}


def parse_safetensors(data):
    """Names to (dtype, shape, bytes), by the description of the format."""
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body, out, end = data[8 + length:], {}, 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = t["data_offsets"]
        assert begin == end, "a hole or an overlap"
        out[name], end = (t["dtype"], t["shape"], body[begin:after]), after
    assert end == len(body) and length % 8 == 0
    return out


def read_safetensors(path):
    data = path.read_bytes()
    if safetensors is None:
        names = {WRITTEN.get(k, k.upper()): k for k in TORCH}
        return {n: (names[d], s, b) for n, (d, s, b) in parse_safetensors(data).items()}
    names = {getattr(torch, v): k for k, v in TORCH.items() if hasattr(torch, v)}
    out = {}
    for name, t in safetensors.torch.load(data).items():
        bits = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        out[name] = (names[t.dtype], list(t.shape), bits)
    if "all" in path.name:  # what the reference library writes of the same tensors
        with safetensors.safe_open(path, "pt") as f:
            metadata = f.metadata()
        again = safetensors.torch.save(safetensors.torch.load(data), metadata)
        ours, theirs = parse_safetensors(data), parse_safetensors(again)
        assert list(ours) == list(theirs), "the tensors lie in another order"
    return out


def read_numpy(path):
    names = {v: k for k, v in NUMPY.items()}
    loaded = np.load(path, allow_pickle=False)
    arrays = {"": loaded} if path.suffix == ".npy" else {k: loaded[k] for k in loaded.files}
    return {k: (names[a.dtype.str], list(a.shape), a.tobytes()) for k, a in arrays.items()}


def read_expected(path):
    out = {}
    for line in Path(f"{path}.expected").read_text().splitlines():
        name, dtype, shape, bits = line.split("\t")
        out[name] = (dtype, [int(d) for d in shape.split(",") if d], bytes.fromhex(bits))
    return out


def main(folder):
    warnings.simplefilter("error", UserWarning)
    count = 0
    for path in sorted(Path(folder).iterdir()):
        if path.suffix == ".expected":
            continue
        read = read_safetensors if path.suffix == ".safetensors" else read_numpy
        expected, found = read_expected(path), read(path)
        assert found.keys() == expected.keys(), f"{path}: {found.keys() ^ expected.keys()}"
        for name in expected:
            assert found[name] == expected[name], f"{path}: {name}"
            count += 1
        print(f"ok  {path.name}: {len(expected)} tensors")
    print(f"{count} tensors; torch {torch.__version__}, numpy {np.__version__}, safetensors",
          safetensors.__version__ if safetensors else "absent (read by the parser here)")
    assert count, "there are no files"


if __name__ == "__main__":
    main(sys.argv[1])

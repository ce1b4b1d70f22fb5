#!/usr/bin/env python3
"""Make the golden cases of test/autocast_test.cpp with PyTorch: result dtypes under autocast.

    python3 tools/make_autocast_goldens.py test/goldens/autocast.gold.gz

The file has the format of tools/make_goldens.py, without tensors. A case has the name of the one in
make_goldens.py whose inputs it uses: those that follow the case's dtype are f32, or low (bf16), or
mixed (the first low, the others f32). Attributes <device>_<inputs>, as cpu_mixed: the dtypes of the
outputs in torch.autocast(device, bfloat16), with blanks between; "error" where PyTorch has none.
A device that is not there has no attributes.
"""
import sys

import torch

import make_goldens as goldens
from make_goldens import Missing, dtype_name, pack_case, write_file

LOW = torch.bfloat16


def given_as(case, tensors, how):
    """The inputs of one kind, or None where that is another kind again."""
    out, seen = [], 0
    for (_, spec), t in zip(case["inputs"], tensors):
        follows = spec.dtype is None and t.dtype == torch.float32
        low = follows and (how == "low" or (how == "mixed" and not seen))
        seen += follows
        out.append(t.to(LOW) if low else t)
    return None if seen == 0 or (how == "mixed" and seen == 1) else out


def result_dtypes(case, tensors, device):
    roles = [r for r, _ in case["inputs"]]
    try:
        moved = [t.to(device) for t in tensors]
        with torch.autocast(device, dtype=LOW):
            out = goldens.call(case["op"], moved, roles, case["attrs"])
        return " ".join(dtype_name[o.dtype] for o in out)
    except Exception as e:  # whatever PyTorch says: it has no result
        print(f"{case['name']} on {device}: {str(e).splitlines()[0][:110]}")
        return "error"


def main(path):
    torch.manual_seed(goldens.SEED)
    torch.set_num_threads(1)
    goldens.declare_all()
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    packed, results = [], 0
    for case in goldens.cases:
        if case["types"][0] != "f32" or not case["inputs"]:
            continue
        try:
            tensors, _ = goldens.draw(case, "f32")
        except Missing:
            continue
        attrs = {}
        for how in ("f32", "low", "mixed"):
            inputs = given_as(case, tensors, how)
            for device in devices if inputs else ():
                attrs[f"{device}_{how}"] = result_dtypes(case, inputs, device)
        if all(v == "error" for v in attrs.values()):
            continue
        results += len(attrs)
        packed.append(pack_case(dict(name=case["name"], op=case["op"], attrs=attrs, inputs=[],
                                     outputs=[], grads=[])))
    write_file(path, f"torch {torch.__version__}\ndevices {' '.join(devices)}\n", packed)
    print(f"{len(packed)} cases, {results} results, {len(open(path, 'rb').read())} bytes")


if __name__ == "__main__":
    main(sys.argv[1])

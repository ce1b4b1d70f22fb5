#!/usr/bin/env python3
"""Write the names of PyTorch's interface for tools/coverage.

    python3 tools/list_torch_names.py > tools/torch_names.txt

Those of the installed torch, and by hand those that later versions added, to 2.11. A line is
"group name".
"""
import torch
import torch.nn.functional as F

ADDED = {   # version: group: names
    "2.0": {"Tensor": "dim_order nbytes itemsize untyped_storage sparse_resize_",
            "functional": "scaled_dot_product_attention"},
    "2.1": {"Tensor": "arctan2_ is_xla mtia"},
    "2.2": {"create": "empty_permuted"},
    "2.3": {"Tensor": "module_load"},
    "2.4": {"functional": "rms_norm"},
    "2.10": {"functional": "grouped_mm scaled_mm scaled_grouped_mm"},
}
CREATE = """arange as_tensor asarray bartlett_window bernoulli binomial blackman_window complex
    empty empty_like empty_quantized empty_strided eye frombuffer from_dlpack from_file from_numpy
    full full_like hamming_window hann_window kaiser_window linspace logspace multinomial normal
    ones ones_like poisson polar quantize_per_channel quantize_per_tensor rand rand_like randint
    randint_like randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor
    sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor
    tril_indices triu_indices zeros zeros_like""".split()
# Of the modules, not of the interface.
NOISE = {"assert_int_or_pair", "boolean_dispatch", "common_notes", "common_args",
         "factory_common_args", "handle_torch_function", "has_torch_function",
         "has_torch_function_unary", "has_torch_function_variadic", "multi_dim_common", "sys",
         "torch", "math", "warnings", "importlib", "utils"}


def public(module):
    return {n for n in dir(module) if not n.startswith("_") and n not in NOISE
            and n[0].islower() and callable(getattr(module, n))}


def main():
    groups = {"Tensor": {n for n in dir(torch.Tensor) if not n.startswith("_")},
              "functional": public(F), "create": {n for n in CREATE if hasattr(torch, n)},
              "linalg": public(torch.linalg), "fft": public(torch.fft),
              "special": public(torch.special)}
    for added in ADDED.values():
        for group, names in added.items():
            groups[group] |= set(names.split())
    for group, names in groups.items():
        for name in sorted(names):
            print(group, name)


if __name__ == "__main__":
    main()

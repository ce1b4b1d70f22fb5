#!/usr/bin/env python3
"""Make the golden cases of test/optim_goldens_test.cpp with PyTorch.

    python3 tools/make_optim_goldens.py test/goldens/optim.gold.gz

The file has the format of tools/make_goldens.py. Kinds of cases, by op:
    SGD, Adam, AdamW, Muon, LAMB, LARS
        A small two-layer network on fixed data. inputs: x, y and the parameters; attributes: the
        options, and `at`, step numbers; outputs: the parameters after each of those steps, in turn.
        `clip` clips the gradients' norm before each step, `cosine` anneals the rate over so many.
    schedule            attributes: its settings; output: the rate of every step from 0 on (f64)
    clip_grad_norm, clip_grad_value
                        inputs: gradients; outputs: the clipped ones, and the norm
    GradScaler          inputs: the gradient of each step; outputs: scale and parameter after each
    LSTMCell, GRUCell, MultiheadAttention
                        inputs by role; outputs and gradients as in tools/make_goldens.py
    state_dict          attribute `state`: a line "name size size ..." per tensor of a module
Everything runs in f64 from values that f32 holds and is stored as f32, so that PyTorch's own
rounding is no part of what is expected (but Muon iterates in bf16, as torch.optim.Muon does).
"""
import math
import sys
import zlib

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from make_goldens import SEED, pack_case, write_file

AT = [1, 2, 10, 50]
packed = []


def random(name, *shape, scale=1.0):
    rng = np.random.RandomState((zlib.crc32(name.encode()) ^ SEED) & 0x7fffffff)
    return torch.from_numpy(rng.standard_normal(shape) * scale).float().double()


def f32(t):
    return None if t is None else t.detach().clone().float()


def add(name, op, attrs, inputs, outputs, grads=()):
    """inputs: (role, tensor); outputs: (tensor, weight or None)"""
    packed.append(pack_case(dict(name=name, op=op, attrs=attrs, inputs=inputs, outputs=outputs,
                                 grads=list(grads))))


# ---------------------------------------------------------------- optimizers torch lacks
class LAMB:
    """You et al., Large Batch Optimization for Deep Learning (arXiv:1904.00962), algorithm 2, with
    phi the identity; the ratio is 1 where a norm is 0."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        self.params, self.lr, self.betas, self.eps = params, lr, betas, eps
        self.weight_decay, self.t = weight_decay, 0
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            m.mul_(b1).add_(p.grad * (1 - b1))
            v.mul_(b2).add_(p.grad * p.grad * (1 - b2))
            r = (m / (1 - b1 ** self.t)) / ((v / (1 - b2 ** self.t)).sqrt() + self.eps)
            r = r + self.weight_decay * p
            norms = p.norm(), r.norm()
            ratio = norms[0] / norms[1] if norms[0] > 0 and norms[1] > 0 else 1.0
            p.sub_(self.lr * ratio * r)


class LARS:
    """You et al., Large Batch Training of Convolutional Networks (arXiv:1708.03888), algorithm 1;
    the ratio is 1 where a norm is 0."""

    def __init__(self, params, lr, momentum, weight_decay, trust_coefficient):
        self.params, self.lr, self.momentum = params, lr, momentum
        self.weight_decay, self.trust = weight_decay, trust_coefficient
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.params, self.v):
            w, g = p.norm(), p.grad.norm()
            ratio = self.trust * w / (g + self.weight_decay * w) if w > 0 and g > 0 else 1.0
            v.mul_(self.momentum).add_(self.lr * ratio * (p.grad + self.weight_decay * p))
            p.sub_(v)


class WideMuon:
    """torch.optim.Muon's arithmetic, with the Newton-Schulz iteration in the parameters' dtype."""

    def __init__(self, params, lr, weight_decay, momentum, nesterov):
        self.params, self.lr, self.weight_decay = params, lr, weight_decay
        self.momentum, self.nesterov = momentum, nesterov
        self.b = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.b):
            b.lerp_(p.grad, 1 - self.momentum)
            x = p.grad.lerp(b, self.momentum) if self.nesterov else b
            tall = x.shape[0] > x.shape[1]
            x = x.T if tall else x
            x = x / x.norm().clamp(min=1e-7)
            for _ in range(5):
                gram = x @ x.T
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            x = x.T if tall else x
            p.mul_(1 - self.lr * self.weight_decay)
            p.sub_(self.lr * math.sqrt(max(1, p.shape[0] / p.shape[1])) * x)


# ---------------------------------------------------------------- trajectories
def network(biases):
    params = [("weight1", random("weight1", 12, 8, scale=0.35)),
              ("bias1", random("bias1", 12, scale=0.2)),
              ("weight2", random("weight2", 4, 12, scale=0.3)),
              ("bias2", random("bias2", 4, scale=0.2))]
    return [(n, p.requires_grad_(True)) for n, p in params if biases or n.startswith("weight")]


def loss_of(named, x, y):
    p = dict(named)
    h = torch.tanh(torch.nn.functional.linear(x, p["weight1"], p.get("bias1")))
    out = torch.nn.functional.linear(h, p["weight2"], p.get("bias2"))
    return (out - y).square().mean()


def trajectory(op, pattern, make, biases=True, clip=None, cosine=None, **attrs):
    x, y = random("x", 16, 8), random("y", 16, 4)
    named = network(biases)
    start = [(n, f32(p)) for n, p in named]
    params = [p for _, p in named]
    opt = make(params, **attrs)
    schedule = cosine and torch.optim.lr_scheduler.CosineAnnealingLR(opt, cosine)
    outputs = []
    for t in range(1, AT[-1] + 1):
        for p in params:
            p.grad = None
        loss_of(named, x, y).backward()
        if clip:
            clip_grad_norm_(params, clip)
        opt.step()
        if schedule:
            schedule.step()
        if t in AT:
            outputs += [(f32(p), None) for p in params]
    attrs.update({k: v for k, v in dict(clip=clip, cosine=cosine).items() if v is not None})
    add(f"{op}/{pattern}", op, dict(at=AT, **attrs), [("x", f32(x)), ("y", f32(y))] + start,
        outputs)


def adam(kind):
    def make(params, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
        return kind(params, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
    return make


def muon(params, compute="bf16", adjust="original", **kw):
    if compute == "f32":
        return WideMuon(params, **kw)
    return torch.optim.Muon(params, adjust_lr_fn=adjust, **kw)


def trajectories():
    sgd = torch.optim.SGD
    trajectory("SGD", "plain", sgd, lr=0.1)
    trajectory("SGD", "momentum", sgd, lr=0.05, momentum=0.9)
    trajectory("SGD", "dampening", sgd, lr=0.1, momentum=0.9, dampening=0.3)
    trajectory("SGD", "nesterov", sgd, lr=0.05, momentum=0.8, nesterov=True)
    trajectory("SGD", "weight_decay", sgd, lr=0.1, weight_decay=0.05)
    trajectory("SGD", "nesterov_decay", sgd, lr=0.05, momentum=0.9, nesterov=True,
               weight_decay=0.01)
    trajectory("SGD", "dampening_decay", sgd, lr=0.1, momentum=0.7, dampening=0.5,
               weight_decay=0.02)
    trajectory("SGD", "clip_cosine", sgd, lr=0.2, momentum=0.9, clip=0.3, cosine=50)
    for name, kind in (("Adam", torch.optim.Adam), ("AdamW", torch.optim.AdamW)):
        trajectory(name, "plain", adam(kind), lr=0.01)
        trajectory(name, "weight_decay", adam(kind), lr=0.02, weight_decay=0.1)
        trajectory(name, "betas", adam(kind), lr=0.02, beta1=0.8, beta2=0.95)
        trajectory(name, "eps", adam(kind), lr=0.05, eps=0.01)
        trajectory(name, "clip_cosine", adam(kind), lr=0.03, weight_decay=0.01, clip=0.2,
                   cosine=40)
    lamb = adam(LAMB)
    trajectory("LAMB", "plain", lamb, lr=0.02, eps=1e-6)
    trajectory("LAMB", "weight_decay", lamb, lr=0.05, eps=1e-6, weight_decay=0.01)
    trajectory("LAMB", "betas", lamb, lr=0.03, beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=0.1)
    trajectory("LARS", "plain", LARS, lr=1.0, momentum=0.0, weight_decay=0.0,
               trust_coefficient=0.02)
    trajectory("LARS", "momentum", LARS, lr=1.0, momentum=0.9, weight_decay=1e-4,
               trust_coefficient=0.005)
    trajectory("LARS", "weight_decay", LARS, lr=0.5, momentum=0.5, weight_decay=0.1,
               trust_coefficient=0.02)
    two_d = dict(biases=False, momentum=0.95, nesterov=True)
    trajectory("Muon", "plain", muon, **two_d, lr=0.02, weight_decay=0.1)
    trajectory("Muon", "match_rms", muon, **two_d, lr=0.02, weight_decay=0.0,
               adjust="match_rms_adamw")
    trajectory("Muon", "f32", muon, **two_d, lr=0.02, weight_decay=0.1, compute="f32")
    trajectory("Muon", "f32_plain_momentum", muon, biases=False, lr=0.02, weight_decay=0.0,
               momentum=0.9, nesterov=False, compute="f32")


# ---------------------------------------------------------------- rates
def rates(pattern, make, steps=60, base=0.5, **attrs):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
    schedule = make(opt, **attrs)
    out = []
    for _ in range(steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    add(f"schedule/{pattern}", "schedule", dict(kind=pattern.split("_")[0], lr=base, **attrs), [],
        [(torch.tensor(out, dtype=torch.float64), None)])


def schedules():
    s = torch.optim.lr_scheduler
    rates("constant", s.ConstantLR, factor=0.25, total_iters=7)
    rates("step", s.StepLR, step_size=9, gamma=0.3)
    rates("multistep", s.MultiStepLR, milestones=[5, 20, 21, 40], gamma=0.5)
    rates("exponential", s.ExponentialLR, gamma=0.93)
    rates("linear", s.LinearLR, start_factor=0.1, end_factor=1.0, total_iters=15)
    rates("linear_down", s.LinearLR, start_factor=1.0, end_factor=0.2, total_iters=40)
    rates("cosine", s.CosineAnnealingLR, T_max=59, eta_min=0.01)
    rates("cosine_twice", s.CosineAnnealingLR, T_max=20, eta_min=0.0)
    for pattern, kw in {"onecycle": {}, "onecycle_linear": dict(anneal_strategy="linear"),
                        "onecycle_phases": dict(three_phase=True, pct_start=0.25,
                                                div_factor=10.0, final_div_factor=100.0)}.items():
        rates(pattern, s.OneCycleLR, steps=59, max_lr=0.5, total_steps=60, **kw)

    def warm_up_then_cosine(opt, warm_up, total):
        return s.SequentialLR(opt, [s.LinearLR(opt, start_factor=0.05, total_iters=warm_up),
                                    s.CosineAnnealingLR(opt, T_max=total - warm_up)], [warm_up])

    def three_parts(opt, first, second):
        return s.SequentialLR(opt, [s.ConstantLR(opt, factor=0.1, total_iters=100),
                                    s.ExponentialLR(opt, gamma=0.9),
                                    s.StepLR(opt, step_size=6, gamma=0.5)], [first, second])

    rates("sequential", warm_up_then_cosine, warm_up=10, total=60)
    rates("sequentialthree", three_parts, first=8, second=30)


# ---------------------------------------------------------------- clipping and scaling
def clipping():
    shapes = {"a": (5, 4), "b": (7,), "c": (2, 3, 2)}
    for norm_type in (2.0, 1.0, math.inf):
        for pattern, limit in (("cut", 0.5), ("kept", 1000.0)):
            params = [torch.zeros(s, dtype=torch.float64) for s in shapes.values()]
            for p, n in zip(params, shapes):
                p.grad = random("clip " + n, *p.shape)
            inputs = [(n, f32(p.grad)) for p, n in zip(params, shapes)]
            norm = clip_grad_norm_(params, limit, norm_type)
            add(f"clip_grad_norm/{pattern}_{norm_type}", "clip_grad_norm",
                dict(max_norm=limit, norm_type=norm_type), inputs,
                [(f32(p.grad), None) for p in params] + [(f32(norm), None)])
    params = [torch.zeros(s, dtype=torch.float64) for s in shapes.values()]
    for p, n in zip(params, shapes):
        p.grad = random("clip " + n, *p.shape)
    inputs = [(n, f32(p.grad)) for p, n in zip(params, shapes)]
    clip_grad_value_(params, 0.4)
    add("clip_grad_value/cut", "clip_grad_value", dict(clip_value=0.4), inputs,
        [(f32(p.grad), None) for p in params])


def scaling():
    settings = dict(init_scale=1024.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
    grads = torch.tensor([1, 2, math.inf, 1, 1, 1, 1, 1, 1, math.nan, math.inf, 3, 1, 1, 1, 1],
                         dtype=torch.float32)
    p = torch.ones(1, requires_grad=True)
    opt = torch.optim.SGD([p], lr=0.125, momentum=0.5)
    scaler = torch.amp.GradScaler("cpu", **settings)
    scales, values = [], []
    for g in grads:
        opt.zero_grad()
        scaler.scale((p * g).sum()).backward()
        scaler.step(opt)
        scaler.update()
        scales.append(scaler.get_scale())
        values.append(p.item())
    add("GradScaler/dynamic", "GradScaler", dict(lr=0.125, momentum=0.5, **settings),
        [("grads", grads)], [(torch.tensor(scales), None), (torch.tensor(values), None)])


# ---------------------------------------------------------------- modules
def module_case(pattern, module, inputs, call):
    """Gradients of sum(output * weight) for the inputs and then the module's parameters."""
    op = type(module).__name__
    module = module.double()
    for i, p in enumerate(module.parameters()):
        p.data = random(f"{op} {i}", *p.shape, scale=0.4)
    tensors = [t.requires_grad_(True) for _, t in inputs] + list(module.parameters())
    outputs = call(module, *tensors[:len(inputs)])
    weights = [random(f"{op} weight {i}", *o.shape) for i, o in enumerate(outputs)]
    grads = torch.autograd.grad(outputs, tensors, weights)
    named = inputs + list(module.named_parameters())
    add(f"{op}/{pattern}", op, {}, [(n, f32(t)) for n, t in named],
        [(f32(o), f32(w)) for o, w in zip(outputs, weights)], [f32(g) for g in grads])


def modules():
    nn = torch.nn
    x, h, c = random("cell x", 3, 5), random("cell h", 3, 4), random("cell c", 3, 4)

    def inputs(*named):
        return [(n, t.clone()) for n, t in named]

    module_case("state", nn.LSTMCell(5, 4), inputs(("x", x), ("h", h), ("c", c)),
                lambda m, a, b, d: m(a, (b, d)))
    module_case("start", nn.LSTMCell(5, 4), inputs(("x", x)), lambda m, a: m(a))
    module_case("no_bias", nn.LSTMCell(5, 4, bias=False), inputs(("x", x)), lambda m, a: m(a))
    module_case("state", nn.GRUCell(5, 4), inputs(("x", x), ("h", h)), lambda m, a, b: [m(a, b)])
    module_case("start", nn.GRUCell(5, 4), inputs(("x", x)), lambda m, a: [m(a)])
    module_case("no_bias", nn.GRUCell(5, 4, bias=False), inputs(("x", x), ("h", h)),
                lambda m, a, b: [m(a, b)])
    q, k, v = (random(f"attention {n}", 2, length, 6) for n, length in
               (("q", 3), ("k", 5), ("v", 5)))
    module_case("cross", nn.MultiheadAttention(6, 2, batch_first=True),
                inputs(("query", q), ("key", k), ("value", v)),
                lambda m, a, b, d: [m(a, b, d, need_weights=False)[0]])
    module_case("self", nn.MultiheadAttention(6, 3, bias=False, batch_first=True),
                inputs(("query", q)), lambda m, a: [m(a, a, a, need_weights=False)[0]])
    causal = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    module_case("causal", nn.MultiheadAttention(6, 2, batch_first=True), inputs(("query", q)),
                lambda m, a: [m(a, a, a, attn_mask=causal, need_weights=False)[0]])


def state_dicts():
    nn = torch.nn
    for name, m in {
            "Linear": nn.Linear(3, 2), "Linear_no_bias": nn.Linear(3, 2, bias=False),
            "Conv1d": nn.Conv1d(4, 6, 3), "Conv2d": nn.Conv2d(4, 6, (3, 5), groups=2),
            "Conv3d": nn.Conv3d(2, 4, 3, bias=False),
            "ConvTranspose1d": nn.ConvTranspose1d(4, 6, 3),
            "ConvTranspose2d": nn.ConvTranspose2d(4, 6, (3, 2), groups=2),
            "ConvTranspose3d": nn.ConvTranspose3d(2, 4, 3, bias=False),
            "BatchNorm": nn.BatchNorm2d(5), "BatchNorm_plain": nn.BatchNorm1d(5, affine=False),
            "BatchNorm_no_stats": nn.BatchNorm3d(5, track_running_stats=False),
            "LayerNorm": nn.LayerNorm((3, 4)), "LayerNorm_no_bias": nn.LayerNorm(4, bias=False),
            "LayerNorm_plain": nn.LayerNorm(4, elementwise_affine=False),
            "GroupNorm": nn.GroupNorm(2, 6), "GroupNorm_plain": nn.GroupNorm(2, 6, affine=False),
            "InstanceNorm": nn.InstanceNorm2d(4, affine=True),
            "InstanceNorm_plain": nn.InstanceNorm2d(4),
            "RMSNorm": nn.RMSNorm((3, 4)),
            "RMSNorm_plain": nn.RMSNorm(4, elementwise_affine=False),
            "Embedding": nn.Embedding(7, 3), "Dropout": nn.Dropout(0.2),
            "LSTMCell": nn.LSTMCell(3, 4), "LSTMCell_no_bias": nn.LSTMCell(3, 4, bias=False),
            "GRUCell": nn.GRUCell(3, 4), "GRUCell_no_bias": nn.GRUCell(3, 4, bias=False),
            "MultiheadAttention": nn.MultiheadAttention(6, 2),
            "MultiheadAttention_no_bias": nn.MultiheadAttention(6, 2, bias=False),
            "Sequential": nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
                                        nn.Sequential(nn.Dropout(), nn.Linear(8, 4))),
    }.items():
        state = "".join(" ".join([n, *map(str, t.shape)]) + "\n" for n, t in
                        m.state_dict().items())
        add(f"state_dict/{name}", "state_dict", dict(state=state), [], [])


def main(path):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    for family in (trajectories, schedules, clipping, scaling, modules, state_dicts):
        before = len(packed)
        family()
        print(f"{family.__name__:14} {len(packed) - before:4} cases")
    header = f"torch {torch.__version__}\nnumpy {np.__version__}\nseed {SEED} ^ crc32(name)\n"
    write_file(path, header, packed)
    print(f"{len(open(path, 'rb').read())} bytes")


if __name__ == "__main__":
    main(sys.argv[1])

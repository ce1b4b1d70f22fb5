#!/usr/bin/env python3
"""Make the golden cases of test/training_goldens_test.cpp with PyTorch 1.13 or newer.

    python3 tools/make_training_goldens.py test/goldens/training.gold.gz

Cases as in tools/make_optim_goldens.py, of the optimizers and schedules in mote/optimizers.h and
mote/lr_schedules.h that are not there, and of the modules in mote/modules.h.
    schedule/plateau*   attribute `metrics`: what step() is told, as text
    png                 tools/make_picture_goldens.py
    average             SWA and EMA of a parameter that takes the values of the input, row by row
"""
import sys

import numpy as np
import torch

import make_optim_goldens as base
from make_goldens import SEED, write_file
from make_optim_goldens import add, adam, f32, random, rates, trajectory

optim = torch.optim


class NAdam:
    """torch.optim.NAdam's arithmetic since 2.0; before, a factor was in the momentum's product twice."""

    def __init__(self, params, lr, betas, eps, weight_decay, momentum_decay=4e-3):
        self.params, self.lr, self.betas, self.eps = params, lr, betas, eps
        self.weight_decay, self.momentum_decay = weight_decay, momentum_decay
        self.t, self.product = 0, 1.0
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        mu, following = (b1 * (1 - 0.5 * 0.96 ** (t * self.momentum_decay))
                         for t in (self.t, self.t + 1))
        self.product *= mu
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad + self.weight_decay * p
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            denom = (v / (1 - b2 ** self.t)).sqrt() + self.eps
            p.sub_(self.lr * (1 - mu) / (1 - self.product) * g / denom)
            p.sub_(self.lr * following / (1 - self.product * following) * m / denom)


def betas(kind, **fixed):
    def make(params, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, **kw):
        return kind(params, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, **kw,
                    **fixed)
    return make


def optimizers():
    trajectory("RMSprop", "plain", optim.RMSprop, lr=0.01)
    trajectory("RMSprop", "momentum", optim.RMSprop, lr=0.005, momentum=0.9, alpha=0.9,
               eps=0.01)
    trajectory("RMSprop", "centered", optim.RMSprop, lr=0.01, centered=True, alpha=0.95, eps=0.01)
    trajectory("RMSprop", "all", optim.RMSprop, lr=0.003, centered=True, momentum=0.5, eps=1e-4,
               weight_decay=0.05, clip=0.3, cosine=40)
    trajectory("Adagrad", "plain", optim.Adagrad, lr=0.05)
    trajectory("Adagrad", "all", optim.Adagrad, lr=0.1, lr_decay=0.1, weight_decay=0.02,
               initial_accumulator_value=0.1, eps=1e-6)
    trajectory("Adadelta", "plain", optim.Adadelta, lr=1.0)
    trajectory("Adadelta", "all", optim.Adadelta, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.05)
    trajectory("Adamax", "plain", betas(optim.Adamax), lr=0.01)
    trajectory("Adamax", "all", betas(optim.Adamax), lr=0.02, beta1=0.8, beta2=0.95, eps=1e-4,
               weight_decay=0.1)
    trajectory("NAdam", "plain", betas(NAdam), lr=0.01)
    trajectory("NAdam", "all", betas(NAdam), lr=0.02, beta1=0.8, beta2=0.98, eps=1e-6,
               weight_decay=0.05, momentum_decay=0.02)
    trajectory("RAdam", "plain", betas(optim.RAdam), lr=0.01)
    trajectory("RAdam", "all", betas(optim.RAdam), lr=0.02, beta1=0.8, beta2=0.9, eps=1e-4,
               weight_decay=0.05)
    trajectory("ASGD", "plain", optim.ASGD, lr=0.05)
    trajectory("ASGD", "all", optim.ASGD, lr=0.1, lambd=0.01, alpha=0.6, t0=5.0, weight_decay=0.01)
    trajectory("Rprop", "plain", optim.Rprop, lr=0.01)
    trajectory("Adam", "amsgrad", betas(optim.Adam), lr=0.05, beta2=0.9, amsgrad=True)
    trajectory("AdamW", "amsgrad", betas(optim.AdamW), lr=0.05, beta2=0.9, amsgrad=True,
               weight_decay=0.1)
    trajectory("Adam", "maximize", betas(optim.Adam), lr=0.001, maximize=True)
    trajectory("SGD", "maximize", optim.SGD, lr=0.001, momentum=0.5, maximize=True)


def plateau(pattern, metrics, **attrs):
    opt = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(opt, **attrs)
    out = []
    for m in metrics:
        schedule.step(m)
        out.append(opt.param_groups[0]["lr"])
    add(f"schedule/{pattern}", "plateau", dict(lr=0.5, **attrs), [("metrics", torch.tensor(metrics))],
        [(torch.tensor(out, dtype=torch.float64), None)])


def schedules():
    s = optim.lr_scheduler
    rates("restarts", s.CosineAnnealingWarmRestarts, T_0=11, eta_min=0.02)
    rates("restarts_longer", s.CosineAnnealingWarmRestarts, T_0=5, T_mult=2)
    rates("polynomial", s.PolynomialLR, total_iters=40, power=2.0)
    rates("polynomial_line", s.PolynomialLR, total_iters=30, power=1.0)

    def slower(opt):
        return s.LambdaLR(opt, lambda t: 1.0 / (1.0 + t))

    def chain(opt, factor, gamma):
        return s.ChainedScheduler([s.ConstantLR(opt, factor=factor, total_iters=9),
                                   s.ExponentialLR(opt, gamma=gamma)])

    rates("lambda", slower)
    rates("chained", chain, factor=0.2, gamma=0.9)
    down = [float(np.float32(4.0 / (i + 1) + 0.01 * (i % 3))) for i in range(40)] + [0.3] * 20
    plateau("plateau", down, patience=2, factor=0.5)
    plateau("plateau_cooldown", [1.0] * 40, patience=1, factor=0.5, cooldown=4, min_lr=0.01)
    plateau("plateau_max", [float(i // 4) for i in range(30)], mode="max", patience=1,
            threshold=0.5, threshold_mode="abs", factor=0.3)


def averages():
    rows = random("average", 6, 5)
    for name, decay in (("swa", 0.0), ("ema", 0.75)):
        net = torch.nn.Linear(5, 1, bias=False).double()
        avg = torch.optim.swa_utils.AveragedModel(
            net, avg_fn=(lambda a, p, n: a * decay + p * (1 - decay)) if decay else None)
        for row in rows:
            net.weight.data = row[None].clone()
            avg.update_parameters(net)
        add(f"average/{name}", "average", dict(decay=decay), [("rows", f32(rows))],
            [(f32(avg.module.weight), None)])


def main(path):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    import make_module_goldens
    import make_picture_goldens
    for family in (optimizers, schedules, averages, make_module_goldens.modules,
                   make_picture_goldens.pictures):
        before = len(base.packed)
        family()
        print(f"{family.__name__:14} {len(base.packed) - before:4} cases")
    header = f"torch {torch.__version__}\nnumpy {np.__version__}\nseed {SEED} ^ crc32(name)\n"
    write_file(path, header, base.packed)
    print(f"{len(open(path, 'rb').read())} bytes")


if __name__ == "__main__":
    main(sys.argv[1])

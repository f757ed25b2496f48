"""Updates of torch.optim and clipped gradients, as PyTorch computes them.

    python make_optimizers.py optimizers.safetensors

For parameters of one to three dimensions and a scalar the result holds
`initial.NAME`, `gradient.NAME` [steps, ...] and, for each case below,
`CASE.NAME` [steps, ...]: the parameter after each step. `vector` has no
gradient in steps 0, 3, 6 and 9. `clip.P.NAME` are the gradients of step 1 as
clip_grad_norm_ leaves them, with the norm of order P at most 0.5, `clip.P.norm`
that norm; `clip.P.inf.NAME` and `clip.P.nan.NAME`: where one value of `matrix`
is inf or NaN. tests/engine/stage reads it. Made once, with torch 2.11.0.
"""

import sys

import torch
from tensor_files import write_safetensors
from torch.optim import SGD, AdamW, Adafactor, Muon

STEPS = 10
SHAPES = {
    "matrix": (6, 4),
    "wide": (3, 8),
    "vector": (5,),
    "scalar": (),
    "cube": (2, 3, 4),
}
CASES = {
    "sgd": lambda p: [SGD(p, lr=0.1, weight_decay=0.01)],
    "sgd_momentum": lambda p: [SGD(p, lr=0.1, momentum=0.9, dampening=0.3)],
    "sgd_nesterov": lambda p: [
        SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    ],
    "adamw": lambda p: [AdamW(p, lr=1e-2, weight_decay=0.1)],
    "adafactor": lambda p: [Adafactor(p, lr=1e-2)],
    "adafactor_options": lambda p: [
        Adafactor(
            p, lr=0.1, beta2_decay=-0.7, eps=(1e-6, 1e-2), d=1.2, weight_decay=0.1
        )
    ],
    "muon_original": lambda p: with_adamw(p, adjust_lr_fn="original"),
    "muon_match_rms_adamw": lambda p: with_adamw(
        p, adjust_lr_fn="match_rms_adamw", nesterov=False, momentum=0.9, ns_steps=3
    ),
}


def with_adamw(parameters, **options):
    matrices = [p for p in parameters if p.dim() == 2]
    others = [p for p in parameters if p.dim() != 2]
    # A unit in the last place of bf16, in which CPUs may differ, is below 1e-6.
    same = {"lr": 1e-4, "weight_decay": 0.1}
    return [Muon(matrices, **same, **options), AdamW(others, **same)]


def give(parameters, gradients, step):
    for name, p in parameters.items():
        absent = name == "vector" and step % 3 == 0
        p.grad = None if absent else gradients[name][step].clone()


def updated(make, initial, gradients):
    p = {k: torch.nn.Parameter(v.clone()) for k, v in initial.items()}
    optimizers = make(list(p.values()))
    after = {k: [] for k in p}
    for step in range(STEPS):
        give(p, gradients, step)
        for each in optimizers:
            each.step()
        for k, v in p.items():
            after[k].append(v.detach().clone())
    return {k: torch.stack(v) for k, v in after.items()}


def clipped(initial, gradients, order, odd=None):
    p = {k: torch.nn.Parameter(v.clone()) for k, v in initial.items()}
    give(p, gradients, 1)
    if odd is not None:
        p["matrix"].grad[1, 2] = odd
    norm = torch.nn.utils.clip_grad_norm_(p.values(), 0.5, norm_type=order)
    return {"norm": norm, **{k: v.grad for k, v in p.items()}}


def main():
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(3)
    initial = {k: torch.randn(s, generator=gen) for k, s in SHAPES.items()}
    gradients = {
        k: torch.randn((STEPS, *s), generator=gen) for k, s in SHAPES.items()
    }
    out = {f"initial.{k}": v for k, v in initial.items()}
    out |= {f"gradient.{k}": v for k, v in gradients.items()}
    for case, make in CASES.items():
        for k, v in updated(make, initial, gradients).items():
            out[f"{case}.{k}"] = v
    for order in (1.0, 2.0, 3.0, float("inf")):
        for odd in (None, float("inf"), float("nan")):
            case = f"clip.{order:g}" + ("" if odd is None else f".{odd}")
            for k, v in clipped(initial, gradients, order, odd).items():
                out[f"{case}.{k}"] = v
    write_safetensors(sys.argv[1], out)


if __name__ == "__main__":
    main()

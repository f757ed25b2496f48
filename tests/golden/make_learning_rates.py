"""Learning rates of transformers' schedulers, as it computes them.

    python make_learning_rates.py learning_rates.safetensors

For each case below the result holds `CASE` [200], fp64: the factor of the
learning rate after 1 to 200 calls of `step`. tests/engine/stage reads it. Made
once, with transformers 5.24.0 and torch 2.11.0.
"""

import sys

import torch
import transformers as t
from tensor_files import write_safetensors

STEPS = 200
CASES = {
    "constant": lambda o: t.get_constant_schedule_with_warmup(o, 30),
    "linear": lambda o: t.get_linear_schedule_with_warmup(o, 30, 180),
    "cosine": lambda o: t.get_cosine_schedule_with_warmup(o, 30, 180),
    "cosine_min": lambda o: t.get_cosine_with_min_lr_schedule_with_warmup(
        o, 0, 180, min_lr_rate=0.1
    ),
    **{
        name: lambda o, kind=kind, least=least, warmup=warmup: t.get_wsd_schedule(
            o,
            num_warmup_steps=warmup,
            num_decay_steps=40,
            num_stable_steps=180 - 40 - warmup,
            decay_type=kind,
            min_lr_ratio=least,
        )
        for name, kind, least, warmup in [
            ("wsd", "linear", 0.0, 30),
            ("wsd_min", "linear", 0.1, 0),
            ("wsd_sqrt", "1-sqrt", 0.0, 30),
            ("wsd_sqrt_min", "1-sqrt", 0.1, 0),
        ]
    },
}


def factors(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    found = []
    for _ in range(STEPS):
        optimizer.step()
        scheduler.step()
        found.append(scheduler.get_last_lr()[0])
    return torch.tensor(found, dtype=torch.float64)


if __name__ == "__main__":
    write_safetensors(
        sys.argv[1], {name: factors(make) for name, make in CASES.items()}
    )

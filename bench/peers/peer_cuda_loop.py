"""Train the byte GPT in PyTorch's own eager loop on one device.

Gradient accumulation over microbatches, autocast (parameters stay fp32), fused
AdamW; the host waits once a step, for the loss.  The last line printed is one
JSON object.
"""

import contextlib
import json
import statistics
import sys

import torch

import gpt
import measure


def make_inputs(a, device):
    """Batches of all steps, in memory that a copy need not wait for."""
    data = gpt.load_bytes(a.text)
    count = min(a.steps + a.warmup, 16)
    batches = gpt.make_batches(
        data, count, a.microbatches * a.microbatch_size, a.seq, a.seed
    )
    pin = device.type == "cuda"
    return [tuple(t.pin_memory() if pin else t for t in pair) for pair in batches]


class Loop:
    def __init__(self, a):
        self.a, self.device = a, torch.device(a.device)
        torch.manual_seed(a.seed)
        self.model = gpt.GPTStage(a.d_model, a.layers, a.heads, a.seq, 0, 1, a.seed)
        self.model.to(self.device)
        self.optimizer = gpt.make_optimizer(self.model.parameters())
        self.batches = make_inputs(a, self.device)

    def casts(self):
        if self.a.autocast == "none":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def step(self, index):
        a = self.a
        x, y = self.batches[index % len(self.batches)]
        total = torch.zeros((), device=self.device)
        for xs, ys in zip(x.split(a.microbatch_size), y.split(a.microbatch_size)):
            xs = xs.to(self.device, non_blocking=True)
            ys = ys.to(self.device, non_blocking=True)
            with self.casts():
                loss = gpt.loss_fn(self.model(xs).float(), ys)
            (loss / a.microbatches).backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total.item() / a.microbatches


def main():
    ap = measure.parser(__doc__, steps=20, warmup=5)
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--autocast", choices=("none", "bf16"), default="bf16")
    a = ap.parse_args()
    if a.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"--device {a.device}: PyTorch {torch.__version__} sees no GPU here")
    torch.set_num_threads(a.threads)
    loop = Loop(a)
    losses = []

    def step(index):
        losses.append(loop.step(index))
        if loop.device.type == "cuda":
            torch.cuda.synchronize(loop.device)

    times = measure.timed(step, range(a.warmup + a.steps))
    median = statistics.median(times[a.warmup:])
    tokens = a.microbatches * a.microbatch_size * a.seq
    print(json.dumps({"torch": torch.__version__, "step_s": median,
                      "tokens_per_s": tokens / median,
                      "first_loss": losses[0], "last_loss": losses[-1]}))


if __name__ == "__main__":
    main()

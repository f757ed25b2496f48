"""Train the byte GPT, or a model of transformers, in PyTorch's own loop on one device.

Eager or compiled. Gradient accumulation over microbatches, autocast (parameters stay
fp32), fused AdamW; the host waits once a step, for the loss.  The last line printed is
one JSON object; the time to compile is in `compile_s`, not in the steps.
"""

import contextlib
import json
import statistics
import sys

import torch
import torch.nn.functional as F

import gpt
import measure


def make_inputs(a, device):
    """Batches of all steps, in memory that a copy need not wait for."""
    count = min(a.steps + a.warmup, 16)
    rows = a.microbatches * a.microbatch_size
    if a.model:
        draw = torch.Generator().manual_seed(a.seed)
        ids = [torch.randint(0, a.vocabulary, (rows, a.seq + 1), generator=draw)
               for _ in range(count)]
        batches = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in ids]
    else:
        batches = gpt.make_batches(gpt.load_bytes(a.text), count, rows, a.seq, a.seed)
    pin = device.type == "cuda"
    return [tuple(t.pin_memory() if pin else t for t in pair) for pair in batches]


class Logits(torch.nn.Module):
    """A model of transformers as the byte GPT is: ids in, logits out."""

    def __init__(self, folder):
        from transformers import AutoConfig, AutoModelForCausalLM

        super().__init__()
        config = AutoConfig.from_pretrained(folder)
        self.inner = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa",
                                                      dtype=torch.float32)
        self.vocabulary = config.vocab_size

    def forward(self, ids):
        return self.inner(input_ids=ids, use_cache=False).logits


def make_model(a):
    if not a.model:
        return gpt.GPTStage(a.d_model, a.layers, a.heads, a.seq, 0, 1, a.seed)
    model = Logits(a.model)
    a.vocabulary = model.vocabulary
    return model


class Loop:
    def __init__(self, a):
        self.a, self.device = a, torch.device(a.device)
        torch.manual_seed(a.seed)
        self.model = make_model(a).to(self.device)
        if a.compile:
            self.model = torch.compile(self.model, mode=a.compile)
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
                loss = F.cross_entropy(self.model(xs).float().flatten(0, 1), ys.flatten())
            (loss / a.microbatches).backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total.item() / a.microbatches


def main():
    ap = measure.parser(__doc__, steps=20, warmup=5)
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--autocast", choices=("none", "bf16"), default="bf16")
    ap.add_argument("--compile", choices=("default", "max-autotune"), default=None)
    ap.add_argument("--model", default=None, help="a folder with config.json")
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

    compile_s = measure.timed(step, [0])[0] if a.compile else 0.0
    times = measure.timed(step, range(a.warmup + a.steps))
    median = statistics.median(times[a.warmup:])
    tokens = a.microbatches * a.microbatch_size * a.seq
    print(json.dumps({"torch": torch.__version__, "step_s": median,
                      "tokens_per_s": tokens / median,
                      "compile_s": compile_s, "peak_mib": measure.peak_mib(),
                      "losses": losses[:20]}))


if __name__ == "__main__":
    main()

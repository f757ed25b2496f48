"""A GPT of 354 M parameters on one GPU: troupe beside PyTorch.

bf16 by autocast; parameters, gradients and AdamW in fp32; 8 microbatches of 8 x 1024
tokens a step. Runs alternate, forwards and backwards in turn, so that what changes on
the machine hits all alike. `eager` and `compile` are PyTorch's own loop
(peers/peer_cuda_loop.py).
"""

import statistics

from runs import flags, peer, plain_rate, run, step_times, train

OURS = ["plain", "1f1b P=1", "1f1b P=2", "1f1b P=4"]
GRAPHS = ["1f1b P=2 graphs"]  # only on a GPU
THEIRS = ["eager", "compile", "max-autotune"]


def pytorch(a, name, words):
    """PyTorch's loop on a model, by its flags."""
    if name != "eager":
        words = [*words, "--compile", "default" if name == "compile" else name]
    return peer("peer_cuda_loop.py", *words, "--device", a.device, "--steps", a.steps,
                "--warmup", a.warmup)


def pipeline(a, name, words):
    """troupe on a model, by its flags; `name`: the schedule, P=ranks and perhaps graphs."""
    schedule, ranks, *graphs = name.split()
    steps = train(a, *words, "--device", a.device, "--autocast", "bf16", "--steps",
                  a.steps + a.warmup, "--schedule", schedule, "--ranks",
                  ranks.removeprefix("P="), "--endpoint", "none",
                  *(["--cuda-graphs"] if graphs else []))
    return {"tokens_per_s": a.tokens / statistics.median(step_times(steps, a.warmup)),
            "losses": [step["losses"]["loss"] for step in steps[:20]]}


def plain(a, words):
    output = run([a.troupe, "train", *words, "--device", a.device, "--autocast", "bf16",
                  "--steps", a.steps + a.warmup, "--validation-fraction", 0, "--plain"])
    return {"tokens_per_s": plain_rate(output, a.warmup)}


def measure(a, results, part, names, figures_of):
    """Notes the tokens/s of each run, a list by rounds, after each run."""
    rates = {name: [] for name in names}
    rest = {}
    for round_ in range(a.rounds):
        for name in names if round_ % 2 == 0 else reversed(names):
            figures = figures_of(name)
            rates[name].append(figures.pop("tokens_per_s"))
            rest[name] = figures
            results.note(part, tokens=a.tokens, tokens_per_s=rates, runs=rest)


def run_names(a, ours):
    """Compiling takes a minute, which a dry run has not."""
    theirs = THEIRS if a.on_gpu else THEIRS[:1]
    return [*(theirs if a.has_torch else []), *ours, *(GRAPHS if a.on_gpu else [])]


def run_part(a, results):
    words = ["--text", a.text, *flags(a.shape)]

    def figures_of(name):
        if name == "plain":
            return plain(a, words)
        return (pytorch if name in THEIRS else pipeline)(a, name, words)

    measure(a, results, "speed", run_names(a, OURS), figures_of)

"""troupe on one GPU beside the plain loop and PyTorch's eager loop, in one run.

    python bench/versus_cuda.py --text book.txt [--pairs 5]
    python bench/versus_cuda.py --text book.txt --device cpu --tiny   # a dry run

A GPT of 354 M parameters in bf16 (autocast; parameters, gradients and AdamW in
fp32), 8 microbatches of 8 x 1024 tokens a step. Runs alternate, forwards and
backwards in turn, so that what changes on the machine hits all alike; ratios
are medians over the rounds. Then what monitors add to a step, and what an op
costs on the host. Prints Markdown tables.

Needs a GPU, PyTorch for Python with CUDA (pip install torch==2.11.0 numpy) and
a release build; says what of it is missing.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys

from runs import (HERE, call, flags, heading, peer, plain_rate, report, row, run, step_times,
                  train)

LARGE = dict(d_model=1024, layers=28, heads=16, seq=1024, microbatch_size=8, microbatches=8)
TINY = dict(d_model=64, layers=4, heads=4, seq=32, microbatch_size=2, microbatches=4)
RUNS = ["pytorch", "plain", "1f1b P=2", "1f1b P=4"]
GRAPH_RUNS = ["1f1b P=2 graphs", "1f1b P=4 graphs"]  # only with a GPU
MONITORS_LIMIT_PCT = 2.0
OVERHEAD_LIMIT_US = 10.0


def parameters(shape):
    """Of the byte GPT of engine/models/gpt.hpp and peers/gpt.py."""
    d, vocabulary = shape["d_model"], 256
    block = 12 * d * d + 13 * d
    return (vocabulary + shape["seq"]) * d + shape["layers"] * block + 2 * d + (d + 1) * vocabulary


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def missing(a):
    """What this can't run without, a sentence each."""
    problems = []
    if importlib.util.find_spec("torch") is None:
        problems.append("PyTorch for Python is missing: pip install torch==2.11.0 numpy")
    elif a.on_gpu:
        asked = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"
        if call([sys.executable, "-c", asked]).returncode != 0:
            problems.append("PyTorch sees no GPU here (torch.cuda.is_available() is false)")
    for name in ("troupe", "bench/monitors", "bench/overhead"):
        if not os.path.exists(os.path.join(a.build, "bin", name)):
            problems.append(f"{name} is not in {a.build}/bin: run scripts/build release")
    if not os.path.exists(a.text):
        problems.append(f"--text {a.text}: there is no such file")
    if os.path.exists(a.troupe):
        tried = call(
            [a.troupe, "train", "--text", __file__, "--device", a.device, "--dry-run"]
        )
        if tried.returncode != 0:
            problems.append(last_line(tried.stderr))
    return problems


def pytorch(a):
    return peer("peer_cuda_loop.py", *flags(a.shape), "--text", a.text, "--device", a.device,
                "--steps", a.steps, "--warmup", a.warmup)["tokens_per_s"]


def troupe(a, name):
    words = ["--text", a.text, *flags(a.shape), "--device", a.device, "--autocast", "bf16",
             "--steps", a.steps + a.warmup]
    if name == "plain":
        output = run([a.troupe, "train", *words, "--validation-fraction", 0, "--plain"])
        return plain_rate(output, a.warmup)
    schedule, ranks, *graphs = name.split()
    steps = train(a, *words, "--schedule", schedule, "--ranks", ranks.removeprefix("P="),
                  *(["--cuda-graphs"] if graphs else []), "--endpoint", "none")
    return a.tokens / statistics.median(step_times(steps, a.warmup))


def measure(a):
    """Tokens/s of each run, a list by rounds."""
    runs = RUNS + (GRAPH_RUNS if a.on_gpu else [])
    rates = {name: [] for name in runs}
    for round_ in range(a.pairs):
        for name in runs if round_ % 2 == 0 else reversed(runs):
            rates[name].append(pytorch(a) if name == "pytorch" else troupe(a, name))
    return rates


def ratio(rates, name, to):
    return statistics.median(x / y for x, y in zip(rates[name], rates[to]))


def show_speeds(a, rates):
    heading("run", "tokens/s", "ms a step", "to the plain loop", "to PyTorch")
    for name in rates:
        rate = statistics.median(rates[name])
        row(name, f"{rate:.0f}", f"{a.tokens / rate * 1e3:.1f}",
            f"{ratio(rates, name, 'plain'):.3f}", f"{ratio(rates, name, 'pytorch'):.3f}")


def verdict(value, limit):
    return "held" if value <= limit else "NOT HELD"


def show_monitors(a):
    out = report([os.path.join(a.build, "bin/bench/monitors"), *flags(a.shape), "--bf16",
                  "--rounds", a.rounds, *(["--cuda"] if a.on_gpu else [])])
    print()
    heading("monitor", "ms a step", "adds", "limit", "")
    for name, mode in out["modes"].items():
        if name != "none":
            adds = mode["overhead_pct"]
            row(name, f"{mode['ms_per_step']:.2f}", f"{adds:.2f} %", f"{MONITORS_LIMIT_PCT:g} %",
                verdict(adds, MONITORS_LIMIT_PCT))
    return out


def show_overhead(a):
    out = report([os.path.join(a.build, "bin/bench/overhead"),
                  *(["--cuda"] if a.on_gpu else [])])
    print()
    heading("overhead of an op, us", "p50", "p90", "p99", "limit of p50", "")
    for key in ("within_rank_us", "across_ranks_us", "device_us"):
        of = out[key]
        if of["count"] > 0:
            row(key.removesuffix("_us").replace("_", " "),
                *(f"{of[q]:.1f}" for q in ("p50", "p90", "p99")), f"{OVERHEAD_LIMIT_US:g}",
                verdict(of["p50"], OVERHEAD_LIMIT_US))
    return out


def arguments():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--text", required=True)
    ap.add_argument("--build", default=os.path.join(HERE, "../build/release"))
    ap.add_argument("--device", default="cuda:0", help="or cpu, for a dry run")
    ap.add_argument("--tiny", action="store_true", help="a model for a dry run")
    ap.add_argument("--pairs", type=int, default=5, help="rounds of all runs")
    ap.add_argument("--steps", type=int, default=20, help="timed steps of a run")
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--rounds", type=int, default=8, help="blocks of each monitor")
    ap.add_argument("--json", help="also write the figures here")
    a = ap.parse_args()
    a.text, a.build = os.path.abspath(a.text), os.path.abspath(a.build)
    a.troupe = os.path.join(a.build, "bin/troupe")
    a.shape = TINY if a.tiny else LARGE
    a.on_gpu = a.device != "cpu"
    a.tokens = a.shape["microbatches"] * a.shape["microbatch_size"] * a.shape["seq"]
    return a


def main():
    a = arguments()
    lacking = missing(a)
    if lacking:
        sys.exit("versus_cuda.py can't run here:\n" + "\n".join("- " + s for s in lacking))
    print(f"{parameters(a.shape) / 1e6:.3g} M parameters, {a.tokens} tokens a step, bf16,")
    print(f"{a.device}; medians of {a.pairs} rounds.\n", flush=True)
    rates = measure(a)
    show_speeds(a, rates)
    sys.stdout.flush()
    monitors, overhead = show_monitors(a), show_overhead(a)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"tokens_per_s": rates, "monitors": monitors, "overhead": overhead}, f, indent=1)


if __name__ == "__main__":
    main()

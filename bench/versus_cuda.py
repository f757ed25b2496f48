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
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LARGE = dict(d_model=1024, layers=28, heads=16, seq=1024, microbatch_size=8, microbatches=8)
TINY = dict(d_model=64, layers=4, heads=4, seq=32, microbatch_size=2, microbatches=4)
RUNS = ["pytorch", "plain", "1f1b P=2", "1f1b P=4"]
GRAPH_RUNS = ["1f1b P=2 graphs", "1f1b P=4 graphs"]  # only with a GPU
MONITORS_LIMIT_PCT = 2.0
OVERHEAD_LIMIT_US = 10.0


def flags(shape):
    return [w for k, v in shape.items() for w in ("--" + k.replace("_", "-"), str(v))]


def parameters(shape):
    """Of the byte GPT of engine/models/gpt.hpp and peers/gpt.py."""
    d, vocabulary = shape["d_model"], 256
    block = 12 * d * d + 13 * d
    return (vocabulary + shape["seq"]) * d + shape["layers"] * block + 2 * d + (d + 1) * vocabulary


def call(command, cwd=None):
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def run(command, cwd=None):
    done = call(command, cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def missing(a):
    """What this can't run without, a sentence each."""
    found = []
    if importlib.util.find_spec("torch") is None:
        found.append("PyTorch for Python is missing: pip install torch==2.11.0 numpy")
    elif a.on_gpu:
        asked = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"
        if call([sys.executable, "-c", asked]).returncode != 0:
            found.append("PyTorch sees no GPU here (torch.cuda.is_available() is false)")
    for name in ("troupe", "bench/monitors", "bench/overhead"):
        if not os.path.exists(os.path.join(a.build, "bin", name)):
            found.append(f"{name} is not in {a.build}/bin: run scripts/build release")
    if not os.path.exists(a.text):
        found.append(f"--text {a.text}: there is no such file")
    if os.path.exists(a.troupe):
        tried = call(
            [a.troupe, "train", "--text", __file__, "--device", a.device, "--dry-run"]
        )
        if tried.returncode != 0:
            found.append(last_line(tried.stderr))
    return found


def pytorch(a):
    command = [sys.executable, "peer_cuda_loop.py", *flags(a.shape), "--text", a.text]
    command += ["--device", a.device, "--steps", str(a.steps), "--warmup", str(a.warmup)]
    out = json.loads(run(command, os.path.join(HERE, "peers")).splitlines()[-1])
    return out["tokens_per_s"]


def troupe(a, name):
    command = [a.troupe, "train", "--text", a.text, *flags(a.shape)]
    command += ["--device", a.device, "--autocast", "bf16"]
    command += ["--steps", str(a.steps + a.warmup), "--validation-fraction", "0"]
    if name == "plain":
        return rate_of_plain(a, run(command + ["--plain"]))
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        words = name.split()
        command += ["--schedule", words[0], "--ranks", words[1].removeprefix("P=")]
        command += ["--cuda-graphs"] if "graphs" in words else []
        run(command + ["--endpoint", "none", "--log-json", log])
        with open(log) as f:
            ends = [json.loads(line)["ended_at"] for line in f]
    steps = [after - before for before, after in zip(ends, ends[1:])]
    return a.tokens / statistics.median(steps[a.warmup - 1 :])


def rate_of_plain(a, output):
    """The progress lines tell tokens/s to three digits."""
    scales = {"k": 1e3, "M": 1e6}
    rates = []
    for line in output.splitlines():
        words = line.split()
        if "tok/s" in words:
            rate = words[words.index("tok/s") + 1]
            scale = scales.get(rate[-1], 1)
            rates.append(float(rate.rstrip("kM")) * scale)
    return statistics.median(rates[a.warmup :])


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
    print("| run | tokens/s | ms a step | to the plain loop | to PyTorch |")
    print("|---|---|---|---|---|")
    for name in rates:
        rate = statistics.median(rates[name])
        print(
            f"| {name} | {rate:.0f} | {a.tokens / rate * 1e3:.1f}"
            f" | {ratio(rates, name, 'plain'):.3f} | {ratio(rates, name, 'pytorch'):.3f} |"
        )


def verdict(value, limit):
    return "held" if value <= limit else "NOT HELD"


def show_monitors(a):
    command = [os.path.join(a.build, "bin/bench/monitors"), *flags(a.shape), "--bf16"]
    command += ["--rounds", str(a.rounds)] + (["--cuda"] if a.on_gpu else [])
    out = json.loads(run(command).splitlines()[-1])
    print("\n| monitor | ms a step | adds | limit | |")
    print("|---|---|---|---|---|")
    for name, mode in out["modes"].items():
        if name == "none":
            continue
        adds = mode["overhead_pct"]
        print(
            f"| {name} | {mode['ms_per_step']:.2f} | {adds:.2f} %"
            f" | {MONITORS_LIMIT_PCT:g} % | {verdict(adds, MONITORS_LIMIT_PCT)} |"
        )
    return out


def show_overhead(a):
    command = [os.path.join(a.build, "bin/bench/overhead")]
    command += ["--cuda"] if a.on_gpu else []
    out = json.loads(run(command).splitlines()[-1])
    print("\n| overhead of an op, us | p50 | p90 | p99 | limit of p50 | |")
    print("|---|---|---|---|---|---|")
    for key in ("within_rank_us", "across_ranks_us", "device_us"):
        of = out[key]
        if of["count"] > 0:
            print(
                f"| {key.removesuffix('_us').replace('_', ' ')} | {of['p50']:.1f}"
                f" | {of['p90']:.1f} | {of['p99']:.1f} | {OVERHEAD_LIMIT_US:g}"
                f" | {verdict(of['p50'], OVERHEAD_LIMIT_US)} |"
            )
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

"""What the benchmarks share: models, running programs, their logs, tables."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MEDIUM = dict(d_model=256, layers=8, heads=8, seq=128, microbatch_size=4, microbatches=8)
MANY = dict(MEDIUM, microbatch_size=2, microbatches=32)
SMALL = dict(d_model=64, layers=4, heads=4, seq=32, microbatch_size=1, microbatches=32)
WARMUP = 1  # steps


def parser(doc, text=True, pairs=0):
    """With the flags that most have; `pairs`: the default, of those that alternate."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=os.path.abspath,
                        default=os.path.join(HERE, "../build/release/bin/troupe"))
    if text:
        parser.add_argument("--text", required=True, type=os.path.abspath)
    if pairs:
        parser.add_argument("--pairs", type=int, default=pairs)
    return parser


def flags(shape):
    return [w for k, v in shape.items() for w in ("--" + k.replace("_", "-"), str(v))]


def call(command, cwd=None):
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
    return subprocess.run(list(map(str, command)), cwd=cwd, env=env,
                          capture_output=True, text=True)


def run(command, cwd=None):
    done = call(command, cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def report(command, cwd=None):
    """The JSON that a program prints: all of its output, or its last line."""
    output = run(command, cwd)
    return json.loads(output if output.startswith(("{\n", "[\n")) else output.splitlines()[-1])


def peer(script, *words):
    return report([sys.executable, script, *words], os.path.join(HERE, "peers"))


def peer_step(script, *words):
    """A peer's step in seconds, and the memory of its processes in MiB."""
    out = peer(script, *words)
    return {"step": out["step_s"], "memory": sum(out["rss_peak_mib"])}


def train(a, *words, processes=1):
    """The steps that `troupe train` logs."""
    launch = ["launch", "--processes", processes, "--"] if processes > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        run([a.troupe, *launch, "train", *words, "--validation-fraction", "0", "--log-json", log])
        with open(log) as lines:
            return [json.loads(line) for line in lines]


def step_times(steps, warmup=WARMUP):
    """From one step's end to the next one's, in seconds, without the warm-up."""
    ends = [step["ended_at"] for step in steps]
    return [after - before for before, after in zip(ends, ends[1:])][warmup - 1:]


def plain_rate(output, warmup=WARMUP):
    """Tokens a second of a plain loop, whose lines tell three digits."""
    rates = []
    for line in output.splitlines():
        words = line.split()
        if "tok/s" in words:
            rate = words[words.index("tok/s") + 1]
            rates.append(float(rate.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(rate[-1], 1))
    return statistics.median(rates[warmup:])


def alternated(pairs, theirs, ours):
    """Medians of figures by name, of a peer and of troupe, which run in turns."""
    rows = [(theirs(), ours()) for _ in range(pairs)]

    def middle(which):
        return {key: statistics.median(row[which][key] for row in rows)
                for key in rows[0][which]}

    return middle(0), middle(1)


def compared(theirs, ours):
    """Cells: the steps in ms, how much faster ours is, and the memory in MiB."""
    return (f"{theirs['step'] * 1e3:.1f}", f"{ours['step'] * 1e3:.1f}",
            f"{theirs['step'] / ours['step']:.2f} x",
            *(f"{one['memory']:.0f}" if "memory" in one else "-"
              for one in (theirs, ours)))


def heading(*columns):
    print("| " + " | ".join(columns) + " |\n" + "|" + "---|" * len(columns), flush=True)


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)

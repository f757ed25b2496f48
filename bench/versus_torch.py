"""troupe beside torch.distributed.pipelining, in one run, on the same model.

    python bench/versus_torch.py --text book.txt [--pairs 7] [--cases small,...]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
Peer and troupe alternate, so that the noise of the machine hits both alike;
ratios are those of the medians. One process a rank for the peer, one process
for troupe (unless --processes 2); one thread a rank in both. Prints a Markdown table.
"""

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

# name: shape, the peer's schedule, ours, stages a rank, steps
CASES = {
    "medium gpipe": (MEDIUM, "gpipe", "gpipe", 1, 4),
    "medium 1f1b": (MEDIUM, "1f1b", "1f1b", 1, 4),
    "medium interleaved": (MEDIUM, "interleaved1f1b", "interleaved_1f1b", 2, 4),
    "medium interleaved_zb": (MEDIUM, "interleavedzb", "interleaved_zb", 2, 4),
    "medium zb_v": (MEDIUM, "zbv", "zb_v", 2, 4),
    "medium dualpipe_v": (MEDIUM, "dualpipev", "dualpipe_v", 2, 4),
    "small zb_v": (SMALL, "zbv", "zb_v", 2, 30),
    "small 1f1b": (SMALL, "1f1b", "1f1b", 1, 30),
    "small gpipe": (SMALL, "gpipe", "gpipe", 1, 30),
    "m32 1f1b": (MANY, "1f1b", "1f1b", 1, 3),
    "m32 plain on 2 threads": (MANY, "plain", "plain", 1, 3),
}
WARMUP = 1


def flags(shape):
    return [w for k, v in shape.items() for w in ("--" + k.replace("_", "-"), str(v))]


def run(command, cwd=None):
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def peer(a, case):
    shape, schedule, _, per_rank, steps = CASES[case]
    command = [sys.executable, "peer_torch_pipelining.py", *flags(shape)]
    command += ["--text", a.text, "--steps", str(steps), "--warmup", str(WARMUP)]
    if schedule == "plain":
        command += ["--plain", "--threads", "2"]
    else:
        command += ["--schedule", schedule, "--stages-per-rank", str(per_rank)]
        # gloo refuses the messages that V placements send a rank from itself.
        if schedule in ("zbv", "dualpipev"):
            command += ["--skip-self-p2p"]
    out = json.loads(run(command, os.path.join(HERE, "peers")).splitlines()[-1])
    return {"step": out["step_s"]["median"], "memory": sum(out["rss_peak_mib"])}


def troupe(a, case, more=()):
    """`more`: further flags, which replace earlier ones."""
    shape, _, schedule, per_rank, steps = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        command = [a.troupe, "train", "--text", a.text, *flags(shape)]
        command += ["--steps", str(steps + WARMUP), "--validation-fraction", "0"]
        if schedule == "plain":
            command += ["--plain", "--threads", "2"]
            return plain_step(run(command), shape)
        own = {"--schedule": schedule, "--ranks": "2", "--stages-per-rank": str(per_rank)}
        own.update(zip(more[::2], more[1::2]))
        command += [word for flag in own.items() for word in flag]
        command += ["--log-json", log]
        if a.processes > 1:
            launch = [a.troupe, "launch", "--processes", str(a.processes), "--"]
            command = launch + command[1:] + ["--link", a.link]
        run(command)
        with open(log) as f:
            lines = [json.loads(line) for line in f]
    ends = [line["ended_at"] for line in lines]
    kept = lines[WARMUP:]
    steps = [b - a for a, b in zip(ends, ends[1:])][WARMUP - 1 :]
    return {
        "step": statistics.median(steps),
        "memory": kept[-1]["peak_memory_bytes"] / 2**20,
        "paper": statistics.median(s["lane_seconds"] / s["plan_seconds"] for s in kept),
        "step_paper": statistics.median(
            w / s["plan_seconds"] for w, s in zip(steps, kept)
        ),
    }


def plain_step(output, shape):
    tokens = shape["microbatches"] * shape["microbatch_size"] * shape["seq"]
    rates = []
    for line in output.splitlines():
        words = line.split()
        if "tok/s" in words:
            rate = words[words.index("tok/s") + 1]
            rates.append(float(rate.rstrip("kM")) * (1e3 if rate.endswith("k") else 1))
    return {"step": tokens / statistics.median(rates[WARMUP:]), "memory": 0.0}


def measure(a, case):
    theirs, ours = [], []
    for _ in range(a.pairs):
        theirs.append(peer(a, case))
        ours.append(troupe(a, case))
    def middle(rows, key):
        return statistics.median(r.get(key, 0.0) for r in rows)
    return {
        "case": case,
        "peer_ms": middle(theirs, "step") * 1e3,
        "troupe_ms": middle(ours, "step") * 1e3,
        "speed": middle(theirs, "step") / middle(ours, "step"),
        "peer_mib": middle(theirs, "memory"),
        "troupe_mib": middle(ours, "memory"),
        "memory": middle(ours, "memory") / middle(theirs, "memory"),
        "paper": middle(ours, "paper"),
        "step_paper": middle(ours, "step_paper"),
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--text", required=True)
    ap.add_argument("--troupe", default=os.path.join(HERE, "../build/release/bin/troupe"))
    ap.add_argument("--pairs", type=int, default=7)
    ap.add_argument("--cases", default=",".join(CASES))
    ap.add_argument("--processes", type=int, default=1, help="of troupe")
    ap.add_argument("--link", default="socket", help="between them: socket or shared")
    ap.add_argument("--json", help="also write the figures here")
    a = ap.parse_args()
    a.text, a.troupe = os.path.abspath(a.text), os.path.abspath(a.troupe)
    print("| case | peer ms | troupe ms | speed | peer MiB | troupe MiB | memory |"
          " lanes / paper | step / paper |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for case in a.cases.split(","):
        r = measure(a, case)
        rows.append(r)
        print(f"| {case} | {r['peer_ms']:.1f} | {r['troupe_ms']:.1f} | {r['speed']:.2f} x"
              f" | {r['peer_mib']:.0f} | {r['troupe_mib']:.0f} | {r['memory']:.0%}"
              f" | {r['paper']:.3f} | {r['step_paper']:.3f} |", flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()

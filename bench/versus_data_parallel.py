"""Two data ranks of troupe beside PyTorch's DDP and FSDP2, in one run.

    python bench/versus_data_parallel.py --text book.txt [--pairs 5]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
Peer and troupe alternate, so that the noise of the machine hits both alike;
ratios are those of the medians. Two processes for the peer, over gloo, one for
troupe (unless --processes 2); one thread a replica in both. Prints a Markdown
table.
"""

import argparse
import json
import os
import statistics
import sys

import versus_torch
from versus_torch import HERE, MEDIUM, SMALL, flags, run

# name: shape, the peer, ours, steps
CASES = {
    "medium, DDP": (MEDIUM, "ddp", [], 4),
    "medium, DDP; gradients in shards": (MEDIUM, "ddp", ["--shard", "gradients"], 4),
    "medium, FSDP2; all in shards": (
        MEDIUM, "fsdp2",
        ["--shard", "all", "--stages-per-rank", "4", "--schedule", "breadth_first"], 4),
    "small, DDP": (SMALL, "ddp", [], 20),
}


def peer(a, shape, kind, steps):
    command = [sys.executable, "peer_data_parallel.py", *flags(shape)]
    command += ["--kind", kind, "--text", a.text, "--steps", str(steps)]
    out = json.loads(run(command, os.path.join(HERE, "peers")).splitlines()[-1])
    return {"step": out["step_s"], "memory": sum(out["rss_peak_mib"])}


def troupe(a, name, shape, ours, steps):
    versus_torch.CASES[name] = (shape, None, "1f1b", 1, steps)
    return versus_torch.troupe(a, name, ["--ranks", "1", "--data-parallel", "2", *ours])


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--text", required=True)
    ap.add_argument("--troupe", default=os.path.join(HERE, "../build/release/bin/troupe"))
    ap.add_argument("--pairs", type=int, default=5)
    ap.add_argument("--cases", default="|".join(CASES), help="joined by |")
    ap.add_argument("--processes", type=int, default=1, help="of troupe")
    ap.add_argument("--link", default="socket")
    a = ap.parse_args()
    a.text, a.troupe = os.path.abspath(a.text), os.path.abspath(a.troupe)
    print("| case | peer ms | troupe ms | tokens/s | peer MiB | troupe MiB |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in a.cases.split("|"):
        shape, kind, ours, steps = CASES[name]
        theirs, own = [], []
        for _ in range(a.pairs):
            theirs.append(peer(a, shape, kind, steps))
            own.append(troupe(a, name, shape, ours, steps))

        def middle(rows, key):
            return statistics.median(r[key] for r in rows)

        ratio = middle(theirs, "step") / middle(own, "step")
        print(f"| {name} | {middle(theirs, 'step') * 1e3:.1f}"
              f" | {middle(own, 'step') * 1e3:.1f} | {ratio:.2f} x"
              f" | {middle(theirs, 'memory'):.0f} | {middle(own, 'memory'):.0f} |",
              flush=True)


if __name__ == "__main__":
    main()

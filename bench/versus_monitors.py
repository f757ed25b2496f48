"""What monitors cost in troupe, beside PyTorch hooks, in one run.

    python bench/versus_monitors.py [--pairs 3]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
The same model (6 blocks of width 256, one rank, one thread, 8 rows of 128
tokens), every step, all names. Peer and troupe alternate. Prints a Markdown
table of medians; "95 %" is where ours lies with that confidence, of a pair.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# ours: the peer's mode
MODES = {"gap": "gap", "overflow": "range", "timeline": None}


def run(command, cwd=None):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--build", default=os.path.join(HERE, "../build/release"))
    a = parser.parse_args()
    rounds = ["--rounds", str(a.rounds)]
    ours, peers = [], []
    for _ in range(a.pairs):
        peers.append(
            run(
                [sys.executable, "peer_monitors.py", *rounds],
                os.path.join(HERE, "peers"),
            )
        )
        ours.append(run([os.path.join(a.build, "bin/bench/monitors"), *rounds]))
    print("| monitor | peer adds | troupe adds | 95 % | tensors a step |")
    print("|---|---|---|---|---|")
    for mode, peer_mode in MODES.items():
        mine, low, high = (
            statistics.median(o["modes"][mode][key] for o in ours)
            for key in ("overhead_pct", "overhead_pct_low", "overhead_pct_high")
        )
        tensors = ours[0]["modes"][mode]["tensors_per_step"]
        peer = "-"
        if peer_mode:
            added = statistics.median(
                p["modes"][peer_mode]["overhead_pct"] for p in peers
            )
            peer = f"{added:.0f} %"
        print(f"| {mode} | {peer} | {mine:.1f} % | {low:.1f} to {high:.1f} % | {tensors} |")
    empty = statistics.median(o["empty_publish_ns"] for o in ours)
    share = statistics.median(o["empty_publish_pct_of_step"] for o in ours)
    print(
        f"\nWithout a monitor a publish takes {empty:.2f} ns, all of a step's "
        f"{share:.4f} % of it."
    )


if __name__ == "__main__":
    main()

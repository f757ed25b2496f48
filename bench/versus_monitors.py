"""What monitors cost in troupe, beside PyTorch hooks, in one run.

    python bench/versus_monitors.py [--pairs 3]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
The same model (6 blocks of width 256, one rank, one thread, 8 rows of 128
tokens), every step, all names. Peer and troupe alternate. Prints a Markdown
table of medians; "95 %" is where ours lies with that confidence, of a pair.
"""

import os
import statistics

from runs import HERE, heading, parser, peer, report, row

# ours: the peer's mode
MODES = {"gap": "gap", "gap_sample": None, "overflow": "range", "overflow_full": "range",
         "timeline": None}


def main():
    ap = parser(__doc__, text=False, pairs=3)
    ap.add_argument("--rounds", type=int, default=8)
    ap.add_argument("--build", default=os.path.join(HERE, "../build/release"))
    a = ap.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    ours, peers = [], []
    for _ in range(a.pairs):
        peers.append(peer("peer_monitors.py", "--rounds", a.rounds))
        ours.append(report([os.path.join(a.build, "bin/bench/monitors"), "--rounds", a.rounds]))

    def middle(found, *path):
        def value(each):
            for key in path:
                each = each[key]
            return each
        return statistics.median(map(value, found))

    heading("monitor", "peer adds", "troupe adds", "95 %", "tensors a step")
    for mode, theirs in MODES.items():
        mine, low, high = (middle(ours, "modes", mode, "overhead_pct" + end)
                           for end in ("", "_low", "_high"))
        added = f"{middle(peers, 'modes', theirs, 'overhead_pct'):.0f} %" if theirs else "-"
        row(mode, added, f"{mine:.1f} %", f"{low:.1f} to {high:.1f} %",
            ours[0]["modes"][mode]["tensors_per_step"])
    print(f"\nWithout a monitor a publish takes {middle(ours, 'empty_publish_ns'):.2f} ns, all of "
          f"a step's {middle(ours, 'empty_publish_pct_of_step'):.4f} % of it.")


if __name__ == "__main__":
    main()

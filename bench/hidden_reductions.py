"""How much of the reductions of gradients runs beside compute ops.

    python bench/hidden_reductions.py --text book.txt [--replicas 2] [--stages 4]

Trains the medium model of versus_torch.py by breadth_first on one rank and
replicas, and reads the trace. A stage's reduction can be hidden if backwards of
other stages follow its last one: all but the first stage's. Prints a Markdown
table of the time of each stage's reductions and the share of it in which the rank
computes.
"""

import collections
import json
import os
import tempfile

from runs import MEDIUM, flags, heading, parser, row, train


def trace_of(a):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        train(a, "--text", a.text, *flags(MEDIUM), "--ranks", 1, "--stages-per-rank", a.stages,
              "--schedule", "breadth_first", "--data-parallel", a.replicas,
              "--steps", a.steps, "--endpoint", "none", "--trace", path)
        with open(path) as f:
            return json.load(f)["traceEvents"]


def covered(begin, end, spans):
    """Of [begin, end] the length within the spans, which do not overlap."""
    return sum(max(0.0, min(end, e) - max(begin, b)) for b, e in spans)


def main():
    ap = parser(__doc__)
    ap.add_argument("--replicas", type=int, default=2)
    ap.add_argument("--stages", type=int, default=4)
    ap.add_argument("--steps", type=int, default=4)
    a = ap.parse_args()
    events = trace_of(a)
    lane_of = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    computing = collections.defaultdict(list)
    reductions = []
    for e in events:
        if e.get("ph") != "X":
            continue
        rank = lane_of[e["tid"]].split(",")[0]
        span = (e["ts"], e["ts"] + e["dur"])
        if e["cat"] == "compute":
            computing[rank].append(span)
        elif e.get("args", {}).get("type") == "reduce":
            reductions.append((e["args"]["stage"], rank, span))
    heading("stage", "reductions, ms", "beside compute ops")
    can, hidden = 0.0, 0.0
    for stage in range(a.stages):
        spans = [(rank, span) for of, rank, span in reductions if of == stage]
        time = sum(end - begin for _, (begin, end) in spans)
        beside = sum(covered(*span, computing[rank]) for rank, span in spans)
        row(stage, f"{time / 1e3:.1f}", f"{beside / time:.0%}")
        if stage > 0:
            can, hidden = can + time, hidden + beside
    print(f"\n{hidden / can:.1%} of what can be hidden is")


if __name__ == "__main__":
    main()

"""Two data ranks of troupe beside PyTorch's DDP and FSDP2, in one run.

    python bench/versus_data_parallel.py --text book.txt [--pairs 5]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
Peer and troupe alternate, so that the noise of the machine hits both alike;
ratios are those of the medians. Two processes for the peer, over gloo, one for
troupe (unless --processes 2); one thread a replica in both. Prints a Markdown
table.
"""

from runs import MEDIUM, SMALL, alternated, compared, flags, heading, parser, peer_step, row
from versus_torch import of_troupe

# name: shape, the peer, our schedule and flags, steps
CASES = {
    "medium, DDP": (MEDIUM, "ddp", "1f1b", [], 4),
    "medium, DDP; gradients in shards": (MEDIUM, "ddp", "1f1b", ["--shard", "gradients"], 4),
    "medium, FSDP2; all in shards": (MEDIUM, "fsdp2", "breadth_first",
                                     ["--shard", "all", "--stages-per-rank", 4], 4),
    "small, DDP": (SMALL, "ddp", "1f1b", [], 20),
}


def of_peer(a, shape, kind, steps):
    return peer_step("peer_data_parallel.py", *flags(shape), "--kind", kind, "--text", a.text,
                     "--steps", steps)


def main():
    ap = parser(__doc__, pairs=5)
    ap.add_argument("--cases", default="|".join(CASES), help="joined by |")
    ap.add_argument("--processes", type=int, default=1, help="of troupe")
    ap.add_argument("--link", default="socket")
    a = ap.parse_args()
    heading("case", "peer ms", "troupe ms", "tokens/s", "peer MiB", "troupe MiB")
    for name in a.cases.split("|"):
        shape, kind, schedule, ours, steps = CASES[name]
        theirs, own = alternated(
            a.pairs, lambda: of_peer(a, shape, kind, steps),
            lambda: of_troupe(a, shape, schedule, steps, "--ranks", 1, "--data-parallel", 2,
                              *ours))
        row(name, *compared(theirs, own))


if __name__ == "__main__":
    main()

"""What optimizers that read whole matrices cost in shards, beside AdamW.

    python bench/sharded_optimizers.py --text book.txt [--pairs 5]

Two pipeline ranks with two replicas each, one process. Each optimizer without shards,
with gradients and optimizer state in shards, and with all in shards, in turn, so that the
noise of the machine hits all alike; medians. The peer is troupe's own AdamW, and a replica
without shards. Prints a Markdown table.
"""

from statistics import median

from runs import MEDIUM, heading, parser, row
from versus_torch import of_troupe

OPTIMIZERS = ("adamw", "muon", "adafactor")
SHARDS = ("replicate", "gradients", "all")


def main():
    ap = parser(__doc__, pairs=5)
    ap.add_argument("--processes", type=int, default=1)
    ap.add_argument("--link", default="socket")
    a = ap.parse_args()
    times = {}
    for _ in range(a.pairs):
        for optimizer in OPTIMIZERS:
            for shard in SHARDS:
                run = of_troupe(a, MEDIUM, "1f1b", 4, "--ranks", 2, "--data-parallel", 2,
                                "--optimizer", optimizer, "--shard", shard)
                times.setdefault((optimizer, shard), []).append(run)
    heading("optimizer", "shards", "ms", "of replicate", "of AdamW", "MiB")

    def middle(optimizer, shard, what):
        return median(each[what] for each in times[optimizer, shard])

    for optimizer in OPTIMIZERS:
        for shard in SHARDS:
            step = middle(optimizer, shard, "step")
            row(optimizer, shard, f"{1e3 * step:.1f}",
                f"{step / middle(optimizer, 'replicate', 'step'):.2f}",
                f"{step / middle('adamw', shard, 'step'):.2f}",
                f"{middle(optimizer, shard, 'memory'):.0f}")


if __name__ == "__main__":
    main()

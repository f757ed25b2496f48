"""What saving a run in the background adds to its steps.

    python bench/checkpoints.py --text book.txt [--pairs 3] [--every 20]

Runs the medium model of versus_torch.py for three checkpoints' worth of steps,
with and without --checkpoint-every, in turns. Prints a Markdown table: the mean
step from the first checkpoint on (saving takes part of some steps, so a median
would hide it), and what saving adds.
"""

import statistics
import tempfile

from runs import MEDIUM, flags, heading, parser, row, train


def mean_step(a, saves):
    """Seconds, over whole periods of `every` steps behind the first period."""
    with tempfile.TemporaryDirectory() as folder:
        saving = ["--checkpoints", folder, "--checkpoint-every", a.every] if saves else []
        steps = train(a, "--text", a.text, *flags(MEDIUM), "--ranks", 2,
                      "--steps", 3 * a.every, "--endpoint", "none", *saving)
    ends = [step["ended_at"] for step in steps]
    return (ends[-1] - ends[a.every - 1]) / (len(ends) - a.every)


def main():
    ap = parser(__doc__, pairs=3)
    ap.add_argument("--every", type=int, default=20)
    a = ap.parse_args()
    without, saving = zip(*((mean_step(a, False), mean_step(a, True)) for _ in range(a.pairs)))
    ratios = [s / w for s, w in zip(saving, without)]
    heading("steps between checkpoints", "ms a step", "saving", "adds", "pairs")
    row(a.every, f"{statistics.median(without) * 1e3:.1f}",
        f"{statistics.median(saving) * 1e3:.1f}",
        f"{(statistics.median(ratios) - 1) * 100:.1f} %",
        ", ".join(f"{(r - 1) * 100:+.1f} %" for r in ratios))


if __name__ == "__main__":
    main()

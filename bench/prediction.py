"""What a step takes on paper, with the costs of the same run, beside what it took.

    python bench/prediction.py --text book.txt [--ranks 2] [--steps 8]
        [--schedules 1f1b,zb_v] [--troupe build/release/bin/troupe]

Runs every schedule of the catalogue for a while (`train --costs-out`) on a GPT of
d_model 256, and prints a Markdown table: the mean step, the simulator's step with
the mean cost of each stage's ops, and their difference.
"""

import os
import re
import sys
import tempfile

from runs import call, flags, heading, parser, report, row

MODEL = dict(d_model=256, layers=8, heads=8, seq=128, microbatch_size=4)
HEADER = re.compile(r"# a step took (\S+), predicted (\S+): (\S+) %")


def names(troupe):
    return [row["schedule"] for row in report([troupe, "schedules", "--json"])]


def measured(a, name, folder):
    costs = os.path.join(folder, name)
    command = [a.troupe, "train", "--text", a.text, "--ranks", a.ranks, "--schedule", name,
               "--microbatches", a.microbatches, "--steps", a.steps, "--costs-out", costs,
               "--endpoint", "none", *flags(MODEL)]
    command += ["--slices", 2] if name == "seq_1f1b" else []
    for extra in ([], ["--stages-per-rank", 2]):
        done = call(command + extra)
        if done.returncode == 0:
            with open(costs) as lines:
                return HEADER.search(lines.read())
    print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return None


def main():
    ap = parser(__doc__)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--microbatches", type=int, default=8)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--schedules", default="")
    a = ap.parse_args()
    heading("schedule", "measured ms", "on paper ms", "difference")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in a.schedules.split(",") if a.schedules else names(a.troupe):
            found = measured(a, name, folder) if name != "forward_only" else None
            if found:
                took, paper, difference = found.groups()
                worst = max(worst, abs(float(difference)))
                row(name, took, paper, f"{difference} %")
    print(f"\nat most {worst:.1f} % apart")


main()

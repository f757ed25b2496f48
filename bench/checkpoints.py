"""What saving a run in the background adds to its steps.

    python bench/checkpoints.py --text book.txt [--pairs 3] [--every 20]

Runs the medium model of versus_torch.py for three checkpoints' worth of steps,
with and without --checkpoint-every, in turns. Prints a Markdown table: the mean
step from the first checkpoint on (saving takes part of some steps, so a median
would hide it), and what saving adds.
"""

import argparse
import json
import os
import statistics
import tempfile

from versus_torch import HERE, MEDIUM, flags, run


def mean_step(a, saves):
    """Seconds, over whole periods of `every` steps behind the first period."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        command = [a.troupe, "train", "--text", a.text, *flags(MEDIUM), "--ranks", "2"]
        command += ["--steps", str(3 * a.every), "--validation-fraction", "0"]
        command += ["--endpoint", "none", "--log-json", log]
        if saves:
            command += ["--checkpoints", os.path.join(folder, "saved")]
            command += ["--checkpoint-every", str(a.every)]
        run(command)
        with open(log) as lines:
            ends = [json.loads(line)["ended_at"] for line in lines]
    return (ends[-1] - ends[a.every - 1]) / (len(ends) - a.every)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--text", required=True)
    ap.add_argument("--troupe", default=os.path.join(HERE, "../build/release/bin/troupe"))
    ap.add_argument("--pairs", type=int, default=3)
    ap.add_argument("--every", type=int, default=20)
    a = ap.parse_args()
    a.text, a.troupe = os.path.abspath(a.text), os.path.abspath(a.troupe)
    without, saving = [], []
    for _ in range(a.pairs):
        without.append(mean_step(a, False))
        saving.append(mean_step(a, True))
    ratios = [s / w for s, w in zip(saving, without)]
    print("| steps between checkpoints | ms a step | saving | adds | pairs |")
    print("|---|---|---|---|---|")
    print(f"| {a.every} | {statistics.median(without) * 1e3:.1f}"
          f" | {statistics.median(saving) * 1e3:.1f}"
          f" | {(statistics.median(ratios) - 1) * 100:.1f} %"
          f" | {', '.join(f'{(r - 1) * 100:+.1f} %' for r in ratios)} |")


if __name__ == "__main__":
    main()

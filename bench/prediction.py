"""What a step takes on paper, with the costs of the same run, beside what it took.

    python bench/prediction.py --text book.txt [--ranks 2] [--steps 8]
        [--schedules 1f1b,zb_v] [--troupe build/release/bin/troupe]

Runs every schedule of the catalogue for a while (`train --costs-out`) on a GPT of
d_model 256, and prints a Markdown table: the mean step, the simulator's step with
the mean cost of each stage's ops, and their difference.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

MODEL = dict(d_model=256, layers=8, heads=8, seq=128, microbatch_size=4)
HEADER = re.compile(r"# a step took (\S+), and takes (\S+) on paper: (\S+) %")


def names(troupe):
    listed = subprocess.run([troupe, "schedules", "--json"], capture_output=True, text=True)
    if listed.returncode == 0:
        return [row["schedule"] for row in json.loads(listed.stdout)]
    text = subprocess.run([troupe, "plan", "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  (\w+) +\S.*\(.*\)$", text.stdout, re.MULTILINE)


def measured(a, name, folder):
    costs = os.path.join(folder, name)
    command = [a.troupe, "train", "--text", a.text, "--ranks", str(a.ranks), "--schedule", name,
               "--microbatches", str(a.microbatches), "--steps", str(a.steps),
               "--costs-out", costs, "--endpoint", "none"]
    command += [w for k, v in MODEL.items() for w in ("--" + k.replace("_", "-"), str(v))]
    for extra in ([], ["--stages-per-rank", "2"]):
        done = subprocess.run(command + extra + (["--slices", "2"] if name == "seq_1f1b" else []),
                              capture_output=True, text=True)
        if done.returncode == 0:
            with open(costs) as lines:
                return HEADER.search(lines.read())
    print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--schedules", default="")
    parser.add_argument("--troupe", default="build/release/bin/troupe")
    a = parser.parse_args()
    print("| schedule | measured ms | on paper ms | difference |\n|---|---|---|---|")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in a.schedules.split(",") if a.schedules else names(a.troupe):
            found = measured(a, name, folder) if name != "forward_only" else None
            if found:
                took, paper, difference = found.groups()
                worst = max(worst, abs(float(difference)))
                print(f"| {name} | {took} | {paper} | {difference} % |", flush=True)
    print(f"\nat most {worst:.1f} % apart")


main()

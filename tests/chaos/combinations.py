"""Random combinations of the flags of training, beside the plain loop.

    python3 tests/chaos/combinations.py [--seed 1] [--count 300] [--keep FOLDER]

Draws a model, a schedule, shards, processes, precisions, an optimizer, masks, dropout, orders
of ops, offloading and what else COMMON of jobs.py has. Each job trains a few steps, and so
does the plain loop with the same flags (--plain). Either both end with the same bytes of
parameters, or the job is refused as wrong usage (exit code 2) with a reason; or both fail.
Prints the number of each outcome, the reasons of refusals, and each combination that is
neither equal nor refused.
"""

import collections
import os
import random
import re

import jobs

STEPS = 5


def run(a, folder, processes, flags, name):
    """The exit code, the last line of output and the parameters of a run."""
    flags = flags + ["--seq", "8", "--lr", "0.01", "--endpoint", "none",
                     "--steps", str(STEPS), "--save-parameters", folder.at(name)]
    codes = jobs.join(folder.start(a.troupe, processes, flags))
    code = next((each for each in codes if each), 0)
    output = b"\n".join(folder.content(f"out{p}") for p in range(processes)).decode()
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line] or lines[-1:] or [""]
    return code, re.sub(r"^.*?error\S* ", "", errors[-1]), folder.content(name) if code == 0 else b""


def outcome(a, folder, processes, flags):
    """What became of a combination, and why."""
    try:
        code, why, own = run(a, folder, processes, flags, "own")
        if code == 2 and why:
            return "refused", why
        plain_code, plain_why, plain = run(a, folder, 1, flags + ["--plain"], "plain")
    except jobs.Hang:
        return "HANGS", ""
    if code or plain_code:
        same = code and plain_code
        return ("both fail" if same else "FAILS ALONE"), f"{why!r}, plain {plain_why!r}"
    return ("equal", "") if own == plain else ("OTHER BYTES", "")


def main():
    a = jobs.arguments(__doc__)
    outcomes, reasons = collections.Counter(), collections.Counter()
    for number in range(a.count):
        random_ = random.Random(f"{a.seed}-{number}")
        processes, flags = jobs.random_shape(random_.choice)
        folder = jobs.Folder(a.seed)
        what, why = outcome(a, folder, processes, flags)
        outcomes[what] += 1
        if what == "refused":
            reasons[re.sub(r"/\S+", "PATH", re.sub(r"\d[\d.e+]*", "N", why))[:110]] += 1
        elif what != "equal":
            print(f"{a.seed}-{number}: {what}: {processes} processes: {' '.join(flags)}: {why}",
                  flush=True)
            if what != "both fail":
                folder.keep(os.path.join(a.keep, f"{a.seed}-{number}"))
        folder.remove()
    for why, count in reasons.most_common():
        print(f"{count:4} {why}")
    print(f"seed {a.seed}, {a.count} combinations: {dict(outcomes)}")
    return 1 if any(what.isupper() for what in outcomes) else 0


raise SystemExit(main())

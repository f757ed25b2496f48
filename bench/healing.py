"""What healing costs while nothing happens, and how soon a job goes on after a loss.

    python bench/healing.py --text book.txt [--pairs 3] [--kills 20]

The first table has the medium model of versus_torch.py in two processes, by turns with and
without --heal: the median step. The second one has jobs of four ranks in four processes
of which one is killed again and again, any of them: the time from the kill to the end of
the next step, less a median step, and how many finished steps were repeated.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time

from runs import MEDIUM, SMALL, flags, heading, parser, row, step_times, train


def median_step(a, words, heals):
    steps = train(a, "--text", a.text, *flags(MEDIUM), *words, "--steps", a.steps,
                  "--endpoint", "none", *(["--heal"] if heals else []), processes=2)
    return statistics.median(step_times(steps))


def cost(a, name, *words):
    pairs = [(median_step(a, words, False), median_step(a, words, True))
             for _ in range(a.pairs)]
    ratios = [heals / plain for plain, heals in pairs]
    row(name, *(f"{statistics.median(each) * 1e3:.1f}" for each in zip(*pairs)),
        f"{(statistics.median(ratios) - 1) * 100:+.1f} %",
        ", ".join(f"{(each - 1) * 100:+.1f} %" for each in ratios))


def processes_of(launcher):
    with open(f"/proc/{launcher}/task/{launcher}/children") as file:
        return [int(each) for each in file.read().split()]


class Log:
    """The steps that a job has logged so far, whichever process writes them."""

    def __init__(self, path):
        self.path = path

    def steps(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as file:
            lines = [line for line in file if line.endswith("\n")]
        return [each for each in map(json.loads, lines) if "ended_at" in each]


def recoveries(a, shape, extra):
    """By kill: seconds, and finished steps that were repeated."""
    found = []
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        log = Log(os.path.join(folder, "log"))
        job = subprocess.Popen(
            [a.troupe, "launch", "--processes", "4", "--on-failure", "process=rehost:100000/10min", *extra, "--",
             "train", "--text", a.text, *flags(shape), "--ranks", "4", "--steps", "1000000",
             "--heal", "--validation-fraction", "0", "--log-json", log.path],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while len(found) < a.kills:
                count = len(log.steps()) + 10
                while len(log.steps()) < count or len(processes_of(job.pid)) < 4 + len(extra) // 2:
                    time.sleep(0.05)
                time.sleep(1 + generator.random())  # the replacement has joined
                steps = log.steps()
                usual = statistics.median(step_times(steps[-10:], 1))
                os.kill(generator.choice(processes_of(job.pid)), signal.SIGKILL)
                killed, last = time.monotonic(), steps[-1]["step"]
                while not any(each["ended_at"] > killed + usual / 2 and each["step"] > last
                              for each in log.steps()[-50:]):
                    time.sleep(0.002)
                first = next(each for each in log.steps()
                             if each["ended_at"] > killed and each["step"] > last)
                found.append(first["ended_at"] - killed - usual)
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait()
    return found


def recovery(a, name, shape, *extra):
    found = sorted(recoveries(a, shape, extra))
    row(name, len(found), f"{statistics.median(found):.2f}",
        f"{found[int(0.99 * (len(found) - 1) + 0.5)]:.2f}", f"{found[-1]:.2f}")


def main():
    ap = parser(__doc__, pairs=3)
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--kills", type=int, default=20)
    a = ap.parse_args()
    heading("medium, two processes", "ms a step", "with --heal", "adds", "pairs")
    cost(a, "two ranks", "--ranks", 2)
    cost(a, "two replicas", "--ranks", 1, "--data-parallel", 2)
    print()
    heading("four ranks, four processes", "kills", "p50 s", "p99 s", "most s")
    recovery(a, "small", SMALL)
    recovery(a, "medium", MEDIUM)
    recovery(a, "medium, one spare", MEDIUM, "--spares", "1")


if __name__ == "__main__":
    main()

"""What healing costs while nothing happens, and how soon a job goes on after a loss.

    python bench/healing.py --text book.txt [--pairs 3] [--kills 20]

The first table has the medium model of versus_torch.py in two processes, by turns with and
without --heal: the median step. The second one has jobs of four ranks in four processes
of which one is killed again and again, any of them: the time from the kill to the end of
the next step, less a median step, and how many finished steps were repeated. In the third
one a rank of such a job moves to another process, and a process is drained: the longest
step around it, less a median one.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time

from runs import MEDIUM, SMALL, call, flags, heading, parser, row, step_times, train


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

    def lines(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def steps(self):
        return [each for each in self.lines() if "ended_at" in each]

    def epochs(self):
        return [each for each in self.lines() if "epoch" in each]

    def await_steps(self, count):
        while len(self.steps()) < count:
            time.sleep(0.05)
        return self.steps()


@contextlib.contextmanager
def job(a, shape, extra=()):
    """Four ranks in four processes, and their log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Log(os.path.join(folder, "log"))
        endpoint = f"unix:{folder}/job"
        running = subprocess.Popen(
            [a.troupe, "launch", "--processes", "4", "--on-failure",
             "process=rehost:100000/10min", *extra, "--", "train", "--text", a.text,
             *flags(shape), "--ranks", "4", "--steps", "1000000", "--heal",
             "--validation-fraction", "0", "--log-json", log.path, "--endpoint", endpoint],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield running, log, endpoint
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait()


def recoveries(a, shape, extra):
    """By kill: seconds, and finished steps that were repeated."""
    found = []
    generator = random.Random(1)
    with job(a, shape, extra) as (running, log, _):
        while len(found) < a.kills:
            log.await_steps(len(log.steps()) + 10)
            while len(processes_of(running.pid)) < 4 + len(extra) // 2:
                time.sleep(0.05)
            time.sleep(1 + generator.random())  # the replacement has joined
            steps = log.steps()
            usual = statistics.median(step_times(steps[-10:], 1))
            epochs = len(log.epochs())
            os.kill(generator.choice(processes_of(running.pid)), signal.SIGKILL)
            killed, last = time.monotonic(), steps[-1]["step"]
            while not any(each["ended_at"] > killed + usual / 2 and each["step"] > last
                          for each in log.steps()[-50:]):
                time.sleep(0.002)
            first = next(each for each in log.steps()
                         if each["ended_at"] > killed and each["step"] > last)
            after = log.epochs()[epochs]["after_step"] if len(log.epochs()) > epochs else last
            found.append((first["ended_at"] - killed - usual, max(0, last - after)))
    return found


def recovery(a, name, shape, *extra):
    found = recoveries(a, shape, extra)
    times = sorted(seconds for seconds, _ in found)
    row(name, len(found), f"{statistics.median(times):.2f}",
        f"{times[int(0.99 * (len(times) - 1) + 0.5)]:.2f}", f"{times[-1]:.2f}",
        max(repeated for _, repeated in found))


def standstills(a, shape, commands):
    """By command: the longest step around it, less a median one, in seconds and steps."""
    found = []
    with job(a, shape) as (_, log, endpoint):
        log.await_steps(10)
        for command, *words in commands:
            before = len(log.steps())
            usual = statistics.median(step_times(log.steps()[-10:], 1))
            call([a.troupe, command, endpoint, *words])
            steps = log.await_steps(len(log.steps()) + 5)[before - 1:]
            lost = max(step_times(steps, 1)) - usual
            found.append((lost, lost / usual))
    return found


def move(a, name, commands):
    found = standstills(a, MEDIUM, commands)
    seconds = sorted(each for each, _ in found)
    row(name, len(found), f"{statistics.median(seconds):.2f}", f"{seconds[-1]:.2f}",
        f"{max(steps for _, steps in found):.1f}")


def main():
    ap = parser(__doc__, pairs=3)
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--kills", type=int, default=20)
    a = ap.parse_args()
    heading("medium, two processes", "ms a step", "with --heal", "adds", "pairs")
    cost(a, "two ranks", "--ranks", 2)
    cost(a, "two replicas", "--ranks", 1, "--data-parallel", 2)
    print()
    heading("four ranks, four processes", "kills", "p50 s", "p99 s", "most s",
            "steps repeated")
    recovery(a, "small", SMALL)
    recovery(a, "medium", MEDIUM)
    recovery(a, "medium, one spare", MEDIUM, "--spares", "1")
    print()
    heading("medium, four ranks, four processes", "times", "p50 s", "most s", "most, in steps")
    move(a, "a rank moves", [("move", 0, 1 + n % 3) for n in range(a.kills)])
    move(a, "a process is drained", [("drain", 3 - n) for n in range(3)])


if __name__ == "__main__":
    main()

"""The step that `troupe replan` announces for another order, beside what it takes.

    python bench/replanned.py --text book.txt [--processes 2] [--steps 24]
        [--d-model 128] [--summary] [--troupe build/release/bin/troupe]

For each two schedules of one placement: a run that changes from the first to the
second, back, and again (`troupe replan --force`). Each change but the last is
announced: by simulation before it, and by its trial steps after it. Both stand beside
the median step that followed. The speed of a shared machine changes from one minute to
the next, which no simulation can know: its step is corrected by that of the first
order, which is the mean of the time before the second and the time after it.

As a control each run first goes on with its first order for twice as many steps: the
median of the one half beside that of the other says how well the step of an order is
known from this very order's own last steps, which is all that an announcement can
know. Prints a Markdown table of all pairs, or with --summary one of how many are within 5 %.
"""

import itertools
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

from runs import heading, parser, report, row

SHAPES = {1: ["gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2"],
          2: ["interleaved_1f1b", "breadth_first", "depth_first", "interleaved_zb"],
          "v": ["zb_v", "v_half", "v_min", "dualpipe_v"]}


class Run:
    """A live run in the background, and its steps."""

    def __init__(self, a, schedule, stages, folder):
        self.a, self.folder = a, folder
        self.log = os.path.join(folder, "steps.jsonl")
        self.socket = "unix:" + os.path.join(folder, "socket")
        command = [a.troupe]
        if a.processes > 1:
            command += ["launch", "--processes", str(a.processes), "--"]
        command += ["train", "--text", a.text, "--ranks", str(a.ranks),
                    "--schedule", schedule, "--stages-per-rank", str(stages),
                    "--microbatches", str(a.microbatches), "--steps", "1000000",
                    "--d-model", str(a.d_model), "--layers", "8", "--heads", "4",
                    "--seq", "128", "--microbatch-size", "4",
                    "--endpoint", self.socket, "--log-json", self.log]
        self.output = open(os.path.join(folder, "output"), "w")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output)

    def steps(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as lines:
            rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return [1000 * row["lane_seconds"] for row in rows if "lane_seconds" in row]

    def wait_for(self, count, seconds=300):
        """Waits, asking seldom: the run needs all cores."""
        until = time.monotonic() + seconds
        while len(self.steps()) < count:
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit(open(self.output.name).read()[-2000:])
            time.sleep(1)

    def replan(self, schedule):
        return report([self.a.troupe, "replan", self.socket, "--schedule", schedule,
                       "--force", "--json"])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        os.remove(self.log)


def visits(a, orders, stages):
    """Of a fresh run that takes the orders one after the other: the median step of each
    in ms, and the answer to the request for it; and the first order's median step of
    the same number of steps before."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(a, orders[0], stages, folder)
        found = []
        for number, order in enumerate(orders):
            answer = run.replan(order) if number else None
            # The first step allocates memory; others may be of the order before.
            begin = len(run.steps()) + 3 if number else 1 + a.steps
            run.wait_for(begin + a.steps)
            found.append((statistics.median(run.steps()[begin:begin + a.steps]), answer))
        control = statistics.median(run.steps()[1:1 + a.steps])
        run.end()
        return found, control


def pairs(a, names, stages):
    """(from, to, the answer, measured, of the first: before and after, and the control
    if there is one) of all ordered pairs."""
    for first, second in itertools.combinations(names, 2):
        orders = [first, second, first, second]
        found, control = visits(a, orders, stages)
        for i in 0, 1:
            before, (took, answer), (after, _) = found[i][0], found[i + 1], found[i + 2]
            yield (orders[i], orders[i + 1], answer, took, before, after,
                   None if i else control)


def main():
    ap = parser(__doc__)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--processes", type=int, default=1)
    ap.add_argument("--microbatches", type=int, default=8)
    ap.add_argument("--d-model", type=int, default=128)
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--shapes", default="1,2,v")
    ap.add_argument("--summary", action="store_true")
    a = ap.parse_args()
    if not a.summary:
        heading("from", "to", "announced ms", "+-", "trial steps", "measured ms",
                "difference", "simulated ms", "from, before and after",
                "difference of simulated")
    off, off_on_paper, off_of_control = [], [], []
    for shape in a.shapes.split(","):
        names = SHAPES[int(shape) if shape.isdigit() else shape]
        for first, second, answer, took, before, after, control in pairs(
                a, names, 1 if shape == "1" else 2):
            if control:
                off_of_control.append(control / before - 1)
            speed = (before + after) / 2 / before  # of the machine, meanwhile
            off.append(answer["then"] / took - 1)
            off_on_paper.append(answer["predicted"] * speed / took - 1)
            if not a.summary:
                row(first, second, f"{answer['then']:.1f}",
                    f"{100 * answer['uncertainty']:.1f} %", answer["trial_steps"],
                    f"{took:.1f}", f"{100 * off[-1]:+.1f} %",
                    f"{answer['predicted']:.1f}", f"{before:.1f}, {after:.1f}",
                    f"{100 * off_on_paper[-1]:+.1f} %")
    print()
    heading("step", "pairs", "within 5 %", "at most")
    for what, found in (("announced", off), ("simulated", off_on_paper),
                        ("control: no change", off_of_control)):
        row(what, len(found), sum(abs(each) <= 0.05 for each in found),
            f"{100 * max(map(abs, found)):.1f} %")


main()

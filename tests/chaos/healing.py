"""Jobs that heal, while their processes are killed, stopped and moved.

    python3 tests/chaos/healing.py [--seed 1] [--count 100] [--keep FOLDER]

Draws shapes of jobs as kills.py does. Each trains by `troupe launch ... train --heal` while
one of these happens some times: a process is killed (also as it starts again, and several at
once), a process is stopped for a while, ranks move or a process is drained. Each must end
with the bytes of the run that nothing happened to, leave no process behind, and have each
step's line once in its log. Prints how long the job stood still after each kill.
"""

import collections
import os
import random
import re
import signal
import statistics
import subprocess
import time

import jobs

KINDS = ["kill"] * 4 + ["kill_two", "stop", "move", "drain"]


def children(pid):
    """The processes that the launcher has started, by their number in the job."""
    found = {}
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            pids = [int(each) for each in file.read().split()]
        for each in pids:
            with open(f"/proc/{each}/environ", "rb") as file:
                names = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)
            if b"RANK" in names:
                found[int(names[b"RANK"])] = each
    except OSError:
        pass
    return found


class Job:
    """A job of one shape."""

    def __init__(self, a, processes, flags, seed, steps):
        self.a, self.processes, self.steps = a, max(2, processes), steps
        self.folder = jobs.Folder(seed)
        self.flags = flags + ["--seq", "8", "--lr", "0.01", "--steps", str(steps),
                              "--save-parameters", self.folder.at("parameters")]

    def command(self, heals, extra):
        flags = [self.folder.at(each) if each in self.folder.inputs else each
                 for each in self.flags]
        return [self.a.troupe, "launch", "--processes", str(self.processes),
                "--max-losses", "1000", *extra, "--", "train", "--text",
                self.folder.at("text"), "--microbatch-size", "2", *flags, *heals]

    def whole(self):
        """The parameters of the run that nothing happens to; none: it is refused."""
        done = subprocess.run(self.command(["--endpoint", "none"], []),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        return self.folder.content("parameters") if done.returncode == 0 else None

    def start(self, extra, flags):
        self.folder.clear("parameters", "log")
        self.output = open(self.folder.at("output"), "wb")
        self.running = subprocess.Popen(
            self.command(["--heal", "--log-json", self.folder.at("log"), *flags], extra),
            stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return self.folder.content("output").decode(errors="replace")

    def step(self):
        """The last step that is told."""
        steps = re.findall(r"step (\d+)/", self.text())
        return int(steps[-1]) if steps else 0

    def disturb(self, kind, random_, waits):
        there = children(self.running.pid)
        if not there:
            return
        victim = random_.choice(list(there.values()))
        if kind == "kill_two":
            os.kill(random_.choice(list(there.values())), signal.SIGKILL)
        if kind.startswith("kill"):
            before = self.step()
            os.kill(victim, signal.SIGKILL)
            began = time.monotonic()
            while self.running.poll() is None and time.monotonic() - began < 60 \
                    and not any(int(s) > before for s in
                                re.findall(r"step (\d+)/", self.text()[-4000:])):
                time.sleep(0.005)
            waits.append(time.monotonic() - began)
        elif kind == "stop":
            os.kill(victim, signal.SIGSTOP)
            time.sleep(random_.random() * 15)
            os.kill(victim, signal.SIGCONT)
        else:
            number = random_.choice(list(there))
            words = (["move", "--job", str(victim), str(random_.randrange(2)), str(number)]
                     if kind == "move" else ["drain", "--job", str(victim), str(number)])
            subprocess.run([self.a.troupe, *words], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=60)

    def problem(self, whole):
        """What is wrong with the end of the job; empty: nothing."""
        try:
            code = self.running.wait(300)
        except subprocess.TimeoutExpired:
            self.running.kill()
            return "hangs"
        if code:
            return f"ends with {code}"
        if self.folder.content("parameters") != whole:
            return "other bytes"
        steps = re.findall(rb'"step":(\d+)', self.folder.content("log"))
        twice = [s for s, n in collections.Counter(steps).items() if n > 2]
        return f"steps {twice[:3]} are logged twice" if twice else ""


def main():
    a = jobs.arguments(__doc__)
    random_ = random.Random(a.seed)
    kinds, bad, waits = collections.Counter(), 0, []
    while kinds.total() < a.count:
        processes, flags = jobs.random_shape(random_.choice)
        job = Job(a, processes, flags, a.seed, 400)
        if not (whole := job.whole()):
            job.folder.remove()
            continue
        extra = random_.choice([[], [], ["--spares", "1"]])
        every = random_.choice(["1", "1", "3", "10"])
        print(f"{job.processes} processes, {' '.join([*extra, *flags])}, every {every}", flush=True)
        job.start(extra, ["--snapshot-every", every])
        while job.running.poll() is None and kinds.total() < a.count:
            goal = job.step() + random_.randrange(5, 60)
            while job.running.poll() is None and job.step() < goal:
                time.sleep(0.01)
            if job.step() > 380 or job.running.poll() is not None:
                break
            kind = random_.choice(KINDS)
            kinds[kind] += 1
            job.disturb(kind, random_, waits)
        if problem := job.problem(whole):
            bad += 1
            print(f"  {problem}", flush=True)
            job.folder.keep(os.path.join(a.keep, f"{a.seed}-{bad}"))
        job.folder.remove()
    if waits:
        waits.sort()
        print(f"after kills: p50 {statistics.median(waits):.3f} s, "
              f"p99 {waits[int(0.99 * (len(waits) - 1))]:.3f} s, most {waits[-1]:.3f} s")
    print(f"{kinds.total()} disturbances, {bad} problems: {dict(kinds)}")
    return 1 if bad else 0


raise SystemExit(main())

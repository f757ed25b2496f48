"""Jobs that heal, while their processes are killed, stopped and moved.

    python3 tests/chaos/healing.py [--seed 1] [--count 100] [--keep FOLDER]
    python3 tests/chaos/healing.py --minutes 60

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


def send(pid, number):
    """A signal to a process that may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


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
        self.refused = self.read = self.last = 0
        self.folder.clear("parameters", "log")
        self.output = open(self.folder.at("output"), "wb")
        self.running = subprocess.Popen(
            self.command(["--heal", "--log-json", self.folder.at("log"), *flags], extra),
            stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return self.folder.content("output").decode(errors="replace")

    def look(self):
        """Notes the last step and the endpoint in what was printed since the last look."""
        with open(self.folder.at("output"), "rb") as file:
            file.seek(self.read)
            new = file.read().rpartition(b"\n")[0].decode(errors="replace")
        self.read += len(new.encode())
        if steps := re.findall(r"step (\d+)/", new):
            self.last = int(steps[-1])
        if places := re.findall(r"attach with: troupe top (\S+)", new):
            self.place = places[-1]

    def step(self):
        """The last step that was printed."""
        self.look()
        return self.last

    def disturb(self, kind, random_, waits):
        there = children(self.running.pid)
        if not there:
            return
        victim = random_.choice(list(there.values()))
        if kind == "kill_two":
            send(random_.choice(list(there.values())), signal.SIGKILL)
        if kind.startswith("kill"):
            before = self.step()
            send(victim, signal.SIGKILL)
            began = time.monotonic()
            while self.running.poll() is None and time.monotonic() - began < 60 \
                    and self.step() <= before:
                time.sleep(0.005)
            waits.append(time.monotonic() - began)
        elif kind == "stop":
            send(victim, signal.SIGSTOP)
            time.sleep(random_.random() * 15)
            send(victim, signal.SIGCONT)
        else:
            self.look()
            number = str(random_.randrange(len(there)))
            words = (["move", self.place, str(random_.randrange(2)), number]
                     if kind == "move" else ["drain", self.place, number])
            done = subprocess.run([self.a.troupe, *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60)
            if done.returncode and self.running.poll() is None:
                self.refused += 1

    def plain(self, steps):
        """The parameters of a plain loop of so many steps."""
        command = self.command(["--endpoint", "none", "--plain", "--steps", str(steps)], [])
        command[1:command.index("train")] = []
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return self.folder.content("parameters")

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
        lines = collections.Counter(
            (b"validation" in line, re.search(rb'"step":(\d+)', line).group(1))
            for line in self.folder.content("log").splitlines() if b'"epoch"' not in line)
        twice = [step.decode() for (_, step), n in lines.items() if n > 1]
        return f"steps {twice[:3]} are logged twice" if twice else ""


def steady(a):
    """One job that is disturbed for minutes."""
    random_, waits, kinds = random.Random(a.seed), [], collections.Counter()
    job = Job(a, 4, ["--ranks", "4", "--data-parallel", "2", "--microbatches", "4", "--layers",
                     "8", "--d-model", "16", "--heads", "2", "--clip", "0.5", "--dropout",
                     "0.1", "--validation-fraction", "0"], a.seed, 10_000_000)
    job.start(["--spares", "1"], ["--snapshot-every", "2"])
    until = time.monotonic() + 60 * a.minutes
    while job.running.poll() is None and time.monotonic() < until:
        time.sleep(5)
        kind = random_.choice(KINDS)
        kinds[kind] += 1
        job.disturb(kind, random_, waits)
    job.running.send_signal(signal.SIGINT)
    code = job.running.wait(120)
    steps = re.findall(r"SIGINT\) after step (\d+)", job.text())
    if not steps:
        job.folder.keep(os.path.join(a.keep, "steady"))
        print(f"ended with {code}: {job.text()[-2000:]}")
        return 1
    own = job.folder.content("parameters")
    same = own == job.plain(int(steps[-1]))
    tell(waits)
    print(f"{kinds.total()} disturbances in {a.minutes} minutes: {dict(kinds)}; {steps[-1]} "
          f"steps, {'the bytes of a plain loop' if same else 'OTHER BYTES'}")
    job.folder.remove()
    return 0 if same else 1


def tell(waits):
    if waits:
        waits.sort()
        print(f"after kills: p50 {statistics.median(waits):.3f} s, "
              f"p99 {waits[int(0.99 * (len(waits) - 1))]:.3f} s, most {waits[-1]:.3f} s")


def main():
    a = jobs.arguments(__doc__, minutes=0.0)
    if a.minutes:
        return steady(a)
    random_ = random.Random(a.seed)
    kinds, bad, refused, waits = collections.Counter(), 0, 0, []
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
        refused += job.refused
        job.folder.remove()
    tell(waits)
    print(f"{kinds.total()} disturbances, {bad} problems: {dict(kinds)}; "
          f"{refused} moves refused, as a process was lost meanwhile")
    return 1 if bad else 0


raise SystemExit(main())

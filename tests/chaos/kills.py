"""Runs that are killed, stopped or disturbed, and resumed.

    python3 tests/chaos/kills.py [--seed 1] [--count 100] [--keep FOLDER]

Draws shapes of jobs: schedules, shards, processes, optimizers. Each job trains 20 steps,
with a checkpoint after each. It is then run again with one fault: a process is killed at
a random moment or at a random call that changes a file, all are killed, a process is
stopped for a while or in the middle of a call, a call fails, the disk is slow, the clock
jumps. Then it is resumed, without the fault. It must end with the bytes of the run that
nothing happened to, and leave nothing but checkpoints. What fails is copied to --keep.
"""

import collections
import os
import random
import signal
import subprocess
import time

import jobs

KINDS = (["kill"] * 4 + ["die"] * 4
         + ["kill_all", "enospc", "eio", "stop", "slow", "clock", "freeze"])


def faults_library(folder):
    path = folder.at("faults.so")
    source = os.path.join(os.path.dirname(__file__), "file_faults.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


class Shape:
    """A job of one shape, and what it does when nothing happens."""

    def __init__(self, a, processes, flags, seed):
        self.a, self.processes = a, processes
        self.folder = jobs.Folder(seed)
        self.faults = {"LD_PRELOAD": faults_library(self.folder), "FAULT_PATH": "/checkpoints"}
        self.flags = flags + [
            "--seq", "8", "--lr", "0.01", "--endpoint", "none",
            "--steps", "20", "--checkpoint-every", "1", "--resume", "auto",
            "--checkpoints", self.folder.at("checkpoints"),
            "--save-parameters", self.folder.at("parameters")]
        begin = time.monotonic()
        codes = jobs.join(self.start(
            {p: dict(self.faults, FAULT_LOG=self.folder.at(f"calls{p}"))
             for p in range(processes)}))
        self.seconds = time.monotonic() - begin
        self.whole = None if any(codes) else self.folder.content("parameters")
        self.calls = [self.lines(f"calls{p}") for p in range(processes)]

    def lines(self, name):
        if not os.path.exists(self.folder.at(name)):
            return 0
        return self.folder.content(name).count(b"\n")

    def start(self, environments=None, patience=60):
        return self.folder.start(self.a.troupe, self.processes,
                                 self.flags + ["--patience", str(patience)], environments)

    def disturbed(self, kind, random_):
        """Runs it with a fault; returns what was done."""
        victim = random_.randrange(self.processes)
        call = random_.randrange(max(1, self.calls[victim]))
        moment = random_.random() * self.seconds
        environments = {}
        if kind in ("die", "enospc", "eio", "freeze"):
            environments = {victim: dict(self.faults, FAULT_MODE=kind, FAULT_AT=str(call))}
        elif kind in ("slow", "clock"):
            extra = ({"FAULT_DELAY_US": "30000"} if kind == "slow"
                     else {"FAULT_CLOCK_JUMP": "100000"})
            environments = {p: dict(self.faults, **extra) for p in range(self.processes)}
        running = self.start(environments, patience=5)
        if kind in ("kill", "kill_all", "slow", "stop", "freeze"):
            time.sleep(moment)
        if kind in ("kill", "slow", "kill_all"):
            for each in running if kind == "kill_all" else [running[victim]]:
                each.kill()
        if kind == "stop":
            running[victim].send_signal(signal.SIGSTOP)
        if kind in ("stop", "freeze"):
            time.sleep(random_.random() * 3)
            running[victim].send_signal(signal.SIGCONT)
        until = time.monotonic() + 120
        while kind == "freeze" and running[victim].poll() is None \
                and time.monotonic() < until:  # it may reach the call only now
            running[victim].send_signal(signal.SIGCONT)
            time.sleep(0.1)
        jobs.join(running)
        return f"{kind} of process {victim}, call {call}, {moment:.3f} s"

    def problem_of(self, kind, random_):
        """Disturbs and resumes it; returns what went wrong, with what was done."""
        self.folder.clear("checkpoints", "parameters")
        done = kind
        try:
            done = self.disturbed(kind, random_)
            self.folder.clear("parameters")
            codes = jobs.join(self.start())
        except jobs.Hang:
            return f"{done}: hangs"
        if any(codes):
            return f"{done}: ends with {codes}"
        if self.folder.content("parameters") != self.whole:
            return f"{done}: other bytes"
        left = [name for name in os.listdir(self.folder.at("checkpoints"))
                if not name.startswith("step-000") and name != ".lock"]
        return f"{done}: left {left}" if left else ""


def main():
    a = jobs.arguments(__doc__)
    random_ = random.Random(a.seed)
    kinds, shapes, bad = collections.Counter(), 0, 0
    while kinds.total() < a.count:
        processes, flags = jobs.random_shape(random_.choice)
        shape = Shape(a, processes, flags, a.seed)
        if shape.whole:
            shapes += 1
            print(f"{shapes}: {processes} processes, {' '.join(flags)}", flush=True)
        for _ in range(min(10, a.count - kinds.total()) if shape.whole else 0):
            kind = random_.choice(KINDS)
            kinds[kind] += 1
            if problem := shape.problem_of(kind, random_):
                bad += 1
                print(f"  {problem}", flush=True)
                shape.folder.keep(os.path.join(a.keep, f"{a.seed}-{bad}"))
        shape.folder.remove()
    print(f"{kinds.total()} faults in {shapes} shapes, {bad} problems: {dict(kinds)}")
    return 1 if bad else 0


raise SystemExit(main())

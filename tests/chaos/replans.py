"""Jobs whose order of ops is changed again and again, beside everything else.

    python3 tests/chaos/replans.py [--seed 1] [--count 25] [--keep FOLDER]

Each job trains in one to three processes, saves checkpoints, and perhaps evaluates or
looks for orders by itself. Meanwhile orders are requested (by name, found by search, with
and without --force, two at once), monitors are attached, and processes are stopped for up
to two seconds, also within a request. In some jobs a process is killed. All other jobs must
end with the bytes of the same job left alone; nothing may hang. What fails is copied to
--keep.
"""

import collections
import json
import os
import random
import signal
import subprocess
import time

import jobs

ORDERS = {1: ["gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2"],
          2: ["interleaved_1f1b", "breadth_first", "depth_first", "interleaved_zb"]}


class Job:
    """One job, and what is done to it."""

    def __init__(self, a, random_, counts):
        self.a, self.random, self.counts = a, random_, counts
        self.folder = jobs.Folder(a.seed)
        self.socket = "unix:" + self.folder.at("socket")
        ranks, depth = random_.choice([2, 2, 3]), random_.choice([1, 2])
        self.orders = ORDERS[depth]
        self.kills = random_.random() < 0.2
        self.killed = False
        common = ["--d-model", "32", "--layers", "8", "--heads", "2", "--seq", "16",
                  "--microbatches", str(2 * ranks), "--ranks", str(ranks),
                  "--stages-per-rank", str(depth), "--schedule", self.orders[0],
                  "--steps", str(random_.choice([300, 600])),
                  *random_.choice([[], ["--data-parallel", "2"], ["--clip", "0.5"],
                                   ["--data-parallel", "2", "--shard", "all"]])]
        self.alone = common + ["--endpoint", "none",
                               "--save-parameters", self.folder.at("alone")]
        self.disturbed = common + [
            "--endpoint", self.socket, "--save-parameters", self.folder.at("disturbed"),
            "--checkpoints", self.folder.at("checkpoints"),
            "--checkpoint-every", str(random_.choice([7, 50])),
            "--eval-every", str(random_.choice([0, 11])),
            "--replan-every", str(random_.choice([0, 0, 40]))]
        self.processes = random_.choice([1, ranks])

    def pause(self, seconds):
        victim = self.random.choice(self.running)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random() * seconds)
        victim.send_signal(signal.SIGCONT)

    def kill(self):
        self.killed = True
        self.random.choice(self.running).kill()

    def request(self, *flags):
        return subprocess.Popen([self.a.troupe, "replan", self.socket, *flags, "--json"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replan(self, what):
        flags = ["--search"] if what == "search" else [
            "--schedule", self.random.choice(self.orders),
            *(["--force"] if self.random.random() < 0.5 else [])]
        requests = [self.request(*flags)]
        if what == "two":
            requests.append(self.request("--schedule", self.random.choice(self.orders)))
        if self.random.random() < 0.3:
            time.sleep(0.2)
            self.counts["stopped within a request"] += 1
            self.pause(1.5)
        if self.kills and self.random.random() < 0.2:
            self.kill()
        for each in requests:
            try:
                output, _ = each.communicate(timeout=310)
            except subprocess.TimeoutExpired:
                for other in requests:
                    other.kill()
                raise jobs.Hang
            answer = json.loads(output) if each.returncode == 0 else None
            self.counts["no answer" if not answer else "taken" if answer["taken"]
                        else "refused after a trial" if answer["trial_steps"]
                        else "refused"] += 1

    def disturb(self):
        what = self.random.choice(["replan", "replan", "replan", "search", "two", "attach",
                                   "stop", "sleep", "kill" if self.kills else "sleep"])
        if what in ("replan", "search", "two"):
            self.replan(what)
        elif what == "attach":
            self.watchers.append(subprocess.Popen(
                [self.a.troupe, "attach", self.socket, "gap:every=3"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        elif what == "stop":
            self.pause(2)
        elif what == "kill" and self.random.random() < 0.3:
            self.kill()
        else:
            time.sleep(self.random.random() * 0.3)

    def run(self):
        """Returns what went wrong."""
        try:
            if any(jobs.join(self.folder.start(self.a.troupe, 1, self.alone))):
                return "fails alone"
        except jobs.Hang:
            return "hangs alone"
        self.running = self.folder.start(self.a.troupe, self.processes, self.disturbed)
        self.watchers = []
        until = time.monotonic() + 400
        try:
            while any(each.poll() is None for each in self.running):
                if time.monotonic() > until:
                    raise jobs.Hang
                self.disturb()
        except jobs.Hang:
            return "hangs"
        finally:
            for each in self.running + self.watchers:
                each.kill()
        codes = [each.wait() for each in self.running]
        if self.killed:
            return ""
        if any(codes):
            return f"ends with {codes}"
        self.counts["switches"] += self.folder.content("out0").count(b"switches to")
        same = self.folder.content("disturbed") == self.folder.content("alone")
        return "" if same else "other bytes"


def main():
    a = jobs.arguments(__doc__)
    random_ = random.Random(a.seed)
    counts, bad = collections.Counter(), 0
    for number in range(a.count):
        job = Job(a, random_, counts)
        problem = job.run()
        counts["killed" if job.killed else "ended"] += 1
        print(f"{number + 1}: {job.processes} processes, {' '.join(job.disturbed)}: "
              f"{problem or 'well'}", flush=True)
        if problem:
            bad += 1
            job.folder.keep(os.path.join(a.keep, f"{a.seed}-{bad}"))
        job.folder.remove()
    print(f"{a.count} jobs, {bad} problems: {dict(counts)}")
    return 1 if bad else 0


raise SystemExit(main())

"""Jobs that heal, while their processes, launchers, authorities and links are disturbed.

    python3 tests/chaos/healing.py [--seed 1] [--count 100] [--keep FOLDER]
    python3 tests/chaos/healing.py --kinds cut_long,kill_etcd     # only these
    python3 tests/chaos/healing.py --minutes 60                   # one job of one machine

Draws shapes of jobs as kills.py does. Each trains by `troupe launch ... train --heal` on one
machine, or on two machines with `troupe authority`, whose record is in a file or in etcd,
while disturbances happen. Kinds of disturbances of a job on one machine:

    kill, kill_two      a process is killed, or two at once (also as they start again)
    stop                one is stopped for up to 15 seconds
    move, drain         ranks move, or a process is drained
    kill_saving, kill_moving, kill_draining, kill_replanning
                        one is killed while that is under way

Those of jobs of two machines, which are network namespaces (this requires root):

    far_kill, far_stop, far_drain, far_saving
                        the same there
    kill_launcher       the launcher of one machine is killed, and started again
    kill_authority      the authority is killed, and started again; perhaps a process
                        is killed meanwhile
    cut_short, cut_long links of a machine are cut for less or for more than ten seconds

And those with etcd (if it is installed):

    kill_elected        the authority that is elected is killed
    kill_etcd           one server of etcd is killed, and started again
    kill_etcd_two       two are; perhaps a process is killed meanwhile

Each job must end with the bytes of the run that nothing happened to and with exit code 0, have
each step's line once in its log, go on within a minute, leave no process, socket or shared memory
behind, and hold no more and more descriptors and threads. Prints how long jobs stood still after
each kind.
"""

import collections
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import time

import jobs
import leaks
import machines

LOCAL = (["kill"] * 4 + ["kill_two", "stop", "move", "drain"]
         + ["kill_saving", "kill_moving", "kill_draining", "kill_replanning"])
FAR = ["far_kill", "far_stop", "far_drain", "far_saving", "kill_launcher", "cut_short", "cut_long"]
FILE = FAR + ["kill_authority"] * 3
ETCD = FAR + ["kill_elected", "kill_etcd", "kill_etcd_two"] * 2
KINDS = {"local": LOCAL, "file": FILE, "etcd": ETCD}
# A silent process is lost after so long.
SILENT = 10
ORDERS = [["gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2"],
          ["interleaved_1f1b", "breadth_first", "depth_first", "interleaved_zb"]]


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

    last_steps = 20  # in which nothing happens any more

    def __init__(self, a, random_, processes, flags, steps):
        self.a, self.random, self.processes, self.steps = a, random_, max(2, processes), steps
        self.folder = jobs.Folder(a.seed)
        self.flags = flags + ["--seq", "8", "--lr", "0.01", "--steps", str(steps),
                              "--save-parameters", self.folder.at("parameters")]
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.folder.at("run"))
        self.environment[leaks.MARK] = self.folder.path
        os.mkdir(self.folder.at("run"), mode=0o700)
        self.shared_before = set(os.listdir("/dev/shm"))
        self.growth, self.waits = leaks.Growth(), collections.defaultdict(list)
        self.refused = self.last = 0
        self.trouble, self.place, self.killed = "", "", collections.defaultdict(list)
        self.launchers, self.is_secret = [], False

    def command(self, extra, heals):
        flags = [self.folder.at(each) if each in self.folder.inputs else each
                 for each in self.flags]
        return [self.a.troupe, "launch", "--processes", str(self.processes), *extra, "--", "train",
                "--text", self.folder.at("text"), "--microbatch-size", "2", *flags, *heals]

    def whole(self):
        """The parameters of the run that nothing happens to; none: it is refused."""
        command = self.command(["--processes", "1"], ["--endpoint", "none"])
        del command[2:4]
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)
        return self.folder.content("parameters") if done.returncode == 0 else None

    def start(self, extra, flags):
        self.folder.clear("parameters", "log")
        self.read = [0, 0]
        flags = ["--heal", "--log-json", self.folder.at("log"), *flags]
        for number, command in enumerate(self.commands(extra, flags)):
            self.launchers.append(machines.Restartable(
                command, self.folder.at(f"output{number}"), self.environment))

    def commands(self, extra, flags):
        return [self.command(["--on-failure", "process=rehost:1000/10min", *extra], flags)]

    def there(self):
        """The processes that live, by their number."""
        return {number: pid for each in self.launchers
                for number, pid in children(each.running.pid).items()}

    def has_ended(self):
        return any(each.has_ended() for each in self.launchers)

    def text(self):
        return "".join(self.folder.content(f"output{i}").decode(errors="replace")
                       for i in range(len(self.launchers)))

    def look(self):
        """Notes the last step and the endpoint in what was printed since the last look."""
        for i in range(len(self.launchers)):
            with open(self.folder.at(f"output{i}"), "rb") as file:
                file.seek(self.read[i])
                new = file.read().rpartition(b"\n")[0]
            self.read[i] += len(new)
            new = new.decode(errors="replace")
            if steps := re.findall(r"step (\d+)/", new):
                self.last = int(steps[-1])
            if places := re.findall(r"attach with: troupe top (\S+)", new):
                self.place = places[-1]

    def step(self):
        """The last step that was printed."""
        self.look()
        return self.last

    def wait_for_step(self, goal):
        while not self.has_ended() and not self.trouble and self.step() < goal:
            time.sleep(0.01)

    def recover(self, kind, before, detection=0):
        """Waits for a step after `before`, and notes how long that takes; `detection`: how long
        it takes to know that something is wrong."""
        began = moved = time.monotonic()
        last = before
        while not self.has_ended() and self.step() <= before:
            if self.last != last:  # a job that lost a state begins anew
                last, moved = self.last, time.monotonic()
            if time.monotonic() - moved > 60 + detection:
                self.trouble = f"stands still for a minute after {kind}"
                return
            time.sleep(0.005)
        self.waits[kind].append(max(0, time.monotonic() - began - detection))

    def note_holdings(self):
        """Each rank that a process hosts is a thread, and who leads serves the endpoint."""
        asked = subprocess.run([self.a.troupe, "ranks", self.place, "--json"],
                               env=self.environment, capture_output=True, text=True)
        if asked.returncode != 0:
            return  # the job ends, or nobody leads it now
        answer = json.loads(asked.stdout)
        for number, member in enumerate(answer["members"]):
            state = (number == 0, answer["hosting"].count(number), answer["processes"])
            self.growth.note(member["pid"], state, answer["epoch"])

    # What may happen; `kind` names it.

    def disturb(self, kind):
        if self.there():
            getattr(self, kind)(kind)
            self.note_holdings()

    def kill_one(self):
        """Not one for a fourth time within a minute: its launcher would give up."""
        there, now = self.there(), time.monotonic()
        fit = [number for number in there
               if sum(now - at < 62 for at in self.killed[number]) < 3]
        if fit:
            victim = self.random.choice(fit)
            self.killed[victim].append(now)
            send(there[victim], signal.SIGKILL)

    def kill(self, kind):
        before = self.step()
        self.kill_one()
        self.recover(kind, before)

    def kill_two(self, kind):
        before = self.step()
        self.kill_one()
        self.kill_one()
        self.recover(kind, before)

    def stop(self, kind):
        victim = self.random.choice(list(self.there().values()))
        before, seconds = self.step(), self.random.random() * 15
        send(victim, signal.SIGSTOP)
        time.sleep(seconds)
        send(victim, signal.SIGCONT)
        self.recover(kind, before)

    def request(self, *words):
        self.look()
        return subprocess.Popen([self.a.troupe, words[0], self.place, *words[1:]],
                                env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def finish(self, request):
        try:
            if request.wait(120) and not self.has_ended():
                self.refused += 1
        except subprocess.TimeoutExpired:
            request.kill()
            self.trouble = f"{request.args[1:]} hangs"

    def ask_to_move(self):
        return self.request("move", str(self.random.randrange(2)),
                            str(self.random.randrange(len(self.there()))))

    def ask_to_drain(self):
        return self.request("drain", str(self.random.randrange(len(self.there()))))

    def ask_to_replan(self):
        own = self.flags[self.flags.index("--schedule") + 1]
        orders = next((each for each in ORDERS if own in each), None)
        return self.request("replan", *(["--schedule", self.random.choice(orders), "--force"]
                                        if orders else ["--search"]))

    def move(self, _kind):
        self.finish(self.ask_to_move())

    def drain(self, _kind):
        self.finish(self.ask_to_drain())

    def kill_within(self, kind, request):
        time.sleep(self.random.random() * 0.15)
        self.kill(kind)
        self.finish(request)

    def kill_moving(self, kind):
        self.kill_within(kind, self.ask_to_move())

    def kill_draining(self, kind):
        self.kill_within(kind, self.ask_to_drain())

    def kill_replanning(self, kind):
        time.sleep(self.random.random() * 0.3)
        self.kill_within(kind, self.ask_to_replan())

    def kill_saving(self, kind):
        """As the files of a checkpoint are written."""
        until = time.monotonic() + 10
        while time.monotonic() < until and not self.has_ended():
            try:
                names = os.listdir(self.folder.at("checkpoints"))
            except FileNotFoundError:
                names = []
            if any(each.endswith(".partial") for each in names):
                break
            time.sleep(0.0005)
        self.kill(kind)

    # How it must end.

    def plain(self, steps):
        """The parameters of a plain loop of so many steps."""
        command = self.command([], ["--endpoint", "none", "--plain", "--steps", str(steps)])
        command[1:command.index("train")] = []
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return self.folder.content("parameters")

    def problem(self, whole):
        """What is wrong with the end of the job; empty: nothing."""
        if self.trouble:
            return self.trouble
        try:
            codes = [each.running.wait(300) for each in self.launchers]
        except subprocess.TimeoutExpired:
            return "hangs"
        if any(codes):
            return f"ends with {codes}"
        if self.folder.content("parameters") != whole:
            return "other bytes"
        lines = collections.Counter(
            (b"validation" in line, re.search(rb'"step":(\d+)', line).group(1))
            for line in self.folder.content("log").splitlines() if b'"epoch"' not in line)
        if twice := [step.decode() for (_, step), n in lines.items() if n > 1]:
            return f"steps {twice[:3]} are logged twice"
        if missing := self.steps - sum(not is_validation for is_validation, _ in lines):
            return f"{missing} steps are not logged"
        return self.growth.problem()

    def left_behind(self):
        return leaks.left_behind(self.folder.path, self.folder.at("run/troupe"),
                                 self.shared_before)

    def remove(self):
        for pid in leaks.processes_of(self.folder.path):
            send(pid, signal.SIGKILL)
        for each in self.launchers:
            each.running.wait()
        self.folder.remove()


class FarJob(Job):
    """A job of two launchers on two machines, whose authority is on a third one."""

    last_steps = 80  # a process that starts again needs time to come back

    def __init__(self, a, random_, flags, steps, place, network):
        ranks, copies = (int(flags[flags.index(each) + 1])
                         for each in ("--ranks", "--data-parallel"))
        self.on_each = 2 if ranks * copies >= 4 else 1
        super().__init__(a, random_, 2 * self.on_each, flags, steps)
        self.with_etcd, self.network = place == "etcd", network
        self.trust, self.deciders = ["--insecure"], None
        if random_.random() < 0.4:
            certificates = self.folder.at("certificates")
            subprocess.run([a.troupe, "certificates", certificates], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.trust, self.is_secret = ["--certificates", certificates], True

    def commands(self, extra, flags):
        self.deciders = machines.Deciders(self.a.troupe, self.network, self.folder,
                                          self.with_etcd, self.trust, self.environment)
        self.processes = self.on_each
        for machine, name in enumerate(self.network.machines):
            place = ["--authority", self.deciders.address, "--machines", "2",
                     "--machine", str(machine)]
            yield self.network.command(name, self.command(place, [*flags, *self.trust]))

    far_kill, far_stop, far_drain, far_saving = Job.kill, Job.stop, Job.drain, Job.kill_saving

    def kill_launcher(self, kind):
        victim, before = self.random.choice(self.launchers), self.step()
        victim.running.kill()
        began = time.monotonic()
        while self.step() <= before and time.monotonic() - began < 10:
            time.sleep(0.005)
        self.waits[kind].append(time.monotonic() - began)
        victim.kill()
        victim.start()
        self.recover(kind + " (again)", self.step())

    def away(self, kind, decider_is_back):
        """Training goes on while none decides; a loss waits until one does again."""
        time.sleep(self.random.random())
        is_lost = self.random.random() < 0.5
        if is_lost:
            self.kill_one()
            time.sleep(self.random.random() * 3)
        else:
            self.recover(f"{kind} (meanwhile)", self.step())
        before = self.step()
        decider_is_back()
        self.recover(f"{kind} and a process" if is_lost else kind, before,
                     SILENT if is_lost else 0)

    def kill_authority(self, kind):
        authority = self.deciders.elected()
        authority.kill()
        self.away(kind, authority.start)

    def kill_elected(self, kind):
        """The other one follows; this one is a candidate again later."""
        authority, before = self.deciders.elected(), self.step()
        authority.kill()
        if self.random.random() < 0.5:
            self.kill_one()
        self.recover(kind, before)
        authority.start()

    def kill_etcd(self, kind):
        server, before = self.random.choice(self.deciders.etcd.servers), self.step()
        server.kill()
        if self.random.random() < 0.5:
            self.kill_one()
        self.recover(kind, before)
        time.sleep(self.random.random() * 2)
        server.start()

    def kill_etcd_two(self, kind):
        servers = self.random.sample(self.deciders.etcd.servers, 2)
        for each in servers:
            each.kill()
        self.away(kind, servers[0].start)
        servers[1].start()

    def cut(self, kind, seconds, detection):
        what = self.random.choice(["machine", "pair", "authority"])
        machine, before = self.random.randrange(2), self.step()
        self.network.cut(what, machine)
        began = time.monotonic()
        if seconds > SILENT and what != "pair":  # others go on meanwhile
            self.recover(f"{kind} ({what})", before, detection)
        time.sleep(max(0, began + seconds - time.monotonic()))
        self.network.heal(what, machine)
        self.recover(f"{kind} ({what}, healed)", self.step())

    def cut_short(self, kind):
        self.cut(kind, 1 + self.random.random() * 8, 0)

    def cut_long(self, kind):
        self.cut(kind, SILENT + 3 + self.random.random() * 6, SILENT)

    def problem(self, whole):
        return super().problem(whole) or self.deciders.problem()

    def left_behind(self):
        self.deciders.remove()  # a candidate that was not elected does not end with the job
        return super().left_behind()

    def remove(self):
        if self.deciders:
            self.deciders.remove()
        super().remove()


def steady(a):
    """One job that is disturbed for minutes."""
    random_, kinds = random.Random(a.seed), collections.Counter()
    job = Job(a, random_, 4, [
        "--ranks", "4", "--data-parallel", "2", "--microbatches", "4", "--layers", "8",
        "--d-model", "16", "--heads", "2", "--clip", "0.5", "--dropout", "0.1",
        "--validation-fraction", "0"], 10_000_000)
    job.start(["--spares", "1"], ["--snapshot-every", "2", "--checkpoints",
                                  job.folder.at("checkpoints"), "--checkpoint-every", "300"])
    until = time.monotonic() + 60 * a.minutes
    while not job.has_ended() and time.monotonic() < until:
        time.sleep(5)
        kind = random_.choice(["kill"] * 4 + ["kill_two", "stop", "move", "drain"])
        kinds[kind] += 1
        job.disturb(kind)
    job.launchers[0].running.send_signal(signal.SIGINT)
    code = job.launchers[0].running.wait(120)
    steps = re.findall(r"SIGINT\) after step (\d+)", job.text())
    if not steps:
        job.folder.keep(os.path.join(a.keep, "steady"))
        print(f"ended with {code}: {job.text()[-2000:]}")
        return 1
    own = job.folder.content("parameters")
    same = own == job.plain(int(steps[-1]))
    tell(job.waits)
    print(f"{kinds.total()} disturbances in {a.minutes} minutes: {dict(kinds)}; {steps[-1]} "
          f"steps, {'the bytes of a plain loop' if same else 'OTHER BYTES'}")
    job.remove()
    return 0 if same else 1


def tell(waits):
    for kind, each in sorted(waits.items()):
        each.sort()
        print(f"after {kind}: {len(each)} times, p50 {statistics.median(each):.3f} s, "
              f"p99 {each[math.ceil(0.99 * (len(each) - 1))]:.3f} s, most {each[-1]:.3f} s")


def random_job(a, random_, network):
    """A job of random shape, with the kinds of what may happen to it."""
    wanted = set(filter(None, a.kinds.split(",")))
    places = {place: [each for each in kinds if each in wanted or not wanted]
              for place, kinds in KINDS.items()
              if place == "local" or (network and (place == "file" or os.path.exists(
                  "/usr/bin/etcd")))}
    place = random_.choice([each for each, kinds in places.items() if kinds])
    kinds = places[place]
    processes, flags = jobs.random_shape(random_.choice)
    flags += random_.choice([[], [], ["--link", "shared"]])
    job = (Job(a, random_, processes, flags, 400) if place == "local"
           else FarJob(a, random_, flags, 400, place, network))
    saves = wanted and wanted <= {"kill_saving", "far_saving"}
    if saves or random_.random() < 0.4:
        job.flags += ["--checkpoints", job.folder.at("checkpoints"),
                      "--checkpoint-every", random_.choice(["2", "7", "20"])]
    else:
        kinds = [each for each in kinds if not each.endswith("_saving")]
    if random_.random() < 0.15:
        job.flags += ["--replan-every", "20"]
    return job, place, kinds


def disturb(job, choose, kinds, most):
    """Until its last steps."""
    while not job.has_ended() and not job.trouble and kinds.total() < most:
        job.wait_for_step(job.step() + job.random.randrange(5, 40))
        if job.step() > job.steps - job.last_steps or job.has_ended():
            return
        kind = job.random.choice(choose)
        kinds[kind] += 1
        began, before = time.monotonic(), job.step()
        job.disturb(kind)
        print(f"  {kind} at {before}: {time.monotonic() - began:.1f} s, now at {job.step()}",
              flush=True)


class Totals:
    """What all jobs saw."""

    def __init__(self):
        self.kinds, self.waits = collections.Counter(), collections.defaultdict(list)
        self.jobs = self.bad = self.refused = self.with_tls = self.epochs = 0

    def add(self, job, kinds):
        self.jobs += 1
        self.kinds += kinds
        self.with_tls += kinds.total() if job.is_secret else 0
        self.refused += job.refused
        self.epochs = max(self.epochs, job.growth.epochs())
        for kind, each in job.waits.items():
            self.waits[kind] += each


def test(a, random_, network, total):
    """One job, unless it is refused."""
    job, place, choose = random_job(a, random_, network)
    try:
        if not choose or not (whole := job.whole()):
            return
        job.folder.clear("checkpoints")
        extra = random_.choice([[], [], ["--spares", "1"]] if place == "local" else [[]])
        every = random_.choice(["1", "1", "3", "10"])
        print(f"{place}{' TLS' if job.is_secret else ''}, {job.processes} processes, "
              f"{' '.join([*extra, *job.flags])}, every {every}", flush=True)
        job.start(extra, ["--snapshot-every", every])
        kinds = collections.Counter()
        disturb(job, choose, kinds, a.count - total.kinds.total())
        problem = job.problem(whole) or job.left_behind()
        total.add(job, kinds)
        if problem:
            total.bad += 1
            print(f"  PROBLEM: {problem}", flush=True)
            job.folder.keep(os.path.join(a.keep, f"{a.seed}-{total.bad}"))
    finally:
        job.remove()


def main():
    a = jobs.arguments(__doc__, minutes=0.0, kinds="")
    signal.signal(signal.SIGTERM, lambda *_: exit(143))  # what was begun is removed
    if a.minutes:
        return steady(a)
    random_, total = random.Random(a.seed), Totals()
    network = machines.Network() if os.geteuid() == 0 else None
    try:
        while total.kinds.total() < a.count:
            test(a, random_, network, total)
    finally:
        if network:
            network.remove()
    tell(total.waits)
    print(f"{total.kinds.total()} disturbances of {total.jobs} jobs, {total.with_tls} of them with "
          f"TLS, {total.bad} problems: {dict(total.kinds)}; {total.refused} moves refused, as a "
          f"process was lost meanwhile; looked at processes for up to {total.epochs} epochs")
    return 1 if total.bad else 0


raise SystemExit(main())

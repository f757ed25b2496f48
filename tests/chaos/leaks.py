"""What jobs leave behind, and what their processes hold more and more of, for healing.py."""

import os
import time

MARK = "TROUPE_CHAOS_JOB"  # an environment variable that all processes of a job have


def processes_of(mark):
    """All processes that live and have the mark, by their ids, with their names."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found[int(pid)] = file.read().replace(b"\0", b" ").decode()[:80]
        except OSError:
            pass
    return {pid: name for pid, name in found.items() if name}  # the others are zombies


def left_behind(mark, sockets, shared_before):
    """What is left of a job that has ended; empty: nothing. `sockets`: its own folder for
    them."""
    until = time.monotonic() + 10
    while (alive := processes_of(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    if alive:
        return f"processes are left: {alive}"
    files = os.listdir(sockets) if os.path.isdir(sockets) else []
    if files:
        return f"sockets are left: {files}"
    shared = [name for name in os.listdir("/dev/shm") if name not in shared_before]
    return f"shared memory is left: {shared}" if shared else ""


def held_by(pid):
    """The numbers of descriptors and of threads of a process, at a calm moment."""
    samples = []
    for _ in range(5):
        samples.append((len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))))
        time.sleep(0.02)
    return tuple(min(each) for each in zip(*samples))


def age(pid):
    """Of a process, in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


class Growth:
    """What processes hold, the first and the last time that each is in the same state."""

    def __init__(self):
        self.first, self.last = {}, {}

    def note(self, pid, state, epoch):
        try:
            if age(pid) < 10:
                return  # it may still start
            held = held_by(pid)
        except OSError:
            return  # it has ended
        self.first.setdefault((pid, state), (epoch, held))
        self.last[pid, state] = (epoch, held)

    def problem(self):
        """Of processes that have seen some epochs; empty: nothing grows."""
        for key, (epoch, held) in self.last.items():
            since, before = self.first[key]
            for what, old, new in zip(("descriptors", "threads"), before, held):
                # The first change of processes adds a thread with three descriptors.
                if new - old > max(3, epoch - since - 1):
                    return (f"process {key[0]} has {new} {what} in epoch {epoch}, and had "
                            f"{old} in epoch {since}")
        return ""

    def epochs(self):
        """The most epochs between two looks at one process."""
        return max((epoch - self.first[key][0] for key, (epoch, _) in self.last.items()),
                   default=0)

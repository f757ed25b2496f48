"""What a client that reads /events costs a job.

    python bench/attached_client.py --text book.txt [--minutes 60]

Two equal jobs side by side; curl reads the stream of events of the first. Prints a Markdown
table of their processor time per step, which other work on the machine disturbs little.
"""

import os
import re
import signal
import subprocess
import tempfile
import time

from runs import SMALL, flags, heading, parser, row


def start(a, folder, name):
    command = [a.troupe, "train", "--text", a.text, *flags(SMALL), "--ranks", "2",
               "--steps", "100000000", "--endpoint", f"unix:{folder}/{name}.sock"]
    with open(f"{folder}/{name}.log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def end(job, log):
    """Steps, and seconds of processor time."""
    job.send_signal(signal.SIGINT)
    _, _, used = os.wait4(job.pid, 0)
    with open(log) as lines:
        steps = re.findall(r"^step (\d+)/", lines.read(), re.MULTILINE)
    return int(steps[-1]), used.ru_utime + used.ru_stime


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=60)
    a = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        jobs = {name: start(a, folder, name) for name in ("with", "without")}
        while not os.path.exists(f"{folder}/with.sock"):
            time.sleep(0.05)
        with open(f"{folder}/events", "wb") as events:
            client = subprocess.Popen(["curl", "-sN", "--unix-socket", f"{folder}/with.sock",
                                       "http://job/events"], stdout=events)
        time.sleep(60 * a.minutes)
        found = {name: end(job, f"{folder}/{name}.log") for name, job in jobs.items()}
        client.wait(timeout=60)
        read = os.path.getsize(f"{folder}/events")
    heading("job", "steps", "ms of processor time per step", "MB that curl read")
    for name, (steps, seconds) in found.items():
        row(f"{name} curl", steps, f"{1e3 * seconds / steps:.2f}",
            f"{read / 1e6:.1f}" if name == "with" else "")


main()

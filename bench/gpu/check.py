"""What a GPU shows of troupe, in one run that may be cut off anywhere.

Parts, in the order of their worth, each with a limit of its own:

    tests       the tests labelled gpu
    kernels     functions with kernels for GPUs beside LibTorch's operators
    nccl        jobs of several processes on this GPU: the bytes of --plain; a lost process
    speed       a GPT of 354 M beside PyTorch's eager loop and torch.compile
    monitors    what gap, overflow and timeline add to a step
    overhead    what an op costs on the host
    llama       a Llama of 1.1 B beside PyTorch's eager loop and torch.compile
    memory      the peak of the GPU's memory beside PyTorch's; offloaded activations
    profile     where a step's time goes, by op and kernel

After each figure OUT/results.json has all that is known; `--tables OUT` prints it as
Markdown. A part that is cut off or fails leaves what it had, and the next one begins.
--dry-run runs all parts small on the CPU: it tests the scripts, and its figures are
meaningless. --bundle makes what another machine needs that has PyTorch (bundle.py).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import bundle  # noqa: E402
import parts  # noqa: E402
import tables  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))


class Results:
    """A file that is whole at any moment."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "results.json")

    def read(self):
        if not os.path.exists(self.path):
            return {}
        with open(self.path) as file:
            return json.load(file)

    def note(self, part, **figures):
        """Adds figures of a part to what is known."""
        everything = self.read()
        everything.setdefault(part, {}).update(figures)
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(self.path),
                                         delete=False) as file:
            json.dump(everything, file, indent=1)
        os.replace(file.name, self.path)


def end_group(process):
    """A part's programs end with it."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, which)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def run_part(name, words, limit, results):
    """In a process of its own, as it may hang in a driver."""
    results.note(name, status="running")
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, "--part", name, *words],
                               start_new_session=True,
                               env=dict(os.environ, GPU_CHECK_PARENT=str(os.getpid())))
    try:
        status = "done" if process.wait(limit) == 0 else "failed"
    except subprocess.TimeoutExpired:
        status = f"cut off after {limit:.0f} s"
    finally:
        end_group(process)
    took = time.monotonic() - begin
    results.note(name, status=status, seconds=round(took, 1))
    print(f"{name}: {status}, {took:.0f} s", flush=True)
    return status == "done"


def end_with_parent():
    """A part whose gpu_check was killed ends, with its programs, and writes no more."""
    parent = int(os.environ.get("GPU_CHECK_PARENT", 0))

    def watch():
        while os.getppid() == parent:
            time.sleep(0.2)
        os.killpg(0, signal.SIGKILL)

    if parent:
        threading.Thread(target=watch, daemon=True).start()


def run_all(a, words):
    results = Results(a.out)
    results.note("machine", **parts.machine(a))
    end = time.monotonic() + a.minutes * 60
    succeeded = True
    for name, part in parts.ALL.items():
        left = end - time.monotonic()
        if a.only and name not in a.only:
            continue
        if left < 5:
            results.note(name, status="not begun: the time was over")
            succeeded = False
            continue
        limit = part.limit * (4 if a.dry_run else 1)  # of machines that others use, too
        succeeded &= run_part(name, words, min(limit, left), results)
    print(tables.of({name: of for name, of in results.read().items()
                     if not a.only or name in a.only}))
    return succeeded


def names(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in parts.ALL:
            raise argparse.ArgumentTypeError(f"no part is called '{name}'; there are "
                                             + ", ".join(parts.ALL))
    return chosen


def minutes(text):
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} minutes; give a number above 0")
    return number


def rounds(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} rounds; give at least 1")
    return number


def arguments():
    ap = argparse.ArgumentParser(prog="scripts/gpu_check", description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", metavar="FOLDER",
                    help="where results.json and the profile go (default: build/gpu_check, "
                         "or of a dry run build/gpu_check_dry)")
    ap.add_argument("--only", type=names, metavar="PART,...", help="these parts alone")
    ap.add_argument("--minutes", type=minutes, default=9, help="for all parts (default: 9)")
    ap.add_argument("--build", default=os.path.join(ROOT, "build/release"), metavar="FOLDER",
                    help="programs, of scripts/build or a bundle (default: build/release)")
    ap.add_argument("--text", metavar="FILE", help="to train on (default: the documentation)")
    ap.add_argument("--nccl", metavar="FILE",
                    help="libnccl.so.2 of 2.30 or later, to be used instead of PyTorch's")
    ap.add_argument("--rounds", type=rounds, default=3, help="of the runs that alternate")
    ap.add_argument("--dry-run", action="store_true", help="all parts small, on the CPU")
    ap.add_argument("--tables", metavar="FOLDER", help="print the tables of a run, and exit")
    ap.add_argument("--bundle", metavar="FOLDER", help="make a bundle there, and exit")
    ap.add_argument("--part", choices=list(parts.ALL), help=argparse.SUPPRESS)
    return ap.parse_args()


def print_tables(folder):
    results = Results(folder)
    if not os.path.exists(results.path):
        sys.exit(f"gpu_check: {results.path} isn't there; --tables takes the --out of a run")
    print(tables.of(results.read()))
    return 0


def main():
    # As an interrupt does, so that the part that runs is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    a = arguments()
    if a.tables:
        return print_tables(a.tables)
    if a.bundle:
        return bundle.make(os.path.abspath(a.build), os.path.abspath(a.bundle), a.nccl)
    if a.nccl and not os.path.exists(a.nccl):
        sys.exit(f"gpu_check: --nccl {a.nccl} isn't there")
    if a.out is None:
        a.out = os.path.join(ROOT, "build/gpu_check" + ("_dry" if a.dry_run else ""))
    a.out, a.build = os.path.abspath(a.out), os.path.abspath(a.build)
    try:
        os.makedirs(a.out, exist_ok=True)
    except OSError as problem:
        sys.exit(f"gpu_check: --out {a.out} can't be a folder: {problem.strerror}")
    parts.complete(a)
    if a.part:
        end_with_parent()
        with tempfile.TemporaryDirectory() as a.folder:
            parts.ALL[a.part].run(a, Results(a.out))
        return 0
    if problem := parts.missing(a):
        sys.exit("gpu_check can't run here: " + problem)
    return 0 if run_all(a, sys.argv[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Runs benchmarks and writes their tables into docs/benchmarks.md.

    python bench/tables.py --text book.txt [TABLE...]     (none: all of them)

Each table stands there between `<!-- table NAME -->` and `<!-- end -->`, below a
line with the date, the commit ("+": with changes), the processor and the command.
Run it on a machine that does nothing else, with the release build, by a Python that
has PyTorch (pip install torch==2.11.0 numpy) for the tables that have a peer.
"""

import argparse
import datetime
import os
import re
import shlex
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs/benchmarks.md")
BIN = "build/release/bin/bench/"

# name: the command; {text} is the file of --text
TABLES = {
    "torch": "python bench/versus_torch.py --text {text} --pairs 3",
    "torch-two-processes": "python bench/versus_torch.py --text {text} --pairs 3 --processes 2 "
                           "--cases 'small 1f1b,medium 1f1b'",
    "plain": "python bench/versus_plain.py --text {text} --pairs 5",
    "transformers": "python bench/versus_transformers.py --pairs 3",
    "half-precision": "python bench/half_precision.py --text {text}",
    "data-parallel": "python bench/versus_data_parallel.py --text {text} --pairs 3",
    "sharded-optimizers": "python bench/sharded_optimizers.py --text {text} --pairs 3",
    "hidden-reductions": "python bench/hidden_reductions.py --text {text}",
    "overhead": BIN + "overhead --table",
    "split-backward": BIN + "split_backward --tokens 128",
    "fused": BIN + "fused",
    "monitors": "python bench/versus_monitors.py",
    "plans": BIN + "plan_speed",
    "checkpoints": "python bench/checkpoints.py --text {text} --pairs 3",
    "orders-on-paper": "python bench/orders.py",
    "orders": BIN + "orders --seeds 3 --steps 3",
    "search": "python bench/search.py",
    "replan": BIN + "replan",
    "replanned": "python bench/replanned.py --text {text} --steps 16 --summary",
    "replanned-two-processes": "python bench/replanned.py --text {text} --steps 16 --processes 2 "
                               "--shapes 1 --summary",
    "generation": BIN + "generation --tokens 64 --runs 3",
    "steps-on-paper": BIN + "orders --catalogue --steps 3",
    "prediction": "python bench/prediction.py --text {text}",
    "zero-bubble": "python bench/prediction.py --text {text} --schedules 1f1b,zb_h1 "
                   "--microbatches 2 --steps 32",
    "held-bytes": BIN + "held_bytes --ms 3",
    "statistics": BIN + "statistics",
    "links": BIN + "links --rounds 7",
    "latency": "python bench/latency.py --text {text}",
}


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def machine():
    with open("/proc/cpuinfo") as lines:
        text = lines.read()
    name = re.search(r"model name\s*: (.*)", text)
    # The name alone may stand for several generations.
    kind = re.search(r"cpu family\s*: (\d+)\nmodel\s*: (\d+)", text)
    label = name[1] if name else os.uname().machine
    if kind:
        label += f" (family {kind[1]}, model {kind[2]})"
    vectors = next((v for v in ("avx512f", "avx2") if v in text.split()), "")
    return ", ".join(filter(None, [label,
                                   f"{os.cpu_count()} cores",
                                   {"avx512f": "AVX-512", "avx2": "AVX2"}.get(vectors)]))


def commit():
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return output_of("git", "rev-parse", "--short", "HEAD") + ("+" if changed else "")


def run(command, text):
    words = shlex.split(command.format(text=text))
    if words[0] == "python":
        words[0] = sys.executable
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"{command}: exit code {done.returncode}; its table stays as it was")
        return None
    log = re.compile(r"^\[\d{4}-\d\d-\d\d .*\n", re.MULTILINE)
    return log.sub("", done.stdout).strip()


def replace(name, content):
    with open(PAGE) as file:
        page = file.read()
    block = re.compile(rf"<!-- table {name} -->\n.*?<!-- end -->", re.DOTALL)
    if not block.search(page):
        raise SystemExit(f"{PAGE}: has no place for '{name}'; add <!-- table {name} --> and "
                         "<!-- end -->")
    page = block.sub(lambda _: f"<!-- table {name} -->\n{content}\n<!-- end -->", page)
    with open(PAGE + ".new", "w") as file:
        file.write(page)
    os.replace(PAGE + ".new", PAGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--text", required=True, help="some megabytes of English")
    a = parser.parse_args()
    unknown = [name for name in a.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table is named {unknown[0]}; there are {', '.join(TABLES)}")
    text = os.path.abspath(a.text)
    failed = False
    for name in a.tables or TABLES:
        command = TABLES[name]
        began = time.monotonic()
        table = run(command, text)
        if table is None:
            failed = True
            continue
        head = (f"`{command.format(text='book.txt')}`, {datetime.date.today()}, commit "
                f"{commit()}, {machine()}:")
        replace(name, f"{head}\n\n{table}")
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(failed)


main()

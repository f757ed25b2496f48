"""troupe on one rank beside PyTorch's own loop, eager and compiled, on the same model.

    python bench/versus_plain.py --text book.txt [--pairs 5] [--cases medium,small]
                                 [--loops eager,compiled] [--also NAME=TROUPE]

Needs PyTorch in Python (pip install torch==2.11.0 numpy) with a C++ compiler, and a
release build. One process and thread each. The programs alternate, and each ratio is the
median of the rounds' ratios to troupe. `--also` is another troupe, such as one of an
earlier commit. Compiling is not counted: the first steps are the warm-up. Prints a
Markdown table: medians in ms. With ATEN_CPU_CAPABILITY=avx2 and ONEDNN_MAX_CPU_ISA=AVX2
all of them run as on a machine without AVX-512, but compiled loops, which fail then.
"""

import statistics

from runs import MEDIUM, SMALL, flags, heading, parser, peer_step, row, step_times, train

CASES = {"medium": (MEDIUM, 4), "small": (SMALL, 40)}  # shape, steps
LOOPS = {"eager": [], "compiled": ["--compile"]}
WARMUP = 2


def of_troupe(a, program, shape, steps, *more):
    a.troupe = program
    lines = train(a, "--text", a.text, *flags(shape), "--steps", steps + WARMUP,
                  "--ranks", 1, "--threads", 1, *more)
    return statistics.median(step_times(lines, WARMUP))


def of_peer(a, shape, steps, *more):
    return peer_step("peer_torch_pipelining.py", *flags(shape), "--text", a.text, "--steps",
                     steps, "--warmup", WARMUP, "--plain", "--threads", 1, *more)["step"]


def measure(a, case, others):
    shape, steps = CASES[case]
    own = a.troupe
    runs = {"troupe": lambda: of_troupe(a, own, shape, steps)}
    for loop in a.loops.split(","):
        runs[loop] = lambda flags=LOOPS[loop]: of_peer(a, shape, steps, *flags)
    for name, program in others.items():
        runs[name] = lambda program=program: of_troupe(a, program, shape, steps)
    rounds = [{name: run() for name, run in runs.items()} for _ in range(a.pairs)]
    a.troupe = own
    for name in runs:
        cells = [f"{statistics.median(r[name] for r in rounds) * 1e3:.1f}"]
        if name != "troupe":
            cells.append(f"{statistics.median(r[name] / r['troupe'] for r in rounds):.2f} x")
        row(case, name, *cells, *["-"] * (2 - len(cells)))


def main():
    ap = parser(__doc__, pairs=5)
    ap.add_argument("--cases", default=",".join(CASES))
    ap.add_argument("--loops", default=",".join(LOOPS))
    ap.add_argument("--also", action="append", default=[], metavar="NAME=TROUPE")
    a = ap.parse_args()
    heading("case", "loop", "ms a step", "troupe is faster by")
    for case in a.cases.split(","):
        measure(a, case, dict(each.split("=", 1) for each in a.also))


if __name__ == "__main__":
    main()

"""troupe beside torch.distributed.pipelining, in one run, on the same model.

    python bench/versus_torch.py --text book.txt [--pairs 7] [--cases small,...]

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build.
Peer and troupe alternate, so that the noise of the machine hits both alike;
ratios are those of the medians. One process a rank for the peer, one process
for troupe (unless --processes 2); one thread a rank in both. Prints a Markdown table.
"""

import statistics

from runs import (MANY, MEDIUM, SMALL, WARMUP, alternated, compared, flags, heading, parser,
                  peer_step, plain_rate, row, run, step_times, train)

# name: shape, the peer's schedule, ours, stages a rank, steps
CASES = {
    "medium gpipe": (MEDIUM, "gpipe", "gpipe", 1, 4),
    "medium 1f1b": (MEDIUM, "1f1b", "1f1b", 1, 4),
    "medium interleaved": (MEDIUM, "interleaved1f1b", "interleaved_1f1b", 2, 4),
    "medium interleaved_zb": (MEDIUM, "interleavedzb", "interleaved_zb", 2, 4),
    "medium zb_v": (MEDIUM, "zbv", "zb_v", 2, 4),
    "medium dualpipe_v": (MEDIUM, "dualpipev", "dualpipe_v", 2, 4),
    "small zb_v": (SMALL, "zbv", "zb_v", 2, 30),
    "small 1f1b": (SMALL, "1f1b", "1f1b", 1, 30),
    "small gpipe": (SMALL, "gpipe", "gpipe", 1, 30),
    "m32 1f1b": (MANY, "1f1b", "1f1b", 1, 3),
    "m32 plain on 2 threads": (MANY, "plain", "plain", 1, 3),
}


def of_peer(a, case):
    shape, schedule, _, per_rank, steps = CASES[case]
    words = [*flags(shape), "--text", a.text, "--steps", steps, "--warmup", WARMUP]
    if schedule == "plain":
        words += ["--plain", "--threads", 2]
    else:
        words += ["--schedule", schedule, "--stages-per-rank", per_rank]
    return peer_step("peer_torch_pipelining.py", *words)


def of_troupe(a, shape, schedule, steps, *more):
    words = ["--text", a.text, *flags(shape), "--steps", steps + WARMUP]
    if schedule == "plain":
        output = run([a.troupe, "train", *words, "--validation-fraction", 0,
                      "--plain", "--threads", 2])
        tokens = shape["microbatches"] * shape["microbatch_size"] * shape["seq"]
        return dict(step=tokens / plain_rate(output))  # nothing else is logged
    link = ["--link", a.link] if a.processes > 1 else []
    lines = train(a, *words, "--schedule", schedule, *more, *link, processes=a.processes)
    measured, steps = lines[WARMUP:], step_times(lines)
    return {
        "step": statistics.median(steps),
        "memory": measured[-1]["peak_memory_bytes"] / 2**20,
        "paper": statistics.median(s["lane_seconds"] / s["plan_seconds"] for s in measured),
        "step_paper": statistics.median(w / s["plan_seconds"] for w, s in zip(steps, measured)),
    }


def measure(a, case):
    shape, _, schedule, per_rank, steps = CASES[case]
    theirs, ours = alternated(
        a.pairs, lambda: of_peer(a, case),
        lambda: of_troupe(a, shape, schedule, steps, "--ranks", 2, "--stages-per-rank", per_rank))
    more = ("-",) * 3
    if "memory" in ours:
        more = (f"{ours['memory'] / theirs['memory']:.0%}", f"{ours['paper']:.3f}",
                f"{ours['step_paper']:.3f}")
    row(case, *compared(theirs, ours), *more)


def main():
    ap = parser(__doc__, pairs=7)
    ap.add_argument("--cases", default=",".join(CASES))
    ap.add_argument("--processes", type=int, default=1, help="of troupe")
    ap.add_argument("--link", default="socket", help="between them: socket or shared")
    a = ap.parse_args()
    heading("case", "peer ms", "troupe ms", "speed", "peer MiB", "troupe MiB", "memory",
            "lanes / paper", "step / paper")
    for case in a.cases.split(","):
        measure(a, case)


if __name__ == "__main__":
    main()

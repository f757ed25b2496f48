#!/usr/bin/env python3
"""Steps between two hosts with a delay, beside the simulator's.

bench/latency.py --text FILE [--delay 5] [--schedules 1f1b,eager_1f1b] [...]

Runs examples/multi_node/run (as root), takes what each kind of op took in each
stage from the trace, and gives that to `troupe simulate` with the delay as the
cost of a message. Where other programs take the cores now and then, ops of a
kind do not take equally long, and steps take longer than their mean tells: "by
op" is what the steps would have taken by each op's own time.
"""
import collections
import json
import pathlib
import tempfile

import runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {"forward": "f", "backward": "b", "UPDATE": "update", "NORM": "norm"}
WARM_UP = 3  # steps


def arguments():
    parser = runs.parser(__doc__)
    parser.add_argument("--delay", type=float, default=5, help="ms, one way")
    parser.add_argument("--schedules", default="1f1b,eager_1f1b")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--trust", default="certificates")
    return parser.parse_args()


def run(options, schedule, folder):
    runs.run(
        [ROOT / "examples/multi_node/run", "--hosts", options.ranks,
         "--delay", f"{options.delay:g}ms", "--trust", options.trust,
         "--troupe", options.troupe, "--", "train", "--text", options.text,
         "--ranks", options.ranks, "--schedule", schedule,
         "--microbatches", options.microbatches, "--steps", options.steps,
         "--d-model", options.d_model, "--layers", 4, "--heads", 4, "--seq", 128,
         "--microbatch-size", 2, "--validation-fraction", 0, "--endpoint", "none",
         "--trace", folder / "trace", "--log-json", folder / "log"])


def step_ms(folder):
    """From one step's end to the next one's, with all that lies between."""
    steps = [json.loads(line) for line in (folder / "log").open()]
    ends = [step["ended_at"] for step in steps if step["phase"] == "training"]
    return 1000 * (ends[-1] - ends[WARM_UP]) / (len(ends) - 1 - WARM_UP)


def lanes_of(folder):
    """By step: rank -> its (kind, stage, microbatch, ms), in their order."""
    steps = collections.defaultdict(lambda: collections.defaultdict(list))
    events = json.loads((folder / "trace").read_text())["traceEvents"]
    for event in sorted(events, key=lambda event: event.get("ts", 0)):
        args = event.get("args", {})
        name = event["name"].lstrip("0123456789")
        kind = KINDS.get(args.get("type")) or KINDS.get(name)
        if event.get("cat") in ("compute", "update") and kind \
                and args["step"] > WARM_UP:
            steps[args["step"]][event["tid"]].append(
                (kind, args["stage"], args.get("microbatch"),
                 event["dur"] / 1000))
    return list(steps.values())


def costs(steps):
    """"f.0=1.5": the mean of a kind of op in a stage, in ms."""
    times = collections.defaultdict(list)
    for lanes in steps:
        for kind, stage, _, ms in sum(lanes.values(), []):
            times[f"{kind}.{stage}"].append(ms)
    return {what: sum(all_) / len(all_) for what, all_ in times.items()}


def by_op_ms(lanes, delay):
    """How long a step takes, one stage a rank, by each op's own time."""
    ends, now, at = {}, dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0)
    last = max(lanes)
    while any(at[rank] < len(lane) for rank, lane in lanes.items()):
        for rank, lane in lanes.items():
            while at[rank] < len(lane):
                kind, stage, microbatch, ms = lane[at[rank]]
                needs = {"f": stage > 0 and ("f", stage - 1, microbatch),
                         "b": stage < last and ("b", stage + 1, microbatch)}
                need = needs.get(kind)
                if need and need not in ends:
                    break
                ready = ends[need] + delay if need else 0
                now[rank] = max(now[rank], ready) + ms
                ends[kind, stage, microbatch] = now[rank]
                at[rank] += 1
    return max(now.values())


def paper_ms(options, schedule, of_ops):
    entries = [f"{what}={ms:.6g}" for what, ms in of_ops.items()]
    return runs.report(
        [options.troupe, "simulate", "--schedule", schedule, "--ranks", options.ranks,
         "--microbatches", options.microbatches, "--json",
         "--costs", ",".join(entries + [f"message={options.delay:g}"])])["period"]


def main():
    options = arguments()
    runs.heading("schedule", "ms a step", "on paper", "to it", "by op", "to it")
    for schedule in options.schedules.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            run(options, schedule, folder)
            steps = lanes_of(folder)
            measured = step_ms(folder)
        of_ops = costs(steps)
        paper = paper_ms(options, schedule, of_ops)
        by_op = sum(by_op_ms(lanes, options.delay) for lanes in steps)
        by_op /= len(steps)
        runs.row(schedule, f"{measured:.1f}", f"{paper:.1f}", f"{measured / paper:.2f}",
                 f"{by_op:.1f}", f"{measured / by_op:.2f}")


if __name__ == "__main__":
    main()

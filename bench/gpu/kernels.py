"""Where a step's time goes: `troupe train --profile`, as a table by op and kernel."""

import collections
import json
import os

from runs import flags, train

KINDS = {"F": "forward", "B": "backward", "I": "input backward", "W": "weight backward"}


def kind_of(name):
    """Of an op's text: 0F3 is the forward of stage 0 and microbatch 3."""
    word = name.strip("0123456789").split("_")[0]
    return KINDS.get(word, word.lower() or name)


def spans(events, *categories):
    return [e for e in events if e.get("ph") == "X" and e.get("cat") in categories]


def innermost(ranges, time):
    """The range that began last, of those that hold the time."""
    held = [r for r in ranges if r["ts"] <= time <= r["ts"] + r["dur"]]
    return max(held, key=lambda r: r["ts"], default=None)


def own_times(operators):
    """Each operator's time less that of the operators within it, on one thread."""
    open_ones, result = [], []
    for each in sorted(operators, key=lambda e: (e["ts"], -e["dur"])):
        while open_ones and open_ones[-1][0]["ts"] + open_ones[-1][0]["dur"] <= each["ts"]:
            open_ones.pop()
        if open_ones:
            open_ones[-1][1] -= each["dur"]
        open_ones.append([each, each["dur"]])
        result.append(open_ones[-1])
    return result


def table_of(events):
    """Microseconds by kind of op and kernel; on a CPU, by operator.

    A kernel belongs to the op during which it was launched, as one rank launches them
    all; a launch is found by its correlation.
    """
    ops = [e for e in spans(events, "user_annotation") if "ProfilerStep" not in e["name"]]
    launches = {e["args"]["correlation"]: e["ts"]
                for e in spans(events, "cuda_runtime", "cuda_driver")
                if "correlation" in e.get("args", {})}
    times = collections.Counter()
    for kernel in spans(events, "kernel", "gpu_memcpy", "gpu_memset"):
        op = innermost(ops, launches.get(kernel["args"].get("correlation"), kernel["ts"]))
        kind = kind_of(op["name"]) if op else "between ops"
        times[kind, short(kernel["name"])] += kernel["dur"]
    if times:
        return times
    for thread in {op["tid"] for op in ops}:
        own = [op for op in ops if op["tid"] == thread]
        for operator, us in own_times([e for e in spans(events, "cpu_op")
                                       if e["tid"] == thread]):
            if op := innermost(own, operator["ts"]):
                times[kind_of(op["name"]), operator["name"]] += us
    return times


def short(name):
    """Without a kernel's arguments and most of its template's."""
    return name.removeprefix("void ").split("(")[0][:80]


def run(a, results):
    path = os.path.join(a.out, "profile.json")
    train(a, "--text", a.text, *flags(a.shape), "--device", a.device, "--autocast", "bf16",
          "--ranks", 1, "--steps", a.warmup + 2, "--profile", path, "--profile-from",
          a.warmup + 1, "--profile-steps", 1, "--endpoint", "none")
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    times = table_of(events)
    rows = [{"op": op, "kernel": kernel, "us": round(us, 1)}
            for (op, kernel), us in times.most_common(40)]
    step = [e["dur"] for e in spans(events, "user_annotation") if "ProfilerStep" in e["name"]]
    results.note("profile", rows=rows, all_us=round(sum(times.values()), 1),
                 step_us=round(step[0], 1) if step else None)

"""results.json of gpu_check as Markdown."""

import statistics

LIMITS = {"monitors": 1.0, "within_rank_us": 8.0, "across_ranks_us": 15.0}


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def held(value, limit):
    return "held" if value <= limit else "NOT HELD"


def of_rates(part):
    """Ratios are medians over the rounds, to each of PyTorch's loops."""
    rates = {name: of for name, of in part.get("tokens_per_s", {}).items() if of}
    to = [name for name in ("eager", "compile") if name in rates]

    def ratio(name, peer):
        return f"{statistics.median(x / y for x, y in zip(rates[name], rates[peer])):.3f}"

    rows = []
    for name, of in rates.items():
        rate = statistics.median(of)
        rows.append([name, f"{rate:.0f}", f"{part['tokens'] / rate * 1e3:.1f}",
                     *(ratio(name, peer) for peer in to)])
    return table(["run", "tokens/s", "ms a step", *(f"to {peer}" for peer in to)], rows)


def of_tests(part):
    return table(["program", "says"], [[name, what["summary"]] for name, what in part.items()
                                       if isinstance(what, dict)])


def of_kernels(part):
    rows = [[of["function"], of["shape"], of["dtype"], f"{of['libtorch_us']:.1f}",
             f"{of['troupe_us']:.1f}", f"{of['gain']:.2f} x", f"{of['gb_per_s']:.0f}",
             f"{of['share']:.0%}"] for of in part.get("functions", [])]
    bandwidth = f"of {part.get('bandwidth_gb_per_s', 0):.0f} GB/s"
    return table(["function", "shape", "dtype", "LibTorch, us", "troupe, us", "faster by",
                  "GB/s", bandwidth], rows)


def of_jobs(part):
    rows = [[name, what["verdict"], what.get("seconds", "-")]
            for name, what in part.get("jobs", {}).items()]
    for how in ("killed", "stopped"):
        if lost := part.get(how):
            rows.append([f"a process is {how}",
                         "named" if "named_after_s" in lost else "not named",
                         lost.get("named_after_s", "-")])
    return table(["job", "parameters", "seconds"], rows)


def of_monitors(part):
    limit = LIMITS["monitors"]
    rows = [[name, f"{of['ms_per_step']:.2f}", f"{of['overhead_pct']:.2f} %", f"{limit:g} %",
             held(of["overhead_pct"], limit)]
            for name, of in part.get("modes", {}).items() if name != "none"]
    return table(["monitor", "ms a step", "adds", "limit", ""], rows)


def of_overhead(part):
    rows = []
    for key in ("within_rank_us", "across_ranks_us", "device_us"):
        of = part.get(key, {})
        if of.get("count"):
            limit = LIMITS.get(key)
            rows.append([key.removesuffix("_us").replace("_", " "),
                         *(f"{of[q]:.1f}" for q in ("p50", "p90", "p99")), limit or "-",
                         held(of["p50"], limit) if limit else ""])
    return table(["overhead of an op, us", "p50", "p90", "p99", "limit of p50", ""], rows)


def of_memory(part):
    rows = [[name, f"{of['peak_mib']:.0f}", f"{of['step_s'] * 1e3:.1f}"]
            for name, of in part.items() if isinstance(of, dict)]
    return table(["run", "peak MiB", "ms a step"], rows)


def of_profile(part):
    total = part.get("all_us") or 1
    return table(["op", "kernel", "ms", "share"],
                 [[row["op"], f"`{row['kernel']}`", f"{row['us'] / 1e3:.2f}",
                   f"{row['us'] / total:.1%}"] for row in part.get("rows", [])])


FORMS = {"tests": of_tests, "kernels": of_kernels, "nccl": of_jobs, "speed": of_rates,
         "monitors": of_monitors, "overhead": of_overhead, "llama": of_rates,
         "memory": of_memory, "profile": of_profile}


def of(results):
    lines = []
    for name, form in FORMS.items():
        part = results.get(name)
        if part is None:
            continue
        lines += ["", f"## {name} ({part.get('status', 'unknown')}"
                      f", {part.get('seconds', '-')} s)", "", *form(part)]
    return "\n".join(lines)

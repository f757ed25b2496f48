"""Orders of ops on paper: how much faster than strict order ready_first and
any_ready are when ops take varying times, and a rank is slower.

    python bench/orders.py [--troupe build/release/bin/troupe]

Makespans of `troupe simulate`, the mean over seeds; 4 microbatches for each rank,
--jitter 0.3, and one rank in the middle slower by 1.3. Prints a table.
"""
import runs

SCHEDULES = {"1f1b": 1, "interleaved_1f1b": 2, "zb_v": 2}
ORDERS = ["strict", "ready_first", "any_ready"]


def makespan(troupe, schedule, ranks, seed, slow, order):
    slowed = ["--slow", f"rank.{ranks // 2}=1.3"] if slow else []
    return runs.report([troupe, "simulate", "--schedule", schedule, "--ranks", ranks,
                        "--microbatches", 4 * ranks,
                        "--stages-per-rank", SCHEDULES[schedule], "--jitter", "0.3",
                        "--seed", seed, "--order", order, "--json", *slowed])["makespan"]


def show(options, schedule, ranks, slow):
    times = {order: [makespan(options.troupe, schedule, ranks, seed, slow, order)
                     for seed in range(1, options.seeds + 1)]
             for order in ORDERS}
    strict = sum(times["strict"])
    cells = [schedule, str(ranks), "yes" if slow else "no",
             f"{strict / options.seeds:.1f}"]
    for order in ORDERS[1:]:
        slower = [time / base for time, base in zip(times[order], times["strict"])
                  if time > base * (1 + 1e-9)]
        worst = f"{100 * (max(slower) - 1):.1f} %" if slower else ""
        cells += [f"{strict / sum(times[order]):.3f} x",
                  f"{len(slower)} of {options.seeds}", worst]
    runs.row(*cells)


def main():
    parser = runs.parser(__doc__, text=False)
    parser.add_argument("--ranks", type=int, nargs="+",
                        default=[4, 8, 16, 32, 64])
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    runs.heading("schedule", "P", "slow rank", "strict", "ready_first", "slower seeds",
                 "by up to", "any_ready", "slower seeds", "by up to")
    for schedule in SCHEDULES:
        for ranks in options.ranks:
            for slow in (False, True):
                show(options, schedule, ranks, slow)


if __name__ == "__main__":
    main()

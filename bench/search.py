"""What `troupe search` finds beside the best schedule of the catalogue.

    python bench/search.py [--troupe build/release/bin/troupe]

P = 8, V = 2, m = 32, with and without a limit of the memory; periods in forwards.
"heavy": the last stage is half as slow again. Prints a Markdown table.
"""

import time

from runs import heading, parser, report, row

COSTS = "f=1,b=2,i=1,w=1,message=0.1"
HEAVY = COSTS + ",f.15=1.5,b.15=3,i.15=1.5,w.15=1.5"


def main():
    a = parser(__doc__, text=False).parse_args()
    heading("costs", "limit", "best of the catalogue", "found", "shorter by",
            "above the bound", "seconds")
    for name, costs in (("even", COSTS), ("heavy", HEAVY)):
        for limit in (None, 17, 14, 12, 10):
            began = time.monotonic()
            result = report([a.troupe, "search", "--ranks", 8, "--stages-per-rank", 2,
                             "--microbatches", 32, "--costs", costs,
                             "--sizes", "kept=1,activation=0.1", "--json",
                             *(["--memory-limit", limit] if limit else [])])
            took = time.monotonic() - began
            period, builtin = result["period"], result["known_period"]
            row(name, limit or "none", f"{result['known']} {builtin:.4g}", f"{period:.4g}",
                f"{100 * (1 - period / builtin):.1f} %",
                f"{100 * (period / result['lower_bound'] - 1):.1f} %", f"{took:.1f}")


main()

"""Steps of two processes on one machine by how they are connected.

    python bench/loopback.py --text book.txt [--pairs 9]

Over TCP in plain text (--insecure), over TCP with a token (TLS 1.3), and over unix
sockets, in turns; one rank and thread each. A run's step is its 10th percentile, and its
processor time that of all processes, so that other work on the machine disturbs little.
Ratios are medians of the rounds' ratios to plain TCP. Prints a Markdown table.
"""

import os
import resource
import socket
import statistics
import tempfile

from runs import MEDIUM, SMALL, flags, heading, parser, row, step_times, train

SHAPES = {"small microbatches": (SMALL, 60), "medium": (MEDIUM, 4)}


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % one.getsockname()[1]


def ways(folder):
    secret = os.path.join(folder, "secret")
    with open(os.open(secret, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write("a-secret-of-the-benchmarks")
    return {"plain TCP": lambda: ["--rendezvous", free_address(), "--insecure"],
            "TLS": lambda: ["--rendezvous", free_address(), "--job-token-file", secret],
            "unix": lambda: []}


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(a, shape, steps, words):
    """The step in ms, and the seconds of processor time of the whole run."""
    before = processor_seconds()
    times = step_times(train(a, "--text", a.text, *flags(shape), "--ranks", 2, "--steps", steps,
                             "--endpoint", "none", *words, processes=2))
    return 1e3 * sorted(times)[len(times) // 10], processor_seconds() - before


def main():
    a = parser(__doc__, pairs=9).parse_args()
    heading("case", "plain TCP ms", "TLS ms", "unix ms", "step, TLS to plain", "unix to plain",
            "processor time, TLS to plain", "unix to plain")
    with tempfile.TemporaryDirectory() as folder:
        for name, (shape, steps) in SHAPES.items():
            found = {way: [] for way in ways(folder)}
            for _ in range(a.pairs):
                for way, words in ways(folder).items():
                    found[way].append(measured(a, shape, steps, words()))

            def ratio(way, which):
                return "%.3f" % statistics.median(
                    one[which] / plain[which]
                    for one, plain in zip(found[way], found["plain TCP"]))

            row(name, *(f"{statistics.median(ms for ms, _ in each):.1f}"
                        for each in found.values()),
                *(ratio(way, which) for which in (0, 1) for way in ("TLS", "unix")))


if __name__ == "__main__":
    main()

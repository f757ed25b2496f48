"""Steps of two processes on one machine by how they are connected.

    python bench/loopback.py --text book.txt [--pairs 5]

Over TCP in plain text (--insecure), over TCP with a token (TLS 1.3), and over unix
sockets, in turns; one rank and thread each. The ratios are medians of the rounds' ratios
to plain TCP. Prints a Markdown table.
"""

import os
import socket
import statistics
import tempfile

from runs import MEDIUM, SMALL, flags, heading, parser, row, step_times, train

SHAPES = {"small microbatches": (SMALL, 60), "medium": (MEDIUM, 5)}


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


def main():
    a = parser(__doc__, pairs=5).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        heading("case", "plain TCP ms", "TLS ms", "unix ms", "TLS to plain TCP",
                "unix to plain TCP")
        for name, (shape, steps) in SHAPES.items():
            times = {way: [] for way in ways(folder)}
            for _ in range(a.pairs):
                for way, words in ways(folder).items():
                    made = train(a, "--text", a.text, *flags(shape), "--ranks", 2, "--steps",
                                 steps, "--endpoint", "none", *words(), processes=2)
                    times[way].append(statistics.median(step_times(made)))
            plain = times["plain TCP"]
            row(name, *(f"{1e3 * statistics.median(each):.1f}" for each in times.values()),
                *("%.3f" % statistics.median(b / p for b, p in zip(times[way], plain))
                  for way in ("TLS", "unix")))


if __name__ == "__main__":
    main()

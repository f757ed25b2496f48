"""Peers that say hello at a job's rendezvous, announce a message of a MiB, and stall.

    python3 tests/attacks/stalled_peers.py --program build/release/bin/troupe

Prints the memory of process 0 before and with 500 of them, and whether the job begins
nevertheless. Exit code 1 if it does not, or if they cost more than 16 MiB.
"""

import argparse
import json
import struct
import sys
import time

import troupe_jobs as jobs

HELLO = b"troupe, in plain text\n"
CONTROL = 1
MOST_MIB = 16


def settled(measure):
    """The largest value, until it has not grown for half a second."""
    largest, since = measure(), time.monotonic()
    while time.monotonic() < since + 0.5:
        time.sleep(0.05)
        if measure() > largest + 0.5:
            largest, since = measure(), time.monotonic()
    return largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--peers", type=int, default=500)
    options = parser.parse_args()
    folder = jobs.Folder()
    port = jobs.free_port()
    flags = ["--rendezvous", f"127.0.0.1:{port}", "--insecure", "--steps", "2"]
    processes = [jobs.training(options.program, folder, 0, 2, flags)]
    announced = struct.pack("<4sHHIIQ", b"TRPF", 2, CONTROL, 1 << 20, 0, 0) + bytes(100)
    try:
        peers = [jobs.connect(port)]
        before = processes[0].resident_mib()
        while len(peers) < options.peers:
            peers.append(jobs.connect(port))
            peers[-1].sendall(HELLO + announced)
        after = settled(processes[0].resident_mib)
        processes.append(jobs.training(options.program, folder, 1, 2, flags))
        begins = jobs.first_loss(processes[0]) is not None
    finally:
        for each in processes:
            each.end()
    print(json.dumps({"MiB before": round(before, 1), "MiB with peers": round(after, 1),
                      "job begins": begins}))
    sys.exit(0 if begins and after < before + MOST_MIB else 1)


if __name__ == "__main__":
    main()

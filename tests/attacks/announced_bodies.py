"""Clients of the lab that announce bodies of 100 MB, or don't take their answers.

    python3 tests/attacks/announced_bodies.py --program build/release/bin/troupe

Prints how long a GET takes beside 40 of them. Exit code 1 beyond 2 s.
"""

import argparse
import json
import sys
import time

import troupe_jobs as jobs

MOST_SECONDS = 2


def get_seconds(port):
    begin = time.monotonic()
    with jobs.connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answered = client.recv(12) == b"HTTP/1.1 200"
    return time.monotonic() - begin if answered else float("inf")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--clients", type=int, default=40)
    options = parser.parse_args()
    folder = jobs.Folder()
    lab = jobs.Process([options.program, "lab"], folder.at("lab"))
    try:
        port = int(lab.waits_for(r"lab: http://127.0.0.1:(\d+)/").group(1))
        alone = get_seconds(port)
        request = (f"POST /api/compile HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                   "Content-Type: application/json\r\nContent-Length: 100000000\r\n\r\n")
        clients = []
        for _ in range(options.clients):
            clients.append(jobs.connect(port))
            clients[-1].sendall(request.encode())
        beside = get_seconds(port)
    finally:
        lab.end()
    print(json.dumps({"GET alone, s": round(alone, 3), "beside clients, s": round(beside, 3)}))
    sys.exit(0 if beside < MOST_SECONDS else 1)


if __name__ == "__main__":
    main()

"""A process without the token between two of a job, on loopback.

    python3 tests/attacks/relay.py --program build/release/bin/troupe

It listens at the rendezvous before process 0 does, relays what the two say to prove the
token, has their connections for tensors pass through it, too, and sets the activations to
zero. Prints the first loss of the job with and without it, and how many frames it could
read. Exit code 1 if it could read or change anything.
"""

import argparse
import json
import re
import socket
import struct
import sys
import threading

import troupe_jobs as jobs

MAGIC = b"TRPF"
HEADER = struct.Struct("<4sHHIIQ")
TENSORS = 2
ADDRESS = re.compile(rb"tcp:127\.0\.0\.1:(\d{5})")


class Relay:
    """One direction: hands on bytes, and changes frames."""

    def __init__(self, attack, source, target, change):
        self.attack, self.source, self.target, self.change = attack, source, target, change
        self.waiting = b""
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while data := self.source.recv(1 << 16):
                self.waiting += data
                self.target.sendall(self.take())
        except OSError:
            pass
        try:
            self.target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def take(self):
        out = b""
        while True:
            start = self.waiting.find(MAGIC)
            if start < 0:
                out, self.waiting = out + self.waiting, b""
                return out
            out, self.waiting = out + self.waiting[:start], self.waiting[start:]
            if len(self.waiting) < HEADER.size:
                return out
            _, _, kind, head, _, tensors = HEADER.unpack(self.waiting[:HEADER.size])
            size = HEADER.size + head + tensors
            if len(self.waiting) < size:
                return out
            frame, self.waiting = self.waiting[:size], self.waiting[size:]
            self.attack.frames += 1
            out += self.change(kind, frame[:HEADER.size + head], frame[HEADER.size + head:])


class Attack:
    def __init__(self):
        self.frames = 0
        self.doors = {}  # ports of this process by the port that they lead to

    def door_to(self, port, change):
        """The port of a listener that leads there, as digits."""
        if port not in self.doors:
            listener = socket.create_server(("127.0.0.1", 0))
            self.doors[port] = listener.getsockname()[1]
            threading.Thread(target=self.serve, args=(listener, port, change), daemon=True).start()
        return str(self.doors[port]).encode()

    def serve(self, listener, port, change):
        while True:
            client, _ = listener.accept()
            self.join(client, jobs.connect(port), change)

    def join(self, client, server, change, back=None):
        Relay(self, client, server, change)
        Relay(self, server, client, back or (lambda kind, head, rest: head + rest))

    def reroute(self, kind, head, rest):
        """Has the other process come to a door of this one."""
        own = {str(door).encode() for door in self.doors.values()}
        head = ADDRESS.sub(
            lambda found: found.group(0) if found.group(1) in own
            else b"tcp:127.0.0.1:" + self.door_to(int(found.group(1)), zero), head)
        return head + rest


def zero(kind, head, rest):
    return head + (bytes(len(rest)) if kind == TENSORS else rest)


def run(program, attacked):
    folder = jobs.Folder()
    port = jobs.free_port()
    flags = ["--rendezvous", f"127.0.0.1:{port}", "--job-token-file", folder.secret, "--steps", "2",
             "--patience", "20"]
    attack = Attack()
    processes = []
    try:
        if not attacked:
            processes = [jobs.training(program, folder, p, 2, flags) for p in (0, 1)]
            return jobs.first_loss(processes[0]), 0
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            processes.append(jobs.training(program, folder, 1, 2, flags))
            client, _ = listener.accept()
        processes.append(jobs.training(program, folder, 0, 2, flags))
        attack.join(client, jobs.connect(port), attack.reroute, attack.reroute)
        return jobs.first_loss(processes[1]), attack.frames
    finally:
        for each in processes:
            each.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    honest, _ = run(program, False)
    attacked, frames = run(program, True)
    print(json.dumps({"honest": honest, "attacked": attacked, "frames read": frames}))
    # A job that fails is not changed either.
    sys.exit(0 if honest and attacked in (honest, None) and frames == 0 else 1)


if __name__ == "__main__":
    main()

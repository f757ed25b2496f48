"""Random and structured input to all that listens: endpoint, dashboard, lab, rendezvous.

    python3 tests/attacks/noise.py --program build/release/bin/troupe [--seconds 60] [--seed 1]

A live run serves its endpoint and its dashboard, a second job waits for its second
process, and the lab runs beside them. Each gets connections in turn: what clients say,
mutated; parts of it, with pauses; and noise. Then each must still answer, in time, with
little more memory and log, and the waiting job must begin. Prints what it did, as JSON.
Exit code 1 where something failed, 2 for wrong usage.
"""

import argparse
import json
import os
import random
import re
import socket
import struct
import sys
import time

import troupe_jobs as jobs

MOST_GROWTH_MIB = 256  # what 64 clients may leave unread
MOST_LOG_BYTES = 1 << 20
MOST_SECONDS = 3  # of an answer


def request(method, path, body=None, more=""):
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: job\r\n{more}"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    return head.encode() + b"\r\n" + text


SPECS = ["gap:every=1", "overflow:frames=1000", "stability:window=1000000000",
         "retro:steps=300,nonfinite=false", "timeline:svg=/etc/passwd,trace=true",
         "gradient_dump", "budget:share=1", "throughput:every=-1", "gap:match=" + "x,*," * 900,
         "overflow:trace=0,1,2,99999999999999999999", "timeline:trace=true,steps=64"]
REQUESTS = [request("GET", path) for path in ("/health", "/monitors", "/plan", "/", "/state", "/metrics")]
REQUESTS += [request("DELETE", "/monitors/1"),
             request("GET", "/events?ops=true&tensors=all&names=**[&histogram=true"),
             request("GET", "/events?every=0&names=%zz"),
             request("POST", "/replan", {"schedule": "gpipe", "force": True}),
             request("POST", "/replan", {"text": "0F0,0B0\n1F0,1B0\n",
                                         "source": "$(x)\ntroupe: warning: y"}),
             request("POST", "/replan", {"search": True, "sizes": "kept=1", "memory_limit": -1}),
             request("POST", "/events", {"ops": True, "tensors": "all", "every": 1, "names": "**[",
                                         "histogram": True}, "Expect: 100-continue\r\n"),
             b"POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json"
             b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n"]
REQUESTS += [request("POST", "/monitors", {"spec": spec, "keep": keep})
             for spec in SPECS for keep in (False, True)]


def mutated(data, dice):
    data = bytearray(data)
    for _ in range(dice.randrange(6)):
        if not data:
            break
        at = dice.randrange(len(data))
        change = dice.randrange(4)
        if change == 0:
            data[at] = dice.randrange(256)
        elif change == 1:
            del data[at:at + dice.randrange(20)]
        elif change == 2:
            data[at:at] = data[:dice.randrange(40)]
        else:
            data[at:at] = bytes([dice.choice(b"\0\xff{}[]\",:0-\r\n")]) * dice.randrange(1, 50)
    return bytes(data)


def to_endpoint(dice):
    request = b"".join(dice.choice(REQUESTS) for _ in range(dice.choice((1, 1, 1, 3))))
    return mutated(request, dice) if dice.random() < 0.6 else request


def to_http(dice):
    path = dice.choice([b"/", b"/state", b"/state/-1", b"/state/99999999999999999999", b"/api/compile",
                        b"/health", b"/metrics", b"/monitors", b"/events?every=1", b"/plan",
                        b"/api/search", b"/../../etc/passwd", b"/%00", b"//evil", b"*"])
    host = dice.choice([b"127.0.0.1", b"127.0.0.1:80@evil.example", b"[::1]evil.example", b"evil.example",
                        b"localhost:1", b"", b"[::1]:99999"])
    body = dice.choice([b"", b"{}", b"[" * 5000, json.dumps(
        {"schedule": "1f1b", "ranks": dice.choice([2, -1, 1 << 40]), "microbatches": 10 ** 9,
         "stages_per_rank": 1e300, "costs": "f=" + "9" * 400}).encode()])
    length = dice.choice([len(body), 10 ** 8, 0, -1, 1 << 64])
    head = b"%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
        dice.choice([b"GET", b"POST", b"HEAD", b"PUT", b"X" * 3000]), path, host, length)
    return mutated(head, dice) + body if dice.random() < 0.6 else head + body


def to_rendezvous(dice):
    hello = b"troupe, in plain text\n"
    text = lambda words: struct.pack("<I", len(words)) + words
    head = struct.pack("<I", 0) + bytes([0]) + struct.pack("<iiq", dice.choice([1, 0, -1, 7]), 3, 77) \
        + text(b"host\n\x1b[2J") + text(b"tcp:127.0.0.1:1") + text(b"") + text(b"") + struct.pack("<I", 0)
    frame = struct.pack("<4sHHIIQ", b"TRPF", 2, 1, len(head), 0, 0) + head
    message = mutated(frame, dice)
    # One that asks to join another job ends this one, as is intended: it never ends.
    if message[:4] == b"TRPF" and len(message) >= 24:
        message = message[:24 + struct.unpack("<I", message[8:12])[0] - 1]
    return hello + message


def say(connected, data, dice, open_ones):
    """Sends it, whole or in pieces, and reads, leaves or stays."""
    try:
        with_pause = dice.random() < 0.1
        size = max(1, len(data) // 3) if with_pause else len(data) or 1
        for start in range(0, len(data), size):
            connected.sendall(data[start:start + size])
        how = dice.randrange(4)
        if how == 0:
            connected.settimeout(0.02)
            while connected.recv(1 << 16):
                pass
        elif how == 1:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == 2:
            open_ones.append(connected)
            if len(open_ones) > 100:  # a quarter at the endpoint, which takes 64
                open_ones.pop(0).close()
            return
    except OSError:
        pass
    connected.close()


def unix(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(path)
    return connection


def answer_seconds(make, words, expected):
    begin = time.monotonic()
    with make() as one:
        one.settimeout(2 * MOST_SECONDS)
        one.sendall(words)
        received = b""
        while expected not in received:
            more = one.recv(1 << 16)
            if not more:
                return float("inf"), received[-300:]
            received += more
    return time.monotonic() - begin, received[-300:]


def detach_all(make):
    """What was to be kept, so that its memory is returned; one that writes may take long."""
    def ask(words):
        with make() as one:
            one.settimeout(jobs.PATIENCE)
            one.sendall(words)
            return json.loads(one.makefile("rb").read().split(b"\r\n\r\n", 1)[1])

    for each in ask(request("GET", "/monitors")):
        ask(request("DELETE", f"/monitors/{each['id']}"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    folder = jobs.Folder()
    socket_path, attached = folder.at("socket"), folder.at("attached")
    live = jobs.Process(
        [options.program, "train", "--text", folder.text, "--steps", "100000000", *jobs.SHAPE,
         "--endpoint", "unix:" + socket_path, "--attach-folder", attached, "--dashboard",
         "127.0.0.1:0", "--replan-every", "0", "--json"][:-1], folder.at("live"))
    lab = jobs.Process([options.program, "lab"], folder.at("lab"))
    port = jobs.free_port()
    flags = ["--rendezvous", f"127.0.0.1:{port}", "--insecure", "--steps", "2", "--patience", "100000"]
    waiting = jobs.training(options.program, folder, 0, 2, flags)
    text = content = open(folder.text, "rb").read()
    failures, counts = [], {}
    try:
        page = int(live.waits_for(r"dashboard: http://127.0.0.1:(\d+)/").group(1))
        live.waits_for("attach with")
        bench = int(lab.waits_for(r"lab: http://127.0.0.1:(\d+)/").group(1))
        jobs.connect(port).close()
        get = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        info = request("GET", "/health")
        subjects = {
            "endpoint": (live, lambda: unix(socket_path), to_endpoint, info, b'"schedule"'),
            "dashboard": (live, lambda: jobs.connect(page, 10), to_http, get, b"200 OK"),
            "lab": (lab, lambda: jobs.connect(bench, 10), to_http, get, b"200 OK"),
            "rendezvous": (waiting, lambda: jobs.connect(port, 10), to_rendezvous, None, None)}
        # Until then the places of monitors that are kept fill.
        warm = time.monotonic() + options.seconds / 2
        end = time.monotonic() + options.seconds
        memory, open_ones = {}, []
        while time.monotonic() < end:
            name = dice.choice(list(subjects))
            process, make, words, question, expected = subjects[name]
            counts[name] = counts.get(name, 0) + 1
            if process.child.poll() is not None:
                failures.append(f"{name}: the process ended: {process.output()[-2000:]}")
                break
            try:
                connected = make()
            except OSError as problem:
                connected = None
                failures.append(f"{name}: {problem}")
            if connected is None:
                failures.append(f"{name}: no connection: {process.output()[-2000:]}")
                break
            say(connected, words(dice), dice, open_ones)
            if question and counts[name] % 100 == 0:
                seconds, received = answer_seconds(make, question, expected)
                if seconds > MOST_SECONDS:
                    failures.append(f"{name}: an answer took {seconds:.1f} s: {received}")
            if not memory and time.monotonic() > warm:
                memory = {key: each[0].resident_mib() for key, each in subjects.items()}
        for each in open_ones:
            each.close()
        detach_all(subjects["endpoint"][1])
        jobs.until(lambda: live.resident_mib() < memory["endpoint"] + MOST_GROWTH_MIB, 10)
        growth = {key: round(each[0].resident_mib() - memory[key], 1)
                  for key, each in subjects.items() if key in memory}
        failures += [f"{key}: grew by {more} MiB" for key, more in growth.items()
                     if more > MOST_GROWTH_MIB]
        for name, process in (("live", live), ("lab", lab), ("waiting", waiting)):
            log = process.output()
            if len(log) > MOST_LOG_BYTES:
                failures.append(f"{name}: logged {len(log)} bytes")
            if re.search(r"^troupe: warning: y", log, re.M) or "\x1b" in log or "$(" in log:
                failures.append(f"{name}: its log was forged")
        if not failures:
            second = jobs.training(options.program, folder, 1, 2, flags)
            if not jobs.first_loss(waiting):
                failures.append(f"the waiting job did not begin: {waiting.output()[-2000:]}")
            second.end()
        if open(folder.text, "rb").read() != text:
            failures.append("the job's text was changed")
    finally:
        for each in (live, lab, waiting):
            each.end()
    print(json.dumps({"connections": counts, "growth, MiB": growth, "log bytes": len(live.output()),
                      "failures": failures}, indent=1))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

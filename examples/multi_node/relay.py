#!/usr/bin/env python3
"""Hands TCP connections on, each byte a fixed time later.

It keeps the order and does not limit the bandwidth: what is under way is kept,
up to 64 MiB a direction. Setting a connection up takes no longer than without
it; its end travels as slowly as its bytes.

SIGUSR1 stalls what is under way, and lets it go on the next time. SIGUSR2 cuts:
connections break, and nobody is let in any more.
"""
import argparse
import asyncio
import collections
import selectors
import signal
import socket
import struct
import sys

CHUNK = 1 << 18
MOST_UNDER_WAY = 64 << 20
SO_ORIGINAL_DST = 80
# A peer that acknowledges nothing for so long is gone; the other side learns of
# it.
UNANSWERED_MS = 15000


class Road:
    """What all connections of the relay share."""

    def __init__(self, delay):
        self.delay = delay  # seconds
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.servers = []
        self.pairs = set()

    def stall_or_go_on(self):
        if self.is_open.is_set():
            self.is_open.clear()
        else:
            self.is_open.set()
        note("goes on" if self.is_open.is_set() else "stalls")

    def cut(self):
        note("cuts")
        for task in self.servers:
            task.cancel()
        for pair in list(self.pairs):
            pair.cancel()


class Direction:
    """Carries bytes from one socket to another: two tasks and a queue."""

    def __init__(self, road, source, sink):
        self.road, self.source, self.sink = road, source, sink
        self.loop = asyncio.get_running_loop()
        self.queue = collections.deque()
        self.under_way = 0
        self.changed = asyncio.Event()

    async def run(self):
        await asyncio.gather(self.take(), self.give())

    async def take(self):
        data = b"."
        while data:
            data = await self.loop.sock_recv(self.source, CHUNK)
            self.queue.append((self.loop.time() + self.road.delay, data))
            self.under_way += len(data)
            self.changed.set()
            while self.under_way > MOST_UNDER_WAY:
                await self.wait_for_change()

    async def give(self):
        while True:
            while not self.queue:
                await self.wait_for_change()
            due, data = self.queue.popleft()
            if due > self.loop.time():
                await asyncio.sleep(due - self.loop.time())
            await self.road.is_open.wait()
            if not data:
                return self.sink.shutdown(socket.SHUT_WR)
            await self.loop.sock_sendall(self.sink, data)
            self.under_way -= len(data)
            self.changed.set()

    async def wait_for_change(self):
        self.changed.clear()
        await self.changed.wait()


def note(text):
    print("relay:", text, file=sys.stderr, flush=True)


def prepare(end):
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)


def destination_of(end):
    """Where a connection was going before nftables redirected it to here."""
    said = end.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from("!2xH4s", said)
    return socket.inet_ntoa(address), port


async def relay(road, near, to):
    """One connection, until both sides have ended or one breaks."""
    far = socket.socket()
    broken = True
    try:
        prepare(near)
        prepare(far)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(far, to or destination_of(near))
        await asyncio.gather(Direction(road, near, far).run(),
                             Direction(road, far, near).run())
        broken = False
    except OSError:
        await asyncio.sleep(road.delay)
    finally:
        for end in (near, far):
            if broken:  # by a reset: the other side has to know
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
            end.close()


async def let_in(road, server, to):
    loop = asyncio.get_running_loop()
    with server:
        while True:
            near, _ = await loop.sock_accept(server)
            pair = asyncio.create_task(relay(road, near, to))
            road.pairs.add(pair)
            pair.add_done_callback(road.pairs.discard)


async def serve(options):
    road = Road(options.delay / 1000)
    loop = asyncio.get_running_loop()
    for at, to in options.forward or [(("0.0.0.0", options.redirected), None)]:
        server = socket.create_server(at, backlog=128)
        server.setblocking(False)
        road.servers.append(asyncio.create_task(let_in(road, server, to)))
    loop.add_signal_handler(signal.SIGUSR1, road.stall_or_go_on)
    loop.add_signal_handler(signal.SIGUSR2, road.cut)
    note("listens")
    await asyncio.Event().wait()


def host_and_port(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def two_ends(text):
    near, _, far = text.partition("=")
    return host_and_port(near), host_and_port(far)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--forward", type=two_ends, action="append",
                       metavar="HOST:PORT=HOST:PORT",
                       help="from where to where; may be given several times")
    where.add_argument("--redirected", type=int, metavar="PORT",
                       help="what nftables redirects to this port goes on to "
                            "where it was going")
    parser.add_argument("--delay", type=float, default=0, metavar="MS",
                        help="one way")
    return parser.parse_args()


def main():
    options = arguments()
    # epoll, the default, waits for whole milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(serve(options))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

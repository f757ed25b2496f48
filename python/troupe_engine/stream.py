"""A stream of what a job does, also when another process leads it."""

import http.client
import logging
import threading
import time
import warnings
from typing import Callable, Iterator, Optional

from .answers import MOST_BYTES, Event, parsed
from .connection import Connection
from .errors import JobError
from .repeated import RepeatedLines

_PATIENCE = 30.0  # seconds, for the next process that leads
_LOOK_EVERY = 0.05
_log = logging.getLogger("troupe_engine")

Opened = tuple[Connection, http.client.HTTPResponse]


class _Cut(Exception):
    """The connection is lost."""


class Stream(Iterator[Event]):
    """The lines of a stream, as dicts, until the run or the monitor ends.

    Blocks while nothing happens. In a job that heals it goes on with the process that
    leads the job next, waiting 30 s for it, and gives no step twice. Closing it, at the
    end of a `with` block or of the program, detaches its monitor. Then, or when the job
    ended it, the iteration stops; `ended` has the job's last line: whose `stops_run`
    says whether the monitor stops the run, and `reason` why. Raises `JobError` where the
    monitor failed, the connection was cut, or no process leads the job any more.
    """

    def __init__(self, open_stream: Callable[[], Opened], health: Callable[[], Event],
                 where: str, steps: bool = True) -> None:
        self._closed = threading.Event()
        self._lock = threading.Lock()  # of the connection
        self._connection: Optional[Connection] = None
        self._open_stream = open_stream
        self._ask_health = health
        self._where = where
        self._steps = steps  # whether ends of steps are wanted
        self._repeated = RepeatedLines()
        self.ended: Optional[Event] = None
        try:
            self._begin(health())
        except _Cut as reason:
            raise self._failed(f"the stream was cut: {reason}") from None

    def __next__(self) -> Event:
        while not self._closed.is_set():
            try:
                line = self._read()
            except _Cut as reason:
                self._follow(f"the stream was cut: {reason}", goes_on=False)
                continue
            if line["type"] == "ended":
                self._end(line)
            elif line["type"] == "printed" and line.get("warning"):
                warnings.warn(line["text"].strip(), stacklevel=2)
            elif not self._repeated.note(line) and (
                    self._steps or line.get("event") != "step"):
                return line
        raise StopIteration

    def _begin(self, health: Event) -> None:
        connection, answer = self._open_stream()
        with self._lock:
            if self._connection is not None:
                self._connection.leave()
            self._connection = connection
            if self._closed.is_set():
                connection.leave()
        self._health = health
        self._answer = answer
        first = self._read()
        self.id = int(first["id"])
        self.folder: Optional[str] = first.get("folder")
        connection.wait_forever()

    def _read(self) -> Event:
        try:
            text = self._answer.readline(MOST_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise _Cut(str(problem)) from None
        if not text.endswith(b"\n"):
            raise _Cut("the job is gone")
        line = parsed(text, self._where)
        if not isinstance(line, dict) or "type" not in line:
            raise JobError(f"{self._where}: what answers there is no job of troupe")
        return line

    def _end(self, line: Event) -> None:
        if line.get("goes_on"):
            return self._follow("its process still answers", goes_on=True)
        self.ended = line
        self.close()
        if line.get("failed"):
            raise JobError(f"{self._where}: the job has failed: {line['failed']}")
        if line.get("reason") and not line.get("stops_run"):
            raise JobError(f"{self._where}: monitor {self.id}: {line['reason']}")

    def _follow(self, problem: str, goes_on: bool) -> None:
        """Begins again with the process that leads the job next."""
        if self._closed.is_set():
            return  # by another thread
        if "epoch" not in self._health:
            raise self._failed(problem)
        _log.info("the process that led the job is gone; waiting for the next")
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                health = self._ask_health()
                is_next = health.get("server") != self._health.get("server")
                if is_next:
                    self._repeated.repeat()
                    self._begin(health)
                    _log.info("epoch %s: the process of pid %s leads the job",
                              health.get("epoch"), health.get("pid"))
                    return
            except (JobError, _Cut) as reason:
                problem = str(reason)
            else:
                if not goes_on:
                    raise self._failed(problem)
            if self._closed.wait(_LOOK_EVERY):
                return
        raise self._failed(f"no process has led the job for {_PATIENCE:.0f} s: "
                           + problem)

    def _failed(self, problem: str) -> JobError:
        self.close()
        return JobError(f"{self._where}: {problem}")

    def close(self) -> None:
        """Leaves the stream."""
        self._closed.set()
        with self._lock:
            if self._connection is not None:
                self._connection.leave()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

"""A live job: its health, plan and monitors, and streams of what it does."""

import http.client
import json
import warnings
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Union
from urllib.parse import quote

from .connection import Connection
from .errors import AddressError, JobError, RefusedError, TroupeError
from .places import PathLike, own_jobs, parse_address, read_token

Event = dict[str, Any]

_VERSION = 2
_MOST_BYTES = 16 << 20  # of an answer or a line
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


@dataclass(frozen=True)
class Attached:
    """A monitor that stays in the job; `folder` has its files on the job's machine."""

    id: int
    folder: Optional[str] = None


class Stream(Iterator[Event]):
    """The lines of a stream, as dicts, until the run or the monitor ends.

    Blocks while nothing happens. Closing it, at the end of a `with` block or of the
    program, detaches its monitor. Then, or when the job ended it, the iteration stops;
    `ended` has the job's last line: whose `stops_run` says whether the monitor stops
    the run, and `reason` why. Raises `JobError` where the monitor failed, or the
    connection was cut.
    """

    def __init__(self, connection: Connection, answer: http.client.HTTPResponse,
                 where: str) -> None:
        self._connection = connection
        self._answer: Optional[http.client.HTTPResponse] = answer
        self._where = where
        self.ended: Optional[Event] = None
        first = self._read(answer)
        self.id = int(first["id"])
        self.folder: Optional[str] = first.get("folder")
        connection.wait_forever()

    def __next__(self) -> Event:
        while self._answer is not None:
            line = self._read(self._answer)
            if line["type"] == "ended":
                self._end(line)
            elif line["type"] == "printed" and line.get("warning"):
                warnings.warn(line["text"].strip(), stacklevel=2)
            else:
                return line
        raise StopIteration

    def _read(self, answer: http.client.HTTPResponse) -> Event:
        try:
            text = answer.readline(_MOST_BYTES)
            reason = "the job is gone"
        except (OSError, http.client.HTTPException, ValueError) as problem:
            text, reason = b"", str(problem)
        if not text.endswith(b"\n"):
            if self._answer is None:
                raise StopIteration  # another thread has closed it
            self.close()
            raise JobError(f"{self._where}: the stream was cut: {reason}")
        line = _parsed(text, self._where)
        if not isinstance(line, dict) or "type" not in line:
            raise JobError(f"{self._where}: what answers there is no job of troupe")
        return line

    def _end(self, line: Event) -> None:
        self.ended = line
        self.close()
        if line.get("reason") and not line.get("stops_run"):
            raise JobError(f"{self._where}: monitor {self.id}: {line['reason']}")

    def close(self) -> None:
        """Leaves the stream."""
        self._answer = None  # closed by its last reader
        self._connection.leave()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Job:
    """A job that runs, at `address`: unix:PATH, tcp:HOST:PORT, http://127.0.0.1:PORT;
    by default this user's only job on this machine.

    `token_file` names a file with a token of the job, `timeout` the seconds to wait
    for an answer. Raises `AddressError`, and `JobError` where no job answers.
    """

    def __init__(self, address: Optional[str] = None,
                 token_file: Optional[PathLike] = None, timeout: float = 5) -> None:
        self._token = None if token_file is None else read_token(token_file)
        self._timeout = timeout
        self._place = parse_address(address or self._only_job())
        version = self.health().get("version")
        if version != _VERSION:
            raise JobError(
                f"{self.address}: the job speaks version {version} of the protocol, and "
                f"this package version {_VERSION}; use the same troupe on both sides"
            )

    @property
    def address(self) -> str:
        return self._place.text

    def health(self) -> Event:
        """Schedule, ranks, steps, and how the run is."""
        health = self.request("GET", "/health")
        if not isinstance(health, dict):
            raise JobError(f"{self.address}: what answers there is no job of troupe")
        return health

    def plan(self) -> str:
        """The plan that the run executes, as text."""
        return self._answered("GET", "/plan", None)[1].decode()

    def events(self, **wants: Any) -> Stream:
        """Events, of the kinds that the fields of docs/endpoint.md choose: `ops`,
        `messages`, `memory`, `tensors`, `names`, `histogram`, `every`, ..."""
        return self._stream("/events", wants)

    def attach(self, spec: str) -> Stream:
        """What a monitor finds, such as `gap:every=10`: alerts, metrics, texts."""
        return self._stream("/monitors", {"spec": spec})

    def keep(self, spec: str) -> Attached:
        """Attaches a monitor that stays when this program ends."""
        answer = self.request("POST", "/monitors", {"spec": spec, "keep": True})
        return Attached(int(answer["id"]), answer.get("folder"))

    def monitors(self) -> list[Event]:
        """What is attached."""
        attached: list[Event] = self.request("GET", "/monitors")
        return attached

    def detach(self, monitor: Union[int, Attached, Stream]) -> None:
        """Detaches a monitor, and ends its stream."""
        number = monitor if isinstance(monitor, int) else monitor.id
        self.request("DELETE", f"/monitors/{number}")

    def replan(self, schedule: Optional[str] = None, timeout: float = 600,
               **wants: Any) -> Event:
        """Gives the run another order of ops; `search=True` searches for one."""
        body = dict(wants) if schedule is None else {"schedule": schedule, **wants}
        answer: Event = self.request("POST", "/replan", body, timeout=timeout)
        return answer

    def request(self, method: str, path: str, body: Optional[Event] = None,
                timeout: Optional[float] = None) -> Any:
        """Any other resource of the job, as JSON."""
        answer = self._answered(method, path, body, timeout)[1]
        return _parsed(answer, self.address) if answer.strip() else None

    def _only_job(self) -> str:
        found = own_jobs()
        if not found:
            raise AddressError(
                "none of your jobs on this machine responds; give its address, "
                "unix:PATH or tcp:HOST:PORT, as logged at its start"
            )
        if len(found) > 1:
            raise AddressError(
                f"you have {len(found)} jobs; give the address of one: "
                + ", ".join(found)
            )
        return found[0]

    def _stream(self, path: str, body: Event) -> Stream:
        connection, answer = self._opened("POST", path, body, None)
        return Stream(connection, answer, self.address)

    def _answered(self, method: str, path: str, body: Optional[Event],
                  timeout: Optional[float] = None) -> tuple[int, bytes]:
        connection, answer = self._opened(method, path, body, timeout)
        try:
            return answer.status, answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as reason:
            raise JobError(f"{self.address}: no complete answer: {reason}") from None
        finally:
            connection.close()

    def _opened(self, method: str, path: str, body: Optional[Event],
                timeout: Optional[float]
                ) -> tuple[Connection, http.client.HTTPResponse]:
        """Sends a request, and raises its refusal."""
        connection = Connection(self._place, self._token, timeout or self._timeout)
        headers = connection.headers()
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, quote(path, safe="/?&=,.*%"),
                               None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise _refusal(answer)
        except TroupeError:
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as reason:
            connection.close()
            raise JobError(
                f"{self.address}: no answer ({reason}); is the job still running?"
            ) from None
        return connection, answer


def events(address: Optional[str] = None, *, token_file: Optional[PathLike] = None,
           **wants: Any) -> Stream:
    """A live job's events; `Job` has the arguments."""
    return Job(address, token_file).events(**wants)


def attach(address: Optional[str], spec: str, *,
           token_file: Optional[PathLike] = None) -> Stream:
    """Attaches a monitor to a live job, and gives what it finds."""
    return Job(address, token_file).attach(spec)


def _refusal(answer: http.client.HTTPResponse) -> RefusedError:
    text = answer.read(_MOST_BYTES)
    try:
        reason = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        reason = f"the job answered with status {answer.status}"
    return RefusedError(str(reason), answer.status)


def _parsed(text: bytes, where: str) -> Any:
    try:
        return _with_numbers(json.loads(text))
    except ValueError:
        raise JobError(f"{where}: what answers there is no job of troupe") from None


def _with_numbers(value: Any) -> Any:
    """Numbers that are not finite come as strings."""
    if isinstance(value, dict):
        return {key: _with_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    return float(value) if isinstance(value, str) and value in _NOT_FINITE else value

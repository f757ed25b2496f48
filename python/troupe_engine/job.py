"""A live job: its health, plan and monitors, and streams of what it does."""

import http.client
import json
from dataclasses import dataclass
from typing import Any, Optional, Union
from urllib.parse import quote

from .answers import MOST_BYTES, Event, parsed
from .connection import Connection
from .errors import AddressError, JobError, RefusedError, TroupeError
from .places import PathLike, own_jobs, parse_address, read_token
from .stream import Stream

_VERSION = 2


@dataclass(frozen=True)
class Attached:
    """A monitor that stays in the job; `folder` has its files on the job's machine."""

    id: int
    folder: Optional[str] = None


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
        steps = wants.get("steps") is not False
        # The ends of steps tell what a job that heals repeats.
        return self._stream("/events", wants if steps else {**wants, "steps": True},
                            steps)

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
        return parsed(answer, self.address) if answer.strip() else None

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

    def _stream(self, path: str, body: Event, steps: bool = True) -> Stream:
        return Stream(lambda: self._opened("POST", path, body, None), self.health,
                      self.address, steps)

    def _answered(self, method: str, path: str, body: Optional[Event],
                  timeout: Optional[float] = None) -> tuple[int, bytes]:
        connection, answer = self._opened(method, path, body, timeout)
        try:
            return answer.status, answer.read(MOST_BYTES)
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
    text = answer.read(MOST_BYTES)
    try:
        reason = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        reason = f"the job answered with status {answer.status}"
    return RefusedError(str(reason), answer.status)

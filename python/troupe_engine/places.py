"""Where jobs listen, and the tokens that open them."""

import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from .errors import AddressError

PathLike = Union[str, "os.PathLike[str]"]

_SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 4096
_LONGEST_SOCKET_PATH = 107


@dataclass(frozen=True)
class Place:
    """A parsed address: `path` of a unix socket, or `host` and `port`."""

    text: str
    path: str = ""
    host: str = ""
    port: int = 0
    encrypted: bool = False


def parse_address(text: str) -> Place:
    """Of unix:PATH, tcp:HOST:PORT, or http://HOST:PORT on this machine."""
    kind, _, rest = text.partition(":")
    if kind == "unix":
        if not rest or "\0" in rest or len(os.fsencode(rest)) > _LONGEST_SOCKET_PATH:
            raise _refused(text, "a socket's path has 1 to 107 bytes")
        return Place(text, path=rest)
    if kind == "tcp":
        return _with_port(text, rest, encrypted=True)
    if kind == "http":
        place = _with_port(text, rest.removeprefix("//").rstrip("/"), encrypted=False)
        if place.host not in ("localhost", "::1") and not place.host.startswith("127."):
            raise _refused(text, "http is not encrypted, and for this machine only")
        return place
    raise _refused(text, "it begins with none of unix:, tcp: and http:")


def _with_port(text: str, rest: str, encrypted: bool) -> Place:
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host:
        raise _refused(text, "the host or the port is missing")
    if not re.fullmatch(r"\d{1,5}", port, re.ASCII) or int(port) > 65535:
        raise _refused(text, "the port is not a number from 0 to 65535")
    return Place(text, host=host, port=int(port), encrypted=encrypted)


def _refused(text: str, why: str) -> AddressError:
    return AddressError(
        f"{text!r} is not an address of a job: {why}; write unix:/path/of/socket, "
        "tcp:HOST:PORT or http://127.0.0.1:PORT"
    )


def read_token(file: PathLike) -> str:
    """The token in a file, which only this user may read."""
    try:
        with open(file, "rb") as opened:
            status = os.fstat(opened.fileno())
            data = opened.read(_LONGEST_TOKEN + 1)
    except OSError as reason:
        raise AddressError(f"the token: {file}: {reason.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise AddressError(f"{file}: is no regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise AddressError(f"{file}: belongs to another user; make a copy of your own")
    if status.st_mode & 0o077:
        raise AddressError(
            f"{file}: other users can read or write this secret; run chmod 600 on it"
        )
    words = data.split()
    if len(data) > _LONGEST_TOKEN or len(words) != 1 or b"\0" in data:
        raise AddressError(f"{file}: holds not one word; write only the token")
    if len(words[0]) < _SHORTEST_TOKEN:
        raise AddressError(f"{file}: a token has at least {_SHORTEST_TOKEN} characters")
    try:
        return words[0].decode("ascii")
    except UnicodeDecodeError:
        raise AddressError(f"{file}: a token has ASCII characters") from None


def own_jobs() -> list[str]:
    """Addresses of this user's jobs on this machine, by the number of their process.

    Jobs that listen elsewhere (`--endpoint`) are not found.
    """
    found = []
    for folder in _own_folders():
        for path in folder.glob("*.sock"):
            number = path.stem.partition("-")[0]
            if number.isascii() and number.isdigit() and _has_listener(path):
                found.append((int(number), f"unix:{path}"))
    return [address for _, address in sorted(found)]


def _own_folders() -> list[Path]:
    usual = Path(f"/tmp/troupe-{os.geteuid()}")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [usual]
    if runtime.startswith("/") and os.access(runtime, os.W_OK | os.X_OK):
        places.insert(0, Path(runtime, "troupe"))
    for place in places:
        if _is_own(place):
            return [place]
        if not os.path.lexists(place):
            return []
    return sorted(each for each in usual.parent.glob(usual.name + "-*") if _is_own(each))


def _is_own(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o077
    )


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.settimeout(1)
            probe.connect(str(path))
        except OSError:
            return False
    return True

"""A connection to a job: HTTP over a unix socket, over TLS, or over loopback."""

import hashlib
import hmac
import http.client
import os
import socket
import ssl
import struct
from typing import Optional

from .errors import JobError, UnsupportedError
from .places import Place


class Connection(http.client.HTTPConnection):
    """For one request."""

    def __init__(self, place: Place, token: Optional[str], timeout: float) -> None:
        super().__init__(place.host or "job", place.port or None, timeout=timeout)
        self._place = place
        self._token = token
        self._opened: Optional[socket.socket] = None

    def connect(self) -> None:
        self.sock = self._opened = self._connected()

    def wait_forever(self) -> None:
        """For what comes after an answer's first line."""
        if self._opened is not None:
            self._opened.settimeout(None)

    def leave(self) -> None:
        """Ends the connection, also under another thread that reads from it."""
        self.close()
        if self._opened is not None:
            try:
                self._opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed
            self._opened.close()

    def _connected(self) -> socket.socket:
        if self._place.path:
            return _unix_socket(self._place.path, self.timeout)
        raw = socket.create_connection((self.host, self.port), self.timeout)
        try:
            return self._encrypted(raw) if self._place.encrypted else raw
        except BaseException:
            raw.close()
            raise

    def _encrypted(self, raw: socket.socket) -> ssl.SSLSocket:
        if not self._token:
            raise JobError(
                f"{self._place.text}: a TCP endpoint needs a token; name the file that "
                "has it (token_file=...)"
            )
        try:
            return _context_of(self._token, self._place).wrap_socket(raw)
        except ssl.SSLError as reason:
            raise JobError(
                f"{self._place.text}: the job did not let this client in "
                f"({reason.reason or reason}): the token must be that of its "
                "--endpoint-token-file or --endpoint-control-token-file"
            ) from None

    def headers(self) -> dict[str, str]:
        """A token is sent to this machine alone; over TLS it never is."""
        if self._token and not self._place.encrypted:
            return {"Authorization": f"Bearer {self._token}"}
        return {}


def _unix_socket(path: str, timeout: Optional[float]) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.settimeout(timeout)
        opened.connect(path)
        peer = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        user = struct.unpack("iII", peer)[1]
        if user not in (0, os.geteuid()):
            raise JobError(f"unix:{path}: the job is user {user}'s, this process user "
                           f"{os.geteuid()}'s: run both as one user")
    except BaseException:
        opened.close()
        raise
    return opened


def _derived(token: str, purpose: bytes) -> bytes:
    """HKDF with SHA-256, one block, as the job derives it."""
    extracted = hmac.digest(b"troupe", token.encode(), hashlib.sha256)
    return hmac.digest(extracted, purpose + b"\x01", hashlib.sha256)


def _context_of(token: str, place: Place) -> ssl.SSLContext:
    """TLS 1.3 by a key that is derived from the token. No certificate is trusted, so
    that only the key lets a server pass."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not hasattr(context, "set_psk_client_callback") or not ssl.HAS_TLSv1_3:
        raise UnsupportedError(
            f"{place.text}: TLS by a token needs Python 3.13 or later; with this one, "
            "forward the job's socket, ssh -L 8080:/path/of/socket HOST, and use "
            "http://127.0.0.1:8080"
        )
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    name = "troupe " + _derived(token, b"name of the key of TLS 1")[:8].hex()
    key = _derived(token, b"pre-shared key of TLS 1")
    context.set_psk_client_callback(lambda hint: (name, key))
    return context

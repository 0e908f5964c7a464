"""A service on a Unix socket that judges candidates: a JSON object a line in, and one out, in the order of arrival.

A request has `code`, the text of a candidate, or `file`, the path of one, and may have an `id`, which the answer
repeats. One candidate is judged at a time.
"""

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import stat
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from attrs import define, field, frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.formats.candidate import MAX_BYTES
from aiperf_core.names import cause, words

# A candidate's text, with all its characters escaped, and the rest of the request.
_MAX_LINE = 6 * MAX_BYTES + (1 << 16)
_RECEIVED = 1 << 16
# A client that does not read its answers for so long is gone.
_SEND_TIMEOUT_S = 10.0


@frozen
class Request:
    """A request: the file of a candidate, and the number of the request in this service."""

    file: Path
    number: int


@define(eq=False)
class _Client:
    """A connection, with what it has sent and what is not judged yet."""

    connection: socket.socket
    received: bytearray = field(factory=bytearray)
    waiting: deque[bytes] = field(factory=deque)


class JudgeService:
    """Listens on a socket that only this user may use. Use as a context manager: leaving it removes the socket.

    Raises `UsageError` where the socket cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clients: dict[int, _Client] = {}
        self._number = 0

    def __enter__(self) -> Self:
        self._listener = _listening(self.path)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._folder = tempfile.TemporaryDirectory(prefix="aiperf-judge-")
        return self

    def __exit__(self, *_: object) -> None:
        for client in [*self._clients.values()]:
            self._drop(client)
        self._selector.close()
        self._listener.close()
        self._folder.cleanup()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def until_interrupted(
        self, answer: Callable[[Request], dict[str, Any]], between: Callable[[], None] = lambda: None
    ) -> None:
        """Answer requests until Ctrl-C or SIGTERM. `between` is called after each answer."""
        with _ended_by_sigterm():
            while True:
                self._receive(block=not any(client.waiting for client in self._clients.values()))
                for client in [*self._clients.values()]:
                    if client.waiting:
                        self._serve(client, client.waiting.popleft(), answer)
                        between()

    def _serve(self, client: _Client, line: bytes, answer: Callable[[Request], dict[str, Any]]) -> None:
        began = time.monotonic()
        said: dict[str, Any] = {}
        try:
            document = _parsed(line)
            said["id"] = document.get("id")
            self._number += 1
            said |= answer(Request(self._file_of(document), self._number))
        except AiperfError as error:
            said |= {"verdict": None, "error": str(error), "fault": "request"}
        except OSError as error:  # of a file of the service, as on a full disk
            said |= {"verdict": None, "error": f"the candidate could not be judged: {cause(error)}", "fault": "run"}
        said["seconds"] = time.monotonic() - began
        try:
            client.connection.settimeout(_SEND_TIMEOUT_S)
            client.connection.sendall(json.dumps(said).encode() + b"\n")
            client.connection.setblocking(False)
        except OSError:  # it is gone; what it had sent is not judged
            self._drop(client)

    def _file_of(self, document: dict[str, Any]) -> Path:
        """The file of a request's candidate. A text becomes a file of its own."""
        code, file = document.get("code"), document.get("file")
        if isinstance(code, str) == isinstance(file, str):
            raise UsageError("A request needs either 'code', the text of a candidate, or 'file', its path.")
        if isinstance(file, str):
            return Path(file)
        path = Path(self._folder.name, "candidate.py")
        path.write_text(str(code), encoding="utf-8", errors="surrogatepass")
        return path

    def _receive(self, *, block: bool) -> None:
        """Take new connections, and what clients have sent."""
        for key, _ in self._selector.select(None if block else 0):
            if key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._clients[connection.fileno()] = client = _Client(connection)
                self._selector.register(connection, selectors.EVENT_READ, client)
            else:
                self._read(key.data)

    def _read(self, client: _Client) -> None:
        try:
            data = client.connection.recv(_RECEIVED)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return
        client.received += data
        *lines, rest = client.received.split(b"\n")
        client.received = bytearray(rest)
        client.waiting += (bytes(line) for line in lines if line.strip())
        if len(rest) > _MAX_LINE:
            self._refuse(client, f"a line is longer than {_MAX_LINE:,} bytes")

    def _refuse(self, client: _Client, why: str) -> None:
        with contextlib.suppress(OSError):
            client.connection.sendall(json.dumps({"verdict": None, "error": why, "fault": "request"}).encode() + b"\n")
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        client.waiting.clear()
        for number, one in [*self._clients.items()]:
            if one is client:
                del self._clients[number]
                self._selector.unregister(client.connection)
                client.connection.close()


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
        json.dumps(found, allow_nan=False)  # the answer repeats the id
    except (ValueError, RecursionError) as error:
        raise UsageError(f"A request is a JSON object on one line; this is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError('A request is a JSON object on one line, such as {"id": 1, "file": "candidate.py"}.')
    return found


def _listening(path: Path) -> socket.socket:
    """A listening socket at a path. A socket without a listener is replaced."""
    if path.exists() or path.is_symlink():
        _make_room(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen()
    except OSError as error:
        listener.close()
        what = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"--serve '{words(str(path))}' cannot be made: {what}.") from None
    finally:
        os.umask(before)
    return listener


def _make_room(path: Path) -> None:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise UsageError(f"--serve '{words(str(path))}' exists and is no socket. Choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                path.unlink(missing_ok=True)
                return
    raise UsageError(f"--serve '{words(str(path))}' is in use by another process. Choose another path.")


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the service as Ctrl-C does, both in order."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)

"""Messages between the harness's processes: JSON frames over a Unix socket, with file descriptors where needed.

JSON and not pickle: a worker runs code that is not trusted, and reading its messages must not execute anything.
"""

import json
import os
import select
import socket
import struct
import time
from typing import Any

Message = dict[str, Any]

MAX_FRAME_BYTES = 16 << 20
_HEADER = struct.Struct("!I")
_FD = struct.Struct("i")
# Two for each rank of a machine with 16 GPUs.
MAX_FDS = 32


class ChannelClosedError(Exception):
    """The other side closed the socket, exited or was killed."""


class ChannelTimeoutError(Exception):
    """The other side did not answer in time."""


class ProtocolError(Exception):
    """The other side sent something that is not a frame of this protocol."""


def _refuse(constant: str) -> None:
    """Refuse NaN and infinities, which Python's JSON reader accepts by default."""
    raise ValueError(f"the number {constant}")


class Channel:
    """One end of a connection; not thread-safe."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @staticmethod
    def pair() -> tuple["Channel", "Channel"]:
        """Return two connected ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return Channel(ours), Channel(theirs)

    def fileno(self) -> int:
        """The socket's descriptor, for `select`."""
        return self.sock.fileno()

    def close(self) -> None:
        """Close this end."""
        self.sock.close()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send one message; `fds` (at most 32) travel with it. Raises `ChannelClosedError`."""
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > MAX_FRAME_BYTES:
            raise ProtocolError(f"a message of {len(body)} bytes is larger than the limit of {MAX_FRAME_BYTES}")
        frame = _HEADER.pack(len(body)) + body
        try:
            sent = socket.send_fds(self.sock, [frame], list(fds)) if fds else self.sock.send(frame)
            if sent < len(frame):
                self.sock.sendall(frame[sent:])
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, timeout: float | None = None, *, most_fds: int = 0) -> Message:
        """Return the next message; `timeout` in seconds. Descriptors that came with it are under the key `fds`.

        most_fds: how many descriptors may come with it. The kernel drops those beyond that, and the message is refused.
        """
        fds: list[int] = []
        try:
            message = self._receive(None if timeout is None else time.monotonic() + timeout, fds, most_fds)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        # A number in the text may name any descriptor of this process.
        message.pop("fds", None)
        if fds:
            message["fds"] = fds
        return message

    def _receive(self, deadline: float | None, fds: list[int], most_fds: int) -> Message:
        """The next message. Descriptors that came with it are appended to `fds`."""
        (length,) = _HEADER.unpack(self._read(_HEADER.size, deadline, fds, most_fds))
        if length > MAX_FRAME_BYTES:
            raise ProtocolError(f"a frame announces {length} bytes; the limit is {MAX_FRAME_BYTES}")
        body = self._read(length, deadline, fds, most_fds)
        try:
            message = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a frame is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise ProtocolError(f"a frame holds {type(message).__name__}; accepted is an object")
        return message

    def _read(self, count: int, deadline: float | None, fds: list[int], most_fds: int) -> bytes:
        chunks: list[bytes] = []
        while count:
            self._wait(deadline)
            room = most_fds - len(fds)
            try:
                space = socket.CMSG_LEN(room * _FD.size) if room else 0
                data, control, flags, _ = self.sock.recvmsg(min(count, 1 << 20), space)
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            fds += [fd for _, _, held in control for (fd,) in _FD.iter_unpack(held)]
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError(f"a message carries more than {most_fds} file descriptors")
            if not data:
                raise ChannelClosedError("end of stream")
            chunks.append(data)
            count -= len(data)
        return b"".join(chunks)

    def is_readable(self, timeout: float | None) -> bool:
        """Wait for a message or the end of the connection; `timeout` in seconds. Whether one came."""
        ready, _, _ = select.select([self.sock], [], [], timeout)
        return bool(ready)

    def _wait(self, deadline: float | None) -> None:
        if not self.is_readable(None if deadline is None else max(0.0, deadline - time.monotonic())):
            raise ChannelTimeoutError

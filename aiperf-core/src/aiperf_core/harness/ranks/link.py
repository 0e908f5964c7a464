"""Connections between the machines of a run: who may connect, and memory that follows the messages.

Both sides prove by HMAC that they have the run's secret, before either reads a message of the other. What follows is neither
encrypted nor signed: it belongs on a network that is trusted. Messages are JSON, as everywhere; nothing is ever unpickled.
"""

import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Mapping

from attrs import field, frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message, ProtocolError
from aiperf_core.harness.ranks import memory_sync
from aiperf_core.harness.ranks.memory_sync import MemorySync

SECRET = "AIPERF_RDZV_TOKEN"
LEAST_SECRET = 16
_GREETING = b"aiperf, several machines, 1\n"
_NONCE_BYTES = _MAC_BYTES = 32
_NO = bytes(_MAC_BYTES)
# Who wants to connect has so long to prove that it may.
_HANDSHAKE_S = 5.0
_RETRY_S = 0.2
# Memory that follows a message comes at once, or the other machine is gone.
_STALL_S = 60.0
# A machine that lost power says nothing: after so long without an answer the connection counts as closed.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class RefusedError(Exception):
    """The other side has another secret, or speaks another protocol."""


@frozen
class Endpoint:
    """Where the first machine is reached by the others."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @staticmethod
    def of(text: str) -> "Endpoint":
        """Read `HOST:PORT`. Raises `UsageError` for anything else."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise UsageError(
                f"--rdzv-endpoint takes HOST:PORT, the first machine's address and a free port of it; got {text!r}."
            )
        return Endpoint(host, int(port))


@frozen(kw_only=True)
class Nodes:
    """The machines of a run.

    endpoint: where the first one listens. secret: what all of them know. identity: what must be the same on all, by name.
    wait_s: so long all wait for each other.
    """

    count: int
    endpoint: Endpoint
    secret: bytes = field(repr=False)
    identity: Mapping[str, str] = field(factory=dict)
    wait_s: float = 300.0


class Link(Channel):
    """One end of a connection to another machine. Not thread-safe.

    The memory that was handed to it with a message is kept alike on both sides: what changed goes along with every message that
    is no notice. `fds` are the descriptors of that memory on the side that received it, in the order of the message.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._mirrors: list[MemorySync] = []
        self.fds: tuple[int, ...] = ()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send a message; `fds` are of memory that the other side shall have too. Raises `ChannelClosedError`."""
        if fds:
            self._mirrors = [MemorySync(fd, os.fstat(fd).st_size) for fd in fds]
        if not self._mirrors or "notice" in message:
            super().send(message)
            return
        changed = [one.changes() for one in self._mirrors]
        told = [{"size": one.size, "spans": spans} for one, spans in zip(self._mirrors, changed, strict=True)]
        super().send({**message, "memory": told})
        try:
            for one, spans in zip(self._mirrors, changed, strict=True):
                for span in spans:
                    self.sock.sendall(one.part(span))
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, timeout: float | None = None) -> Message:
        """Return the next message, when the memory is as the other side's was."""
        message = super().receive(timeout)
        told = message.pop("memory", [])
        try:
            if not self._mirrors and told:
                self._create([int(one["size"]) for one in told])
            for one, other in zip(self._mirrors, told, strict=bool(told)):
                for span in memory_sync.spans(other["spans"], one.size):
                    self._read_into(one.part(span))
                    one.accept(span)
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"a message about memory is none: {error}") from error
        return message

    def close(self) -> None:
        """Close this end, and forget the memory."""
        super().close()
        for one in self._mirrors:
            one.close()
        for fd in self.fds:
            os.close(fd)
        self._mirrors, self.fds = [], ()

    def _create(self, sizes: list[int]) -> None:
        self.fds = tuple(memory_sync.create(size) for size in sizes)
        self._mirrors = [MemorySync(fd, size) for fd, size in zip(self.fds, sizes, strict=True)]

    def _read_into(self, place: memoryview) -> None:
        while place:
            ready, _, _ = select.select([self.sock], [], [], _STALL_S)
            count = self.sock.recv_into(place) if ready else 0
            if not count:
                raise ChannelClosedError("the memory that a message announced did not come")
            place = place[count:]


def listen(endpoint: Endpoint) -> socket.socket:
    """Listen at an address of this machine, and at no other. Raises `UsageError` where that is impossible."""
    family, address = _resolve(endpoint)
    if address[0] in ("0.0.0.0", "::"):
        raise UsageError(
            f"--rdzv-endpoint {endpoint}: every interface of this machine would be open. Give the address by which the other "
            "machines reach this one."
        )
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"--rdzv-endpoint {endpoint}: this machine, the one of --node-rank 0, cannot listen there: {error.strerror}. Give an "
            "address of its own and a free port."
        ) from None
    listening.listen()
    return listening


def welcome(connection: socket.socket, secret: bytes) -> Link:
    """Let in who has the secret. Raises `RefusedError`, after closing the connection, for all others."""
    try:
        until, ours = time.monotonic() + _HANDSHAKE_S, secrets.token_bytes(_NONCE_BYTES)
        connection.settimeout(_HANDSHAKE_S)
        connection.sendall(_GREETING + ours)
        answer = _read(connection, _NONCE_BYTES + _MAC_BYTES, until)
        theirs, proof = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
        if not hmac.compare_digest(proof, _mac(secret, b"comes", ours, theirs)):
            connection.sendall(_NO)
            raise RefusedError("it has another secret")
        connection.sendall(_mac(secret, b"welcomes", ours, theirs))
    except OSError as error:
        connection.close()
        raise RefusedError(f"it did not prove that it has the secret: {error}") from error
    except RefusedError:
        connection.close()
        raise
    return _made(connection)


def connect(nodes: Nodes, wait_s: float = _HANDSHAKE_S) -> Link:
    """Connect to the first machine, and wait until it listens for at most so long.

    Raises `AiperfError` where nothing listens, where the secrets differ, and where something else answers.
    """
    connection = _reach(nodes.endpoint, wait_s)
    try:
        until = time.monotonic() + wait_s  # the first machine may be busy with others
        greeting = _read(connection, len(_GREETING), until)
        if greeting != _GREETING:
            raise AiperfError(f"What answers at {nodes.endpoint} is not this version of aiperf. See --rdzv-endpoint.")
        theirs, ours = _read(connection, _NONCE_BYTES, until), secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(ours + _mac(nodes.secret, b"comes", theirs, ours))
        proof = _read(connection, _MAC_BYTES, until)
        if not hmac.compare_digest(proof, _mac(nodes.secret, b"welcomes", theirs, ours)):
            who = "The machine" if proof == _NO else "What answers"
            raise AiperfError(
                f"{who} at {nodes.endpoint} has another secret than this one. {SECRET} must be the same on all machines."
            )
    except OSError as error:
        connection.close()
        raise AiperfError(
            f"What answers at {nodes.endpoint} is no run of aiperf that waits for machines: {error}"
        ) from None
    except AiperfError:
        connection.close()
        raise
    return _made(connection)


def interface_of(address: str) -> str | None:
    """The network interface that has an address; None where none has."""
    import psutil

    for name, known in psutil.net_if_addrs().items():
        if address in (one.address.partition("%")[0] for one in known):
            return str(name)
    return None


def _reach(endpoint: Endpoint, wait_s: float) -> socket.socket:
    until = time.monotonic() + wait_s
    while True:
        try:
            left = max(_RETRY_S, until - time.monotonic())
            return socket.create_connection((endpoint.host, endpoint.port), left)
        except OSError as error:
            if time.monotonic() >= until:
                raise AiperfError(
                    f"Nothing listened at {endpoint} within {wait_s:g} s: {error}. Start there the same command with "
                    "--node-rank 0."
                ) from None
        time.sleep(_RETRY_S)


def _resolve(endpoint: Endpoint) -> tuple[int, tuple[str, int]]:
    """The family and the address of an endpoint of this machine."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"--rdzv-endpoint {endpoint}: the host is not known here: {error.strerror}.") from None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), endpoint.port)


def _made(connection: socket.socket) -> Link:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Link(connection)


def _mac(secret: bytes, who: bytes, first: bytes, second: bytes) -> bytes:
    """The proof of a side, which the other side's proof cannot be turned into."""
    return hmac.digest(secret, who + first + second, "sha256")


def _read(connection: socket.socket, count: int, until: float) -> bytes:
    """So many bytes, which come before the deadline however slowly they are sent. Raises `OSError`."""
    found = b""
    while len(found) < count:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("it closed the connection")
        found += more
    return found

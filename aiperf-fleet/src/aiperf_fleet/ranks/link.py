"""Connections between the machines of a run: authentication, and memory that is sent along with messages.

Both sides prove by HMAC that they have the run's secret before either reads a message of the other. The messages
themselves are neither encrypted nor signed: use a trusted network. Messages are JSON; nothing is ever unpickled.
"""

import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Mapping

from attrs import field, frozen

from aiperf_core.devices import host_memory
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message, ProtocolError
from aiperf_fleet.ranks import memory_sync
from aiperf_fleet.ranks.memory_sync import MemorySync

SECRET = "AIPERF_RDZV_TOKEN"
LEAST_SECRET = 16
_GREETING = b"aiperf, several machines, 1\n"
_NONCE_BYTES = _MAC_BYTES = 32
_NO = bytes(_MAC_BYTES)
_HANDSHAKE_S = 5.0
_RETRY_S = 0.2
# The longest pause within the memory that follows a message.
_STALL_S = 60.0
# A machine that lost power sends nothing: the connection then counts as closed after 25 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class RefusedError(Exception):
    """The other side has another secret, or another protocol."""


@frozen
class Endpoint:
    """The address and port at which the other machines reach the first one."""

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

    count: how many.
    endpoint: where the first machine listens.
    secret: known to all machines.
    identity: what must be equal on all machines, by name.
    wait_s: how long the machines wait for each other.
    """

    count: int
    endpoint: Endpoint
    secret: bytes = field(repr=False)
    identity: Mapping[str, str] = field(factory=dict)
    wait_s: float = 300.0


class Link(Channel):
    """One end of a connection to another machine; not thread-safe.

    Memory that was handed over with a message is kept equal on both sides: its changes follow every message except
    notices. `fds` are the descriptors of that memory on the receiving side, in the order of the message.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._synced: list[MemorySync] = []
        self.fds: tuple[int, ...] = ()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send a message; `fds` are of memory that the other side shall have too. Raises `ChannelClosedError`."""
        if fds:
            self._synced = [MemorySync(fd, os.fstat(fd).st_size) for fd in fds]
        if not self._synced or "notice" in message:
            super().send(message)
            return
        changed = [(memory, memory.changes()) for memory in self._synced]
        super().send({**message, "memory": [{"size": memory.size, "spans": spans} for memory, spans in changed]})
        try:
            for memory, spans in changed:
                for span in spans:
                    self.sock.sendall(memory.part(span))
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, timeout: float | None = None, *, most_fds: int = 0) -> Message:
        """Return the next message, after applying the memory that follows it."""
        message = super().receive(timeout, most_fds=most_fds)
        told = message.pop("memory", [])
        try:
            if not self._synced and told:
                self.fds = tuple(host_memory.allocate(int(part["size"])) for part in told)
                self._synced = [MemorySync(fd, int(part["size"])) for fd, part in zip(self.fds, told, strict=True)]
            for memory, part in zip(self._synced, told, strict=bool(told)):
                for span in memory_sync.spans(part["spans"], memory.size):
                    self._read_into(memory.part(span))
                    memory.accept(span)
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"a message describes no memory: {error}") from error
        return message

    def close(self) -> None:
        """Close this end and release the memory."""
        super().close()
        for memory in self._synced:
            memory.close()
        for fd in self.fds:
            os.close(fd)
        self._synced, self.fds = [], ()

    def _read_into(self, target: memoryview) -> None:
        while target:
            ready, _, _ = select.select([self.sock], [], [], _STALL_S)
            count = self.sock.recv_into(target) if ready else 0
            if not count:
                raise ChannelClosedError("the memory that a message announced did not come")
            target = target[count:]


def listen(endpoint: Endpoint) -> socket.socket:
    """Listen at an address of this machine, and at no other. Raises `UsageError` where that is impossible."""
    option = f"--rdzv-endpoint {endpoint}"
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{option}: the host is not known here: {error.strerror}.") from None
    family, _, _, _, address = found[0]
    if address[0] in ("0.0.0.0", "::"):
        raise UsageError(
            f"{option}: every interface of this machine would be open. Give the address by which the other machines "
            "reach this one."
        )
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address[0], endpoint.port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{option}: this machine, the one of --node-rank 0, cannot listen there: {error.strerror}. Give an address "
            "of its own and a free port."
        ) from None
    listening.listen()
    return listening


def welcome(connection: socket.socket, secret: bytes) -> Link:
    """Accept a connection whose other side has the secret. Raises `RefusedError`, after closing it, for all others."""
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
    """Connect to the first machine; wait up to `wait_s` seconds until it listens.

    Raises `AiperfError` where nothing listens, where the secrets differ, and where something else answers.
    """
    where = nodes.endpoint
    connection = _reach(where, wait_s)
    try:
        until = time.monotonic() + wait_s  # the first machine may be busy with others
        if _read(connection, len(_GREETING), until) != _GREETING:
            raise AiperfError(f"What answers at {where} is not this version of aiperf. See --rdzv-endpoint.")
        theirs, ours = _read(connection, _NONCE_BYTES, until), secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(ours + _mac(nodes.secret, b"comes", theirs, ours))
        proof = _read(connection, _MAC_BYTES, until)
        if not hmac.compare_digest(proof, _mac(nodes.secret, b"welcomes", theirs, ours)):
            who = "The machine" if proof == _NO else "What answers"
            raise AiperfError(
                f"{who} at {where} has another secret than this one. {SECRET} must be the same on all machines."
            )
    except OSError as error:
        connection.close()
        raise AiperfError(f"What answers at {where} is not a run of aiperf that waits for machines: {error}") from None
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
                    f"Nothing listened at {endpoint} within {wait_s:g} s: {error}. Start the same command there with "
                    "--node-rank 0."
                ) from None
        time.sleep(_RETRY_S)


def _made(connection: socket.socket) -> Link:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Link(connection)


def _mac(secret: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    """The proof of one side; `side` keeps it from being sent back as the other side's."""
    return hmac.digest(secret, side + first + second, "sha256")


def _read(connection: socket.socket, count: int, until: float) -> bytes:
    """Read `count` bytes before a deadline, however slowly they are sent. Raises `OSError`."""
    found = b""
    while len(found) < count:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("it closed the connection")
        found += more
    return found

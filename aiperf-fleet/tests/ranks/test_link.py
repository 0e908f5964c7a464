"""Connections between machines, and memory that follows the messages: two ends in one process."""

import mmap
import os
import socket
from collections.abc import Iterator

import pytest

from aiperf_core.devices import host_memory
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, ProtocolError
from aiperf_fleet.ranks.link import Link
from aiperf_fleet.ranks.memory_sync import MemorySync

SIZE = 3 * (1 << 18) + 17


@pytest.fixture
def ends() -> Iterator[tuple[Link, Link, int]]:
    """Both ends of a link, and the descriptor of memory on the first one's side."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    fd = host_memory.allocate(SIZE)
    first, second = Link(ours), Link(theirs)
    # More than a pair of sockets holds would wait for a reader that is this same thread.
    for one in (ours, theirs):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    yield first, second, fd
    first.close()
    second.close()
    os.close(fd)


def content(fd: int) -> bytes:
    with mmap.mmap(fd, SIZE) as memory:
        return memory[:]


def write(fd: int, start: int, data: bytes) -> None:
    with mmap.mmap(fd, SIZE) as memory:
        memory[start : start + len(data)] = data


def test_memory_follows_messages_in_both_directions(ends: tuple[Link, Link, int]) -> None:
    first, second, fd = ends
    write(fd, 5, b"inputs")
    first.send({"do": "open"}, (fd,))
    assert second.receive(5.0) == {"do": "open"}
    (theirs,) = second.fds
    assert content(theirs) == content(fd)
    write(theirs, SIZE - 6, b"output")
    write(theirs, 5, b"inPuts")
    second.send({"ok": None})
    assert first.receive(5.0) == {"ok": None}
    assert content(fd)[SIZE - 6 :] == b"output"
    assert content(fd)[5:11] == b"inPuts"
    write(fd, SIZE - 6, b"\xff" * 6)  # as the judge clears what it has judged
    first.send({"do": "sample"})
    second.receive(5.0)
    assert content(theirs) == content(fd)


def test_only_what_changed_is_sent(ends: tuple[Link, Link, int]) -> None:
    _, _, fd = ends
    one = MemorySync(fd, SIZE)
    assert one.changes() == []
    write(fd, (1 << 18) - 1, b"ab")
    write(fd, SIZE - 1, b"c")
    assert one.changes() == [(0, 2 << 18), (3 << 18, 17)]
    assert one.changes() == []
    one.close()


def test_notices_carry_no_memory(ends: tuple[Link, Link, int]) -> None:
    """They say when a clock starts and stops, and must not be late."""
    first, second, fd = ends
    first.send({"do": "open"}, (fd,))
    second.receive(5.0)
    write(second.fds[0], 0, b"late")
    second.send({"notice": "start"})
    assert first.receive(5.0) == {"notice": "start"}
    assert content(fd)[:4] == bytes(4)


@pytest.mark.parametrize(
    "memory",
    [
        [{"size": SIZE, "spans": [[SIZE - 1, 2]]}],
        [{"size": SIZE, "spans": [[-1, 2]]}],
        [{"size": SIZE, "spans": [[0, 0]]}],
        [{"size": SIZE, "spans": [[0, 1.5]]}],
        [{"size": SIZE, "spans": [[True, 1]]}],
        [{"size": SIZE, "spans": [[1]]}],
        [{"size": SIZE, "spans": {}}],
        [{"size": SIZE}],
        [{"size": SIZE, "spans": []}] * 2,
        ["spans"],
        7,
    ],
)
def test_memory_that_is_none_is_refused(ends: tuple[Link, Link, int], memory: object) -> None:
    first, second, fd = ends
    first.send({"do": "open"}, (fd,))
    second.receive(5.0)
    Channel(first.sock).send({"memory": memory})
    with pytest.raises(ProtocolError, match="a message describes no memory"):
        second.receive(5.0)


def test_memory_that_is_announced_and_does_not_come(ends: tuple[Link, Link, int]) -> None:
    first, second, fd = ends
    first.send({"do": "open"}, (fd,))
    second.receive(5.0)
    Channel(first.sock).send({"memory": [{"size": SIZE, "spans": [[0, 9]]}]})
    first.sock.shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelClosedError, match="the memory that a message announced did not come"):
        second.receive(5.0)


def test_others_may_map_the_memory_and_not_shrink_it() -> None:
    fd = host_memory.allocate(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 1)
    os.close(fd)

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.harness.processes import channel
from aiperf_core.harness.processes.channel import (
    MAX_FRAME_BYTES,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.dictionaries(st.text().filter(lambda key: key != "fds"), JSON, max_size=4)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Two connected ends."""
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def frame(body: bytes, length: int | None = None) -> bytes:
    return struct.pack("!I", len(body) if length is None else length) + body


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=3))
def test_messages_arrive_in_order_and_whole(messages: list[Message]) -> None:
    ours, theirs = Channel.pair()
    with ours.sock, theirs.sock:
        for message in messages:
            ours.send(message)
        assert [theirs.receive(1.0) for _ in messages] == messages


def test_messages_larger_than_the_sockets_buffer_arrive_whole(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    message = {"text": "x" * (8 << 20)}
    sender = threading.Thread(target=ours.send, args=(message,))
    sender.start()
    assert theirs.receive(10.0) == message
    sender.join()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_descriptors_travel_with_their_message(ends: tuple[Channel, Channel], count: int) -> None:
    ours, theirs = ends
    pipes = [os.pipe() for _ in range(count)]
    ours.send({"of": "pipes"}, tuple(write for _, write in pipes))
    ours.send({"of": "nothing"})
    message = theirs.receive(1.0, most_fds=count)
    assert message["of"] == "pipes"
    assert theirs.receive(1.0) == {"of": "nothing"}
    for number, (fd, (read, write)) in enumerate(zip(message["fds"], pipes, strict=True)):
        assert fd not in (read, write)
        os.write(fd, b"%d" % number)
        assert os.read(read, 8) == b"%d" % number
        for one in (fd, read, write):
            os.close(one)


@pytest.mark.parametrize(("sent", "most"), [(1, 0), (253, 0), (3, 2), (253, 32)])
@pytest.mark.parametrize("where", ["head", "body", "both"])
def test_a_flood_of_descriptors_is_refused_and_leaves_none(
    ends: tuple[Channel, Channel], sent: int, most: int, where: str
) -> None:
    ours, theirs = ends
    data = frame(b'{"a": 1}')
    before = os.listdir("/proc/self/fd")
    for part, name in ((data[:4], "head"), (data[4:], "body")):
        socket.send_fds(ours.sock, [part], [0] * sent if where in (name, "both") else [])
    with pytest.raises(ProtocolError) as caught:
        theirs.receive(1.0, most_fds=most)
    assert str(caught.value) == f"a message carries more than {most} file descriptors"
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("body", [b"{]", b"[1]", b""])
def test_descriptors_beside_what_is_no_message_are_closed(ends: tuple[Channel, Channel], body: bytes) -> None:
    ours, theirs = ends
    before = os.listdir("/proc/self/fd")
    socket.send_fds(ours.sock, [frame(body, len(body) or 9)], [0, 1])
    with pytest.raises((ProtocolError, ChannelTimeoutError)):
        theirs.receive(0.05, most_fds=2)
    assert os.listdir("/proc/self/fd") == before


def test_descriptors_that_a_message_only_claims_are_none(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    ours.send({"fds": [0, 1, 2], "ok": True})
    assert theirs.receive(1.0) == {"ok": True}


def test_a_frame_may_arrive_in_parts(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    data = frame(b'{"a": 1}')

    def trickle() -> None:
        for byte in data:
            ours.sock.send(bytes([byte]))
            time.sleep(0.001)

    sender = threading.Thread(target=trickle)
    sender.start()
    assert theirs.receive(5.0) == {"a": 1}
    sender.join()


@pytest.mark.parametrize("sent", [b"", b"\0\0", frame(b'{"a": ', 100)])
def test_an_answer_that_does_not_come_in_time(ends: tuple[Channel, Channel], sent: bytes) -> None:
    ours, theirs = ends
    ours.sock.send(sent)
    start = time.monotonic()
    with pytest.raises(ChannelTimeoutError):
        theirs.receive(0.05)
    assert time.monotonic() - start >= 0.05


def test_a_deadline_that_has_passed_still_takes_what_is_there(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    ours.send({"a": 1})
    assert theirs.receive(-1.0) == {"a": 1}


@pytest.mark.parametrize("sent", [b"", b"\0\0", frame(b'{"a": ', 100)])
def test_the_other_side_goes_away(ends: tuple[Channel, Channel], sent: bytes) -> None:
    ours, theirs = ends
    ours.sock.send(sent)
    ours.close()
    with pytest.raises(ChannelClosedError, match="^end of stream$"):
        theirs.receive()


def test_sending_to_nobody(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(ChannelClosedError, match=r"Broken pipe$"):
        ours.send({"a": 1})
    with pytest.raises(ChannelClosedError, match=r"Bad file descriptor$"):
        theirs.send({"a": 1})


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (frame(b""), "a frame is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (
            frame(b"{]"),
            "a frame is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        (frame(b"\xff\xfe{}"), "a frame is not JSON: "),
        (frame(b"[" * 100_000), "a frame is not JSON: maximum recursion depth exceeded"),
        (frame(b'{"a": NaN}'), "a frame is not JSON: the number NaN"),
        (frame(b'{"a": [-Infinity]}'), "a frame is not JSON: the number -Infinity"),
        (frame(b"[1, 2]"), "a frame holds list; accepted is an object"),
        (frame(b"null"), "a frame holds NoneType; accepted is an object"),
        (b"\xff\xff\xff\xff", "a frame announces 4294967295 bytes; the limit is 16777216"),
        (frame(b"", MAX_FRAME_BYTES + 1), "a frame announces 16777217 bytes; the limit is 16777216"),
    ],
)
def test_what_is_no_frame(ends: tuple[Channel, Channel], sent: bytes, message: str) -> None:
    ours, theirs = ends
    ours.sock.sendall(sent)
    with pytest.raises(ProtocolError) as caught:
        theirs.receive(1.0)
    # What Python says of bytes that are no text, and of its stack, differs between versions.
    assert str(caught.value).startswith(message)
    assert str(caught.value) == message or message.endswith((": ", "exceeded"))


def test_a_message_beyond_the_limit_is_not_sent(ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = ends
    monkeypatch.setattr(channel, "MAX_FRAME_BYTES", 10)
    with pytest.raises(ProtocolError) as caught:
        ours.send({"a": 12345})
    assert str(caught.value) == "a message of 11 bytes is larger than the limit of 10"
    ours.send({"a": 1234})
    assert theirs.receive(1.0) == {"a": 1234}


def test_the_form_on_the_wire(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    ours.send({"do": "open", "text": "µ"})
    data = theirs.sock.recv(1000)
    assert data[:4] == struct.pack("!I", len(data) - 4)
    assert json.loads(data[4:]) == {"do": "open", "text": "µ"}
    assert ours.fileno() == ours.sock.fileno()
    assert ours.sock.family is socket.AF_UNIX

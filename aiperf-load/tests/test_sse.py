"""Events cut out of bytes: the same for every division into pieces, in linear time, in bounded memory."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_load.sse import MOST_BYTES, Events, TooLarge

STREAM = (
    b'data: {"a": 1}\r\n\r\n: a comment\ndata:b\ndata: c\n\nevent: x\ndata:  d\nid: 7\n\n\n\ndata: [DONE]\n\ndata: cut'
)
FOUND = [b'{"a": 1}', b"b\nc", b" d", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_pieces_make_no_difference(cuts):
    events, found = Events(), []
    places = [0, *sorted(cuts), len(STREAM)]
    for begin, end in pairwise(places):
        found += events.feed(STREAM[begin:end])
    assert found == FOUND


def test_single_bytes():
    events = Events()
    assert [one for place in range(len(STREAM)) for one in events.feed(STREAM[place : place + 1])] == FOUND


@pytest.mark.parametrize("endless", [b"data: x", b"x" * 1000, b"data:\n", b"data: x\n"])
def test_an_event_without_an_end_is_too_large(endless):
    events, piece = Events(), endless * 100
    for _ in range(MOST_BYTES // len(piece)):
        assert events.feed(piece) == []
    with pytest.raises(TooLarge):
        events.feed(piece)


def test_a_large_event_in_small_pieces_takes_linear_time():
    events, piece = Events(), b"x" * 8
    begin_s = time.process_time()
    events.feed(b"data: ")
    for _ in range((MOST_BYTES - 100) // len(piece)):
        events.feed(piece)
    (found,) = events.feed(b"\n\n")
    # A copy of all before for each piece would take half a minute.
    assert time.process_time() - begin_s < 3
    assert len(found) == (MOST_BYTES - 100) // len(piece) * len(piece)


def test_many_lines_in_an_event_take_linear_time():
    events = Events()
    begin_s = time.process_time()
    for _ in range(100):
        events.feed(b"data: x\n" * 1000)
    assert events.feed(b"\n") == [b"\n".join([b"x"] * 100_000)]
    assert time.process_time() - begin_s < 3

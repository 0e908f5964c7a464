"""Events cut out of bytes: the same for every division into pieces, in linear time, in bounded memory."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_load.sse import BYTE_ORDER_MARK, MOST_BYTES, Events, TooLarge

LINES = (b'data: {"a": 1}', b"", b": a comment", b"data:b", b"data: c", b"", b"event: x", b"data:  d", b"id: 7", b"", b"",
         b"data", b"", b"data:", b"data: ", b"", b"Data: no", b"datax: no", b" data: no", b"data: [DONE] ", b"", b"data: cut")  # fmt: skip
FOUND = [b'{"a": 1}', b"b\nc", b" d", b"[DONE] "]
ENDS = (b"\n", b"\r", b"\r\n")


def pieces(cuts, ends, mark):
    """A stream whose lines end in turn with these, in pieces; an empty line after a CR would be an end of two bytes."""
    stream = mark
    for number, line in enumerate(LINES[:-1]):
        end = ends[number % len(ends)]
        stream += line + (b"\r\n" if stream.endswith(b"\r") and not line and end == b"\n" else end)
    stream += LINES[-1]
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(places)]


@given(st.lists(st.integers(0, 150), max_size=12), st.lists(st.sampled_from(ENDS), min_size=1, max_size=5),
       st.sampled_from((b"", BYTE_ORDER_MARK)))  # fmt: skip
def test_neither_pieces_nor_ends_of_lines_make_a_difference(cuts, ends, mark):
    events = Events()
    assert [one for piece in pieces(cuts, ends, mark) for one in events.feed(piece)] == FOUND


@pytest.mark.parametrize("ends", [(one,) for one in ENDS])
def test_single_bytes(ends):
    events = Events()
    assert [one for piece in pieces(range(200), ends, BYTE_ORDER_MARK) for one in events.feed(piece)] == FOUND


def test_an_event_does_not_wait_for_the_byte_after_its_carriage_return():
    events = Events()
    assert events.feed(b"data: a\r\r") == [b"a"]
    assert events.feed(b"\ndata: b\r\n\r") == [b"b"]
    assert events.feed(b"\ndata: c\n\n") == [b"c"]


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

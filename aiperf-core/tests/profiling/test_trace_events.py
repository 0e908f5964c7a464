"""Events of a Chrome trace that is whole, damaged or cut off, whatever the buffer holds of it."""

import io
import math
from typing import Any

import pytest

from aiperf_core.profiling import trace_events
from aiperf_core.profiling.trace_events import TraceEvents, Unreadable


def event(name: bytes, more: bytes = b"") -> bytes:
    return b'{\n"ph": "X", "name": "' + name + b'", "args": {"list": [{"a": 1}, {"b": 2}], "n": -12' + more + b"}}"


FIRST, LAST = event(b"first"), event(b"last")
NAMES = ["first", "last"]


def document(*events: bytes) -> bytes:
    return b'{"rank": 3,\n"traceEvents": [' + b",\n".join(events) + b'\n], "end": true}\n'


def names(events: TraceEvents) -> list[Any]:
    return [one.why if isinstance(one, Unreadable) else one["name"] for one in events]


@pytest.fixture(params=[1, 7, 64, 1 << 18], autouse=True)
def _buffer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "_BUFFER", request.param)


@pytest.mark.parametrize(
    ("middle", "why"),
    [
        (event(rb"C:\Users\q.py"), "Invalid \\escape"),
        (event(rb"C:\x"), "Invalid \\escape"),
        (event(b'say "hi"'), "Expecting ',' delimiter"),
        (event(b'5" disk'), "Expecting ',' delimiter"),
        (event(b"C:\\"), "Expecting ',' delimiter"),
        (event(b"x", b', "v": -nan'), "Expecting value"),
        (event(b"x", b', "v": ' + b"[" * 5000 + b"]" * 5000), "nested too deeply"),
    ],
)
def test_an_event_that_is_no_json_is_left_out_alone(middle: bytes, why: str) -> None:
    for text, expected in (
        (document(FIRST, middle, LAST), ["first", why, "last"]),
        (document(middle, FIRST, middle, middle, LAST), [why, "first", why, why, "last"]),
        (b"[" + b",".join([FIRST, LAST, middle]) + b"]", ["first", "last", why]),
    ):
        events = TraceEvents(io.BytesIO(text))
        assert names(events) == expected
        assert (events.ended_early, events.damage) == (False, "")


def test_the_place_is_where_the_event_begins() -> None:
    text = document(event("é".encode()), event(b"C:\\U"), LAST)
    events = TraceEvents(io.BytesIO(text))
    places = [events.place for one in events if isinstance(one, Unreadable)]
    assert places == [text.index(b'{\n"ph": "X", "name": "C:')]


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775809", -(2**63) - 1),
        (b"9" * 400, int("9" * 400)),
        (b"Infinity", math.inf),
        (b"-Infinity", -math.inf),
        (b'"a\x01\nb"', "a\x01\nb"),
        (b'"caf\xe9"', "caf\ufffd"),
        (b'"caf\xc3\xa9"', "café"),
    ],
)
def test_values_that_are_read(more: bytes, value: Any) -> None:
    (first, last) = TraceEvents(io.BytesIO(document(event(b"first", b', "v": ' + more), LAST)))
    assert (first["args"]["v"], last["name"]) == (value, "last")


def test_nan_is_read() -> None:
    (first,) = TraceEvents(io.BytesIO(document(event(b"first", b', "v": NaN'))))
    assert math.isnan(first["args"]["v"])


def test_fields_are_those_before_and_behind_the_events() -> None:
    events = TraceEvents(io.BytesIO(b"\xef\xbb\xbf" + document(FIRST, LAST)))
    assert names(events) == NAMES
    assert events.fields == {"rank": 3, "traceEvents": [], "end": True}


def test_a_document_that_is_cut_ends_early() -> None:
    text = document(FIRST, LAST)
    ends = [text.index(one) + len(one) for one in (FIRST, LAST)]
    for size in range(text.index(b"[") + 1, len(text) - 2):
        events = TraceEvents(io.BytesIO(text[:size]))
        assert names(events) == NAMES[: sum(end <= size for end in ends)]
        assert events.ended_early, text[:size]


@pytest.mark.parametrize(
    ("text", "expected", "damage"),
    [
        (document(FIRST, LAST).replace(b'"rank"', rb'"C:\Users": 1, "rank"'), NAMES, "Invalid \\escape"),
        (document(FIRST) + document(LAST), NAMES, "Extra data"),
        (document(FIRST).replace(b"}}\n]", b"}}}\n]"), ["first", "Expecting value"], ""),
        (b"[" + FIRST + LAST + b"]", NAMES, ""),
        (b"[]", [], ""),
    ],
)
def test_other_damage(text: bytes, expected: list[str], damage: str) -> None:
    events = TraceEvents(io.BytesIO(text))
    assert (names(events), events.damage, events.found, events.ended_early) == (expected, damage, True, False)


@pytest.mark.parametrize("text", [b"", b" \n", b"hello", b'{"a": 1}', b'{"traceEvents": 3}', b'"x"'])
def test_other_documents_have_no_events(text: bytes) -> None:
    events = TraceEvents(io.BytesIO(text))
    assert (list(events), events.found) == ([], False)

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.results import jsontext
from aiperf_core.results.jsontext import JsonError

SCALARS = st.none() | st.booleans() | st.integers(-(10**29), 10**29) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text()  # lone surrogates included
DOCUMENTS = st.recursive(SCALARS | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30)


@given(DOCUMENTS)
def test_what_is_written_is_read_back(document):
    assert jsontext.loads(jsontext.to_bytes(document)) == document


@given(DOCUMENTS)
def test_any_reader_of_json_reads_it(document):
    assert json.loads(jsontext.to_bytes(document)) == document


def test_layout():
    document = {
        "name": "wide",
        "time_s": {"value": 0.1, "low": 0.09, "high": 0.11},
        "device_s": [0.1234567, None] * 40,
        "log": ["x" * 60, "y" * 60],
        "requires": ["sm_80"],
        "empty": {},
        "µ": [[], {}],
    }
    column = ", ".join(["0.1234567, null"] * 40)
    assert jsontext.dumps(document) == (
        "{\n"
        '  "name": "wide",\n'
        '  "time_s": {"value": 0.1, "low": 0.09, "high": 0.11},\n'
        f'  "device_s": [{column}],\n'
        '  "log": [\n'
        f'    "{"x" * 60}",\n'
        f'    "{"y" * 60}"\n'
        "  ],\n"
        '  "requires": ["sm_80"],\n'
        '  "empty": {},\n'
        '  "µ": [[], {}]\n'
        "}\n"
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (math.nan, "at the top level: found nan; expected a finite number, or null for what was not measured"),
        (
            {"rows": [{}, {"time_s": math.inf}]},
            "at rows[1].time_s: found inf; expected a finite number, or null for what was not measured",
        ),
        (
            {"device_s": [0.1, 0.2, -math.inf]},
            "at device_s[2]: found -inf; expected a finite number, or null for what was not measured",
        ),
        ({"a b": {"c": {1, 2}}}, 'at ["a b"].c: found a set; expected a string, number, boolean, null, list or dict'),
        ({"a": {1: 2}}, "at a: found the key 1; expected keys that are strings"),
        ({"a": b"x"}, "at a: found a bytes; expected a string, number, boolean, null, list or dict"),
    ],
)
def test_what_json_cannot_hold_is_refused(document, message):
    with pytest.raises(JsonError) as caught:
        jsontext.dumps(document)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at line 1, column 1: found the end of the file; expected JSON (Expecting value)"),
        (b'{"a": [1, 2', "at line 1, column 12: found the end of the file; expected JSON (Expecting ',' delimiter)"),
        (b'{"a": 1}\nmore', "at line 2, column 1: found 'more'; expected JSON (Extra data)"),
        (b'{"a": NaN}', "at a: found nan; expected a finite number"),
        (b"[1e999]", "at [0]: found inf; expected a finite number"),
        (
            b"[" + b"9" * 5000 + b"]",
            f"at some place: found {'9' * 20}... (5000 characters); expected integers of at most 30 digits",
        ),
        (b'{"a": 1, "a": 2}', "at some place: found the key 'a' twice in one object; expected every key once"),
        (b'"\xff"', "at byte 1: found bytes that are not UTF-8; expected JSON text in UTF-8"),
        (b"[" * 101 + b"]" * 101, "at some place: found very deep nesting; expected JSON as aiperf writes it"),
        (
            b'{"a": ' * 500 + b"1" + b"}" * 500,
            "at some place: found very deep nesting; expected JSON as aiperf writes it",
        ),
        (b"[" * 100_000, "at some place: found very deep nesting; expected JSON as aiperf writes it"),
    ],
)
def test_what_is_not_our_json_is_refused(data, message):
    with pytest.raises(JsonError) as caught:
        jsontext.loads(data)
    assert str(caught.value) == message

import copy
import json
import time
from pathlib import Path

import attrs
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.results import example, jsontext, records, schema
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.validate import validate

TARGET = jsontext.loads(records.target_files(example.result(), Path("target.json")).document)
MANIFEST = jsontext.loads(records.manifest_bytes(example.manifest(), Path("manifest.json")))
# As the version before had it, with the samples as lists.
OLD = json.loads((Path(__file__).parent / "bundles/1/targets/ch07.memory_access.json").read_text())
DROP = object()


def changed(document, place, value):
    document = copy.deepcopy(document)
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    if value is DROP:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return document


def test_the_example_is_valid():
    validate("target", TARGET)
    validate("manifest", MANIFEST)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["rows", 1, "time_s", "value"], "fast", 'at rows[1].time_s.value: found "fast"; expected a number above 0'),
        (["rows", 1, "time_s", "value"], 0, "at rows[1].time_s.value: found 0; expected a number above 0"),
        (["rows", 1, "time_s", "value"], True, "at rows[1].time_s.value: found true; expected a number above 0"),
        (["rows", 1, "time_s", "low"], DROP, "at rows[1].time_s: found no field 'low'; expected every field of an Estimate"),
        (["rows", 1, "time_s"], [1, 2], "at rows[1].time_s: found a list of 2; expected an Estimate or null"),
        (["rows", 1, "time_s", "unit"], "ms", "at rows[1].time_s: found the unknown field 'unit'; expected only the fields of an Estimate"),
        (["rows", 1, "verdict"], "GREAT", "at rows[1].verdict: found \"GREAT\"; expected one of 'FASTER', 'SLOWER', 'SMALLER', 'LARGER', 'SAME', 'INCONCLUSIVE', 'MEASURED', 'INVALID', 'UNTRUSTED', 'FAILED', 'SKIPPED'"),
        (["rows", 0, "kind"], "bad", "at rows[0].kind: found \"bad\"; expected one of 'reasonable', 'naive', 'antipattern', null"),
        (["rows", 0, "role"], "judge", "at rows[0].role: found \"judge\"; expected one of 'baseline', 'variant', 'yardstick', 'control'"),
        (["rows", 0, "samples"], -1, "at rows[0].samples: found -1; expected an integer from 0"),
        (["rows", 0, "samples"], {"block": [0]}, "at rows[0].samples: found an object of 1; expected an integer from 0"),
        (["sample_file"], DROP, "at the top level: found no field 'sample_file'; expected every field of a TargetResult"),
        (["sample_file", "sha256"], "00", 'at sample_file.sha256: found "00"; expected a SHA-256'),
        (["sample_file", "columns", "block"], DROP, "at sample_file.columns: found no column 'block'; expected the columns round, block, step, device_s, wall_s, cpu_s, bracket_s, hidden, judged, calls, voluntary_switches, involuntary_switches, throttled"),
        (["sample_file", "columns", "more"], {"dtype": "bool", "unit": None}, "at sample_file.columns: found the unknown column 'more'; expected the columns round, block, step, device_s, wall_s, cpu_s, bracket_s, hidden, judged, calls, voluntary_switches, involuntary_switches, throttled"),
        (["sample_file", "columns", "block", "dtype"], "object", "at sample_file.columns.block.dtype: found \"object\"; expected one of 'bool', 'uint8', 'uint16', 'uint32', 'int32', 'int64', 'float32', 'float64'"),
        (["sample_file", "columns", "cpu_s", "unit"], "h", "at sample_file.columns.cpu_s.unit: found \"h\"; expected one of 's', 'ms', 'ns', null"),
        (["rows", 4, "speedup"], TARGET["rows"][1]["speedup"], "at rows[4].speedup: found an object of 3; expected null"),
        (["rows", 4, "reason"], None, "at rows[4].reason: found null; expected a string that is not empty"),
        (["rows", 4, "reason"], "", 'at rows[4].reason: found ""; expected a string that is not empty'),
        (["rows", 4, "findings", 0, "issue"], "Stale!", "at rows[4].findings[0].issue: found \"Stale!\"; expected an id such as 'output.wrong_values'"),
        (["rows", 1, "speedup", "low"], 9.5, "at rows[1].speedup: found an interval from 9.5 to 8.015975999999998; expected low at most high"),
        (["rows", 1, "name"], "strided", "at rows[1].name: found 'strided' a second time; expected every implementation once"),
        (["schema_version"], 0, "at schema_version: found 0; expected 3"),
        (["problem", "params", "n"], None, "at problem.params.n: found null; expected a number"),
        (["overhead", "timed_s"], -0.1, "at overhead.timed_s: found -0.1; expected a number from 0"),
        (["complete"], "yes", 'at complete: found "yes"; expected true or false'),
        (["summary"], "x" * 70, None),
        (["summary"], ["x"], "at summary: found a list of 1; expected a string"),
        (["extra"], 1, "at the top level: found the unknown field 'extra'; expected only the fields of a TargetResult"),
    ],
)  # fmt: skip
def test_messages_about_a_target(place, value, message):
    document = changed(TARGET, place, value)
    if message is None:
        validate("target", document)
        return
    with pytest.raises(JsonError) as caught:
        validate("target", document)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["rows", 0, "samples", "device_s", 1], "x", 'at rows[0].samples.device_s[1]: found "x"; expected a number from 0 or null'),
        (["rows", 0, "samples", "device_s", 1], -1e-6, "at rows[0].samples.device_s[1]: found -1e-06; expected a number from 0 or null"),
        (["rows", 0, "samples", "block", 1], 1.0, "at rows[0].samples.block[1]: found 1.0; expected an integer from 0"),
        (["rows", 0, "samples", "block", 1], True, "at rows[0].samples.block[1]: found true; expected an integer from 0"),
        (["rows", 0, "samples", "judged", 0], 1, "at rows[0].samples.judged[0]: found 1; expected true or false"),
        (["rows", 0, "samples", "judged"], [], "at rows[0].samples: found columns of different lengths (round 24, block 24, step 24, device_s 24, wall_s 24, cpu_s 24, bracket_s 24, hidden 24, judged 0, calls 24, voluntary_switches 24, involuntary_switches 24, throttled 24); expected one entry a sample in each"),
    ],
)  # fmt: skip
def test_messages_about_samples_in_the_version_before(place, value, message):
    validate("target", OLD)
    with pytest.raises(JsonError) as caught:
        validate("target", changed(OLD, place, value))
    assert str(caught.value) == message


@pytest.mark.parametrize("document", [None, [], 3, "x"])
def test_a_document_that_is_no_object(document):
    with pytest.raises(JsonError, match="^at the top level: found .*; expected an object$"):
        validate("manifest", document)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["machine", "cores"], 0, "at machine.cores: found 0; expected an integer from 1"),
        (["ceilings", "cuda", "copy_bytes_per_s"], "x" * 80, f'at ceilings.cuda.copy_bytes_per_s: found "{"x" * 49}... (82 characters); expected a number from 0'),
        (["exit_code"], "0", 'at exit_code: found "0"; expected an integer or null'),
        (["skipped", 0, "verdict"], "FASTER", "at skipped[0].verdict: found \"FASTER\"; expected one of 'INVALID', 'UNTRUSTED', 'FAILED', 'SKIPPED'"),
        (["packages", "torch"], 2, "at packages.torch: found 2; expected a string"),
    ],
)  # fmt: skip
def test_messages_about_a_manifest(place, value, message):
    with pytest.raises(JsonError) as caught:
        validate("manifest", changed(MANIFEST, place, value))
    assert str(caught.value) == message


def test_long_columns_are_quick():
    """A run of minutes keeps a hundred thousand samples a row; jsonschema alone takes half a minute for them."""
    document = copy.deepcopy(OLD)
    for row in document["rows"]:
        for column in row["samples"].values():
            column *= 4_000 if column else 0
    started = time.perf_counter()
    validate("target", document)
    assert time.perf_counter() - started < 3


def test_both_ways_through_a_column_agree():
    """The short way may only ever accept what the full check accepts."""
    from aiperf_core.results.validate import _plain_column

    items = {"type": ["number", "null"], "minimum": 0, "maximum": 10}
    assert _plain_column(items)([])
    assert _plain_column(items)([None, None])
    assert _plain_column(items)([0, 10.0, None])
    for wrong in (["1"], [True], [-1], [10.5], [float("nan")], [[1]]):
        assert not _plain_column(items)(wrong), wrong
    assert _plain_column({"type": "string"})(["x"])
    assert not _plain_column({"type": "string"})([1])
    assert not _plain_column({"type": "string", "pattern": "y"})(["x"])
    assert not _plain_column({"type": "number", "exclusiveMinimum": 0})([0])
    assert not _plain_column({"type": "number", "multipleOf": 2})([1])
    assert not _plain_column(True)([1])


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        ({"type": "string"}, ["", "x"], [None, 1, []]),
        ({"type": ["integer", "null"], "minimum": 0}, [0, None], [-1, True, 1.0, "1", [1]]),
        ({"type": "number", "exclusiveMinimum": 0}, [0.1], [0, -1, None]),
        ({"type": ["string", "null"], "enum": ["a", None]}, ["a", None], ["b", 1]),
        ({"type": "string", "minLength": 1}, ["a"], ["", None]),
        ({"type": "string", "pattern": "^a+$"}, ["a", "aa"], ["", "b", "ab", 1, None]),
        ({"type": "object", "additionalProperties": True}, [{}, {"a": [1]}], [1, None, []]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, [{}, {"a": "b"}], [{"a": 1}, {"a": None}, []]),
        ({"type": "object", "additionalProperties": {}, "required": ["a"]}, [], [{}, {"a": 1}]),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, [[], [[1], []]], [[1], [["1"]]]),
        ({"type": "array", "items": {"type": "string"}}, [[], ["a"]], [[1], {}, "a", None]),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, [None], [1, {}]),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            [{"a": 1}],
            [{}, {"a": "1"}, {"a": 1, "b": 2}, 1],
        ),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "if": {}}, [], [{"a": 1}]),
        ({"$ref": "#"}, [], [1, None, {}]),
    ],
)
def test_the_short_way_through_properties_accepts_no_more(rule, right, wrong):
    from aiperf_core.results.validate import _plain

    assert all(_plain(rule)(value) for value in right)
    assert not any(_plain(rule)(value) for value in wrong)


def test_evolve_keeps_the_example_valid():
    result = attrs.evolve(example.result(), rows=[])
    validate("target", jsontext.loads(records.target_files(result, Path("target.json")).document))


def places(document, place=()):
    yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(item, (*place, step))


DOCUMENTS = {"target": TARGET, "manifest": MANIFEST}
PLACES = [(kind, place) for kind, one in DOCUMENTS.items() for place in places(one) if place]
VALUES = st.sampled_from([None, True, -1, 0, 1.5, 1e300, "x", "", "FASTER", [], {}, [1], ["a"], [None], {"a": 1}])


@settings(deadline=None)
@given(where=st.sampled_from(PLACES), value=VALUES, how=st.sampled_from(["set", "remove", "add"]))
def test_the_short_ways_accept_nothing_that_jsonschema_refuses(where, value, how):
    kind, place = where
    document = copy.deepcopy(DOCUMENTS[kind])
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    if how == "set" or isinstance(inner, list):
        inner[place[-1]] = value
    elif how == "remove":
        del inner[place[-1]]
    else:
        inner["extra"] = value
    try:
        validate(kind, document)
    except JsonError:
        return
    jsonschema.Draft202012Validator(json.loads(schema.file_of(kind).read_text())).validate(document)

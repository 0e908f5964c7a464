import copy
import json
from pathlib import Path

import attrs
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.results import example, jsontext, records, schema
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.models import DOCUMENT_KINDS, Document, Manifest, RunRequest, Sighting, TargetResult
from aiperf_core.results.structure import ON_DISK, PARTIAL, document, structure

TARGET = jsontext.loads(records.target_files(example.result(), Path("target.json")).document)
MANIFEST = jsontext.loads(records.record_bytes(example.manifest(), Path("manifest.json")))
RECORDS = {"target": TargetResult, "manifest": Manifest, "document": Document}
DROP = object()


def validate(kind, found):
    structure(found, RECORDS[kind], ON_DISK)


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


def sighting(**effects):
    seen = Sighting("a.b", "seen", effects={"strict": "invalid", "standard": "warning", **effects})
    return document(seen)


def test_lone_surrogates_become_question_marks():
    odd = changed(changed(TARGET, ["summary"], "a\ud800b"), ["rows", 4, "log"], ["\udcff", "ü"])
    odd["rows"][4]["findings"][0]["evidence"] = {"\udfff": [{"deep": "\ud800"}]}
    (data,) = [jsontext.to_bytes(odd)]
    found = structure(jsontext.loads(data), TargetResult, ON_DISK)
    assert (found.summary, found.rows[4].log) == ("a?b", ["?", "ü"])
    assert found.rows[4].findings[0].evidence == {"?": [{"deep": "?"}]}


def test_the_example_is_valid():
    validate("target", TARGET)
    validate("manifest", MANIFEST)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["rows", 1, "time_s", "value"], "fast", 'at rows[1].time_s.value: found "fast"; expected a number above 0'),
        (["rows", 1, "time_s", "value"], 0, "at rows[1].time_s.value: found 0; expected a number above 0"),
        (["rows", 1, "time_s", "value"], 5e-324, "at rows[1].time_s.value: found 5e-324; expected 0, or a magnitude from 1e-30 to 1e+30"),
        (["rows", 1, "time_s", "high"], 1e308, "at rows[1].time_s.high: found 1e+308; expected 0, or a magnitude from 1e-30 to 1e+30"),
        (["rows", 1, "time_s", "low"], -1e200, "at rows[1].time_s.low: found -1e+200; expected 0, or a magnitude from 1e-30 to 1e+30"),
        (["rows", 1, "speed_of_light", "fraction"], 1e-40, "at rows[1].speed_of_light.fraction: found 1e-40; expected 0, or a magnitude from 1e-30 to 1e+30"),
        (["problem", "params", "n"], 1e31, "at problem.params.n: found 1e+31; expected 0, or a magnitude from 1e-30 to 1e+30"),
        (["rows", 1, "time_s", "value"], True, "at rows[1].time_s.value: found true; expected a number above 0"),
        (["rows", 1, "time_s", "low"], DROP, "at rows[1].time_s: found no field 'low'; expected every field of an Estimate"),
        (["rows", 1, "time_s"], [1, 2], "at rows[1].time_s: found a list of 2; expected an Estimate or null"),
        (["rows", 1, "time_s", "unit"], "ms", "at rows[1].time_s.unit: found an unknown field; expected only the fields of an Estimate"),
        (["rows", 1, "verdict"], "GREAT", "at rows[1].verdict: found \"GREAT\"; expected one of 'FASTER', 'SLOWER', 'SMALLER', 'LARGER', 'SAME', 'INCONCLUSIVE', 'MEASURED', 'INVALID', 'UNTRUSTED', 'FAILED', 'SKIPPED'"),
        (["rows", 0, "kind"], "bad", "at rows[0].kind: found \"bad\"; expected one of 'reasonable', 'naive', 'antipattern', null"),
        (["rows", 0, "role"], "judge", "at rows[0].role: found \"judge\"; expected one of 'baseline', 'variant', 'yardstick', 'control'"),
        (["rows", 0, "samples"], -1, "at rows[0].samples: found -1; expected an integer from 0"),
        (["rows", 0, "samples"], {"block": [0]}, "at rows[0].samples: found an object of 1; expected an integer from 0"),
        (["rows"], [{}] * 20_000, "at rows: found a list of 20000; expected a list of at most 1000"),
        (["sample_file"], DROP, "at the top level: found no field 'sample_file'; expected every field of a TargetResult"),
        (["sample_file", "sha256"], "00", 'at sample_file.sha256: found "00"; expected a SHA-256'),
        (["sample_file", "columns", "block"], DROP, "at sample_file.columns: found no column 'block'; expected the columns round, block, step, device_s, wall_s, cpu_s, bracket_s, hidden, judged, calls, voluntary_switches, involuntary_switches, throttled, begun_s, answered_s, replied_s, stopped_s, done_s, own_s, witness_s, simulated_s"),
        (["sample_file", "columns", "more"], {"dtype": "bool", "unit": None}, "at sample_file.columns: found the unknown column 'more'; expected the columns round, block, step, device_s, wall_s, cpu_s, bracket_s, hidden, judged, calls, voluntary_switches, involuntary_switches, throttled, begun_s, answered_s, replied_s, stopped_s, done_s, own_s, witness_s, simulated_s"),
        (["sample_file", "columns", "block", "dtype"], "object", "at sample_file.columns.block.dtype: found \"object\"; expected one of 'bool', 'uint8', 'uint16', 'uint32', 'int32', 'int64', 'float32', 'float64'"),
        (["sample_file", "columns", "cpu_s", "unit"], "h", "at sample_file.columns.cpu_s.unit: found \"h\"; expected one of 's', 'ms', 'ns', null"),
        (["rows", 4, "speedup"], TARGET["rows"][1]["speedup"], "at rows[4].speedup: found an object of 3; expected null"),
        (["rows", 4, "reason"], None, "at rows[4].reason: found null; expected a string that is not empty"),
        (["rows", 4, "reason"], "", 'at rows[4].reason: found ""; expected a string that is not empty'),
        (["rows", 4, "findings", 0, "issue"], "Stale!", "at rows[4].findings[0].issue: found \"Stale!\"; expected an id such as 'output.wrong_values'"),
        (["rows", 4, "seen"], [sighting()], "at rows[4].seen[0].effects: found no field 'lenient'; expected the fields strict, standard, lenient"),
        (["rows", 4, "seen"], [sighting(lenient="ignored", mild="ignored")], "at rows[4].seen[0].effects: found an object of 4; expected the fields strict, standard, lenient"),
        (["rows", 4, "seen"], [sighting(lenient="none")], "at rows[4].seen[0].effects.lenient: found \"none\"; expected one of 'invalid', 'warning', 'ignored'"),
        (["rows", 1, "speedup", "low"], 9.5, "at rows[1].speedup: found an interval from 9.5 to 8.015975999999998; expected low at most high"),
        (["rows", 1, "name"], "strided", "at rows[1].name: found 'strided' a second time; expected every implementation once"),
        (["schema_version"], 0, "at schema_version: found 0; expected 5"),
        (["problem", "params", "n"], None, "at problem.params.n: found null; expected a number"),
        (["overhead", "timed_s"], -0.1, "at overhead.timed_s: found -0.1; expected a number from 0"),
        (["complete"], "yes", 'at complete: found "yes"; expected true or false'),
        (["summary"], "x" * 70, None),
        (["summary"], ["x"], "at summary: found a list of 1; expected a string"),
        (["extra"], 1, "at extra: found an unknown field; expected only the fields of a TargetResult, such as 'executor'"),
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


@pytest.mark.parametrize("found", [None, [], 3, "x"])
def test_a_document_that_is_no_object(found):
    with pytest.raises(JsonError, match="^at the top level: found .*; expected an object$"):
        validate("manifest", found)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["machine", "cores"], 0, "at machine.cores: found 0; expected an integer from 1"),
        (["ceilings", "cuda", "copy_bytes_per_s"], "x" * 80, f'at ceilings.cuda.copy_bytes_per_s: found "{"x" * 49}... (82 characters); expected a number from 0'),
        (["exit_code"], "0", 'at exit_code: found "0"; expected an integer or null'),
        (["skipped", 0, "verdict"], "FASTER", "at skipped[0].verdict: found \"FASTER\"; expected one of 'INVALID', 'UNTRUSTED', 'FAILED', 'SKIPPED'"),
        (["packages", "torch"], 2, "at packages.torch: found 2; expected a string"),
        (["plugins", 1], {}, "at plugins[1]: found no field 'distribution'; expected the fields distribution, version"),
        (["plugins", 1, "version"], DROP, "at plugins[1]: found no field 'version'; expected the fields distribution, version"),
    ],
)  # fmt: skip
def test_messages_about_a_manifest(place, value, message):
    with pytest.raises(JsonError) as caught:
        validate("manifest", changed(MANIFEST, place, value))
    assert str(caught.value) == message


def test_evolve_keeps_the_example_valid():
    result = attrs.evolve(example.result(), rows=[])
    validate("target", jsontext.loads(records.target_files(result, Path("target.json")).document))


def places(document, place=()):
    yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(item, (*place, step))


LOAD = document(Document("load", "steady", "2026-11-21T14:25:30+00:00", {"points": [1.5, None], "of": {"rate": 3}}))
DOCUMENTS = {"target": TARGET, "manifest": MANIFEST, "document": LOAD}
PLACES = [(kind, place) for kind, one in DOCUMENTS.items() for place in places(one) if place]
VALUES = st.sampled_from([None, True, -1, 0, 1.5, 1e300, "x", "", "FASTER", [], {}, [1], ["a"], [None], {"a": 1}])


@settings(deadline=None)
@given(where=st.sampled_from(PLACES), value=VALUES, how=st.sampled_from(["set", "remove", "add"]))
def test_the_structurer_accepts_nothing_that_the_schema_refuses(where, value, how):
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


# What the schema cannot express, or what JSON writes in several ways; only these may differ.
STRICTER = (
    "a magnitude from",
    "at most high",
    "every implementation once",
    "the columns ",
    "integer",
)


@settings(deadline=None)
@given(where=st.sampled_from(PLACES), value=VALUES, how=st.sampled_from(["set", "remove", "add"]))
def test_the_structurer_refuses_only_what_the_schema_refuses(where, value, how):
    kind, place = where
    changed_one = copy.deepcopy(DOCUMENTS[kind])
    inner = changed_one
    for step in place[:-1]:
        inner = inner[step]
    if how == "set" or isinstance(inner, list):
        inner[place[-1]] = value
    elif how == "remove":
        del inner[place[-1]]
    else:
        inner["extra"] = value
    try:
        validate(kind, changed_one)
    except JsonError as error:
        if not any(one in error.expected for one in STRICTER):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.Draft202012Validator(json.loads(schema.file_of(kind).read_text())).validate(changed_one)


@pytest.mark.parametrize("kind", DOCUMENT_KINDS)
def test_a_document_has_an_open_payload(kind):
    found = {**LOAD, "kind": kind}
    assert structure(found, Document, ON_DISK).payload == LOAD["payload"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["kind"], "lode", "at kind: found \"lode\"; expected one of 'load', 'fleet'"),
        (["name"], "", 'at name: found ""; expected a string that is not empty'),
        (["payload"], [], "at payload: found a list of 0; expected an object"),
        (["schema_version"], 3.0, "at schema_version: found 3.0; expected 5"),
    ],
)
def test_messages_about_a_document(place, value, message):
    with pytest.raises(JsonError) as caught:
        validate("document", changed(LOAD, place, value))
    assert str(caught.value) == message


def test_a_partial_document_gets_defaults():
    found = structure(
        {"targets": [{"target": "ch07.memory_access", "params": {"n": 3}}], "tier": "audit"}, RunRequest, PARTIAL
    )
    assert found.tier == "audit"
    assert found.targets[0].params == {"n": 3.0}
    assert structure(document(found), RunRequest) == found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "at the top level: found no field 'targets'; expected every required field of a RunRequest"),
        ({"targets": [], "tiers": 1}, "at tiers: found an unknown field; expected only the fields of a RunRequest, such as 'tier'"),
        ({"targets": [{}]}, "at targets[0]: found no field 'target'; expected every required field of a RequestedTarget"),
        ({"targets": [], "tier": "fast"}, "at tier: found \"fast\"; expected one of 'quick', 'standard', 'audit'"),
    ],
)  # fmt: skip
def test_messages_about_a_partial_document(found, message):
    with pytest.raises(JsonError) as caught:
        structure(found, RunRequest, PARTIAL)
    assert str(caught.value) == message

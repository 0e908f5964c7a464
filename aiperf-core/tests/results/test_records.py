from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf_core.measurements import Estimate, Memory, Samples
from aiperf_core.results import example, jsontext, models, records, structure
from aiperf_core.results.models import Judgement, Overhead, Problem, Quality, Row, SpeedOfLight, Verdict
from aiperf_core.results.structure import ON_DISK

ANY = st.floats(allow_nan=False, allow_infinity=False)
NOT_NEGATIVE = st.floats(0, allow_infinity=False)
POSITIVE = st.floats(1e-30, 1e30)
MAGNITUDES = st.just(0.0) | POSITIVE
COUNTS = st.integers(0, 1 << 62)
TEXTS = st.text(max_size=20)
NAMES = st.text(min_size=1, max_size=20)
EVIDENCE = st.recursive(
    st.none() | st.booleans() | COUNTS | ANY | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def estimates(draw):
    high = draw(POSITIVE)
    return Estimate(draw(POSITIVE), draw(st.just(0.0) | st.floats(1e-30, high) | st.floats(-1e30, -1e-30)), high)


@st.composite
def samples(draw):
    length = draw(st.integers(0, 5))

    def column(values):
        return draw(st.lists(values, min_size=length, max_size=length))

    times = st.none() | NOT_NEGATIVE
    return Samples(
        column(COUNTS),
        column(COUNTS),
        column(COUNTS),
        column(times),
        column(times),
        column(times),
        column(NOT_NEGATIVE),
        column(st.booleans()),
        column(st.booleans()),
        column(COUNTS),
        column(COUNTS),
        column(COUNTS),
        column(st.booleans()),
        *(column(times) for _ in range(8)),
    )


FINDINGS = st.builds(
    models.Finding,
    issue=st.from_regex(r"[a-z_]+\.[a-z_]+", fullmatch=True),
    severity=st.sampled_from(["invalid", "warning"]),
    message=TEXTS,
    evidence=st.dictionaries(TEXTS, EVIDENCE, max_size=3),
)
OPTIONAL_BYTES = st.none() | COUNTS


@st.composite
def rows(draw):
    verdict = draw(st.sampled_from(Verdict))
    believed = verdict not in models.DISBELIEVED
    speedups = st.none() | estimates() if believed else st.none()
    return Row(
        name=draw(NAMES),
        role=draw(st.sampled_from(["baseline", "variant", "yardstick"])),
        device=draw(TEXTS),
        verdict=verdict,
        kind=draw(st.sampled_from([None, "naive", "reasonable", "antipattern"])),
        why=draw(st.none() | TEXTS),
        builds_on=draw(st.none() | TEXTS),
        requires=draw(st.lists(TEXTS, max_size=2)),
        reason=draw(st.none() | TEXTS if believed else NAMES),
        findings=draw(st.lists(FINDINGS, max_size=2)),
        clock=draw(st.sampled_from([None, "device", "wall"])),
        time_s=draw(st.none() | estimates()),
        wall_s=draw(st.none() | estimates()),
        device_s=draw(st.none() | estimates()),
        speedup=draw(speedups),
        step_speedup=draw(speedups),
        bytes_per_s=draw(st.none() | NOT_NEGATIVE),
        flop_per_s=draw(st.none() | NOT_NEGATIVE),
        speed_of_light=draw(
            st.none() | st.builds(SpeedOfLight, st.sampled_from(["memory", "compute"]), POSITIVE, POSITIVE)
        ),
        prepare_s=draw(st.none() | NOT_NEGATIVE),
        memory=draw(st.none() | st.builds(Memory, OPTIONAL_BYTES, OPTIONAL_BYTES, OPTIONAL_BYTES, OPTIONAL_BYTES)),
        judgement=draw(st.none() | st.builds(Judgement, COUNTS, TEXTS, st.none() | NOT_NEGATIVE)),
        quality=draw(st.none() | st.builds(Quality, TEXTS, st.none() | ANY, ANY)),
        samples=draw(samples()),
        warmup_s=draw(st.lists(NOT_NEGATIVE, max_size=3)),
        log=draw(st.lists(TEXTS, max_size=3)),
    )


def written(folder, result):
    file = folder / "target.json"
    stored = records.target_files(result, file)
    file.write_bytes(stored.document)
    (folder / stored.samples_name).write_bytes(stored.samples)
    return file


SPENT = [NOT_NEGATIVE] * 11
RESULTS = st.builds(
    models.TargetResult,
    target=NAMES,
    summary=TEXTS,
    goal=st.sampled_from(["speed", "latency", "throughput", "memory"]),
    clock=st.sampled_from(["device", "wall"]),
    cache=TEXTS,
    device=TEXTS,
    problem=st.builds(
        Problem,
        TEXTS,
        st.dictionaries(TEXTS, MAGNITUDES, max_size=3),
        MAGNITUDES,
        MAGNITUDES,
        MAGNITUDES,
        TEXTS,
        TEXTS,
        COUNTS,
        COUNTS,
    ),
    rows=st.lists(rows(), max_size=3, unique_by=lambda row: row.name),
    order=st.lists(TEXTS, max_size=3),
    overhead=st.builds(Overhead, COUNTS, *SPENT),
    seed=st.integers(-(1 << 63), 1 << 64),
    started=TEXTS,
    wall_s=NOT_NEGATIVE,
    stopped=TEXTS,
    complete=st.booleans(),
    floor=NOT_NEGATIVE,
    schema_version=st.just(models.SCHEMA_VERSION),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(RESULTS)
def test_a_result_comes_back_from_disk_as_it_was(tmp_path, result):
    assert records.read_target(written(tmp_path, result)) == result


def test_the_manifest_comes_back_from_disk_as_it_was(tmp_path):
    file = tmp_path / "manifest.json"
    file.write_bytes(records.record_bytes(example.manifest(), file))
    assert records.read_manifest(file) == example.manifest()


def test_a_verdict_comes_back_as_one(tmp_path):
    """It equals its string, so that comparing records does not tell."""
    file = written(tmp_path, example.result())
    assert {type(row.verdict) for row in records.read_target(file).rows} == {Verdict}


def test_a_whole_number_is_a_float_where_a_float_belongs(tmp_path):
    """JSON has one kind of number: other languages write 3 for 3.0."""
    file = written(tmp_path, attrs.evolve(example.result(), wall_s=3))
    assert type(records.read_target(file).wall_s) is float


@pytest.mark.parametrize(
    ("value", "record"),
    [("1", int), (1.0, int), (True, int), ("1.0", float), (False, float), (1, str), (1, bool), ("yes", bool)],
)
def test_no_value_is_silently_made_another(value, record):
    holder = attrs.make_class("Holder", {"held": attrs.field(type=record)}, frozen=True)
    with pytest.raises(jsontext.JsonError, match=r"^at held: found .*; expected "):
        structure.structure({"held": value}, holder)


def test_unknown_fields_are_refused_by_the_records_too():
    document = structure.document(example.result()) | {"extra": 1}
    with pytest.raises(jsontext.JsonError, match="at extra: found an unknown field"):
        structure.structure(document, models.TargetResult)


def test_a_result_with_its_samples_comes_back_from_a_document():
    document = jsontext.loads(jsontext.to_bytes(structure.document(example.result())))
    assert structure.structure(document, models.TargetResult) == example.result()


VALUES = st.sampled_from([None, True, -1, 0, 1.5, 1e300, "x", "", [], {}, [1], {"a": 1}])


def places(document, place=()):
    yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(item, (*place, step))


DOCUMENT = jsontext.loads(records.target_files(example.result(), Path("target.json")).document)


@settings(deadline=None)
@given(st.sampled_from(sorted(places(DOCUMENT), key=str)), VALUES, st.data())
def test_what_is_accepted_is_kept(place, value, data):
    """Nothing of a document is lost in the records, or changed."""
    document = jsontext.loads(jsontext.to_bytes(DOCUMENT))
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    if place:
        inner[place[-1]] = value
    else:
        document = value
    try:
        outline = structure.structure(document, models.TargetResult, ON_DISK)
    except jsontext.JsonError:
        return
    again = jsontext.loads(jsontext.to_bytes(structure.document(outline)))
    for row, found in zip(again["rows"], document["rows"], strict=True):
        row["samples"] = found["samples"]
    assert {**again, "sample_file": document["sample_file"]} == document

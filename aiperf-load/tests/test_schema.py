"""The schema of a load: the file is that of the records, and documents of every origin follow it."""

import json

import jsonschema
import pytest

from aiperf_core.results import jsontext, structure
from aiperf_load import schema
from aiperf_load.foreign import imported
from aiperf_load.intervals import Figure
from aiperf_load.records import Knee, LoadResult


def test_the_file_is_that_of_the_records():
    assert schema.FILE.read_bytes() == jsontext.to_bytes(schema.generate())


def test_the_command_prints_it(aiperf):
    listed = [line.split() for line in aiperf("schema").out.splitlines()]
    assert [one[1:] for one in listed if one[0] == "load"] == [["load/NAME.json:", "payload", "load-1.json"]]
    assert json.loads(aiperf("schema", "load").out) == schema.generate()


@pytest.fixture
def payload(tmp_path):
    """The payload of an imported load with a knee, as JSON."""
    file = tmp_path / "f.json"
    file.write_text(json.dumps({"request_rate": 5.0, "duration": 50.0, "completed": 250, "failed": 0, "p99_ttft_ms": 9.0,
                                "median_ttft_ms": 3.0, "total_input_tokens": 9, "output_throughput": 3.0}))  # fmt: skip
    found = imported("vllm", [file])
    knee = Knee(capacity_per_s=Figure(value=3.0, low=3.0, high=4.0), met=0.99, rate_per_s=Figure(reason="too few"))
    whole = LoadResult(mode="sweep", points=found.points, knee=knee, samples_sha256="0" * 64, complete=True)
    return json.loads(jsontext.dumps(structure.document(whole)))


def test_a_load_follows_the_schema(payload):
    jsonschema.Draft202012Validator(schema.generate()).validate(payload)


@pytest.mark.parametrize(("key", "wrong"), [("outcomes", {"OK": "1"}), ("in_flight", "3"), ("offered_per_s", -1.0),
                                            ("trusted", None), ("invented", 1)])  # fmt: skip
def test_what_no_load_has_is_refused(payload, key, wrong):
    payload["points"][0][key] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema.generate()).validate(payload)

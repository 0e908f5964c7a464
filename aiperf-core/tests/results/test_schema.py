import subprocess
import sys
from pathlib import Path

import attrs
import jsonschema
import pytest

from aiperf_core import measurements
from aiperf_core.results import example, jsontext, models, records, schema

KINDS = sorted(schema.ROOTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shipped_file_is_what_the_records_say(kind, tmp_path):
    """If this fails after a change of the records: `python -m aiperf_core.results.schema`, and read the difference."""
    written = {file.name: file for file in schema.write_files(tmp_path)}
    shipped = schema.file_of(kind)
    assert written[shipped.name].read_bytes() == shipped.read_bytes()


def test_nothing_else_is_shipped():
    assert {file.name for file in schema.FOLDER.iterdir()} == {schema.file_of(kind).name for kind in KINDS}


def test_the_module_rewrites_the_files():
    before = {kind: schema.file_of(kind).read_bytes() for kind in KINDS}
    command = [sys.executable, "-m", schema.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{schema.file_of(kind)}\n" for kind in schema.ROOTS)
    assert {kind: schema.file_of(kind).read_bytes() for kind in KINDS} == before


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_of_2020_12(kind):
    made = schema.generate(kind)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert made["$id"] == f"urn:aiperf:schema:{kind}:{models.SCHEMA_VERSION}"
    jsonschema.Draft202012Validator.check_schema(made)


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_described_and_closed(kind):
    made = schema.generate(kind)
    parts = [made, *made["$defs"].values()]
    assert all(part["title"] and part["description"] for part in parts)
    records = [part for part in parts if "enum" not in part]
    assert all(part["additionalProperties"] is False for part in records)
    added = {record.__name__: names for record, names in schema.ADDED.items()}
    for part in records:
        older = added.get(part["title"], ())
        assert part["required"] == [name for name in part["properties"] if name not in older]


def test_constraints_are_about_fields_that_exist():
    for record, name in schema.CONSTRAINTS:
        assert name in {field.name for field in attrs.fields(record)}


def test_a_plain_validator_agrees_with_ours():
    """Other tools read bundles with the shipped files and a validator of their own."""
    target = records.target_files(example.result(), Path("target.json")).document
    for kind, data in (("target", target), ("manifest", records.record_bytes(example.manifest(), Path("x")))):
        document = jsontext.loads(data)
        jsonschema.Draft202012Validator(jsontext.loads(schema.file_of(kind).read_bytes())).validate(document)


@pytest.mark.parametrize(
    ("record", "name", "expected"),
    [
        (models.Overhead, "setup_s", {"type": "number", "minimum": 0, "maximum": sys.float_info.max}),
        (measurements.Memory, "peak_bytes", {"type": ["integer", "null"], "minimum": 0}),
        (models.Row, "time_s", {"anyOf": [{"$ref": "#/$defs/Estimate"}, {"type": "null"}]}),
        (measurements.Estimate, "value", {"type": "number", "maximum": sys.float_info.max, "exclusiveMinimum": 0}),
        (models.Row, "samples", {"type": "integer", "minimum": 0}),
        (models.Row, "requires", {"type": "array", "items": {"type": "string"}}),
        (models.Column, "unit", {"type": ["string", "null"], "enum": ["s", "ms", "ns", None]}),
        (models.Finding, "evidence", {"type": "object", "additionalProperties": True}),
    ],
)
def test_types_units_and_constraints(record, name, expected):
    made = schema.generate("target")["$defs"][record.__name__]
    assert {key: rule for key, rule in made["properties"][name].items() if key != "description"} == expected


def test_fields_are_described_by_the_lines_of_the_docstring():
    overhead = schema.generate("target")["$defs"]["Overhead"]
    assert overhead["description"] == "The harness's own time for a target. It is excluded from all timings."
    assert overhead["properties"]["timed_s"]["description"] == "timed calls."
    problem = schema.generate("target")["$defs"]["Problem"]["properties"]
    assert problem["flops"]["description"] == problem["bytes_read"]["description"]
    assert "description" not in problem["size"]


def test_docstrings_describe_fields_that_exist():
    for record in (*vars(models).values(), *vars(measurements).values()):
        if isinstance(record, type) and attrs.has(record):
            assert schema.described(record)[1].keys() <= {one.name for one in attrs.fields(record)}, record

"""The JSON Schema of the documents of a bundle, generated from the records in `results.models`.

The types of the records give the structure, their names the units (`_s`, `_bytes`, `_per_s`), their docstrings the
descriptions. The tables below hold the rules that a type cannot express. `results.structure` reads documents by the
same rules. The generated files ship with the package, so that other tools can read a bundle without aiperf. After a
change of the records run:

    python -m aiperf_core.results.schema
"""

import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from aiperf_core import measurements
from aiperf_core.results import jsontext, models

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).with_name("schema")
ROOTS: dict[str, type] = {"manifest": models.Manifest, "target": models.TargetResult, "document": models.Document}

# JSON has no infinity, but a reader may make one of 1e999. A bound refuses it in every language.
LARGEST = sys.float_info.max
SCALARS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
}
TIERS, POLICIES = ["quick", "standard", "audit"], ["strict", "standard", "lenient"]

# On disk these stand in place of a field, or beside the fields: samples have a file of their own.
ON_DISK: dict[type, dict[str, Any]] = {
    models.Row: {"samples": int},
    models.TargetResult: {"sample_file": models.SampleFile},
}

# A raw sample may be 0: a clock has a resolution. Estimates are of times and ratios and thus positive, but the low end
# of an interval that few samples support may lie below zero.
CONSTRAINTS: dict[tuple[type, str], dict[str, Any]] = {
    (measurements.Estimate, "value"): {"exclusiveMinimum": 0},
    (measurements.Estimate, "high"): {"exclusiveMinimum": 0},
    (models.Finding, "issue"): {"pattern": r"^[a-z0-9_]+(\.[a-z0-9_]+)+$"},
    (models.Finding, "severity"): {"enum": ["invalid", "warning"]},
    (models.Row, "samples"): {"minimum": 0},
    (models.Column, "dtype"): {"enum": ["bool", "uint8", "uint16", "uint32", "int32", "int64", "float32", "float64"]},
    (models.Column, "unit"): {"enum": ["s", "ms", "ns", None]},
    (models.SampleFile, "sha256"): {"pattern": "^[0-9a-f]{64}$"},
    (measurements.Energy, "method"): {"enum": ["energy counter"]},
    (measurements.Work, "kind"): {"enum": ["kernel", "copy", "fill"]},
    (models.TargetResult, "tier"): {"enum": TIERS},
    (models.TargetResult, "rounds"): {"minimum": 1},
    (models.SpeedOfLight, "bound"): {"enum": ["memory", "compute", "wire", "disk"]},
    (models.SpeedOfLight, "time_s"): {"exclusiveMinimum": 0},
    (models.SpeedOfLight, "fraction"): {"exclusiveMinimum": 0},
    (models.Judgement, "samples"): {"minimum": 0},
    (models.Judgement, "worst"): {"minimum": 0},
    (models.Overhead, "samples"): {"minimum": 0},
    (models.Row, "name"): {"minLength": 1},
    (models.Row, "role"): {"enum": ["baseline", "variant", "yardstick", "control"]},
    (models.Row, "kind"): {"enum": ["reasonable", "naive", "antipattern", None]},
    (models.Row, "clock"): {"enum": ["device", "wall", None]},
    (models.Problem, "flops"): {"minimum": 0},
    (models.Problem, "bytes_read"): {"minimum": 0},
    (models.Problem, "bytes_written"): {"minimum": 0},
    (models.Problem, "tokens"): {"minimum": 0},
    (models.Problem, "world_size"): {"minimum": 1},
    (models.Problem, "nodes"): {"minimum": 1},
    (models.Problem, "disk_read_bytes"): {"minimum": 0},
    (models.Problem, "disk_written_bytes"): {"minimum": 0},
    (models.TargetResult, "target"): {"minLength": 1},
    (models.TargetResult, "goal"): {"enum": ["speed", "latency", "throughput", "memory"]},
    (models.TargetResult, "clock"): {"enum": ["device", "wall"]},
    (models.TargetResult, "floor"): {"minimum": 0},
    (models.TargetResult, "schema_version"): {"const": models.SCHEMA_VERSION},
    (models.RunRequest, "tier"): {"enum": TIERS},
    (models.RunRequest, "policy"): {"enum": POLICIES},
    (models.RequestedTarget, "target"): {"minLength": 1},
    (models.Stretch, "ending"): {"enum": ["finished", "interrupted", "cut off", None]},
    (models.SkippedTarget, "verdict"): {"enum": [*models.DISBELIEVED]},
    (models.SkippedTarget, "reason"): {"minLength": 1},
    (models.Machine, "cores"): {"minimum": 1},
    (models.Manifest, "schema_version"): {"const": models.SCHEMA_VERSION},
    (models.Document, "kind"): {"enum": [*models.DOCUMENT_KINDS]},
    (models.Document, "name"): {"minLength": 1},
    (models.Document, "schema_version"): {"const": models.SCHEMA_VERSION},
}

# A row that is not believed has a reason and no speedup.
RULES: dict[type, dict[str, Any]] = {
    models.Row: {
        "if": {"properties": {"verdict": {"enum": [*models.DISBELIEVED]}}},
        "then": {
            "properties": {
                "reason": {"type": "string", "minLength": 1},
                "speedup": {"type": "null"},
                "step_speedup": {"type": "null"},
            }
        },
    },
}


def file_of(kind: str) -> Path:
    """The shipped schema of a document: `manifest`, `target` or `document`."""
    return FOLDER / f"{kind}-{models.SCHEMA_VERSION}.json"


def generate(kind: str) -> dict[str, Any]:
    """Make the schema of a document from its record."""
    definitions: dict[str, Any] = {}
    root = _of_record(ROOTS[kind], definitions)
    return {
        "$schema": DIALECT,
        "$id": f"urn:aiperf:schema:{kind}:{models.SCHEMA_VERSION}",
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def hints_of(record: type, *, on_disk: bool = True) -> dict[str, Any]:
    """The type of each field of a record's document, in order."""
    hints = get_type_hints(record)
    return {one.name: hints[one.name] for one in attrs.fields(record)} | (ON_DISK.get(record, {}) if on_disk else {})


def _of_record(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = hints_of(record)
    about, descriptions = described(record)
    properties = {
        name: rule_of(record, name, hint, definitions)
        | ({"description": descriptions[name]} if name in descriptions else {})
        for name, hint in hints.items()
    }
    return {
        "title": record.__name__,
        "description": about,
        "type": "object",
        "properties": properties,
        "required": list(hints),
        "additionalProperties": False,
        **RULES.get(record, {}),
    }


def described(record: type) -> tuple[str, dict[str, str]]:
    """What a docstring says of a record, and of its fields by name: lines such as `bound: memory or compute`."""
    about: list[str] = []
    fields: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(record.__doc__ or "").splitlines():
        if found := re.match(r"([a-z]\w*(?:, [a-z]\w*)*): (.+)", line):
            names = found[1].split(", ")
            fields |= dict.fromkeys(names, found[2])
        elif names and line.startswith(" "):
            fields |= {name: f"{fields[name]} {line.strip()}" for name in names}
        else:
            about.append(line)
    return " ".join(" ".join(about).split()), fields


def rule_of(record: type, name: str, hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field. Records that it refers to are added to `definitions`."""
    schema = {**_with_unit(name, _of_type(hint, definitions)), **CONSTRAINTS.get((record, name), {})}
    if "exclusiveMinimum" in schema:
        del schema["minimum"]
    return schema


def _with_unit(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Times, sizes and rates are never negative, in lists and objects neither."""
    if not name.endswith(("_s", "_bytes")):
        return schema
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return {**schema, inner: _with_unit(name, schema[inner])}
    return {**schema, "minimum": 0} if {"integer", "number"} & {*types_of(schema)} else schema


def types_of(schema: dict[str, Any]) -> list[str]:
    """The JSON types that a schema names."""
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in SCALARS:
        return dict(SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _or_null(arguments, definitions)
    if origin in (list, tuple):
        return {"type": "array", "items": _of_type(arguments[0], definitions)}
    if origin is dict:
        values = _of_type(arguments[1], definitions)
        return {"type": "object", "additionalProperties": values or True}
    return {"$ref": f"#/$defs/{_define(hint, definitions)}"}


def _or_null(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    (hint,) = (one for one in arguments if one is not NoneType)
    schema = _of_type(hint, definitions)
    if "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _define(hint: type, definitions: dict[str, Any]) -> str:
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}  # taken, should a record ever hold itself
        if issubclass(hint, Enum):
            values = [member.value for member in hint]
            definitions[name] = {"title": name, "description": described(hint)[0], "enum": values}
        else:
            definitions[name] = _of_record(hint, definitions)
    return name


def write_files(folder: Path = FOLDER) -> list[Path]:
    """Write the schemas to `folder` and return the files."""
    folder.mkdir(exist_ok=True)
    written = []
    for kind in ROOTS:
        file = folder / file_of(kind).name
        file.write_bytes(jsontext.to_bytes(generate(kind)))
        written.append(file)
    return written


if __name__ == "__main__":
    for path in write_files():
        sys.stdout.write(f"{path}\n")

"""The JSON Schema of what is on disk, made from the records in `results.models`.

The records are the source: their types give the structure, their names the units (`_s`, `_bytes`, `_per_s`), their
docstrings the descriptions. Only what a type cannot say stands here. The generated files are shipped, so that other
tools can read a bundle without aiperf. After a change of the records:

    python -m aiperf_core.results.schema

Files of earlier versions are read too, each by the schema of its version, which is never written again.
"""

import inspect
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
ROOTS: dict[str, type] = {"manifest": models.Manifest, "target": models.TargetResult}

# JSON has no infinity, but a reader may make one of 1e999. A bound refuses it in every language.
LARGEST = sys.float_info.max
SCALARS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
}
DISBELIEVED = [
    models.Verdict.INVALID,
    models.Verdict.UNTRUSTED,
    models.Verdict.FAILED,
    models.Verdict.SKIPPED,
]

# What stands on disk in place of a field, or beside the fields: samples have a file of their own.
ON_DISK: dict[type, dict[str, Any]] = {
    models.Row: {"samples": int},
    models.TargetResult: {"sample_file": models.SampleFile},
}

# What neither a type nor a unit says. A raw sample may be 0: a clock has a resolution, and evidence must be kept.
# Every estimate is of a time or of a ratio of times and thus positive; but the low end of an interval that few samples
# support may lie below zero, and is kept as it was computed.
CONSTRAINTS: dict[tuple[type, str], dict[str, Any]] = {
    (measurements.Estimate, "value"): {"exclusiveMinimum": 0},
    (measurements.Estimate, "high"): {"exclusiveMinimum": 0},
    (models.Finding, "issue"): {"pattern": r"^[a-z0-9_]+(\.[a-z0-9_]+)+$"},
    (models.Finding, "severity"): {"enum": ["invalid", "warning"]},
    (models.Row, "samples"): {"minimum": 0},
    (models.Column, "dtype"): {"enum": ["bool", "uint8", "uint16", "uint32", "int32", "int64", "float32", "float64"]},
    (models.Column, "unit"): {"enum": ["s", "ms", "ns", None]},
    (models.SampleFile, "sha256"): {"pattern": "^[0-9a-f]{64}$"},
    (measurements.Energy, "method"): {"enum": ["energy counter", "integrated power"]},
    (measurements.Work, "kind"): {"enum": ["kernel", "copy", "fill"]},
    (models.TargetResult, "tier"): {"enum": ["quick", "standard", "audit"]},
    (models.TargetResult, "rounds"): {"minimum": 1},
    (models.Light, "bound"): {"enum": ["memory", "compute"]},
    (models.Light, "time_s"): {"exclusiveMinimum": 0},
    (models.Light, "fraction"): {"exclusiveMinimum": 0},
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
    (models.TargetResult, "target"): {"minLength": 1},
    (models.TargetResult, "goal"): {"enum": ["speed", "latency", "throughput", "memory"]},
    (models.TargetResult, "clock"): {"enum": ["device", "wall"]},
    (models.TargetResult, "floor"): {"minimum": 0},
    (models.TargetResult, "schema_version"): {"const": models.SCHEMA_VERSION},
    (models.Asked, "tier"): {"enum": ["quick", "standard", "audit"]},
    (models.Asked, "policy"): {"enum": ["strict", "standard", "lenient"]},
    (models.AskedTarget, "target"): {"minLength": 1},
    (models.Stretch, "ending"): {"enum": ["finished", "interrupted", "cut off", None]},
    (models.SkippedTarget, "verdict"): {"enum": DISBELIEVED},
    (models.SkippedTarget, "reason"): {"minLength": 1},
    (models.Machine, "cores"): {"minimum": 1},
    (models.Manifest, "schema_version"): {"const": models.SCHEMA_VERSION},
}

# Fields that older files of this version lack; read as their default.
LATER: frozenset[tuple[type, str]] = frozenset(
    {(models.Manifest, "hashes"), (models.Row, "ranks"), (models.Row, "beside"), (measurements.Steady, "waited_s")}
    | {(models.TargetResult, "drift_in_times"), (measurements.Ceilings, "cache_bytes")}
    | {(models.Manifest, name) for name in ("asked", "stretches", "sources", "reproduces")}
)

# A row that may not be believed says why, and has no speedup that somebody could quote.
RULES: dict[type, dict[str, Any]] = {
    models.Row: {
        "if": {"properties": {"verdict": {"enum": DISBELIEVED}}},
        "then": {
            "properties": {
                "reason": {"type": "string", "minLength": 1},
                "speedup": {"type": "null"},
                "step_speedup": {"type": "null"},
            }
        },
    },
}


def file_of(kind: str, version: int = models.SCHEMA_VERSION) -> Path:
    """The shipped schema of `manifest` or `target`."""
    return FOLDER / f"{kind}-{version}.json"


def generate(kind: str) -> dict[str, Any]:
    """Make the schema of `manifest` or `target` from its record."""
    definitions: dict[str, Any] = {}
    root = _of_record(ROOTS[kind], definitions)
    return {
        "$schema": DIALECT,
        "$id": f"urn:aiperf:schema:{kind}:{models.SCHEMA_VERSION}",
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _of_record(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(record) | ON_DISK.get(record, {})
    fields = list(dict.fromkeys([one.name for one in attrs.fields(record)] + list(ON_DISK.get(record, {}))))
    return {
        "title": record.__name__,
        "description": _description(record),
        "type": "object",
        "properties": {name: _of_field(record, name, hints[name], definitions) for name in fields},
        "required": [name for name in fields if (record, name) not in LATER],
        "additionalProperties": False,
        **RULES.get(record, {}),
    }


def _of_field(record: type, name: str, hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = {**_with_unit(name, _of_type(hint, definitions)), **CONSTRAINTS.get((record, name), {})}
    if "exclusiveMinimum" in schema:
        del schema["minimum"]
    return schema


def _with_unit(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Times, sizes and rates are never negative, in a list or under keys neither."""
    if not name.endswith(("_s", "_bytes")):
        return schema
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return {**schema, inner: _with_unit(name, schema[inner])}
    numeric = {"integer", "number"} & set(_names(schema.get("type")))
    return {**schema, "minimum": 0} if numeric else schema


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in SCALARS:
        return dict(SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _or_null(arguments, definitions)
    if origin is list:
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
            definitions[name] = {"title": name, "description": _description(hint), "enum": values}
        else:
            definitions[name] = _of_record(hint, definitions)
    return name


def _description(record: type) -> str:
    """The docstring in one line: Python wraps it for a reader of the source, another tool for its own."""
    return " ".join(inspect.cleandoc(record.__doc__ or "").split())


def _names(kind: Any) -> list[str]:
    return [kind] if isinstance(kind, str) else list(kind or [])


def write_files(folder: Path = FOLDER) -> list[Path]:
    """Write the schemas of this version to `folder` and return the files."""
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

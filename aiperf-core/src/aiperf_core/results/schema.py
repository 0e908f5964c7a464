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
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import field, frozen

from aiperf_core import cost, measurements, simulated
from aiperf_core.results import jsontext, models, run_options

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
CLOCKS = ("device", "wall", simulated.CLOCK)
TIERS, POLICIES = list(run_options.TIERS), list(run_options.POLICIES)
# What an issue does to a row under a policy.
EFFECTS = ["invalid", "warning", "ignored"]
# `$comment` is the noun of a pattern in messages.
ISSUE = {"pattern": r"^[a-z0-9_]+(\.[a-z0-9_]+)+$", "$comment": "an id such as 'output.wrong_values'"}

# On disk these stand in place of a field, or beside the fields: samples have a file of their own.
ON_DISK: dict[type, dict[str, Any]] = {
    models.Row: {"samples": int},
    models.TargetResult: {"sample_file": models.SampleFile},
}

# Fields that older files of the same format lack; they have their defaults then.
ADDED: dict[type, frozenset[str]] = {
    models.Judging: frozenset({"exact_quantiles"}),
    models.Problem: frozenset({*cost.WORK[cost.WORK.index("to_device_bytes") :], "floor", "optimum_s"}),
    models.Row: frozenset(
        {"device_s", "floor_s", "floor_samples_s", "least_work", "no_floor", "precision", "predict", "teaches"}
    ),
    measurements.Audit: frozenset({"retaken"}),
    measurements.Samples: frozenset({"simulated_s", "witness_s"}),
    models.TargetResult: frozenset({"simulated", "witness_quiet_s"}),
    measurements.Ceilings: frozenset(
        {"multiply_add_flop_per_s", "sectors_per_s", "special_functions_per_s", "serial_step_s"}
    ),
}

# A raw sample may be 0: a clock has a resolution. Estimates are of times and ratios and thus positive, but the low end
# of an interval that few samples support may lie below zero.
CONSTRAINTS: dict[tuple[type, str], dict[str, Any]] = {
    (measurements.Estimate, "value"): {"exclusiveMinimum": 0},
    (measurements.Estimate, "high"): {"exclusiveMinimum": 0},
    (models.Finding, "issue"): ISSUE,
    (models.Finding, "severity"): {"enum": ["invalid", "warning"]},
    (models.Sighting, "issue"): ISSUE,
    (models.Sighting, "effects"): {
        "required": POLICIES,
        "maxProperties": len(POLICIES),
        "additionalProperties": {"type": "string", "enum": EFFECTS},
    },
    (models.Judging, "policy"): {"enum": POLICIES},
    (simulated.Simulated, "metric"): {"pattern": f"^{simulated.METRIC}$", "$comment": "a name such as 'job_s'"},
    (simulated.Simulated, "seeds"): {"minimum": simulated.LEAST_SEEDS},
    (models.Row, "samples"): {"minimum": 0},
    (models.Column, "dtype"): {"enum": ["bool", "uint8", "uint16", "uint32", "int32", "int64", "float32", "float64"]},
    (models.Column, "unit"): {"enum": ["s", "ms", "ns", None]},
    (models.SampleFile, "sha256"): {"pattern": "^[0-9a-f]{64}$", "$comment": "a SHA-256"},
    (measurements.Energy, "method"): {"enum": ["energy counter"]},
    (measurements.Work, "kind"): {"enum": ["kernel", "copy", "fill"]},
    (models.TargetResult, "tier"): {"enum": TIERS},
    (models.TargetResult, "rounds"): {"minimum": 1},
    (models.SpeedOfLight, "bound"): {"enum": [*models.BOUNDS]},
    (models.SpeedOfLight, "time_s"): {"exclusiveMinimum": 0},
    (models.SpeedOfLight, "fraction"): {"exclusiveMinimum": 0},
    (models.Judgement, "samples"): {"minimum": 0},
    (models.Judgement, "worst"): {"minimum": 0},
    (models.Overhead, "samples"): {"minimum": 0},
    (models.Row, "name"): {"minLength": 1},
    (models.Row, "role"): {"enum": ["baseline", "variant", "yardstick", "control"]},
    (models.Row, "kind"): {"enum": ["reasonable", "naive", "antipattern", None]},
    (models.Row, "clock"): {"enum": [*CLOCKS, None]},
    **{(models.Problem, name): {"minimum": 0} for name in cost.WORK},
    (models.Row, "precision"): {"enum": [*cost.PRECISIONS, None]},
    (models.Row, "least_work"): {"additionalProperties": {"type": "number", "minimum": 0}},
    (models.Problem, "tokens"): {"minimum": 0},
    (models.Problem, "world_size"): {"minimum": 1},
    (models.Problem, "nodes"): {"minimum": 1},
    (models.TargetResult, "target"): {"minLength": 1},
    (models.TargetResult, "rows"): {"maxItems": models.MOST_ROWS},
    (models.TargetResult, "goal"): {"enum": ["speed", "latency", "throughput", "memory"]},
    (models.TargetResult, "clock"): {"enum": [*CLOCKS]},
    (models.TargetResult, "floor"): {"minimum": 0},
    (models.TargetResult, "schema_version"): {"const": models.SCHEMA_VERSION},
    **{
        (models.RunRequest, option.key): {"enum": list(option.choices)}
        for option in run_options.declarations("run")
        if option.choices
    },
    (models.RequestedTarget, "target"): {"minLength": 1},
    (models.Stretch, "ending"): {"enum": ["finished", "interrupted", "cut off", None]},
    (models.SkippedTarget, "verdict"): {"enum": [*models.DISBELIEVED]},
    (models.SkippedTarget, "reason"): {"minLength": 1},
    (models.Machine, "cores"): {"minimum": 1},
    (models.Manifest, "plugins"): {
        "items": {
            "type": "object",
            "required": ["distribution", "version"],
            "additionalProperties": {"type": "string"},
        }
    },
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
    return Schemas().document(ROOTS[kind], f"urn:aiperf:schema:{kind}:{models.SCHEMA_VERSION}")


def hints_of(record: type, *, on_disk: bool = True) -> dict[str, Any]:
    """The type of each field of a record's document, in order."""
    hints = get_type_hints(record)
    return {one.name: hints[one.name] for one in attrs.fields(record)} | (ON_DISK.get(record, {}) if on_disk else {})


@frozen(eq=False)
class Schemas:
    """Makes schemas of records, also of other packages. Records that a schema refers to are added to `definitions`.

    constraints: rules of fields that a type cannot express, by record and name.
    rules: those of whole records.
    partial: whether fields with a default may be left out of a document.
    """

    constraints: Mapping[tuple[type, str], dict[str, Any]] = field(factory=lambda: CONSTRAINTS)
    rules: Mapping[type, dict[str, Any]] = field(factory=lambda: RULES)
    partial: bool = False
    definitions: dict[str, dict[str, Any]] = field(factory=dict, init=False)

    def document(self, record: type, identifier: str) -> dict[str, Any]:
        """The schema of a document with this record at its root."""
        self.definitions.clear()
        root = self._record(record)
        definitions = {name: self.definitions[name] for name in sorted(self.definitions)}
        return {"$schema": DIALECT, "$id": identifier, **root, "$defs": definitions}

    def of_field(self, record: type, name: str, hint: Any) -> dict[str, Any]:
        """The schema of a field. A record of another package has rules in the field's metadata, as `schema`."""
        own = attrs.fields_dict(record)[name].metadata.get("schema", {}) if name in attrs.fields_dict(record) else {}
        schema = {**_with_unit(name, self._type(hint)), **self.constraints.get((record, name), {}), **own}
        if "exclusiveMinimum" in schema:
            del schema["minimum"]
        return schema

    def _record(self, record: type) -> dict[str, Any]:
        hints = hints_of(record)
        about, descriptions = described(record)
        properties = {
            name: self.of_field(record, name, hint)
            | ({"description": descriptions[name]} if name in descriptions else {})
            for name, hint in hints.items()
        }
        defaulted = {column.name for column in attrs.fields(record) if column.default is not attrs.NOTHING}
        optional = defaulted if self.partial else ADDED.get(record, frozenset())
        return {
            "title": record.__name__,
            "description": about,
            "type": "object",
            "properties": properties,
            "required": [name for name in hints if name not in optional],
            "additionalProperties": False,
            **self.rules.get(record, {}),
        }

    def _type(self, hint: Any) -> dict[str, Any]:
        if hint is Any:
            return {}
        if hint in SCALARS:
            return dict(SCALARS[hint])
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, UnionType):
            return self._union(arguments)
        if origin in (list, tuple):
            return {"type": "array", "items": self._type(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self._type(arguments[1]) or True}
        return {"$ref": f"#/$defs/{self._define(hint)}"}

    def _union(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        schemas = [self._type(one) for one in arguments if one is not NoneType]
        null = NoneType in arguments
        if len(schemas) == 1 and "type" in schemas[0]:
            return {**schemas[0], "type": [schemas[0]["type"], "null"]} if null else schemas[0]
        return {"anyOf": [*schemas, {"type": "null"}] if null else schemas}

    def _define(self, hint: type) -> str:
        name = hint.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # taken, should a record ever hold itself
            if issubclass(hint, Enum):
                values = [member.value for member in hint]
                self.definitions[name] = {"title": name, "description": described(hint)[0], "enum": values}
            else:
                self.definitions[name] = self._record(hint)
        return name


SCHEMAS = Schemas()


def described(record: type) -> tuple[str, dict[str, str]]:
    """Description of a record, and of its fields by name: lines such as `bound: memory or compute`.

    Fields that a record has from another one are described there.
    """
    about: list[str] = []
    fields = described(record.__base__)[1] if record.__base__ and attrs.has(record.__base__) else {}
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

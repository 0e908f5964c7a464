"""The JSON Schema of a `Result`, generated from its records as the core generates those of a bundle.

Types give the structure, docstrings the descriptions. The file ships with the package, so that other tools can read
what `aiperf analyze --json` prints. After a change of the records run:

    python -m aiperf_analysis.schema
"""

import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from aiperf_analysis import result
from aiperf_core.results import jsontext
from aiperf_core.results.schema import DIALECT, SCALARS, described

FILE = Path(__file__).with_name("schemas") / f"result-{result.SCHEMA_VERSION}.json"

# Rules that a type cannot express.
CONSTRAINTS: dict[tuple[type, str], dict[str, Any]] = {
    (result.Result, "schema_version"): {"const": result.SCHEMA_VERSION},
    (result.Result, "analysis"): {"minLength": 1},
    (result.Result, "title"): {"minLength": 1},
    (result.Result, "summary"): {"minItems": 1},
    (result.Table, "columns"): {"minItems": 1},
    (result.Figure, "unit"): {"minLength": 1},
    (result.LeftOut, "reason"): {"minLength": 1},
    (result.Drawing, "message"): {"minLength": 1},
    (result.Span, "length"): {"minimum": 0},
}
# A figure without a value has a reason and no interval.
RULES: dict[type, dict[str, Any]] = {
    result.Figure: {
        "if": {"properties": {"value": {"type": "null"}}},
        "then": {
            "properties": {
                "reason": {"type": "string", "minLength": 1},
                "low": {"type": "null"},
                "high": {"type": "null"},
            }
        },
    },
}


def generate() -> dict[str, Any]:
    """Make the schema from the records."""
    definitions: dict[str, Any] = {}
    root = _of_record(result.Result, definitions)
    return {
        "$schema": DIALECT,
        "$id": f"urn:aiperf:schema:analysis-result:{result.SCHEMA_VERSION}",
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _of_record(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(record)
    about, descriptions = described(record)
    names = [one.name for one in attrs.fields(record)]
    properties = {}
    for name in names:
        rule = {**_of_type(hints[name], definitions), **CONSTRAINTS.get((record, name), {})}
        properties[name] = rule | ({"description": descriptions[name]} if name in descriptions else {})
    return {
        "title": record.__name__,
        "description": about,
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
        **RULES.get(record, {}),
    }


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in SCALARS:
        return dict(SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return _of_union(arguments, definitions)
    if origin is list:
        return {"type": "array", "items": _of_type(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(arguments[1], definitions) or True}
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}  # taken, should a record ever hold itself
        definitions[name] = _of_record(hint, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _of_union(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    schemas = [_of_type(one, definitions) for one in arguments if one is not NoneType]
    if len(schemas) == 1 and "type" in schemas[0]:
        return {**schemas[0], "type": [schemas[0]["type"], "null"]} if NoneType in arguments else schemas[0]
    return {"anyOf": [*schemas, {"type": "null"}] if NoneType in arguments else schemas}


def write_file(path: Path = FILE) -> Path:
    """Write the schema and return its file."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(jsontext.to_bytes(generate()))
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{write_file()}\n")

"""Whether a document keeps to its schema, and in words for people where it does not.

Beside the schema stand the few rules that JSON Schema cannot express: columns of equal length, names given once.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from attrs import fields

from aiperf_core import measurements
from aiperf_core.results import models, schema
from aiperf_core.results.jsontext import JsonError, place_name

NOUNS = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
PLAIN: dict[str, set[type]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "null": {type(None)},
}
Test = Callable[[Any], bool]
_OF_SCALARS = {"type", "minimum", "exclusiveMinimum", "maximum"}


def prepare() -> None:
    """Compile the schemas of this version, and import what it takes: a tenth of a second, before the first `validate`."""
    for kind in ("manifest", "target"):
        _validator(kind, models.SCHEMA_VERSION)


def validate(kind: str, document: Any) -> None:
    """Check a `manifest` or `target` document, by the schema of its version.

    Raises JsonError for the first place that is wrong.
    """
    version = version_of(document)
    for error in _validator(kind, version).iter_errors(document):
        raise _explained(error)
    if kind == "target":
        for row, one in enumerate(document["rows"]):
            if version == models.SAMPLES_IN_JSON:
                _check_columns(row, one["samples"])
            _check_intervals(row, one)
        _check_names(document["rows"])
        if version != models.SAMPLES_IN_JSON:
            _check_sample_file(document["sample_file"])


def version_of(document: Any) -> int:
    """The version that a document claims; this one where it claims none that there is."""
    found = document.get("schema_version") if isinstance(document, dict) else None
    return found if type(found) is int and 1 <= found < models.SCHEMA_VERSION else models.SCHEMA_VERSION


def _check_sample_file(found: dict[str, Any]) -> None:
    """Every column of samples is described, and no other."""
    known = [one.name for one in fields(measurements.Samples)]
    if unlike := set(known) ^ found["columns"].keys():
        what = "no column" if min(unlike) in known else "the unknown column"
        raise JsonError("sample_file.columns", f"{what} '{min(unlike)}'", f"the columns {', '.join(known)}")


def _check_columns(row: int, samples: dict[str, list[Any]]) -> None:
    """Every list of a row's samples has one entry a sample."""
    lengths = {name: len(column) for name, column in samples.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise JsonError(f"rows[{row}].samples", f"columns of different lengths ({found})", "one entry a sample in each")


def _check_intervals(row: int, one: dict[str, Any]) -> None:
    for name in ("time_s", "wall_s", "speedup", "step_speedup"):
        estimate = one[name]
        if estimate is not None and estimate["low"] > estimate["high"]:
            found = f"an interval from {estimate['low']} to {estimate['high']}"
            raise JsonError(f"rows[{row}].{name}", found, "low at most high")


def _check_names(rows: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for index, row in enumerate(rows):
        if row["name"] in seen:
            raise JsonError(f"rows[{index}].name", f"'{row['name']}' a second time", "every implementation once")
        seen.add(row["name"])


@functools.cache
def _validator(kind: str, version: int) -> Any:
    import jsonschema

    base = jsonschema.Draft202012Validator
    # To JSON Schema 1.0 is an integer and to Python it is not; on disk a count is written as one.
    types = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = jsonschema.validators.extend(base, {"items": _items, "properties": _properties}, type_checker=types)
    return strict(_inlined(json.loads(schema.file_of(kind, version).read_text("utf-8"))))


def _inlined(kind: dict[str, Any]) -> Any:
    """A schema with its definitions where they are referred to: looking one up costs more than checking a number."""

    def inline(rule: Any) -> Any:
        if isinstance(rule, list):
            return [inline(one) for one in rule]
        if not isinstance(rule, dict):
            return rule
        if "$ref" in rule:
            found = inline(kind["$defs"][rule["$ref"].rpartition("/")[2]])
            beside = {name: one for name, one in rule.items() if name != "$ref"}
            return {"allOf": [beside, found]} if beside else found
        return {name: inline(one) for name, one in rule.items() if name != "$defs"}

    return inline(kind)


def _items(validator: Any, items: Any, instance: Any, parent: Any) -> Iterator[Any]:
    """The keyword `items`, with a short way for what is plainly right: jsonschema takes microseconds an entry."""
    if isinstance(instance, list) and _plain_column(items)(instance):
        return
    import jsonschema

    yield from jsonschema.Draft202012Validator.VALIDATORS["items"](validator, items, instance, parent)


def _properties(validator: Any, properties: Any, instance: Any, parent: Any) -> Iterator[Any]:
    """The keyword `properties`, with the same short way."""
    if isinstance(instance, dict):
        properties = {
            name: rule for name, rule in properties.items() if name in instance and not _plain(rule)(instance[name])
        }
    import jsonschema

    yield from jsonschema.Draft202012Validator.VALIDATORS["properties"](validator, properties, instance, parent)


def _kept(make: Callable[[Any], Test]) -> Callable[[Any], Test]:
    """Make the test of each rule once. Rules are told apart by identity; they are those of schemas, which stay."""
    made: dict[int, tuple[Any, Test]] = {}

    @functools.wraps(make)
    def kept(rule: Any) -> Test:
        known = made.get(id(rule))
        if known is None or known[0] is not rule:
            known = made[id(rule)] = rule, make(rule)
        return known[1]

    return kept


@_kept
def _plain(rule: Any) -> Test:
    """A test whether a value surely keeps to a rule. False says nothing: the full check then finds the culprit."""
    keywords = rule.keys() - {"title", "description"} if isinstance(rule, dict) else {"unknown"}
    if keywords == {"anyOf"}:
        tests = [_plain(one) for one in rule["anyOf"]]
        return lambda value: any(test(value) for test in tests)
    if "properties" in keywords and keywords <= {"type", "properties", "required", "additionalProperties"}:
        fields_of = {name: _plain(one) for name, one in rule["properties"].items()}
        return lambda value: (
            isinstance(value, dict)
            and value.keys() == fields_of.keys()
            and all(fields_of[name](one) for name, one in value.items())
        )
    if keywords == {"type", "additionalProperties"} and rule["type"] == "object":
        more = rule["additionalProperties"]
        test = _plain(more)
        return lambda value: isinstance(value, dict) and (more is True or all(map(test, value.values())))
    if keywords == {"type", "items"} and rule["type"] == "array":
        test = _plain_column(rule["items"])
        return lambda value: isinstance(value, list) and test(value)
    if keywords <= {"type", "enum"} and "enum" in keywords:
        allowed, types = rule["enum"], _types(rule) if "type" in rule else {str, type(None)}
        return lambda value: type(value) in types and (value is None or isinstance(value, str)) and value in allowed
    if keywords in ({"type", "minLength"}, {"type", "pattern"}) and rule["type"] == "string":
        least, found = rule.get("minLength", 0), re.compile(rule.get("pattern", "")).search
        return lambda value: isinstance(value, str) and len(value) >= least and found(value) is not None
    if keywords <= _OF_SCALARS:
        types, low, above, high = _types(rule), *_limits(rule)
        return lambda value: (
            type(value) in types
            and (value is None or isinstance(value, str) or (low <= value <= high and value > above))
        )
    return lambda _: False


@_kept
def _plain_column(items: Any) -> Test:
    """The same of a list, by the rule of its items. One of numbers may have a hundred thousand."""
    if not isinstance(items, dict) or not items.keys() - {"title", "description"} <= _OF_SCALARS:
        test = _plain(items)
        return lambda values: all(map(test, values))
    types, low, above, high = _types(items), *_limits(items)

    def plain(values: list[Any]) -> bool:
        if not set(map(type, values)) <= types:
            return False
        numbers = [value for value in values if value is not None and not isinstance(value, str)]
        return not numbers or (min(numbers) >= low and min(numbers) > above and max(numbers) <= high)

    return plain


def _types(rule: dict[str, Any]) -> set[type]:
    """What Python calls the types that a rule about a scalar allows."""
    return {one for name in _names(rule) for one in PLAIN.get(name, set())}


def _names(rule: dict[str, Any]) -> list[str]:
    """The types that a rule allows."""
    found = rule.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def _limits(rule: dict[str, Any]) -> tuple[float, float, float]:
    """At least, above and at most."""
    least, most = rule.get("minimum", -schema.LARGEST), rule.get("maximum", schema.LARGEST)
    return least, rule.get("exclusiveMinimum", -math.inf), most


def _explained(error: Any) -> JsonError:
    """One jsonschema error as place, found, expected."""
    place = place_name(list(error.absolute_path))
    match error.validator:
        case "anyOf" if isinstance(error.instance, dict):
            # All our alternatives are a record or null: a dict was meant as the record.
            return _explained(next(one for one in error.context if one.schema_path[0] == 0))
        case "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return JsonError(place, f"no field '{missing}'", f"every field of {_title(error)}")
        case "additionalProperties":
            unknown = next(name for name in error.instance if name not in error.schema["properties"])
            return JsonError(place, f"the unknown field '{unknown}'", f"only the fields of {_title(error)}")
    return JsonError(place, _shown(error.instance), _wanted(error))


def _title(error: Any) -> str:
    return _with_article(error.schema["title"])


def _with_article(record: str) -> str:
    return f"{'an' if record[0] in 'AEIOU' else 'a'} {record}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{NOUNS['object' if isinstance(value, dict) else 'array']} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"


def _wanted(error: Any) -> str:
    rule = error.schema
    if error.validator == "anyOf":
        record = rule["anyOf"][0]["title"]
        return f"{_with_article(record)} or null"
    if "const" in rule:
        return json.dumps(rule["const"])
    if "enum" in rule:
        return "one of " + ", ".join("null" if one is None else f"'{one}'" for one in rule["enum"])
    names = _names(rule)
    numeric = {"number", "integer"} & set(names)
    nouns = [NOUNS[name] + (_bounds(rule) if name in numeric else "") for name in names]
    if "pattern" in rule:
        nouns = ["a SHA-256" if "{64}" in rule["pattern"] else "an id such as 'output.wrong_values'"]
    if "minLength" in rule:
        nouns = ["a string that is not empty"]
    return " or ".join(nouns)


def _bounds(rule: dict[str, Any]) -> str:
    if "exclusiveMinimum" in rule:
        return f" above {rule['exclusiveMinimum']}"
    return f" from {rule['minimum']}" if "minimum" in rule and rule["minimum"] > -schema.LARGEST else ""

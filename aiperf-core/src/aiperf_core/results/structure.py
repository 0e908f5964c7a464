"""Documents to records and back: one pass checks every value and builds the records.

A reader is made once for each record, from the types of its fields and the rules of `results.schema`. It accepts a
value only in its very type: a number in quotes is not a number, 1.0 is no count and true is no integer. It also checks
the rules that JSON Schema cannot express: intervals that are in order, names that are given once, columns that are all
described.
"""

import functools
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import attrs

from aiperf_core import measurements
from aiperf_core.results import models, schema
from aiperf_core.results.jsontext import JsonError, place_name

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

NOUNS = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
TYPES: dict[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (float, int)}
PLAIN = frozenset((str, bool, int, float, NoneType))
# The forms of a document: as in a bundle, with samples in the records, with the fields that differ from the default, or
# with more fields than the records, which are not read.
ON_DISK, WHOLE, PARTIAL, LARGER = "on disk", "whole", "partial", "larger"


class _Misfit(Exception):
    """A value that does not fit. `place` has the steps to it, the innermost first."""

    def __init__(self, found: str, expected: str, *place: str | int) -> None:
        super().__init__(found)
        self.found, self.expected, self.place = found, expected, list(place)


def structure(
    document: Any, record: type[Record], form: str = WHOLE, schemas: schema.Schemas = schema.SCHEMAS
) -> Record:
    """Make a record of a document. Raises JsonError with the place of the first value that does not fit.

    schemas: the rules that the types do not express.
    """
    try:
        return cast(Record, _of_record(cast(type, record), form, schemas)(document))
    except _Misfit as error:
        raise JsonError(place_name(error.place[::-1]), error.found, error.expected) from None


def document(value: Any) -> Any:
    """Return a record as dicts, lists and scalars."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        # A column of samples has many values and no records.
        return list(value) if PLAIN.issuperset(map(type, value)) else [document(item) for item in value]
    if isinstance(value, Mapping):
        return {key: document(item) for key, item in value.items()}
    if attrs.has(kind):
        return {name: document(getattr(value, name)) for name in _field_names(kind)}
    return value.value if isinstance(value, Enum) else value


@functools.cache
def _field_names(record: type[attrs.AttrsInstance]) -> list[str]:
    return [one.name for one in attrs.fields(record)]


# --- readers


@functools.cache
def _of_record(record: type, form: str, schemas: schema.Schemas) -> Reader:
    hints = schema.hints_of(record, on_disk=form == ON_DISK)
    readers = {name: _reader(hint, schemas.of_field(record, name, hint), form, schemas) for name, hint in hints.items()}
    # A field that is another on disk, or is not in the record, is checked and left out.
    checked_only = schema.ON_DISK.get(record, {}).keys() if form == ON_DISK else ()
    kept = [(name, reader) for name, reader in readers.items() if name not in checked_only]
    # All records share the empty samples, which would otherwise be a fifth of the memory of a row.
    shared = {"samples": measurements.Samples()} if "samples" in checked_only else {}
    check, expected = CHECKS.get(record), readers.keys()

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _Misfit(_shown(value), "an object")
        if value.keys() != expected:
            _check_fields(record, value, expected, form)
        name = ""
        try:
            for name in checked_only:
                readers[name](value[name])
            values = {}
            for name, reader in kept:
                if name in value:
                    values[name] = reader(value[name])
        except _Misfit as error:
            error.place.append(name)
            raise
        if check is not None:
            check(values, value)
        return record(**values, **shared)

    return read


def _check_fields(record: type, value: dict[str, Any], expected: Any, form: str) -> None:
    noun, partial = _article(record.__name__), form == PARTIAL
    unknown = next((name for name in value if name not in expected), None)
    if unknown is not None and form != LARGER:
        from difflib import get_close_matches

        near = get_close_matches(unknown, expected, n=1)
        such = f", such as '{near[0]}'" if near else ""
        raise _Misfit("an unknown field", f"only the fields of {noun}{such}", unknown)
    required = {column.name for column in attrs.fields(record) if column.default is attrs.NOTHING}
    needed = required if partial else expected - schema.ADDED.get(record, frozenset())
    if missing := next((name for name in expected if name not in value and name in needed), None):
        raise _Misfit(f"no field '{missing}'", f"every {'required ' if partial else ''}field of {noun}")


def _reader(hint: Any, rule: dict[str, Any], form: str, schemas: schema.Schemas) -> Reader:
    def reader(hint: Any, rule: dict[str, Any]) -> Reader:
        return _reader(hint, rule, form, schemas)

    if hint is Any:
        return _encodable
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (one for one in arguments if one is not NoneType)
        if inner in TYPES:
            return _scalar(inner, rule)
        kind = list if get_origin(inner) in (list, tuple) else dict
        noun = _article(inner.__name__) if kind is dict else NOUNS["array"]
        return _nullable(reader(inner, rule), kind, noun)
    if hint in TYPES:
        return _scalar(hint, rule)
    if origin is list:
        return _list(reader(arguments[0], rule["items"]), rule)
    if origin is tuple:
        items = _list(reader(arguments[0], rule["items"]), rule)
        return lambda value: tuple(items(value))
    if origin is dict:
        values = rule["additionalProperties"]
        return _dict(reader(arguments[1], values if isinstance(values, dict) else {}), rule)
    if issubclass(hint, Enum):
        return _enum(hint, rule)
    # A record may hold one of its own kind, whose reader is not made yet.
    return lambda value: _of_record(hint, form, schemas)(value)


def _nullable(read: Reader, kind: type, noun: str) -> Reader:
    def nullable(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not kind:
            raise _Misfit(_shown(value), f"{noun} or null")
        return read(value)

    return nullable


def _list(read: Reader, rule: dict[str, Any]) -> Reader:
    least, most = rule.get("minItems", 0), rule.get("maxItems", sys.maxsize)

    def items(value: Any) -> Any:
        if type(value) is not list:
            raise _Misfit(_shown(value), NOUNS["array"])
        if not least <= len(value) <= most:
            bound = f"at least {least}" if len(value) < least else f"at most {most}"
            raise _Misfit(_shown(value), f"{NOUNS['array']} of {bound}")
        found: list[Any] = []
        try:
            for item in value:
                found.append(read(item))
        except _Misfit as error:
            error.place.append(len(found))
            raise
        return found

    return items


def _dict(read: Reader, rule: dict[str, Any]) -> Reader:
    required, most = rule.get("required", ()), rule.get("maxProperties", sys.maxsize)

    def values(value: Any) -> Any:
        if type(value) is not dict:
            raise _Misfit(_shown(value), NOUNS["object"])
        missing = next((key for key in required if key not in value), None)
        if missing is not None or len(value) > most:
            shown = _shown(value) if missing is None else f"no field '{missing}'"
            raise _Misfit(shown, f"the fields {', '.join(required)}")
        found, key = {}, ""
        try:
            for key, item in value.items():
                found[_encodable(key)] = read(item)
        except _Misfit as error:
            error.place.append(key)
            raise
        return found

    return values


def _enum(kind: type[Enum], rule: dict[str, Any]) -> Reader:
    members = {one.value: one for one in kind if one in rule.get("enum", kind)}
    wanted = _one_of(list(members))

    def member(value: Any) -> Any:
        found = members.get(value) if type(value) is str else None
        if found is None:
            raise _Misfit(_shown(value), wanted)
        return found

    return member


def _scalar(kind: type, rule: dict[str, Any]) -> Reader:
    nullable = "null" in schema.types_of(rule)
    types, wanted = TYPES[kind], _wanted(rule)
    fits = _fits(rule)

    def scalar(value: Any) -> Any:
        if type(value) in types and (fits is None or fits(value)):
            if kind is str:
                return sys.intern(_encodable(value))  # bundles repeat their texts: an equal text is kept once
            return value if kind is not float else float(value)
        if value is None and nullable:
            return None
        raise _Misfit(_shown(value), wanted)

    return scalar


def _encodable(value: Any) -> Any:
    """Replace lone surrogates, such as undecodable bytes of a log, by `?`: no file, page or database can hold them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


def _fits(rule: dict[str, Any]) -> Callable[[Any], bool] | None:
    """Whether a value of the right type keeps to the rest of a rule; None where there is no more of it."""
    if "const" in rule or "enum" in rule:
        return frozenset(rule.get("enum", [rule.get("const")])).__contains__
    if "pattern" in rule:
        found = re.compile(rule["pattern"]).search
        return lambda value: found(value) is not None and not value.endswith("\n")  # which `$` passes
    if "minLength" in rule:
        return lambda value: len(value) >= rule["minLength"]
    if "exclusiveMinimum" in rule:
        above, most = rule["exclusiveMinimum"], rule.get("maximum", schema.LARGEST)
        return lambda value: bool(above < value <= most)
    if "minimum" in rule:
        low, high = rule["minimum"], rule.get("maximum", math.inf)
        return lambda value: bool(low <= value <= high)
    return None


# --- rules that JSON Schema cannot express, or not in a form for people


# No time, size or rate is outside, and figures of what is inside stay in the range of floats.
SMALLEST, LARGEST = 1e-30, 1e30


def _check_magnitudes(values: dict[str, Any], _: dict[str, Any]) -> None:
    """The numbers of a record, which others are computed from, have magnitudes that occur."""
    for name, value in values.items():
        for key, number in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(number, float) and number and not SMALLEST <= abs(number) <= LARGEST:
                place = [key, name] if key else [name]
                raise _Misfit(str(number), f"0, or a magnitude from {SMALLEST:g} to {LARGEST:g}", *place)


def _check_interval(values: dict[str, Any], found: dict[str, Any]) -> None:
    _check_magnitudes(values, found)
    if values["low"] > values["high"]:
        raise _Misfit(f"an interval from {values['low']} to {values['high']}", "low at most high")


def _check_row(values: dict[str, Any], found: dict[str, Any]) -> None:
    """A row that is not believed has a reason and no speedup."""
    if values["verdict"] in models.DISBELIEVED:
        if not values["reason"]:
            raise _Misfit(_shown(values["reason"]), "a string that is not empty", "reason")
        for name in ("speedup", "step_speedup"):
            if values[name] is not None:
                raise _Misfit(_shown(found[name]), "null", name)


def _check_target(values: dict[str, Any], found: dict[str, Any]) -> None:
    """Every implementation stands once, and every column of samples is described."""
    seen: set[str] = set()
    for index, row in enumerate(values["rows"]):
        if row.name in seen:
            raise _Misfit(f"'{row.name}' a second time", "every implementation once", "name", index, "rows")
        seen.add(row.name)
    if "sample_file" in found:
        known = [one.name for one in attrs.fields(measurements.Samples)]
        if unlike := (set(known) ^ found["sample_file"]["columns"].keys()) - schema.ADDED[measurements.Samples]:
            what = "no column" if min(unlike) in known else "the unknown column"
            raise _Misfit(f"{what} '{min(unlike)}'", f"the columns {', '.join(known)}", "columns", "sample_file")


CHECKS: dict[type, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    measurements.Estimate: _check_interval,
    measurements.Ceilings: _check_magnitudes,
    models.Problem: _check_magnitudes,
    models.SpeedOfLight: _check_magnitudes,
    models.Row: _check_row,
    models.TargetResult: _check_target,
}

# --- words


def _article(record: str) -> str:
    return f"{'an' if record[0] in 'AEIOU' else 'a'} {record}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{NOUNS['object' if isinstance(value, dict) else 'array']} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)  # a suite in TOML may have dates
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"


def _one_of(values: list[Any]) -> str:
    return "one of " + ", ".join("null" if one is None else f"'{one}'" for one in values)


def _wanted(rule: dict[str, Any]) -> str:
    if "const" in rule:
        return json.dumps(rule["const"])
    if "enum" in rule:
        return _one_of(rule["enum"])
    if "pattern" in rule:
        return str(rule["$comment"])
    if "minLength" in rule:
        return "a string that is not empty"
    bounds = ""
    if "exclusiveMinimum" in rule:
        bounds = f" above {rule['exclusiveMinimum']}"
    elif rule.get("minimum", -schema.LARGEST) > -schema.LARGEST:
        bounds = f" from {rule['minimum']:g}"
    if rule.get("maximum", schema.LARGEST) < schema.LARGEST:
        bounds += f" to {rule['maximum']:g}"
    return " or ".join(
        NOUNS[name] + (bounds if name in ("number", "integer") else "") for name in schema.types_of(rule)
    )

"""The OpenAPI document (3.1), made from the records of the endpoints and the JSON Schema of `Result`."""

import re
from typing import Any

from aiperf_analysis import schema
from aiperf_analysis.dashboard import problems
from aiperf_analysis.dashboard.asked import Answer, Asked
from aiperf_analysis.dashboard.registry import Endpoint, Parameter
from aiperf_analysis.dashboard.site import Site
from aiperf_core.analysis_options import CHOICES, CONVERT, HELP, is_local, kind_of
from aiperf_core.version import __version__

KINDS = {bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}}
PROBLEMS = {
    "400": "The request is wrong.",
    "401": "A token is needed.",
    "403": "It is not allowed.",
    "404": "Nothing has this id.",
    "406": "The answer has no table for CSV.",
    "413": "The body is too large.",
    "414": "The address is too long.",
    "421": "The host name is unknown.",
    "422": "There is no result: nothing can be computed from what there is.",
    "503": "The results cannot be read now, or the answer took too long.",
}


def document(asked: Asked) -> Answer:
    """The document of this server."""
    return Answer(document=of(asked.site))


def of(site: Site) -> dict[str, Any]:
    """The document of a site."""
    paths: dict[str, dict[str, Any]] = {}
    for one in site.endpoints:
        paths.setdefault(re.sub(r":\w+}", "}", one.address), {})[one.method.lower()] = _operation(site, one)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "aiperf",
            "version": __version__,
            "description": "Results and analyses of aiperf. Every table is CSV with format=csv.",
        },
        "paths": paths,
        "components": {
            "schemas": {**_result_schemas(), "Problem": problems.SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _result_schemas() -> dict[str, Any]:
    """The schema of `Result` and of its parts, as components."""
    whole = _moved(schema.generate())
    parts = whole.pop("$defs")
    whole.pop("$schema"), whole.pop("$id")
    return {"Result": whole, **parts}


def _moved(found: Any) -> Any:
    """A schema whose references lead to components."""
    if isinstance(found, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value)
            for key, value in found.items()
        }
    return [_moved(one) for one in found] if isinstance(found, list) else found


def _operation(site: Site, one: Endpoint) -> dict[str, Any]:
    content: dict[str, Any] = {one.media: {"schema": dict(one.schema)}}
    if one.csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [_parameter(each) for each in (*one.parameters, *_options(site, one))],
        "responses": {"200": {"description": "The answer.", "content": content}, **_problems()},
    }
    if one.successor:
        found["deprecated"] = True
    if one.method == "PUT":
        found["requestBody"] = {
            "required": True,
            "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
        }
        found["responses"]["201"] = {"description": "It was added.", "content": content}
        found["security"] = [{"token": []}]
    return found


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.place,
        "description": one.about,
        "required": one.required or one.place == "path",
        "schema": dict(one.schema),
    }


def _options(site: Site, one: Endpoint) -> list[Parameter]:
    """The options of the analysis of an endpoint."""
    if not one.analysis:
        return []
    import attrs

    options = site.options(one.analysis)
    found = []
    for field in attrs.fields(options):
        if is_local(options, field):
            continue
        choices = list(field.metadata.get(CHOICES, ()))
        kind = kind_of(options, field.name)
        text = {"type": "string", **({"enum": choices} if choices else {})}
        if kind is tuple:
            schema_of: dict[str, Any] = {"type": "array", "items": text}
        else:
            schema_of = text if choices or field.metadata.get(CONVERT) else KINDS.get(kind, text)
        name = field.name.replace("_", "-")
        found.append(Parameter(name=name, about=field.metadata.get(HELP, ""), schema=schema_of))
    return found


def _problems() -> dict[str, Any]:
    content = {problems.MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": about, "content": content} for status, about in PROBLEMS.items()}

"""The REST API: a file for each group of endpoints, with functions `(asked) -> Answer`."""

from starlette.responses import Response

from aiperf_analysis.dashboard import problems
from aiperf_analysis.dashboard.asked import Answer, Asked
from aiperf_analysis.dashboard.registry import Endpoint, Parameter, analyses
from aiperf_analysis.result import Result
from aiperf_core.plugins import Plugins
from aiperf_core.results import jsontext

_HERE = "aiperf_analysis.dashboard.api"
RESULT = {"$ref": "#/components/schemas/Result"}
MOST_ROWS = 1000

ID = Parameter(name="id", about="The id of a run: the seal of its bundle.", place="path", required=True)
FILTERS = (
    Parameter(
        name="target", about="Only these targets, by patterns.", schema={"type": "array", "items": {"type": "string"}}
    ),
    Parameter(name="class", about="Only these kinds of machine, by a pattern."),
    Parameter(name="device", about="Only targets that ran on this device."),
    Parameter(
        name="label",
        about="Only runs with this label, as NAME=VALUE.",
        schema={"type": "array", "items": {"type": "string"}},
    ),
)
FORMAT = Parameter(
    name="format",
    about="The form of the answer.",
    schema={"type": "string", "enum": ["json", "csv"], "default": "json"},
)
PAGING = (
    Parameter(
        name="limit",
        about="At most this many.",
        schema={"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 100},
    ),
    Parameter(name="cursor", about="Where to go on: `next` of the answer before."),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        path="/openapi.json",
        name="openapi",
        summary="This document.",
        load=f"{_HERE}.openapi:document",
    ),
)


def of_analyses(plugins: Plugins) -> list[Endpoint]:
    """An endpoint for each analysis of bundles."""
    return [
        Endpoint(
            path=f"/analyses/{name}",
            name=f"analysis-{name}",
            summary=plugins.analyses[name].record.summary,
            load=f"{_HERE}.analyses:of_endpoint",
            schema=RESULT,
            parameters=(*FILTERS, FORMAT),
            csv=True,
            analysis=name,
        )
        for name in analyses(plugins)
    ]


def old(plugins: Plugins) -> list[Endpoint]:
    """The old addresses, which answer with the new documents."""
    return []


def respond(asked: Asked, answer: Answer) -> Response:
    """An answer as JSON, or its tables as CSV."""
    headers = dict(answer.headers)
    kind = asked.one("format", "json")
    if kind not in ("json", "csv"):
        return problems.document(400, "Wrong request", f"format is json or csv; got {kind[:40]!r}.")
    if kind == "csv":
        if not answer.tables:
            return problems.document(406, "No table", "This answer has no table; ask without format=csv.")
        return Response(csv_of(asked, answer), answer.status, headers, "text/csv; charset=utf-8")
    return Response(jsontext.dumps(answer.document), answer.status, headers, "application/json")


def csv_of(asked: Asked, answer: Answer) -> str:
    """The tables of an answer as CSV, as `aiperf analyze --out FILE.csv` writes them."""
    from aiperf_analysis.render import csv_file

    return csv_file.text(Result(analysis="rows", title="rows", summary=["rows"], tables=list(answer.tables)))

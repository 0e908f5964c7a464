"""The REST API: a file for each group of endpoints, with functions `(asked) -> Answer`."""

from collections.abc import Sequence

from attrs import evolve
from starlette.responses import Response

from aiperf_analysis.dashboard import problems
from aiperf_analysis.dashboard.api.paging import DEFAULT, MOST
from aiperf_analysis.dashboard.asked import Answer, Asked
from aiperf_analysis.dashboard.registry import Endpoint, Parameter, analyses
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import Result, document
from aiperf_core.results import jsontext

_HERE = "aiperf_analysis.dashboard.api"
# Of the old addresses, as RFC 9745 has it: 1 November 2026.
DEPRECATED = "@1793491200"
RESULT = {"$ref": "#/components/schemas/Result"}
ADDED = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "ending": {"enum": ["added", "known", "moved"]},
        "name": {"type": "string"},
    },
    "required": ["id", "ending", "name"],
    "additionalProperties": False,
}

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
        schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT},
    ),
    Parameter(
        name="cursor",
        about="Where to go on: `details.next` of the answer before.",
        schema={"type": "string", "pattern": "^[0-9]{1,8}$"},
    ),
)
WORDS = Parameter(name="q", about="Only rows whose texts contain all these words.")


def _id(about: str) -> Parameter:
    return Parameter(name="id", about=about, place="path", required=True)


def _endpoint(path: str, name: str, summary: str, load: str, *parameters: Parameter) -> Endpoint:
    """An endpoint whose answer is a `Result`."""
    home = "pages" if load.partition(".")[0] == "pages" else "api"
    place = load.removeprefix("pages.")
    return Endpoint(
        path=path,
        name=name,
        summary=summary,
        load=f"aiperf_analysis.dashboard.{home}.{place}",
        parameters=(*parameters, FORMAT),
        schema=RESULT,
        csv=True,
    )


LIVE_ID = _id("The name of a run that goes on: `run` of the list.")
RUN_ID = _id("The id of a run: the seal of its bundle.")
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        path="/openapi.json",
        name="openapi",
        summary="This document.",
        load=f"{_HERE}.openapi:document",
    ),
    _endpoint(
        "/overview", "overview", "What ran last, what got worse, what is not trusted.", "results:overview", *FILTERS
    ),
    _endpoint("/rows", "rows", "Every implementation of every run.", "results:rows", *FILTERS, WORDS, *PAGING),
    _endpoint("/bundles", "bundles", "The runs, newest first.", "results:bundles", *FILTERS, *PAGING),
    _endpoint("/bundles/{id}", "bundle", "A run: its rows, and its manifest.", "results:bundle", RUN_ID),
    _endpoint(
        "/bundles/{id}/samples",
        "samples",
        "The raw samples of a row.",
        "results:samples",
        RUN_ID,
        Parameter(name="of", about="The target.", required=True),
        Parameter(name="row", about="The implementation.", required=True),
        *PAGING,
    ),
    Endpoint(
        path="/bundles/{id}",
        name="add-bundle",
        summary="Add a bundle to the store, as a tar stream of its folder.",
        load=f"{_HERE}.adding:add",
        method="PUT",
        parameters=(RUN_ID,),
        schema=ADDED,
        scope="add",
    ),
    _endpoint("/targets", "targets", "The targets with results.", "results:targets", *FILTERS),
    _endpoint(
        "/targets/{t:path}",
        "target",
        "A target: its newest rows, its history, and why its variants are faster.",
        "pages.target:of_target",
        Parameter(name="t", about="The name of the target.", place="path", required=True),
        *FILTERS[1:],
    ),
    _endpoint(
        "/series", "series-list", "The series of rows that may be pooled.", "results:series_list", *FILTERS, *PAGING
    ),
    _endpoint(
        "/series/{key}",
        "series",
        "The points of a series in the order of time, and its steps.",
        "results:series",
        Parameter(name="key", about="The key of the series.", place="path", required=True),
        Parameter(name="metric", about="The figure of the steps.", schema={"enum": list(STORED), "default": "time"}),
        *PAGING,
    ),
    _endpoint(
        "/compare",
        "compare",
        "What differs between two runs, and the ratios of what both measured.",
        "pages.compare:comparison",
        Parameter(name="a", about="The id of the left run.", required=True),
        Parameter(name="b", about="The id of the right run.", required=True),
    ),
    _endpoint("/roofline", "roofline", "The newest results on rooflines.", "pages.roofline:of_selection", *FILTERS),
    _endpoint("/validity", "validity", "Findings, and the matrix of issues.", "pages.validity:of_selection", *FILTERS),
    _endpoint("/profiles", "profiles", "The profiles in the bundles.", "pages.profiles:every", *FILTERS),
    _endpoint("/machines", "machines", "The machines of the runs.", "pages.machines:every", *FILTERS),
    _endpoint("/machines/{id}", "machine", "A machine and its ceilings.", "pages.machines:one", _id("Of the machine.")),
    _endpoint("/live", "live", "The runs of this machine that go on, or ended a few minutes ago.", "pages.live:every"),
    _endpoint("/live/{id}", "live-run", "The state of a run that goes on.", "pages.live:one", LIVE_ID),
    Endpoint(
        path="/live/{id}/events",
        name="live-events",
        summary="The states of a run as server-sent events, to its end. The header Last-Event-ID resumes.",
        load=f"{_HERE.removesuffix('api')}pages.live:events",
        parameters=(
            LIVE_ID,
            Parameter(
                name="after",
                about="Only states after this event.",
                schema={"type": "string", "pattern": "^[0-9]{1,15}$"},
            ),
        ),
        schema={"type": "string"},
        media="text/event-stream",
    ),
    _endpoint("/traces", "traces", "The traces below the folder of the results.", "pages.traces:every"),
    _endpoint("/traces/{id}", "trace", "Where the time of a trace goes.", "pages.traces:one", _id("Of the trace.")),
    _endpoint("/loads", "loads", "The loads on servers.", "pages.loads:every"),
    _endpoint("/loads/{id}", "load", "A load on a server.", "pages.loads:one", _id("Of the load.")),
    _endpoint("/fleets", "fleets", "The fleets of machines.", "pages.fleets:every"),
    _endpoint("/fleets/{id}", "fleet", "A fleet of machines.", "pages.fleets:one", _id("Of the fleet.")),
    _endpoint(
        "/checklist",
        "checklist",
        "Recommendations, and which of them results prove.",
        "pages.checklist:of_items",
        *FILTERS,
        Parameter(name="topic", about="Only this topic."),
        Parameter(name="search", about="Only items that contain all these words."),
    ),
    _endpoint("/glossary", "glossary", "The terms with their definitions.", "pages.glossary:every"),
    _endpoint(
        "/calc/{name}",
        "calc",
        "A calculator; its options are those of aiperf calc NAME.",
        "pages.calc:computed",
        Parameter(name="name", about="`kv-cache` or `cost-per-token`.", place="path", required=True),
    ),
)

# The addresses of the predecessor, and the endpoints that answer there.
OLD = {
    "/api/benchmarks": "rows",
    "/api/summary": "overview",
    "/api/analysis/leaderboards": "analysis-leaderboard",
    "/api/analysis/pareto": "analysis-pareto",
    "/api/analysis/tradeoffs": "analysis-tradeoff",
    "/api/analysis/recommendations": "analysis-recommend",
    "/api/analysis/whatif": "analysis-whatif",
    "/api/analysis/stacking": "analysis-stacking",
    "/api/analysis/power": "analysis-power",
    "/api/analysis/cost": "analysis-cost",
    "/api/analysis/scaling": "analysis-scaling",
}


def every(plugins: Plugins) -> list[Endpoint]:
    """All endpoints: those of `ENDPOINTS`, one for each analysis of bundles, and the old addresses."""
    of_analyses = [
        Endpoint(
            path=f"/analyses/{name}",
            name=f"analysis-{name}",
            summary=plugins.analyses[name].record.summary,
            load=f"{_HERE}.results:analysis",
            schema=RESULT,
            parameters=(*FILTERS, FORMAT),
            csv=True,
            analysis=name,
        )
        for name in analyses(plugins)
    ]
    found = [*ENDPOINTS, *of_analyses]
    return [*found, *_old(found)]


def _old(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The old addresses, which answer with the new documents."""
    by_name = {one.name: one for one in endpoints}
    return [
        evolve(by_name[name], path=path, name=f"old-{name}", successor=by_name[name].address)
        for path, name in OLD.items()
        if name in by_name
    ]


def respond(asked: Asked, found: Result | Answer) -> Response:
    """An answer as JSON, or its tables as CSV. An old address names its successor."""
    answer = found if isinstance(found, Answer) else Answer(document=document(found), tables=found.tables)
    headers = dict(answer.headers)
    if isinstance(asked.of, Endpoint) and asked.of.successor:
        headers |= {"deprecation": DEPRECATED, "link": f'<{asked.of.successor}>; rel="successor-version"'}
    kind = asked.one("format", "json")
    if kind not in ("json", "csv"):
        return problems.document(400, "Wrong request", f"format is json or csv; got {words(kind[:40])!r}.")
    if kind == "csv":
        if not answer.tables:
            return problems.document(406, "No table", "This answer has no table; ask without format=csv.")
        csv = _csv(answer).encode(errors="replace")  # the name of a folder may be no text
        return Response(csv, answer.status, headers, "text/csv; charset=utf-8")
    return Response(jsontext.to_bytes(answer.document), answer.status, headers, "application/json")


def _csv(answer: Answer) -> str:
    """The tables of an answer as CSV, as `aiperf analyze --out FILE.csv` writes them."""
    from aiperf_core.report import flat_tables

    return flat_tables.of_tables(answer.tables)

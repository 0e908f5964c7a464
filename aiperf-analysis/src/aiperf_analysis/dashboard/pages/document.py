"""What pages share whose content is a `Result` of their own: the same data as page, as JSON and as CSV."""

from collections.abc import Sequence
from typing import Any

from aiperf_analysis.dashboard import shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.lines import run_id
from aiperf_core.report.result import Result

MOST_SOURCES, MOST_LEFT_OUT = 200, 500  # that a page lists; the JSON has all


def data_of(result: Result | None, problem: str = "") -> dict[str, Any]:
    """What `analysis.html.jinja` shows of a result; without a result, the reason."""
    if result is None:
        return {"result": None, "problem": problem, "form": ()}
    return {
        "form": (),
        "problem": problem,
        "result": result,
        "sources": [(one, f"/run/{run_id(one.id)}") for one in result.sources[:MOST_SOURCES]],
        "pictures": shown.pictures(result),
        "tables": [shown.table(one) for one in result.tables],
        "left_out": [
            (one, shown.address_of(one.origin) if one.origin else "") for one in result.left_out[:MOST_LEFT_OUT]
        ],
    }


def view(
    asked: Asked,
    result: Result | None,
    *,
    api: str,
    title: str = "",
    command: Sequence[str] = (),
    template: str = "document.html.jinja",
    crumbs: Sequence[tuple[str, str]] = (),
    problem: str = "",
    **more: Any,
) -> View:
    """The page of a result.

    api: the address of the same result as JSON.
    more: further data of a template of its own.
    """
    data = {"filtered": True, **data_of(result, problem), **more}
    return View(template=template, title=title, data=data, command=command, api=api, csv=True, crumbs=crumbs)

"""Two runs: what differs between them first, then the ratios of what both measured."""

from urllib.parse import urlencode

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.lines import name_of
from aiperf_analysis.selection import Measured, Selection
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core import units
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report.comparison import Side, view
from aiperf_core.report.result import Result, Source
from aiperf_core.results.address import Address
from aiperf_core.stats.compare import compare

MOST_PAIRS = 500  # of successive runs


def page(asked: Asked) -> View:
    """The comparison of the runs `a` and `b`, and a form that chooses them."""
    selection = asked.site.source.selection()
    chosen = [asked.one("a"), asked.one("b")]
    result, problem, runs = None, "", []
    if all(chosen):
        runs = [run_of(asked.site.source.of_run(one), one) for one in chosen]
        try:
            result = comparison(asked)
        except AiperfError as error:
            problem = str(error)
    pairs = _successive(selection)
    if not runs and len(selection.runs) < 2:
        problem = "A comparison needs two runs; there are fewer here."
    return document.view(
        asked,
        result,
        api=f"/api/v1/compare?{urlencode({'a': chosen[0], 'b': chosen[1]})}" if runs else "",
        command=["compare", *(run.path for run in runs)] if runs else (),
        template="compare.html.jinja",
        problem=problem,
        filtered=False,
        successive=pairs,
        every=[(id_of(run), f"{name_of(run)} ({units.moment(run.created)})") for run in selection.runs],
        # The newest pair that can be compared, or the two newest runs, until a reader chooses.
        chosen=[id_of(run) for run in runs] or [*(pairs[0][:2] if pairs else _newest(selection))],
    )


def _newest(selection: Selection) -> list[str]:
    """The ids of the two newest runs, the older first; of runs that are not there, empty."""
    newest = [id_of(run) for run in reversed(selection.runs[:2])]
    return [*newest, "", ""][:2]


def _successive(selection: Selection) -> list[tuple[str, str, str]]:
    """The pairs of a run and the run before it with a target and a size in common: their ids and a name of the pair."""
    targets: dict[str, set[object]] = {}
    for one in selection.every:
        targets.setdefault(one.run.id, set()).add((one.result.target, one.params))
    found = []
    for place, run in enumerate(selection.runs):
        own = targets.get(run.id, set())
        before = next((one for one in selection.runs[place + 1 :] if own & targets.get(one.id, set())), None)
        if before is not None:
            found.append(
                (id_of(before), id_of(run), f"{name_of(before)} and {name_of(run)} ({units.moment(run.created)})")
            )
    return found[:MOST_PAIRS]


def comparison(asked: Asked) -> Result:
    """The comparison as a result. Raises UsageError where a side is missing, or nothing can be compared."""
    if not asked.one("a") or not asked.one("b"):
        raise UsageError("compare needs two runs: a=ID and b=ID. The runs: /api/v1/bundles")
    left, right = (run_of(asked.site.source.of_run(asked.one(name)), asked.one(name)) for name in ("a", "b"))
    return view(compare(_address(left), _address(right)), _side(left), _side(right))


def _address(run: Measured) -> Address:
    if run.bundle is None:
        raise AiperfError(f"the folder of '{name_of(run)}' is gone, and a comparison reads its results from there.")
    return Address(run.bundle)


def _side(run: Measured) -> Side:
    return Side(name_of(run), Source(run.id, run.path, run.created, ""))

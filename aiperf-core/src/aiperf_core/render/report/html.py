"""A report as one HTML page that loads nothing and runs nothing, whatever the bundle contains."""

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.render import roofline_plot, svg
from aiperf_core.render.report import charts, samples
from aiperf_core.render.report.content import Report
from aiperf_core.render.roofline import Panel
from aiperf_core.render.roofline import roofline as collect
from aiperf_core.render.summary import chosen
from aiperf_core.results.models import Manifest, TargetResult
from aiperf_core.stats.best import best_gain

Figure = tuple[str, str, Markup]  # title, caption, picture


def render(report: Report, results: Sequence[TargetResult], manifest: Manifest, drawn: int) -> str:
    """The page. The first `drawn` results have their samples, and get figures. The same results make the same bytes."""
    style = Markup(page_style())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            policy=Markup(policy),
            style=style,
            strips=_strips(report),
            pictures={number: _of_target(result) for number, result in enumerate(results[:drawn], 1)},
            rooflines=_rooflines(results, manifest) if drawn else [],
        )
    )


def _strips(report: Report) -> dict[int, Markup]:
    """The interval of the speedup of each target, all on the same scale."""
    rows = {section.number: chosen(section.result) for section in report.sections}
    speedups = {number: (row.speedup, row.verdict) for number, row in rows.items() if row and row.speedup}
    scale = charts.speedup_scale([speedup for speedup, _ in speedups.values()])
    return {
        number: svg.markup(charts.speedup_strip(speedup, scale, verdict.value))
        for number, (speedup, verdict) in speedups.items()
    }


def _rooflines(results: Sequence[TargetResult], manifest: Manifest) -> list[tuple[str, Markup]]:
    try:
        panels = collect(results, manifest).panels
    except AiperfError:  # no result has both traffic and arithmetic
        return []
    return [(panel.device, svg.markup(roofline_plot.draw([_fewer(panel)]))) for panel in panels]


def _fewer(panel: Panel) -> Panel:
    """The panel; with many marks, only the best of each target."""
    best = tuple(mark for mark in panel.marks if mark.kind == "best")
    return attrs.evolve(panel, marks=best) if best and len(panel.marks) > roofline_plot.NAMED else panel


def _of_target(result: TargetResult) -> list[Figure]:
    rows = samples.of_rows(result)
    if not rows:
        return []
    best = best_gain(result)
    lit = any(row.row.speed_of_light for row in rows)
    return [
        (
            "Time of a call.",
            "Dots are medians, thick lines the middle half, thin lines the middle 98 % of the samples."
            + (" The dashed line is the speed of light." if lit else ""),
            svg.markup(charts.times(rows, best)),
        ),
        (
            "Spread.",
            "Density of the samples around the median of their row. Lines below: quartiles of each process round.",
            svg.markup(charts.spread(rows, best)),
        ),
        (
            "Course.",
            "Medians of blocks, in the order taken. Red dots: clocks held down. Vertical lines: a new process round.",
            svg.markup(charts.course(rows, best)),
        ),
    ]


def page_style() -> str:
    """The style sheet of the page and of the pictures in it."""
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {svg.declared(svg.DARK)} }} }}"
    page = resources.files("aiperf_core.render.report").joinpath("page.css").read_text(encoding="utf-8")
    return f":root {{ {svg.declared(svg.PALETTE)} }}\n{dark}\n{page}{svg.style_sheet()}"


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("aiperf_core.render.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: Any) -> Any:
    """The filter of every value in the template: no control characters. Jinja then escapes all that is not `Markup`."""
    return value if isinstance(value, Markup | int) else words(str(value))

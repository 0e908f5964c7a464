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
from aiperf_core.render import layout, roofline_plot, svg
from aiperf_core.render.report import charts
from aiperf_core.render.report.content import Report
from aiperf_core.render.roofline import Panel
from aiperf_core.render.roofline import roofline as collect
from aiperf_core.render.summary import chosen
from aiperf_core.render.svg import Picture, Scale
from aiperf_core.results.models import Manifest, Row, TargetResult
from aiperf_core.stats.best import best_variant

BEST_ONLY = "Of each target only the best variant."


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
            svg=svg.markup,
            axis=charts.speedup_axis(_speedup_scale(report)),
            strips=_strips(report),
            pictures={
                number: charts.of_target(result, best_variant(result))
                for number, result in enumerate(results[:drawn], 1)
            },
            rooflines=_rooflines(results, manifest) if drawn else [],
        )
    )


def _speedups(report: Report) -> dict[int, Row]:
    """The rows that stand for the targets, where these have a speedup."""
    rows = {section.number: chosen(section.result) for section in report.sections}
    return {number: row for number, row in rows.items() if row and row.speedup}


def _speedup_scale(report: Report) -> Scale:
    return charts.speedup_scale([row.speedup for row in _speedups(report).values() if row.speedup])


def _strips(report: Report) -> dict[int, Picture]:
    """The interval of the speedup of each target, all on the same scale."""
    scale = _speedup_scale(report)
    targets = {section.number: section.result.target for section in report.sections}
    return {
        number: charts.speedup_strip(targets[number], row.speedup, scale, row.verdict.value)
        for number, row in _speedups(report).items()
        if row.speedup
    }


def _rooflines(results: Sequence[TargetResult], manifest: Manifest) -> list[tuple[str, str, Markup]]:
    """For each device its name, what is left out of its roofline, and the picture."""
    try:
        panels = collect(results, manifest).panels
    except AiperfError:  # no result has both traffic and arithmetic
        return []
    found = [(panel, _fewer(panel)) for panel in panels]
    return [
        (panel.device, "" if fewer is panel else BEST_ONLY, layout.both(functools.partial(_roofline, fewer)))
        for panel, fewer in found
    ]


def _roofline(panel: Panel, wide: float) -> Picture:
    return roofline_plot.draw([panel], wide=wide)


def _fewer(panel: Panel) -> Panel:
    """The panel; with many marks, only the best of each target."""
    best = tuple(mark for mark in panel.marks if mark.kind == "best")
    return attrs.evolve(panel, marks=best) if best and len(panel.marks) > roofline_plot.NAMED else panel


def page_style() -> str:
    """The style sheet of the page and of the pictures in it."""
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {svg.declared(svg.DARK)} }} }}"
    page = resources.files("aiperf_core.render.report").joinpath("page.css").read_text(encoding="utf-8")
    return f":root {{ {svg.declared(svg.PALETTE)} }}\n{dark}\n{page}{svg.style_sheet()}{layout.STYLE}"


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

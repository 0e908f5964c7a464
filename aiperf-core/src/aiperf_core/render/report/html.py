"""A report as one HTML page that loads nothing and runs nothing, whatever the bundle contains."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from markupsafe import Markup

from aiperf_core.errors import AiperfError
from aiperf_core.render.report.content import Report
from aiperf_core.render.summary import chosen
from aiperf_core.report import html, layout, picture, roofline, sample_charts, svg
from aiperf_core.report.layout import Link
from aiperf_core.report.result import Origin, Point, counted, figure
from aiperf_core.results.models import Manifest, TargetResult
from aiperf_core.stats.best import best_variant


def render(report: Report, results: Sequence[TargetResult], manifest: Manifest, drawn: int) -> str:
    """The page. The first `drawn` results have their samples, and get figures. The same results make the same bytes."""
    style = Markup(page_style())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        html.environment("aiperf_core.render.report")
        .get_template("page.html.jinja")
        .render(
            report=report,
            policy=Markup(policy),
            style=style,
            svg=svg.markup,
            glance=glance(report),
            pictures={
                number: sample_charts.of_target(result, best_variant(result))
                for number, result in enumerate(results[:drawn], 1)
            },
            rooflines=_rooflines(results, manifest) if drawn else [],
        )
    )


def glance(report: Report, link: Link | None = None) -> Markup:
    """The picture of the speedups of the variants that stand for the targets; empty for a report without speedups.

    link: gives the address of a target; without it, points lead nowhere.
    """
    rows = [(section.result.target, chosen(section.result)) for section in report.sections]
    points = [
        Point(
            label=target,
            x=figure(row.speedup),
            y=counted(float(index), "count"),
            mark=row.verdict.value,
            origin=Origin("", target),
        )
        for index, (target, row) in enumerate(rows)
        if row and row.speedup
    ]
    return picture.both(sample_charts.glance(points), link) if points else Markup("")


def _rooflines(results: Sequence[TargetResult], manifest: Manifest) -> list[tuple[roofline.Panel, Markup]]:
    """For each device its panel, and the picture of it."""
    try:
        panels = roofline.roofline(results, manifest).panels
    except AiperfError:  # no result has a bound
        return []
    return [(panel, picture.both(roofline.draw(panel))) for panel in panels]


def page_style() -> str:
    """The style sheet of the page and of the pictures in it."""
    page = resources.files("aiperf_core.render.report").joinpath("page.css").read_text(encoding="utf-8")
    return f"{html.colours('screen')}{page}{svg.style_sheet()}{layout.STYLE}"

"""A report as one HTML page that loads nothing, runs nothing and follows nothing, whatever stands in the bundle."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.render.notes import best_of
from aiperf_core.render.report import charts, samples
from aiperf_core.render.report.content import Report
from aiperf_core.render.roofline import roofline as collect
from aiperf_core.results.models import Manifest, TargetResult

Picture = tuple[str, str, Markup]  # its title, what it shows, and itself


@attrs.frozen
class Pictures:
    """What is drawn: of each target by its number, and of each device."""

    targets: Mapping[int, Sequence[Picture]]
    rooflines: Sequence[tuple[str, Markup]]


def draw(results: Sequence[TargetResult], manifest: Manifest, drawn: int) -> Pictures:
    """The pictures of a report; of the first `drawn` results, which have their samples, the distributions too."""
    if not drawn:
        return Pictures({}, [])
    pictures = {number: _of_target(result) for number, result in enumerate(results[:drawn], 1)}
    try:
        panels = collect(results, manifest).panels
    except AiperfError:  # nothing there has both traffic and arithmetic
        panels = ()
    return Pictures(pictures, [(panel.device, charts.roofline(panel)) for panel in panels])


def _of_target(result: TargetResult) -> list[Picture]:
    taken = samples.taken(result)
    if not taken:
        return []
    best = best_of(result)
    lit = any(one.row.speed_of_light for one in taken)
    return [
        (
            "Time of a call.",
            "Dots are medians, thick lines the middle half, thin lines the middle 98 % of the samples."
            + (" The broken line is the speed of light." if lit else ""),
            charts.times(taken, best),
        ),
        (
            "Spread.",
            "How the samples lie around the median of their row; lines below are the quartiles of each round.",
            charts.spread(taken, best),
        ),
        (
            "Course.",
            "Medians of blocks, in the order taken. Red dots: clocks held down. Upright lines: fresh processes.",
            charts.course(taken, best),
        ),
    ]


def render(report: Report, pictures: Pictures) -> str:
    """The page. The same report and pictures make the same bytes."""
    style = Markup(page_style())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    speedups = {one.number: one.row for one in report.headlines if one.row and one.row.speedup}
    scale = charts.speedup_scale([row.speedup for row in speedups.values() if row.speedup])
    strips = {
        number: charts.speedup_strip(row.speedup, scale, row.verdict.value)
        for number, row in speedups.items()
        if row.speedup
    }
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            policy=Markup(policy),
            style=style,
            strips={one.number: strips.get(one.number, "") for one in report.headlines},
            pictures={one.number: pictures.targets.get(one.number, ()) for one in report.sections},
            rooflines=pictures.rooflines,
        )
    )


def page_style() -> str:
    """The style sheet of the page and of the pictures in it."""
    return read("page.css") + picture_style()


def picture_style() -> str:
    """The style sheet of pictures alone."""
    return read("picture.css")


def read(name: str) -> str:
    """A file that lies beside this one."""
    return resources.files("aiperf_core.render.report").joinpath(name).read_text(encoding="utf-8")


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
    """Everything that the template prints passes here: without control characters, and then escaped unless it is ours."""
    return value if isinstance(value, Markup | int) else words(str(value))

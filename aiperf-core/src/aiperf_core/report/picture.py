"""Drawings as pictures: as SVG, and as PNG and PDF made of it. The same drawing makes the same SVG and PNG."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from markupsafe import Markup

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report import cells, interval_plot, layout, svg, timeline, xy_plot
from aiperf_core.report.layout import WIDE, Link
from aiperf_core.report.result import Cell, Column, Drawing, Figure, Record, Table
from aiperf_core.report.svg import Picture

FORMATS = (".svg", ".png", ".pdf")
_SCALE = 2.5  # pixels of a PNG for a pixel of the picture
_DRAWERS: dict[str, Callable[[Drawing, Link | None, float], Picture]] = {
    "intervals": interval_plot.draw,
    "bars": interval_plot.draw,
    "waterfall": interval_plot.draw,
    "lines": xy_plot.draw,
    "scatter": xy_plot.draw,
    "strip": xy_plot.draw,
    "flame": timeline.draw,
    "timeline": timeline.draw,
    "cells": cells.draw,
}


def picture(drawing: Drawing | Sequence[Drawing], link: Link | None = None, wide: float = WIDE) -> Picture:
    """The picture; of several drawings one below the other.

    link: gives the address of the row of a point; without it, points lead nowhere.
    wide: its width in pixels, `WIDE` or `NARROW`.

    Raises KeyError for a kind without a drawer.
    """
    if isinstance(drawing, Drawing):
        made = _DRAWERS[drawing.kind](drawing, link, wide)
        return made if made.title else evolve(made, title=drawing.name)
    parts = [picture(part, link, wide) for part in drawing]
    shapes: list[svg.Shape] = []
    top = 0.0
    for part in parts:
        shapes += [svg.lowered(shape, top) for shape in part.shapes]
        top += part.height
    titles, messages = (list(dict.fromkeys(texts)) for texts in zip(*((p.title, p.alt) for p in parts), strict=True))
    return Picture(wide, top, ", ".join(titles), " ".join(messages), shapes, parts[0].kind)


def render_svg(drawing: Drawing | Sequence[Drawing]) -> str:
    """The picture as an SVG file of its own, in the light and in the dark scheme of the reader."""
    return svg.document(picture(drawing))


def picture_bytes(drawing: Drawing | Sequence[Drawing], kind: str) -> bytes:
    """The picture as a file of `FORMATS`, named by its ending. Raises `AiperfError` where that needs a package."""
    text = render_svg(drawing)
    if kind == ".svg":
        return text.encode()
    converter = _converter(kind)
    made: bytes = converter.svg_to_png(text, scale=_SCALE) if kind == ".png" else converter.svg_to_pdf(text)
    return made


def check(path: Path, option: str = "--out") -> None:
    """Raise where a picture cannot be written to `path`: the format is unknown, or it needs a package.

    option: the option that names the file.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"'{path}' is not .svg, .png or .pdf; give {option} a name that ends in one of them.")
    if kind != ".svg":
        _converter(kind)


def write(drawing: Drawing | Sequence[Drawing], path: Path, option: str = "--out") -> None:
    """Write the picture, whole or not at all. Raises `AiperfError` where the file cannot be written."""
    check(path, option)
    try:
        atomic.write(path, picture_bytes(drawing, path.suffix.lower()))
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another {option}.") from error


def _converter(kind: str) -> Any:
    try:
        return importlib.import_module("vl_convert")
    except ImportError:
        raise AiperfError(
            f"{kind} needs the package 'vl-convert-python': pip install 'aiperf-core[plots]'. Without it, write .svg."
        ) from None


def table(drawing: Drawing) -> Table:
    """The figures of a drawing as a table, for readers who do not see it; each leads to the row that it comes from."""
    name, title = f"picture-{drawing.name}", drawing.title
    if drawing.spans:
        texts = [Column("piece", "piece"), Column("lane", "lane"), Column("kind", "kind")]
        figures = [Column(key, f"{key} ({drawing.x.unit})", "figure") for key in ("start", "length")]
        spans = []
        for span in drawing.spans:
            start, length = (Figure(value=value, unit=drawing.x.unit) for value in (span.start, span.length))
            cells: dict[str, Cell] = {"piece": span.label, "lane": span.lane, "kind": span.kind}
            spans.append(Record({**cells, "start": start, "length": length}))
        return Table(name, title, [*texts, *figures], spans)
    columns = [
        Column("point", "point"),
        Column("series", "series"),
        Column("x", drawing.x.title, "figure"),
        Column("y", drawing.y.title, "figure"),
        Column("mark", "", "verdict"),
    ]
    records = [
        Record(
            {"point": point.label or "samples", "series": series.name, "x": point.x, "y": point.y, "mark": point.mark},
            [point.origin] if point.origin else [],
        )
        for series in drawing.series
        for point in series.points
    ]
    return Table(name, title, columns, records)


def both(drawing: Drawing | Sequence[Drawing], link: Link | None = None) -> Markup:
    """The picture in both widths, as an element of a page that has `layout.STYLE`."""
    return layout.both(lambda wide: picture(drawing, link, wide))

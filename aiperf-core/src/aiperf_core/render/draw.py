"""Draws a roofline with matplotlib, the same bytes from the same results."""

import importlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from aiperf_core import units
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.render.labels import Box, Label, Placed, around, place
from aiperf_core.render.roofline import Mark, Panel, Roof, Roofline

FORMATS = (".svg", ".png")
INK, QUIET, STEM, FAINT = "#1d2733", "#5b6672", "#b9c1ca", "#e4e8ec"
# Mostly those of Okabe and Ito, which any kind of colour vision tells apart; the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#8F5B9E", "#B8860B", "#56B4E9", "#CC79A7", "#882255", "#44AA99", "#4D4D4D")
SHAPES = {"baseline": "o", "variant": "o", "best": "D", "yardstick": "^"}
WIDE, HIGH = 8.6, 5.4  # inches of a panel
# With more marks than this, only baselines and the best variants are named.
NAMED = 28
# Empty space around the marks, in powers of ten.
_LEFT, _RIGHT = 1.1, 0.9
_NOTE = 0.25  # what is written on a roof at the right, as a part of the width to its left
SETTINGS: Any = {
    "text.parse_math": False,  # of a name between two dollars
    "svg.hashsalt": "aiperf",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
}


def check(path: Path) -> None:
    """Raise where nothing could be drawn into this file: of a wrong kind, or without matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"'{path}' is neither .svg nor .png; give --out a name that ends in one of them.")
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise AiperfError("drawing needs the package 'matplotlib': pip install 'aiperf-core[plots]'") from None


def draw(picture: Roofline, title: str, path: Path) -> None:
    """Write the picture. Raises `AiperfError` where the file cannot be written."""
    check(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(WIDE, HIGH * len(picture.panels)), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
        axes = figure.subplots(len(picture.panels), 1, squeeze=False)[:, 0]
        for index, (panel, one) in enumerate(zip(picture.panels, axes, strict=True)):
            _Drawing(one, panel).draw(title if index == 0 else "")
        # Labels go where there is room, which is known only once everything else has its place.
        figure.draw_without_rendering()
        for panel, one in zip(picture.panels, axes, strict=True):
            _turn_labels(one)
            _name_marks(one, panel)
        _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    kind = path.suffix.lower()[1:]
    metadata = {"Date": None, "Creator": "aiperf"} if kind == "svg" else {"Software": "aiperf"}
    try:
        figure.savefig(path, format=kind, dpi=180, metadata=metadata)
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another --out.") from error


@attrs.frozen
class _Span:
    """The part of the plane that is shown."""

    left: float
    right: float
    bottom: float
    top: float


class _Drawing:
    """One panel."""

    def __init__(self, axes: Any, panel: Panel) -> None:
        self._axes, self._panel = axes, panel
        self._levels = [roof.level for roof in panel.others if roof.level]
        self._span = _span(panel)

    def draw(self, title: str) -> None:
        axes, span = self._axes, self._span
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(span.left, span.right)
        axes.set_ylim(span.bottom, span.top)
        self._frame()
        self._roofs()
        self._stems()
        for mark in self._panel.marks:
            self._mark(mark)
        about = f"{words(self._panel.device)}, ceilings of {self._panel.measured[:10]}"
        axes.set_title(about, loc="left", fontsize=8.5, color=QUIET, pad=8)
        if title:
            axes.annotate(
                title, (0, 1), (0, 24), xycoords="axes fraction", textcoords="offset points", fontsize=12, weight="bold"
            )
        self._legend()

    def _frame(self) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axes = self._axes
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.grid(which="major", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(which="minor", length=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("arithmetic intensity, FLOP per byte that must be moved")
        axes.set_ylabel("FLOP per second")

    def _roofs(self) -> None:
        top = max(self._levels, default=self._span.top)
        self._slope(self._panel.memory, top, dashed=False)
        for roof in self._panel.others:
            if roof.slope:
                self._slope(roof, top, dashed=True)
            elif roof.level:
                self._level(roof)

    def _slope(self, roof: Roof, top: float, *, dashed: bool) -> None:
        assert roof.slope is not None
        right = min(self._span.right, top / roof.slope)
        left = max(self._span.left, self._span.bottom / roof.slope)
        self._axes.plot(
            [left, right],
            [left * roof.slope, right * roof.slope],
            color=QUIET if dashed else INK,
            linewidth=1.0 if dashed else 1.6,
            linestyle=(0, (4, 3)) if dashed else "-",
            solid_capstyle="round",
            zorder=2,
            gid="roof",
        )
        # Near its left end, where marks are rare, and turned as the line is.
        at = 10 ** (math.log10(left) + 0.06 * (math.log10(right) - math.log10(left)))
        self._axes.annotate(
            roof.label,
            (at, at * roof.slope),
            (0, 5),
            textcoords="offset points",
            rotation=45,  # until the layout is known
            rotation_mode="anchor",
            fontsize=8.5,
            color=QUIET if dashed else INK,
            gid="roof",
        )

    def _level(self, roof: Roof) -> None:
        assert roof.level is not None
        slopes = [one.slope for one in (self._panel.memory, *self._panel.others) if one.slope]
        left = max(self._span.left, roof.level / max(slopes))
        self._axes.plot([left, self._span.right], [roof.level] * 2, color=INK, linewidth=1.6, zorder=2, gid="roof")
        self._axes.annotate(
            roof.label,
            (self._span.right, roof.level),
            (-2, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            gid="roof",
        )

    def _stems(self) -> None:
        """From each target's lowest mark up to the roof: how far there is to go."""
        for target in targets(self._panel.marks):
            ours = [mark for mark in self._panel.marks if mark.target == target]
            reach = [*(mark.flop_per_s for mark in ours), *(mark.ceiling for mark in ours if mark.ceiling)]
            self._axes.plot([ours[0].intensity] * 2, [min(reach), max(reach)], color=STEM, linewidth=1.4, zorder=1)

    def _mark(self, mark: Mark) -> None:
        colour = colour_of(mark, self._panel.marks)
        hollow = mark.kind in ("baseline", "yardstick")
        edge = QUIET if mark.kind == "yardstick" else colour if hollow else "white"
        self._axes.plot(
            [mark.intensity],
            [mark.flop_per_s],
            marker=SHAPES.get(mark.kind, "o"),
            markersize=8.5 if mark.kind == "best" else 6.5,
            # A yardstick is see-through: it often stands where the best variant does.
            markerfacecolor="none" if mark.kind == "yardstick" else "white" if hollow else colour,
            markeredgecolor=edge,
            markeredgewidth=1.5 if hollow else 0.8,
            linestyle="none",
            zorder=4.5 if mark.kind == "yardstick" else 4,
        )

    def _legend(self) -> None:
        from matplotlib.lines import Line2D

        names = targets(self._panel.marks)
        kinds = [kind for kind in ("baseline", "variant", "best", "yardstick") if self._has(kind)]
        handles = [
            Line2D(
                [],
                [],
                linestyle="none",
                marker=SHAPES[kind],
                markersize=6.5,
                markerfacecolor="white" if kind in ("baseline", "yardstick") else QUIET,
                markeredgecolor=QUIET,
                label="best variant" if kind == "best" else kind,
            )
            for kind in kinds
        ]
        if len(names) > 1:
            handles += [
                Line2D([], [], linestyle="none", marker="s", color=COLOURS[index % len(COLOURS)], label=words(name))
                for index, name in enumerate(names)
            ]
        # Below the axes: inside, something always lies under it.
        self._axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(-0.01, -0.12),
            ncols=4,
            frameon=False,
            fontsize=8.5,
            handletextpad=0.3,
            columnspacing=1.6,
        )

    def _has(self, kind: str) -> bool:
        return any(mark.kind == kind for mark in self._panel.marks)


def _span(panel: Panel) -> _Span:
    """The marks and the corner of the roof nearest to them, with some room around."""
    xs = [mark.intensity for mark in panel.marks]
    ys = [mark.flop_per_s for mark in panel.marks]
    levels = [roof.level for roof in panel.others if roof.level]
    slope = panel.memory.slope or 1.0
    corners = [level / slope for level in levels]
    left = min(xs) / 10**_LEFT
    furthest = max([*xs, *corners])
    right = furthest * 10 ** max(_RIGHT, _NOTE * math.log10(furthest / left))
    top = max([*levels, *ys, *(x * slope for x in xs if not levels)]) * 3
    bottom = min([*ys, left * slope]) / 4
    return _Span(left, right, bottom, top)


def targets(marks: Sequence[Mark]) -> list[str]:
    """The targets of the marks, each once."""
    return list(dict.fromkeys(mark.target for mark in marks))


def colour_of(mark: Mark, marks: Sequence[Mark]) -> str:
    """A colour a target."""
    return COLOURS[targets(marks).index(mark.target) % len(COLOURS)]


def _name_marks(axes: Any, panel: Panel) -> None:
    """Write each mark's name beside it, with its fraction of light, where nothing else is."""
    named = [mark for mark in panel.marks if len(panel.marks) <= NAMED or mark.kind in ("best", "baseline")]
    points = 72 / axes.figure.dpi
    texts = [_text(axes, mark) for mark in named]
    sizes = [_in_points(text.get_window_extent(), points) for text in texts]
    anchors = [_on_page(axes, mark.intensity, mark.flop_per_s) for mark in named]
    labels = [
        Label(x, y, size.right - size.left, mark.target)
        for (x, y), size, mark in zip(anchors, sizes, named, strict=True)
    ]
    height = max((size.top - size.bottom for size in sizes), default=0.0) * 1.08
    page = _in_points(axes.get_window_extent(), points)
    spots = place(labels, height, page, _taken(axes, panel, points))
    for text, mark, anchor, spot in zip(texts, named, anchors, spots, strict=True):
        text.set_ha("right" if spot.turned else "left")
        text.xyann = (spot.x - anchor[0], spot.y - anchor[1])
        if abs(spot.y - anchor[1]) > 3:
            _leader(axes, mark, anchor, spot)


def _text(axes: Any, mark: Mark) -> Any:
    return axes.annotate(
        _label(mark),
        (mark.intensity, mark.flop_per_s),
        (0, 0),
        textcoords="offset points",
        fontsize=8.5,
        va="center",
        weight="bold" if mark.kind == "best" else "normal",
        color=INK if mark.kind in ("best", "baseline") else QUIET,
        zorder=5,
    )


def _label(mark: Mark) -> str:
    name = words(mark.name)
    return name if mark.fraction is None else f"{name}  {units.percent(mark.fraction)}"


def _taken(axes: Any, panel: Panel, points: float) -> Iterator[Box]:
    """What labels must not cover: marks, roofs in small pieces, and what is written on the roofs."""
    for mark in panel.marks:
        yield around(*_on_page(axes, mark.intensity, mark.flop_per_s))
    for line in axes.lines:
        if line.get_gid() == "roof":
            (x, y), (to_x, to_y) = (_on_page(axes, *ends) for ends in line.get_xydata())
            pieces = max(1, math.ceil(math.hypot(to_x - x, to_y - y) / 3))
            for step in range(pieces + 1):
                at = step / pieces
                middle_x, middle_y = x + at * (to_x - x), y + at * (to_y - y)
                yield Box(middle_x - 2, middle_y - 2, middle_x + 2, middle_y + 2)
    yield from (_in_points(text.get_window_extent(), points) for text in axes.texts if text.get_gid() == "roof")


def _leader(axes: Any, mark: Mark, anchor: tuple[float, float], spot: Placed) -> None:
    """A thin line from a mark to its label, where they are not side by side."""
    axes.annotate(
        "",
        (mark.intensity, mark.flop_per_s),
        (spot.x - anchor[0] + (2 if spot.turned else -2), spot.y - anchor[1]),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        zorder=3,
    )


def _on_page(axes: Any, intensity: float, flop_per_s: float) -> tuple[float, float]:
    """A place in the plane, in points on the page."""
    x, y = axes.transData.transform((intensity, flop_per_s)) * 72 / axes.figure.dpi
    return float(x), float(y)


def _in_points(box: Any, points: float) -> Box:
    return Box(box.x0 * points, box.y0 * points, box.x1 * points, box.y1 * points)


def _turn_labels(axes: Any) -> None:
    """Turn what is written on sloping roofs as the roofs are, which the layout has decided."""
    for text in axes.texts:
        if text.get_rotation():
            x, y = text.xy
            (left, bottom), (right, top) = _on_page(axes, x, y), _on_page(axes, 10 * x, 10 * y)
            text.set_rotation(math.degrees(math.atan2(top - bottom, right - left)))


def _tick(value: float) -> str:
    """`100 G`: a round number with its prefix."""
    scale, prefix = next(((scale, prefix) for scale, prefix in units.RATE_PREFIXES if value >= scale), (1.0, ""))
    return f"{value / scale:g} {prefix}".rstrip()

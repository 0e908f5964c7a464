"""Drawings of every kind with hostile values, and the structure of their pictures.

python aiperf-core/tests/report/picture_cases.py        writes `pictures.json`, which `test_pictures.py` compares with
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiperf_core.report import layout, svg
from aiperf_core.report.picture import picture
from aiperf_core.report.result import Axis, Band, Drawing, Figure, Origin, Point, Series, Span

GOLDEN = Path(__file__).with_name("pictures.json")
POINTS = ("intervals", "bars", "waterfall", "lines", "scatter", "strip")
SPANS = ("timeline", "flame", "cells")
LONG = "a_name_of_eighty_characters_" + "x" * 52
HOSTILE = ["<script>alert(1)</script>", "\u202egnp.exe", "\x1b[31mred", "عربي", 'a"b&c', "=HYPERLINK(1)", "$x_1$"]
MARKS = ["FASTER", "INCONCLUSIVE", "INVALID", "front", "undecided", "best", "baseline", "throttled", "", "fit"]


def figure(value: float | None, unit: str) -> Figure:
    """A figure with an interval of a fifth to either side."""
    if value is None or math.isnan(value):
        return Figure(value=value, unit=unit, reason="not measured" if value is None else None)
    return Figure(value=value, low=value - abs(value) / 5, high=value + abs(value) / 5, unit=unit)


def points(values: list[float | None], names: list[str], unit: str) -> list[Point]:
    """A point for each value, with marks in turn."""
    return [
        Point(
            label=names[at % len(names)],
            x=figure(value, unit),
            y=figure(None if value is None else 3.0 * value + at, unit),
            mark=MARKS[at % len(MARKS)],
            origin=Origin("bundle", "target", str(at)),
        )
        for at, value in enumerate(values)
    ]


VALUES: dict[str, tuple[list[float | None], list[str], str, bool]] = {
    "nothing": ([], ["a"], "s", False),
    "one": ([2.0], ["a"], "1", True),
    "without figures": ([None, math.nan], ["a", "b"], "J", False),
    "gaps": ([1.0, None, 3.0, math.nan, 5.0], ["a", "b", "c", "d", "e"], "s", False),
    "zeros on a logarithmic axis": ([0.0, 1e-9, 1.0, 1e9, -1.0], ["a", "b", "c", "d", "e"], "count", True),
    "beyond numbers": ([1e-300, 1.0, 1e300], ["a", "b", "c"], "number", True),
    "bytes": ([1.0, 2.0**20, 2.0**40], ["a", "b", "c"], "B", True),
    "equal": ([1.0] * 12, [f"point {at}" for at in range(12)], "1", False),
    "long names": ([1.0, 2.0, 40.0], [LONG, LONG[::-1], "c"], "s", True),
    "hostile names": ([float(at + 1) for at in range(7)], HOSTILE, "USD", False),
    "a thousand": ([1.0 + math.sin(at) / 2 for at in range(1_000)], [f"p{at}" for at in range(1_000)], "s", False),
}


def cases() -> Iterator[tuple[str, Drawing]]:
    """Each case with its name."""
    for name, (values, names, unit, log) in VALUES.items():
        for kind in POINTS:
            half = len(values) // 2 if len(values) < 20 else 0
            every = points(values, names, unit)
            x, y = (Axis(title=f"{axis}, {names[0]}", unit=unit, log=log) for axis in "xy")
            yield f"{kind}: {name}", Drawing(
                name="d",
                title=names[0],
                kind=kind,
                message=names[-1],
                x=x,
                y=y,
                series=[Series(name=part, points=some, joined=kind in ("lines", "strip")) for part, some in
                        (("first", every[:half]), (names[0], every[half:])) if some],
                borders={f"border {names[0]}": 2.0, "other border": 2.5},
                bands=[Band(begin=0.9, end=1.1, title=names[0])],
            )  # fmt: skip
        for kind in SPANS:
            yield (
                f"{kind}: {name}",
                Drawing(
                    name="d",
                    title=names[0],
                    kind=kind,
                    message=names[-1],
                    x=Axis(title=names[0], unit="s"),
                    y=Axis(title="lane"),
                    spans=[
                        Span(
                            label=names[at % len(names)],
                            lane=str(at % 60),
                            start=float(at // 60),
                            length=1.0,
                            kind="filled" if kind == "cells" else "copy",
                            short=names[at % len(names)] if kind == "cells" else "",
                            group=names[0] if at % 60 < 30 else names[-1],
                        )
                        for at in range(len(values))
                    ],
                    borders={"step": 1.0},
                ),
            )


def structure(drawing: Drawing, wide: float) -> dict[str, object]:
    """The size of a picture, how many shapes of each class it has, and its first texts."""
    made = picture(drawing, lambda origin: f"/row/{origin.row}", wide)
    counts = Counter(f"{type(shape).__name__} {shape.kind}" for shape in made.shapes)
    texts = [shape.content for shape in made.shapes if isinstance(shape, svg.Text)]
    return {"size": [made.width, round(made.height)], "shapes": dict(sorted(counts.items())), "texts": texts[:16]}


def structures() -> dict[str, dict[str, object]]:
    """The structure of each case, wide and narrow."""
    return {
        f"{name}, {wide:g}": structure(drawing, wide)
        for name, drawing in cases()
        for wide in (layout.WIDE, layout.NARROW)
    }


if __name__ == "__main__":
    lines = (f" {json.dumps(name)}: {json.dumps(parts)}" for name, parts in structures().items())
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

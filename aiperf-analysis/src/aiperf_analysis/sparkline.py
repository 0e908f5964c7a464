"""The course of values without axes: as one line of characters, and as a small picture.

plain: ASCII only, for terminals without UTF-8 and for pipes.
"""

from collections.abc import Sequence
from statistics import median

from aiperf_core.report.svg import Dot, Path, Picture, Scale

BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
WIDTH, HEIGHT, MARGIN = 96.0, 22.0, 3.0  # of a picture, in pixels
# The least range of a picture, as a share of the median: noise of one percent is a flat line.
LEAST_RANGE = 0.2


def sparkline(values: Sequence[float], width: int, *, plain: bool = False) -> str:
    """The course of values as one line. More values than columns are put together by their medians."""
    runs, columns = len(values), min(width, len(values))
    if columns < 1:
        return ""
    parts = [median(values[place * runs // columns : (place + 1) * runs // columns]) for place in range(columns)]
    low, high = min(parts), max(parts)
    levels = PLAIN_BLOCKS if plain else BLOCKS
    top = len(levels) - 1
    if high == low:
        return levels[top // 2] * len(parts)
    return "".join(levels[1 + round((one - low) / (high - low) * (top - 1))] for one in parts)


def picture(values: Sequence[float], title: str) -> Picture:
    """The course of at least two positive values as a line that ends in a dot, the newest value.

    title: what the values are, for readers who do not see the line.
    """
    low, high, middle = min(values), max(values), median(values)
    missing = max(0.0, middle * LEAST_RANGE - (high - low)) / 2
    across = Scale(0, len(values) - 1, MARGIN, WIDTH - MARGIN)
    upright = Scale(low - missing, high + missing, HEIGHT - MARGIN, MARGIN)
    points = [(across(place), upright(value)) for place, value in enumerate(values)]
    return Picture(
        width=WIDTH,
        height=HEIGHT,
        title=title,
        alt=f"{len(values)} values; the newest is {values[-1] / middle:.3g} times their median.",
        shapes=[Path(points, "s0 course"), Dot(*points[-1], MARGIN, "s0")],
        kind="sparkline",
    )

"""The samples of a row as lines: its course in the order taken, and the distribution."""

import numpy as np

from aiperf_analysis.selection import Entry, Selection
from aiperf_analysis.sparkline import sparkline
from aiperf_analysis.tui.pages import NO_FOLDER
from aiperf_analysis.tui.pictures import histogram
from aiperf_core import units
from aiperf_core.errors import BundleError
from aiperf_core.report import samples as of_report
from aiperf_core.report.result import Origin

HEIGHT = 3  # lines of the histogram
MOST_BINS, FEWEST_BINS = 72, 12


def entry_of(selection: Selection, origin: Origin) -> Entry | None:
    """The row with an origin; None where it is gone, or the origin is not of a row."""
    return next((one for one in selection.every if one.origin == origin), None)


def lines(entry: Entry, width: int, *, plain: bool = False) -> list[str]:
    """The samples of a row, or why there are none. Reads them from the bundle."""
    if entry.run.bundle is None:
        return [f"no samples: {NO_FOLDER}"]
    try:
        result = entry.run.bundle.target(entry.result.target)
    except BundleError as error:
        return [f"no samples: {error}"]
    found = next((one for one in of_report.of_rows(result) if one.row.name == entry.row.name), None)
    if found is None:
        return ["no samples: none were taken of this row"]
    low, high = of_report.strip_range(found)
    bins = min(width, MOST_BINS, max(FEWEST_BINS, int(2 * len(found.times) ** 0.5)))
    counts, _ = np.histogram(found.times, bins=bins, range=(low, high))
    least, p5, p50, p95, most = (units.seconds(one) for one in found.quantiles(0, 0.05, 0.5, 0.95, 1))
    outside = of_report.beyond(found, low, high)
    beyond = f"; {outside} outside" if outside else ""
    course = [1 + one.deviation for one in of_report.series(found)]
    held = float(np.mean(found.throttled))
    throttled = f"; throttled in {100 * held:.0f} %" if held else ""
    shown = [
        f"{units.plural('sample', len(found.times))}: median {p50}; 5 % {p5}, 95 % {p95}; from {least} to {most}",
        f"course of {units.plural('block', len(np.unique(found.blocks)))}, in the order taken, "
        f"{100 * (min(course) - 1):+.1f} % to {100 * (max(course) - 1):+.1f} % of the median{throttled}",
        sparkline(course, width, plain=plain),
        f"distribution from {units.seconds(low)} to {units.seconds(high)}{beyond}",
        *histogram((counts / max(1, counts.max())).tolist(), HEIGHT, plain=plain),
    ]
    return [one.replace("µ", "u") for one in shown] if plain else shown

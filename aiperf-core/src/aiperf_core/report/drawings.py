"""Rows as drawings: the ladder of a target, and the sweep of a target over its parameters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.marks import FIT, colours
from aiperf_core.report.result import Axis, Drawing, Figure, Origin, Point, Series, counted, figure
from aiperf_core.results.sweeps import Sweep, SweepRow

# Whole numbers are spelled as --set takes them, 1e6 or 2**20, where one of them is at least this.
LONG = 100_000
LOG = 8.0  # a range that spans this factor has a logarithmic axis
WIDEST_BAR = 3.0  # how far an interval may widen an axis, as a factor beyond the outermost value
LIGHT = "light"
NO_FIGURE = "no stored figure"


def spans_decades(figures: Iterable[Figure]) -> bool:
    """True for positive values of which the largest is more than `LOG` times the least: their axis is logarithmic."""
    values = [figure.value for figure in figures if figure.value is not None]
    return bool(values) and min(values) > 0 and max(values) > LOG * min(values)


def of_ratios(name: str, title: str, message: str, axis: str, ratios: Iterable[tuple[Origin, Figure, str]]) -> Drawing:
    """Ratios of rows with their intervals on a logarithmic axis, a line each, the largest at the top.

    ratios: each with the row that it is of, and its verdict.
    """
    points = [
        Point(
            label=f"{row.target}:{row.row}",
            x=ratio,
            y=counted(float(place), "count"),
            mark=verdict,
            origin=row,
        )
        for place, (row, ratio, verdict) in enumerate(sorted(ratios, key=lambda ratio: -(ratio[1].value or 0.0)))
    ]
    return Drawing(
        name=name,
        title=title,
        kind="intervals",
        message=message,
        x=Axis(title=axis, log=True),
        y=Axis(title="row", unit="count"),
        series=[Series(name="ratio", points=points)],
    )


# --- the ladder of a target


@frozen(kw_only=True)
class Rung:
    """An implementation in a ladder.

    ratio: the speedup, or the baseline's peak memory divided by the implementation's; None without a stored figure.
    sol: the fraction of the speed of light.
    """

    name: str
    role: str
    ratio: Estimate | None = None
    sol: float | None = None


def ladder(rungs: Sequence[Rung], metric: str, title: str) -> Drawing:
    """The stored figure of each implementation that has one, the baseline at 1. `metric` is `speedup` or `memory`."""
    best = _best(rungs)
    shared = colours((rung.name, rung.role) for rung in rungs)
    base = next((rung.name for rung in rungs if rung.role == "baseline"), "the baseline")
    what = "speedup over" if metric == "speedup" else "peak memory divided into that of"
    points = [
        Point(
            label=rung.name,
            x=_ratio(rung),
            y=counted(None if rung.sol is None else rung.sol * 100, "%"),
            mark="best" if rung is best else rung.role if rung.role in ("baseline", "yardstick") else "",
            colour=shared[rung.name],
        )
        for rung in rungs
        if rung.ratio
    ]
    return Drawing(
        name="ladder",
        title=title,
        kind="intervals",
        message=f"{metric} relative to the baseline: {', '.join(map(_words, rungs))}",
        x=Axis(title=f"{what} {base} with 95 % intervals, logarithmic", log=True),
        y=Axis(title="SOL", unit="%"),
        series=[Series(name="implementations", points=points)],
    )


def _words(rung: Rung) -> str:
    """A rung in words: `wide 10.2x [10.1, 10.3], SOL 94 %`."""
    figures = "" if rung.role == "baseline" else cell_text.whole(_ratio(rung)) if rung.ratio else NO_FIGURE
    role = rung.role if rung.role in ("baseline", "yardstick") else ""
    light = "" if rung.sol is None else f"SOL {units.percent(rung.sol)}"
    return f"{rung.name} {', '.join(part for part in (role, figures, light) if part)}"


def _ratio(rung: Rung) -> Figure:
    if rung.ratio is None or rung.ratio.high > rung.ratio.low:
        return figure(rung.ratio, reason=NO_FIGURE)
    return counted(rung.ratio.value)


def _best(rungs: Sequence[Rung]) -> Rung | None:
    """The variant with the largest figure above 1."""
    above = [(rung.ratio.value, rung) for rung in rungs if rung.role == "variant" and rung.ratio and rung.ratio.low > 1]
    return max(above, key=lambda pair: pair[0])[1] if above else None


# --- sweeps


def spelled(sweep: Sweep, name: str, value: float) -> str:
    """A value of a parameter: in full, or where values are long as `1e6` or `2**20`, all of them if possible."""
    values = sweep.values(name)
    if values[-1] < LONG or value != int(value):
        return units.parameter(value)
    for spell in (_power_of_two, _power_of_ten):
        if all(each == int(each) and spell(each) for each in values):
            return spell(value)
    return (value >= LONG and (_power_of_ten(value) or _power_of_two(value))) or units.parameter(value)


def at(sweep: Sweep, values: Mapping[str, float]) -> str:
    """The values of a point: `m=512, n=1e6`."""
    return ", ".join(f"{words(name)}={spelled(sweep, name, value)}" for name, value in values.items())


def _power_of_two(value: float) -> str:
    """`2**20`; empty for another value."""
    power = int(value).bit_length() - 1
    return f"2**{power}" if value >= 1 and value == 1 << power else ""


def _power_of_ten(value: float) -> str:
    """`25e5`; empty for a value with more than two digits before its zeros."""
    digits = str(int(value))
    first = digits.rstrip("0")
    return f"{first}e{len(digits) - len(first)}" if 0 < len(first) < 3 else ""


def across(sweep: Sweep) -> str:
    """The parameter of the horizontal axis: that with the most values."""
    counts = {name: len(sweep.values(name)) for name in sweep.parameters}
    return max(sweep.parameters, key=lambda name: counts[name])


def left_out(sweep: Sweep) -> list[str]:
    """The rows that the drawings do not show, with the reason."""
    names = ((row, f"{row.point}:{row.implementation}" if row.implementation else row.point) for row in sweep.rows)
    return [f"{name}: {row.verdict.value}" for row, name in names if row.time_s is None]


def of_sweep(sweep: Sweep, note: str = "") -> list[Drawing]:
    """The time, and the fraction of the speed of light, against a parameter; for each combination of the others.

    Rows that are not believed have no figure there, and divide the line of their implementation. `note` says where the
    sweep was measured.
    """
    rows = [row for row in sweep.rows if row.time_s is not None]
    name = across(sweep)
    devices = dict.fromkeys(result.device for result in sweep.results)
    tiers = ", ".join(dict.fromkeys(result.tier for result in sweep.results))
    facts = ", ".join(filter(None, (*devices, f"tier {tiers}" if tiers else "", note)))
    combinations = list(dict.fromkeys(tuple(_others(values, name).items()) for values, _ in sweep.points))
    has_light = any(row.speed_of_light for row in rows)
    drawings = []
    for combination in combinations:
        others = dict(combination)
        where = f" at {at(sweep, others)}" if others else ""
        chosen = [values for values, _ in sweep.points if _others(values, name) == others]
        for is_light in (False, True) if has_light else (False,):
            what = "fraction of the speed of light" if is_light else "time of a call"
            y = _y_axis(rows, is_light)
            limits = [_limit(rows, name)] if is_light and y.ends and y.ends[1] > 100 else []
            drawings.append(
                Drawing(
                    name=f"sweep-{sweep.target}",
                    title=f"{sweep.target}: {what} against {name}{where}",
                    kind="lines",
                    message=_message(sweep, rows),
                    x=_x_axis(sweep, name, rows, facts),
                    y=y,
                    series=[*_series(sweep, chosen, rows, name, is_light), *limits],
                )
            )
    return drawings


def _others(values: Mapping[str, float], name: str) -> dict[str, float]:
    return {key: value for key, value in values.items() if key != name}


def _names(rows: Sequence[SweepRow]) -> list[str]:
    return list(dict.fromkeys(row.implementation or "" for row in rows))


def _series(
    sweep: Sweep, chosen: Sequence[dict[str, float]], rows: Sequence[SweepRow], name: str, is_light: bool
) -> Iterator[Series]:
    """The course of each implementation over the points of a combination."""
    by_place = {(row.implementation or "", *row.values.values()): row for row in rows}
    for implementation in _names(rows):
        points = []
        for values in chosen:
            row = by_place.get((implementation, *values.values()))
            reason = "not measured, or not believed"
            time = figure(row.time_s if row else None, "s", reason=reason)
            share = row.speed_of_light if row else None
            percent = share and Estimate(100 * share.value, 100 * share.low, 100 * share.high)
            y = figure(percent, "%", reason=reason) if is_light else time
            points.append(Point(label="", x=counted(values[name], "count"), y=y))
        yield Series(name=implementation, points=points, joined=True)


def _limit(rows: Sequence[SweepRow], name: str) -> Series:
    """The speed of light as a line."""
    ends = (min(row.values[name] for row in rows), max(row.values[name] for row in rows))
    points = [Point(label="", x=counted(x, "count"), y=counted(100.0, "%"), mark=FIT, colour=LIGHT) for x in ends]
    return Series(name="speed of light", points=points, joined=True)


def _x_axis(sweep: Sweep, name: str, rows: Sequence[SweepRow], facts: str) -> Axis:
    """The axis of the parameter with the measured values. A point that failed takes no room of it."""
    values = sorted({row.values[name] for row in rows})
    low, high = values[0], values[-1]
    log = low > 0 and high / low >= LOG
    pad = 0.08 * (high - low) or 0.5 * high or 1.0
    reach = (high / low) ** 0.08 if log else 1.0
    return Axis(
        title=f"{words(name)}{', logarithmic' if log else ''} ({facts}; bars: 95 % intervals)",
        unit="count",
        log=log,
        ends=(low / reach, high * reach) if log else (low - pad, high + pad),
        places={spelled(sweep, name, value): value for value in values},
    )


def _y_axis(rows: Sequence[SweepRow], is_light: bool) -> Axis:
    """The axis that all combinations share."""
    figures = [row.speed_of_light if is_light else row.time_s for row in rows]
    known = [estimate for estimate in figures if estimate is not None]
    # A very wide interval must not flatten the lines: its bar ends at the edge of the plane.
    low = max(min(estimate.low for estimate in known), min(estimate.value for estimate in known) / WIDEST_BAR)
    high = min(max(estimate.high for estimate in known), max(estimate.value for estimate in known) * WIDEST_BAR)
    if is_light:
        # The speed of light is shown unless all rows are far from it.
        return Axis(
            title="fraction of SOL", unit="%", ends=(0.0, 100 * (high * 1.06 if high < 0.5 else max(high * 1.06, 1.06)))
        )
    log = high / low >= LOG
    return Axis(
        title="time of a call", unit="s", log=log, ends=(low / 1.2 if log else 0.0, high * (1.2 if log else 1.06))
    )


def _message(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """The sweep in words: for each implementation its time at the first and at the last point."""
    texts = []
    for name in _names(rows):
        first, *_, last = [row for row in rows if row.implementation == name] * 2
        ends = [f"{units.seconds(row.time_s.value)} at {at(sweep, row.values)}" for row in (first, last) if row.time_s]
        texts.append(f"{name} {' and '.join(dict.fromkeys(ends))}")
    return f"sweep of {sweep.target} over {', '.join(sweep.parameters)}: {'; '.join(texts) or 'no row is believed'}."

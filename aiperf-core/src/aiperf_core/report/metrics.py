"""The metrics of a row: the only list of them.

Tables, exports, stores, gates, histories and targets take their figures from here by key. Whether a row is believed is
decided once, in `Metric.of`: a figure of a row that is not believed, or was never measured, has no value and a reason.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Certainty, Figure, counted, figure
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.speed_of_light import cost_of, own_cost
from aiperf_core.stats.spread import Spread, spread_of
from aiperf_core.stats.witness import Witnessed

Better = Literal["down", "up"]
# The least share of a median that the end of an interval is taken to have, so that a rate's end is a number.
_LEAST = 1e-9
# The least fraction of the speed of light that says something: below it another resource than the declared ones bounds.
_LEAST_LIGHT = 1e-4
# Where the host takes more of a call than this, it is the bound, but for resources that it waits for itself.
_HOST_BOUND_PERCENT, _OF_HOST = 50, ("disk", "wire")
# Bounds in print. Those of a count follow it, as in `1,201 nodes`, with the amount of the cost that is counted.
BOUND_NAMES = {"pcie": "PCIe", "shared": "shared memory", "special": "MUFU"}
_COUNTED_BOUNDS = {"launches": ("node", "launches"), "steps": ("step", "serial_steps")}


@frozen(kw_only=True)
class Metric:
    """A figure of a row.

    key: its name in files and columns; the unit ends it.
    title: the heading of its column.
    unit: as of `Figure`.
    better: the direction that is better.
    about: a sentence for lists of metrics.
    measure: the figure of a row, believed or not. That of a row that is not believed is evidence, never a result.
    aliases: other names of it in options and files.
    has_interval: whether the figure has one.
    is_derived: whether it follows from other figures.
    of_samples: whether it is computed from the samples, which an outline of a bundle lacks.
    """

    key: str
    title: str
    unit: str
    better: Better
    about: str
    measure: Callable[[TargetResult, Row], Figure]
    aliases: tuple[str, ...] = ()
    has_interval: bool = False
    is_derived: bool = False
    of_samples: bool = False

    def of(self, result: TargetResult, row: Row) -> Figure:
        """The figure of a row; without a value and with the row's verdict as the reason where it is not believed."""
        reason = disbelief(row.verdict, row.reason)
        return Figure(value=None, unit=self.unit, reason=reason) if reason else self.measure(result, row)

    def restored(self, value: float | None, low: float | None, high: float | None, reason: str) -> Figure:
        """The figure of a believed row whose values were stored; `reason` says why there is no value."""
        certainty: Certainty = "measured" if self.has_interval else "counted"
        if value is None:
            return Figure(value=None, unit=self.unit, certainty=certainty, reason=reason)
        if self.unit == "B" and value.is_integer():
            value = int(value)  # as it was counted
        return Figure(
            value=value, low=low, high=high, unit=self.unit, certainty="derived" if self.is_derived else certainty
        )

    def estimate(self, result: TargetResult, row: Row) -> Estimate | None:
        """The figure of a row; None where it has no value. One without an interval is its own."""
        shown = self.of(result, row)
        if shown.value is None:
            return None
        low, high = (shown.value if end is None else end for end in (shown.low, shown.high))
        return Estimate(shown.value, low, high)

    @property
    def name(self) -> str:
        """Its name in options: a word where it has one."""
        return self.aliases[0] if self.aliases else self.key


def disbelief(verdict: Verdict, reason: str | None) -> str:
    """Why a row has no figures, from its verdict and its reason; empty where it is believed."""
    if verdict.is_believed:
        return ""
    return f"{verdict.value}: {reason or 'no reason was recorded'}"


def half_width(estimate: Estimate) -> float:
    """Half the interval's width on the logarithmic scale. An end that is not positive counts as far away."""
    low = max(estimate.low, estimate.value * 1e-3)
    return max(math.log(max(estimate.high, estimate.value) / low) / 2, 0.0)


def bound_name(result: TargetResult, row: Row) -> str:
    """The resource that bounds a row, in print; empty where it is unknown."""
    bound = row.speed_of_light.bound if row.speed_of_light else ""
    if bound not in _COUNTED_BOUNDS:
        return BOUND_NAMES.get(bound, bound)
    noun, amount = _COUNTED_BOUNDS[bound]
    count = round(own_cost(cost_of(result.problem), row)[amount])
    return units.plural(noun, count) if count else ""


# --- figures, believed or not


def _estimate(name: str, unit: str, missing: str, _: TargetResult, row: Row) -> Figure:
    return figure(getattr(row, name), unit, reason=missing)


def _speedup(name: str, missing: str, result: TargetResult, row: Row) -> Figure:
    return _estimate(name, "1", missing if row.role == "variant" else f"a {row.role} has none", result, row)


def _step(result: TargetResult, row: Row) -> Figure:
    missing = f"no ratio to {row.builds_on} was measured" if row.builds_on else "the variant builds on no other"
    return _speedup("step_speedup", missing, result, row)


def _rate(name: str, unit: str, missing: str, _: TargetResult, row: Row) -> Figure:
    return _turned(getattr(row, name), row, unit, missing)


def _speed_of_light(result: TargetResult, row: Row) -> Figure:
    light, missing = row.speed_of_light, "the cost or the ceilings are unknown"
    if light and row.clock == "wall" and light.bound not in _OF_HOST:
        share = _host_share(result, row).value
        if share is not None and share > _HOST_BOUND_PERCENT:
            light, missing = None, "the host is the bound: the device works for less than half of the time"
    if light and light.fraction < _LEAST_LIGHT:
        light, missing = None, f"below 0.01 %: another resource than {bound_name(result, row)} bounds it"
    return _turned(light.fraction * 100 if light else None, row, "%", missing)


def _host_share(_: TargetResult, row: Row) -> Figure:
    """The part of the caller's time beyond the device's; the ends take both intervals at their worst."""
    device, wall = row.time_s if row.clock == "device" else row.device_s, row.wall_s
    if device is None or wall is None:
        return Figure(value=None, unit="%", reason="no call was timed by the caller's clock and by the device's")
    if device.value > wall.value:
        return Figure(value=None, unit="%", reason="the device works for longer than its caller waits")
    shares = device.high / max(wall.low, wall.value * _LEAST), device.value / wall.value, device.low / wall.high
    low, value, high = (100 * min(1.0, max(0.0, 1 - share)) for share in shares)
    return Figure(value=value, low=low, high=high, unit="%", certainty="derived")


def _turned(value: float | None, row: Row, unit: str, missing: str) -> Figure:
    """A figure that is a constant over the time: its interval is that of the time, turned over."""
    time = row.time_s
    if value is None or time is None:
        return Figure(value=None, unit=unit, reason=missing)
    ends = (value * time.value / time.high, value * time.value / max(time.low, time.value * _LEAST))
    return Figure(value=value, low=ends[0], high=ends[1], unit=unit, certainty="derived")


def _peak(_: TargetResult, row: Row) -> Figure:
    return counted(row.memory.most_bytes if row.memory else None, "B", "no peak of memory was measured")


def _memory_gain(_: TargetResult, row: Row) -> Figure:
    return counted(row.memory_gain, reason="no peak of memory was measured")


def _joules(net: bool, _: TargetResult, row: Row) -> Figure:
    """The energy of a call: its error is that of the time and of the counter's steps, in quadrature."""
    energy = row.energy
    value = (energy.net_joules_per_call if net else energy.joules_per_call) if energy else 0.0
    if energy is None or value <= 0:
        return Figure(value=None, unit="J", reason=row.no_energy or "no energy was measured")
    steps = energy.net_resolution_j if net else energy.resolution_j
    if value <= steps:
        return Figure(value=None, unit="J", reason="a call takes no more than a step of the energy counter")
    wide = math.hypot(half_width(row.time_s) if row.time_s else 0.0, math.log1p(steps / value))
    return figure(Estimate(value, value * math.exp(-wide), value * math.exp(wide)), "J")


def _preparation(_: TargetResult, row: Row) -> Figure:
    return counted(row.prepare_s, "s", "nothing was prepared")


def _beside(name: str, unit: str, _: TargetResult, row: Row) -> Figure:
    return counted(row.beside.get(name), unit, "the workload has no such figure")


def _of_spread(choose: Callable[[Spread], float], unit: str, result: TargetResult, row: Row) -> Figure:
    spread = spread_of(result, row)
    return counted(choose(spread) if spread else None, unit, "no samples were taken")


def _floor(result: TargetResult, row: Row) -> Figure:
    missing = row.no_floor and f"it does not run at the floor's sizes: {row.no_floor}"
    return _estimate("floor_s", "s", missing or "the workload declares no sizes of a host floor", result, row)


def _witness(result: TargetResult, row: Row) -> Figure:
    spread = Witnessed.of(row.samples, result.witness_quiet_s).spread
    seen = spread and Estimate(spread.median, spread.low, spread.high)
    return figure(seen, "1", reason="no witness ran before its samples")


def _metric_of_estimate(
    key: str, title: str, unit: str, better: Better, missing: str, about: str, *aliases: str
) -> Metric:
    return Metric(
        key=key, title=title, unit=unit, better=better, about=about, aliases=aliases, has_interval=True,
        measure=partial(_estimate, key, unit, missing),
    )  # fmt: skip


def _metric_of_rate(key: str, title: str, unit: str, work: str) -> Metric:
    missing = f"the workload declares no {work}"
    return Metric(
        key=key, title=title, unit=unit, better="up", about=f"Least {work} of the work per second.",
        has_interval=True, is_derived=True, measure=partial(_rate, key, unit, missing),
    )  # fmt: skip


def _metric_beside(key: str, title: str, unit: str, better: Better, about: str) -> Metric:
    return Metric(key=key, title=title, unit=unit, better=better, about=about, measure=partial(_beside, key, unit))


def _metric_of_samples(
    key: str, title: str, unit: str, choose: Callable[[Spread], float], about: str, *aliases: str
) -> Metric:
    return Metric(
        key=key, title=title, unit=unit, better="down" if unit == "s" else "up", about=about, aliases=aliases,
        of_samples=True, measure=partial(_of_spread, choose, unit),
    )  # fmt: skip


_METRICS = (
    _metric_of_estimate(
        "time_s", "median", "s", "down", "too few samples for an interval", "Median time of a call.", "time", "median"
    ),
    Metric(
        key="speedup", title="speedup", unit="1", better="up", has_interval=True,
        about="Median of the baseline divided by this median.",
        measure=partial(_speedup, "speedup", "too few samples for an interval"),
    ),
    Metric(
        key="step_speedup", title="step", unit="1", better="up", has_interval=True,
        about="Median of the step before divided by this median.",
        measure=_step,
    ),
    _metric_of_estimate(
        "wall_s", "wall time", "s", "down", "no wall time was measured", "Median time of a call by the wall clock."
    ),
    _metric_of_estimate(
        "device_s", "device time", "s", "down", "no call by the caller's clock was timed by a device too",
        "Median time of a call on the device, with the launch hidden, where the caller's clock counts.",
    ),
    Metric(
        key="host_share", title="host share", unit="%", better="down", has_interval=True, is_derived=True,
        about="Share of the caller's time in which the device does not work for the call.", measure=_host_share,
    ),
    Metric(
        key="floor_s", title="host floor", unit="s", better="down", has_interval=True,
        about="Median time of the same program on the smallest tensors: the host's part of a call.", measure=_floor,
        aliases=("floor",),
    ),
    _metric_of_estimate(
        "isolated_s", "time alone", "s", "down", "no samples were taken alone",
        "Median time of calls without other implementations in between.",
    ),
    _metric_of_rate("bytes_per_s", "memory rate", "B/s", "bytes of memory"),
    _metric_of_rate("flop_per_s", "arithmetic rate", "FLOP/s", "operations"),
    _metric_of_rate("wire_bytes_per_s", "link rate", "B/s", "bytes over links"),
    _metric_of_rate("disk_bytes_per_s", "disk rate", "B/s", "bytes of the disk"),
    Metric(
        key="speed_of_light_fraction", title="SOL", unit="%", better="up", about="Fraction of the speed of light.",
        aliases=("sol", "speed_of_light"), has_interval=True, is_derived=True, measure=_speed_of_light,
    ),
    Metric(
        key="peak_bytes", title="peak memory", unit="B", better="down", about="Peak memory beyond the inputs.",
        aliases=("memory", "memory_bytes"), measure=_peak,
    ),
    Metric(
        key="memory_gain", title="memory gain", unit="1", better="up",
        about="Peak memory of the baseline divided by this one.", measure=_memory_gain,
    ),
    Metric(
        key="joules_per_call", title="energy", unit="J", better="down", about="Energy of the device in a call.",
        aliases=("energy", "joules"), has_interval=True, measure=partial(_joules, False),
    ),
    Metric(
        key="net_joules_per_call", title="net energy", unit="J", better="down",
        about="Energy of the device in a call, without that of the idle device.",
        aliases=("net_energy",), has_interval=True, measure=partial(_joules, True),
    ),
    Metric(
        key="prepare_s", title="preparation", unit="s", better="down", about="Time of `prepare`.", measure=_preparation
    ),
    _metric_beside("until_done_s", "until done", "s", "down", "Median time of deferred work, until its end."),
    _metric_beside("latency_p50_s", "latency p50", "s", "down", "Half of the requests are answered within this time."),
    _metric_beside("latency_p90_s", "latency p90", "s", "down", "90 % of the requests are answered within this time."),
    _metric_beside("latency_p99_s", "latency p99", "s", "down", "99 % of the requests are answered within this time."),
    _metric_beside("goodput_per_s", "goodput", "1/s", "up", "Requests answered in time, a second."),
    _metric_beside("minor_faults", "page faults", "count", "down", "Pages that the kernel gave on first access."),
    _metric_of_samples("min_s", "min", "s", lambda spread: spread.least, "Shortest sample.", "min"),
    _metric_of_samples(
        "p95_s", "p95", "s", lambda spread: spread.p95, "95 % of the samples are at most this long.", "p95"
    ),
    _metric_of_samples(
        "stddev_s", "std dev", "s", lambda spread: spread.deviation, "Standard deviation of the samples.", "stddev"
    ),
    _metric_of_samples("samples", "samples", "count", lambda spread: spread.count, "Number of samples."),
    Metric(
        key="witness", title="witness", unit="1", better="down", of_samples=True, has_interval=True,
        about="Median time of a fixed loop on the host before the samples, divided by its quiet time; its interval is "
        "the least and the largest.",
        measure=_witness,
    ),
)  # fmt: skip
METRICS = {metric.key: metric for metric in _METRICS}
BY_NAME = {name: metric for metric in _METRICS for name in (metric.name, metric.key, *metric.aliases)}
# Those that need no samples, by their names in options.
STORED = {metric.name: metric for metric in _METRICS if not metric.of_samples}
# The columns of tables of many rows.
SUMMARY = [METRICS[key] for key in ("time_s", "speedup", "speed_of_light_fraction", "peak_bytes", "joules_per_call")]


def of_goal(result: TargetResult) -> Metric:
    """The gain by which the variants of a target are compared."""
    return METRICS["memory_gain" if result.goal == "memory" else "speedup"]

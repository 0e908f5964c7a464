"""The state of the machine while a target was measured, from readings after its blocks, and warnings about it."""

import statistics
from collections.abc import Callable, Collection, Sequence

from aiperf_core import units
from aiperf_core.measurements import Flush, Reading, Spread
from aiperf_core.results.models import Conditions, Sighting

LOAD = "environment.background_load"
THERMAL = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown", "cpu_thermal"})
# `hw_slowdown` without its thermal bit protects against a sudden high power draw.
POWER = frozenset({"sw_power_cap", "hw_power_brake", "hw_slowdown", "board_limit"})
# The user set these clocks: they are low, but the same for all implementations.
CHOSEN = frozenset({"clocks_setting", "display_clocks"})

# Share of blocks from which a median may change.
THROTTLED_SHARE = 0.05
# Relative difference of clocks that changes a time by several times the floor of a verdict.
CLOCK_DRIFT = 0.05
# Share of all processors busy with other work that affects shared caches, memory bandwidth and turbo clocks.
BACKGROUND = 0.05
# Stolen processor time lengthens a time by the same share; this is the floor of a verdict.
STEAL = 0.01
# Relative gain of a cached read below which it is noise.
CACHE_GAP = 0.2


def throttled_blocks(readings: Sequence[Reading]) -> list[bool]:
    """For each block, whether its reading shows clocks that are held down, and not by the user."""
    return [bool(set(one.throttled or ()) - CHOSEN) for one in readings]


def summary(readings: Sequence[Reading], loads: Sequence[Reading] = ()) -> Conditions:
    """Summarise readings of one implementation's blocks, and of the processors' load over whole rounds.

    Blocks may be too short for a reading of the load each, and tell it only where no whole round does.
    """
    known = [one for one in readings if one.throttled is not None]
    powers = _known(readings, lambda one: one.power_w)
    return Conditions(
        readings=len(readings),
        sm_clock_hz=_spread(_known(readings, lambda one: one.sm_clock_hz)),
        memory_clock_hz=_spread(_known(readings, lambda one: one.memory_clock_hz)),
        cpu_clock_hz=_spread(_known(readings, lambda one: one.cpu_clock_hz)),
        temperature_max_c=max(_known(readings, lambda one: one.temperature_c), default=None),
        power_median_w=statistics.median(powers) if powers else None,
        throttled=_reasons(known),
        throttled_share=sum(throttled_blocks(known)) / len(known) if known else None,
        background=_spread(_known(loads or readings, _background)),
        steal=_spread(_known(loads or readings, lambda one: one.steal)),
        other_pids=_others(readings),
    )


def findings(conditions: Conditions, baseline: Conditions | None = None) -> list[Sighting]:
    """The warnings about these conditions. With `baseline`, the clocks of the two are compared too."""
    found = [
        _throttling(conditions, THERMAL, "environment.thermal_throttling", "heat"),
        _throttling(conditions, POWER, "environment.power_throttling", "a limit of power"),
        _quota(conditions),
        _load(conditions),
        _shared(conditions),
        _drift(conditions, baseline) if baseline else None,
    ]
    return [one for one in found if one is not None]


def warm_after_flush(flush: Flush) -> Sighting | None:
    """A warning if a read after a flush is too fast, so that the flush left data in the cache.

    None also where a read of displaced data takes no longer than a hot read, which proves nothing.
    """
    gap = flush.cold_s - flush.hot_s
    if gap < CACHE_GAP * flush.hot_s or flush.flushed_s - flush.hot_s >= gap / 2:
        return None
    message = (
        f"a flush leaves the cache warm here: a read takes {flush.flushed_s * 1e6:.3g} us after it, "
        f"{flush.hot_s * 1e6:.3g} us hot and {flush.cold_s * 1e6:.3g} us cold"
    )
    evidence = {"hot_s": flush.hot_s, "cold_s": flush.cold_s, "flushed_s": flush.flushed_s}
    return Sighting("timing.cache_not_cold", message, evidence)


def _throttling(conditions: Conditions, kinds: Collection[str], issue: str, cause: str) -> Sighting | None:
    shares = {name: share for name, share in conditions.throttled.items() if name in kinds}
    most = max(shares.values(), default=0.0)
    if most < THROTTLED_SHARE:
        return None
    message = f"{cause} reduced the clocks in {units.percent(most)} of the blocks ({', '.join(sorted(shares))})"
    evidence = {"shares": shares, "readings": conditions.readings, "temperature_max_c": conditions.temperature_max_c}
    return Sighting(issue, message, {**evidence, "power_median_w": conditions.power_median_w})


def _quota(conditions: Conditions) -> Sighting | None:
    share = conditions.throttled.get("cpu_quota", 0.0)
    if share < THROTTLED_SHARE:
        return None
    message = f"the CPU limit of the container stopped its processes in {units.percent(share)} of the blocks"
    return Sighting("environment.cpu_quota", message, {"share": share, "readings": conditions.readings})


def _load(conditions: Conditions) -> Sighting | None:
    background, steal = conditions.background, conditions.steal
    said = []
    if background and background.median > BACKGROUND:
        said.append(f"other processes kept {units.percent(background.median)} of the processors busy")
    if steal and steal.median > STEAL:
        said.append(f"the hypervisor gave {units.percent(steal.median)} of the processor time to other guests")
    if not said:
        return None
    evidence = {
        "background_median": background.median if background else None,
        "background_max": background.high if background else None,
        "steal_median": steal.median if steal else None,
        "steal_max": steal.high if steal else None,
    }
    return Sighting(LOAD, "; ".join(said), evidence)


def _shared(conditions: Conditions) -> Sighting | None:
    if not conditions.other_pids:
        return None
    listed = ", ".join(map(str, conditions.other_pids))
    message = f"the GPU was shared with other processes (pid {listed})"
    return Sighting("environment.shared_gpu", message, {"pids": conditions.other_pids})


def _drift(conditions: Conditions, baseline: Conditions) -> Sighting | None:
    ours, theirs = conditions.sm_clock_hz, baseline.sm_clock_hz
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    ratio = ours.median / theirs.median
    if abs(ratio - 1) <= CLOCK_DRIFT:
        return None
    message = (
        f"the GPU ran at {ours.median / 1e6:.0f} MHz in these blocks and at {theirs.median / 1e6:.0f} MHz in the "
        "baseline's: part of the difference in time is a difference of clocks"
    )
    evidence = {"sm_clock_hz": ours.median, "baseline_sm_clock_hz": theirs.median, "ratio": ratio}
    return Sighting("environment.clock_drift", message, evidence)


def _reasons(readings: Sequence[Reading]) -> dict[str, float]:
    names = sorted({name for one in readings for name in one.throttled or ()})
    return {name: sum(name in (one.throttled or ()) for one in readings) / len(readings) for name in names}


def _background(reading: Reading) -> float | None:
    if reading.cpu_busy is None or reading.cpu_own is None:
        return None
    # Both are counted in ticks, each in its own moment.
    return max(0.0, reading.cpu_busy - reading.cpu_own)


def _others(readings: Sequence[Reading]) -> list[int] | None:
    lists = [one.other_pids for one in readings if one.other_pids is not None]
    return sorted({pid for pids in lists for pid in pids}) if lists else None


def _known(readings: Sequence[Reading], figure: Callable[[Reading], float | None]) -> list[float]:
    return [value for one in readings if (value := figure(one)) is not None]


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread(min(values), statistics.median(values), max(values)) if values else None

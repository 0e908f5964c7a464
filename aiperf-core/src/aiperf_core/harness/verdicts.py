"""From what was measured to rows: intervals, speedups, verdicts, fractions of light."""

from collections.abc import Callable
from typing import Any

from aiperf_core.harness.contestant import Contestant
from aiperf_core.harness.light import BEYOND, light
from aiperf_core.harness.statistics import median_interval, ratio_interval, verdict
from aiperf_core.results.models import Ceilings, Finding, Judgement, Light, Quality, Row, Verdict


def rows(
    contestants: list[Contestant],
    *,
    clock: str,
    cache: str,
    cost: dict[str, Any] | None,
    tolerance: str,
    floor: float,
    ceilings: Callable[[bool], Ceilings | None],
) -> list[Row]:
    """The rows of a target. `ceilings(again)` returns what the device reaches, measured anew where `again` is true."""
    for one in contestants:
        _refuse_faster_than_light(one, clock, cache, cost, ceilings)
    by_name = {one.name: one for one in contestants}
    return [
        _row(one, by_name, contestants, clock, cache, cost, tolerance, floor, ceilings(False)) for one in contestants
    ]


def _refuse_faster_than_light(
    one: Contestant, clock: str, cache: str, cost: dict[str, Any] | None, ceilings: Callable[[bool], Ceilings | None]
) -> None:
    median = one.median(clock)
    if not one.active or median is None or cost is None:
        return
    found = light(cost, ceilings(False), cache, median)
    if found is None or found.fraction <= BEYOND:
        return
    # A ceiling taken in a bad moment is too low; the claim is serious enough to look twice.
    found = light(cost, ceilings(True), cache, median)
    if found is None or found.fraction <= BEYOND:
        return
    message = (
        f"{median:.3g} s is {found.fraction:.2f} times as fast as this machine's {found.bound} allows "
        f"({found.time_s:.3g} s); such a time is a mistake of the cost, of the clock or of the implementation"
    )
    evidence = {"median_s": median, "light_s": found.time_s, "fraction": found.fraction}
    one.stop(Verdict.INVALID, message, Finding("timing.faster_than_light", "invalid", message, evidence))


def _row(
    one: Contestant,
    by_name: dict[str, Contestant],
    contestants: list[Contestant],
    clock: str,
    cache: str,
    cost: dict[str, Any] | None,
    tolerance: str,
    floor: float,
    ceilings: Ceilings | None,
) -> Row:
    length = len(contestants)
    declared = one.declared
    speedup = step = None
    said, reason = one.ended, one.reason
    if said is None:
        baseline = contestants[0]
        if declared.role == "variant":
            speedup = _ratio(baseline, one, clock, length)
            said, reason = _compare(speedup, baseline, floor)
        elif one.samples.block:
            said = Verdict.MEASURED
        else:
            said, reason = Verdict.INCONCLUSIVE, "no sample was taken before the run ended"
        if declared.builds_on and by_name[declared.builds_on].active:
            step = _ratio(by_name[declared.builds_on], one, clock, length)
    median = one.median(clock)
    trusted = one.active and median is not None
    return Row(
        name=declared.name,
        role=declared.role,
        device=declared.device,
        verdict=said,
        kind=declared.kind,
        why=declared.why or None,
        builds_on=declared.builds_on,
        requires=list(declared.requires),
        reason=reason,
        findings=one.findings,
        clock=clock if one.samples.block else None,
        time_s=median_interval(one.blocks(clock, length)) if trusted else None,
        wall_s=median_interval(one.blocks("wall", length)) if trusted else None,
        speedup=speedup,
        step_speedup=step,
        bytes_per_s=_rate(cost, median, "bytes_read", "bytes_written") if trusted else None,
        flop_per_s=_rate(cost, median, "flops") if trusted else None,
        light=_light(cost, ceilings, cache, median) if trusted else None,
        prepare_s=one.prepare_s,
        memory=one.memory,
        judgement=Judgement(one.judged, tolerance, one.worst) if one.judged else None,
        quality=_quality(one),
        samples=one.samples,
        warmup_s=one.warmup_s,
        log=one.log,
    )


def _ratio(top: Contestant, bottom: Contestant, clock: str, length: int) -> Any:
    if not (top.active and bottom.active):
        return None
    return ratio_interval(top.blocks(clock, length), bottom.blocks(clock, length))


def _compare(speedup: Any, baseline: Contestant, floor: float) -> tuple[Verdict, str | None]:
    if not baseline.active:
        return Verdict.INCONCLUSIVE, f"there is no trusted baseline to compare with ({baseline.name}: {baseline.ended})"
    if speedup is None:
        return Verdict.INCONCLUSIVE, "too few passes for an interval; give it more time with --budget"
    return verdict(speedup, floor), None


def _rate(cost: dict[str, Any] | None, median: float | None, *parts: str) -> float | None:
    amount = sum(cost[part] for part in parts) if cost else 0
    return amount / median if amount and median else None


def _light(cost: dict[str, Any] | None, ceilings: Ceilings | None, cache: str, median: float | None) -> Light | None:
    return light(cost, ceilings, cache, median) if cost and median else None


def _quality(one: Contestant) -> Quality | None:
    if one.declared.lossy is None or one.quality is None:
        return None
    return Quality(one.declared.lossy["metric"], one.quality, one.declared.lossy["budget"])

"""From what was measured to rows: intervals, speedups, verdicts, fractions of light."""

from collections.abc import Callable
from typing import Any

from aiperf_core.harness.contestant import Contestant
from aiperf_core.harness.light import BEYOND, light
from aiperf_core.harness.statistics import Blocks, median_interval, ratio_interval, verdict
from aiperf_core.results.models import Ceilings, Estimate, Finding, Judgement, Light, Quality, Row, Verdict

# A difference between taking turns and being alone that is worth a warning.
INTERFERENCE = 0.05


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
        _note_interference(one, clock, len(contestants))
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
        if declared.role in ("variant", "control"):
            speedup = _ratio(baseline, one, clock, length)
        if declared.role == "variant":
            said, reason = _compare(speedup, baseline, floor, _spread(contestants, clock))
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
        isolated_s=_isolated(one) if trusted else None,
        audit=one.audit,
        samples=one.samples,
        isolated_samples_s=one.isolated_samples_s,
        warmup_s=one.warmup_s,
        log=one.log,
    )


def _ratio(top: Contestant, bottom: Contestant, clock: str, length: int) -> Any:
    if not (top.active and bottom.active):
        return None
    return ratio_interval(top.blocks(clock, length), bottom.blocks(clock, length))


def _spread(contestants: list[Contestant], clock: str) -> float:
    """How far from 1 the baseline's ratio to itself may be, at the ends of its interval; 0 without a control."""
    for one in contestants:
        if one.declared.role == "control":
            ratio = _ratio(contestants[0], one, clock, len(contestants))
            return max(abs(ratio.low - 1), abs(ratio.high - 1)) if ratio else 0.0
    return 0.0


def _compare(speedup: Any, baseline: Contestant, floor: float, spread: float) -> tuple[Verdict, str | None]:
    if not baseline.active:
        return Verdict.INCONCLUSIVE, f"there is no trusted baseline to compare with ({baseline.name}: {baseline.ended})"
    if speedup is None:
        return Verdict.INCONCLUSIVE, "too few passes for an interval; give it more time with --budget"
    said = verdict(speedup, floor)
    if said in (Verdict.FASTER, Verdict.SLOWER) and abs(speedup.value - 1) <= spread:
        return Verdict.INCONCLUSIVE, (
            f"the difference of {abs(speedup.value - 1):.1%} is within what the baseline differs from itself here, up to "
            f"{spread:.1%}"
        )
    return said, None


def _isolated(one: Contestant) -> Estimate | None:
    """The median of the samples taken alone. Each stands for itself: they are no blocks."""
    times = one.isolated_samples_s
    return median_interval(Blocks.of(times, list(range(len(times)))))


def _note_interference(one: Contestant, clock: str, length: int) -> None:
    """Warn where taking turns with others changed the times: then the comparison is of something else."""
    taking_turns, alone = median_interval(one.blocks(clock, length)), _isolated(one)
    if not (one.active and taking_turns and alone):
        return
    apart = alone.high < taking_turns.low or alone.low > taking_turns.high
    change = taking_turns.value / alone.value - 1
    if apart and abs(change) > INTERFERENCE:
        message = (
            f"{one.name} takes {abs(change):.0%} {'more' if change > 0 else 'less'} time when it takes turns with the "
            "others than alone"
        )
        evidence = {"taking_turns_s": taking_turns.value, "alone_s": alone.value}
        one.findings.append(Finding("timing.interference", "warning", message, evidence))


def _rate(cost: dict[str, Any] | None, median: float | None, *parts: str) -> float | None:
    amount = sum(cost[part] for part in parts) if cost else 0
    return amount / median if amount and median else None


def _light(cost: dict[str, Any] | None, ceilings: Ceilings | None, cache: str, median: float | None) -> Light | None:
    return light(cost, ceilings, cache, median) if cost and median else None


def _quality(one: Contestant) -> Quality | None:
    if one.declared.lossy is None or one.quality is None:
        return None
    return Quality(one.declared.lossy["metric"], one.quality, one.declared.lossy["budget"])

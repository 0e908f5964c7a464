"""Rules on how far the figures of a row can be trusted, and what narrows them."""

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Subject, counted, measured, quotient, share
from aiperf_core.report.result import Figure
from aiperf_core.results.models import Verdict

_OFTEN = 0.10
_BACKGROUND = 0.05
_STEAL = 0.02
_CLOCK = 0.05
_WIDE = 1.10
_APART = 1.10
_NEAR = 0.80
_MOST_BUDGET = 10_000.0


def _throttled(subject: Subject) -> Evidence | None:
    seen = subject.row.conditions
    if seen is None or seen.throttled_share is None or seen.throttled_share < _OFTEN:
        return None
    reasons = {f"blocks with {name}": share(part) for name, part in sorted(seen.throttled.items())}
    return {"blocks that were throttled": share(seen.throttled_share)} | reasons


def _power_capped(subject: Subject) -> Evidence | None:
    seen = subject.row.conditions
    part = seen.throttled.get("sw_power_cap", 0.0) if seen else 0.0
    if seen is None or part < 0.5:
        return None
    power = {"median power": counted(seen.power_median_w, "W")} if seen.power_median_w is not None else {}
    return {"blocks at the power limit": share(part)} | power


def _background(subject: Subject) -> Evidence | None:
    seen = subject.row.conditions.background if subject.row.conditions else None
    if seen is None or seen.median < _BACKGROUND:
        return None
    return {"processors that others kept busy": share(seen.median, seen.low, seen.high)}


def _steal(subject: Subject) -> Evidence | None:
    seen = subject.row.conditions.steal if subject.row.conditions else None
    if seen is None or seen.median < _STEAL:
        return None
    return {"processor time taken by the hypervisor": share(seen.median, seen.low, seen.high)}


def _others(subject: Subject) -> Evidence | None:
    pids = subject.row.conditions.other_pids if subject.row.conditions else None
    return {"foreign processes on the GPU": counted(len(pids), "count")} if pids else None


def _clock(subject: Subject) -> Evidence | None:
    seen = subject.row.conditions
    clock = (seen.sm_clock_hz or seen.cpu_clock_hz) if seen else None
    if clock is None or not clock.median or (clock.high - clock.low) / clock.median < _CLOCK:
        return None
    ends = Figure(value=clock.median, low=clock.low, high=clock.high, unit="Hz")
    return {"clock, lowest to highest": ends, "range of the clock": share((clock.high - clock.low) / clock.median)}


def _control(subject: Subject) -> Evidence | None:
    """The baseline against itself; told once a target, at the baseline."""
    if subject.row.role != "baseline":
        return None
    for row in subject.result.rows:
        found = row.speedup
        floor = 1 + subject.result.floor
        if row.role == "control" and found and (found.low > floor or found.high < 1 / floor):
            return {"baseline against itself": measured(found, "1")}
    return None


def _wide(subject: Subject) -> Evidence | None:
    time = subject.row.time_s
    if time is None or time.low <= 0 or time.high / time.low < _WIDE:
        return None
    return {"time": measured(time), "upper end / lower end": counted(time.high / time.low)}


def _inconclusive(subject: Subject) -> Evidence | None:
    """Half the width of an interval shrinks with the root of the budget, until it is below the effect."""
    found = subject.row.speedup
    if subject.row.verdict is not Verdict.INCONCLUSIVE or found is None:
        return None
    effect = max(abs(found.value - 1), subject.result.floor)
    factor = ((found.high - found.low) / 2 / effect) ** 2
    budget = Figure(value=max(1.0, min(factor, _MOST_BUDGET)), certainty="estimated")
    return {"sampling budget that is needed": budget, "speedup": measured(found, "1")}


def _isolated(subject: Subject) -> Evidence | None:
    alone, time = subject.row.isolated_s, subject.row.time_s
    if alone is None or time is None:
        return None
    ratio = quotient(time, alone)
    if (ratio.low or 0) < _APART and (ratio.high or 0) > 1 / _APART:
        return None
    return {"time between others / time alone": ratio, "time alone": measured(alone)}


def _warm(subject: Subject) -> Evidence | None:
    row, roof = subject.row, subject.ceilings
    top = max(roof.read_bytes_per_s, roof.copy_bytes_per_s) if roof else 0.0
    if subject.result.cache != "warm" or not row.bytes_per_s or not top or row.bytes_per_s <= top:
        return None
    return {"declared bytes a second": counted(row.bytes_per_s, "B/s"), "memory, measured": counted(top, "B/s")}


def _error(subject: Subject) -> Evidence | None:
    worst = subject.row.judgement.worst if subject.row.judgement else None
    return {"largest error / tolerance": counted(worst)} if worst is not None and worst >= _NEAR else None


def _quality(subject: Subject) -> Evidence | None:
    seen = subject.row.quality
    if seen is None or seen.value is None or seen.budget <= 0 or seen.value / seen.budget < _NEAR:
        return None
    return {"used part of the budget": share(seen.value / seen.budget), seen.metric: counted(seen.value)}


def _energy_resolution(subject: Subject) -> Evidence | None:
    seen = subject.row.energy
    if seen is None or seen.net_joules_per_call <= 0:
        return None
    part = seen.net_resolution_j / seen.net_joules_per_call
    return {"steps of the counter / net energy": share(part)} if part >= _OFTEN else None


def _yardstick(subject: Subject) -> Evidence | None:
    """A gain over a weak baseline while a yardstick is faster."""
    row, base = subject.row, subject.baseline
    if row.verdict is not Verdict.FASTER or base is None or base.kind not in ("naive", "antipattern") or not row.time_s:
        return None
    for other in subject.result.rows:
        if other.role == "yardstick" and other.time_s and other.verdict is Verdict.MEASURED:
            ratio = quotient(row.time_s, other.time_s)
            if (ratio.low or 0) > 1 + subject.result.floor:
                return {f"time / time of {other.name}": ratio}
    return None


RULES = (
    Rule(
        name="row.throttled",
        fact="The clocks were throttled while this row was measured.",
        advice="Remove the cause (heat, power brake, a CPU quota) and measure again; the figures belong to low clocks.",
        find=_throttled,
    ),
    Rule(
        name="row.power_capped",
        fact="The GPU worked at its power limit.",
        advice="Compare energy and time at other limits, or lower the precision: fewer joules an operation allow "
        "higher clocks.",
        targets=("ch01.precision_ladder",),
        find=_power_capped,
    ),
    Rule(
        name="row.background",
        fact="Other processes used the processors.",
        advice="Stop them, or bind them to other processors, and measure again.",
        find=_background,
    ),
    Rule(
        name="row.steal",
        fact="A hypervisor gave processor time to other guests.",
        advice="Use a dedicated host, or compare only rows that alternate within a run.",
        find=_steal,
    ),
    Rule(
        name="row.foreign_gpu_work",
        fact="Other processes computed on this GPU.",
        advice="Reserve the GPU (CUDA_VISIBLE_DEVICES, exclusive compute mode) and measure again.",
        find=_others,
    ),
    Rule(
        name="row.clock_moved",
        fact="The clock moved by more than 5 % during the run.",
        advice="Lock it (nvidia-smi -lgc, governor performance), or heat the device before the run.",
        find=_clock,
    ),
    Rule(
        name="row.control_differs",
        fact="The baseline differs from its own copy by more than the floor.",
        advice="Believe no gain of this size on this machine; look for drift, and measure with --tier audit.",
        find=_control,
    ),
    Rule(
        name="row.wide_interval",
        fact="The interval of the time is wider than a tenth.",
        advice="Quiet the machine first; then raise --budget. A fourfold budget halves the interval at best.",
        find=_wide,
    ),
    Rule(
        name="row.inconclusive",
        fact="The interval of the speedup contains both a gain and none.",
        advice="Measure with the sampling budget times the factor of the evidence (--budget). The factor is a guess "
        "from the present width; a factor above 100 asks for a quieter machine instead.",
        find=_inconclusive,
    ),
    Rule(
        name="row.neighbours_matter",
        fact="The time between other implementations differs from the time alone.",
        advice="Find what they share: caches, allocator, clocks. Choose the case that the application has.",
        targets=("ch02.l2_blocking",),
        find=_isolated,
    ),
    Rule(
        name="row.faster_than_memory",
        fact="With warm caches the declared bytes came faster than memory delivers.",
        advice="Do not read this as a memory rate; measure with cold caches or a larger working set.",
        targets=("ch02.l2_blocking",),
        find=_warm,
    ),
    Rule(
        name="row.error_near_tolerance",
        fact="The largest error is close to the tolerance.",
        advice="Check other sizes and values before this version is used; accumulate in higher precision.",
        find=_error,
    ),
    Rule(
        name="row.quality_budget",
        fact="The version uses most of the quality that it may give up.",
        advice="Test on data of the application; keep a more precise fallback.",
        targets=("ch19.dynamic_precision_decode", "ch01.precision_ladder"),
        find=_quality,
    ),
    Rule(
        name="row.energy_coarse",
        fact="The steps of the energy counter are coarse against the energy of a call.",
        advice="Measure energy over a longer run (--tier audit, larger size).",
        find=_energy_resolution,
    ),
    Rule(
        name="row.yardstick_faster",
        fact="The gain is over a weak baseline, and a yardstick is faster than this row.",
        advice="Compare with the yardstick: use it, or explain the rest by a profile of both.",
        find=_yardstick,
    ),
)

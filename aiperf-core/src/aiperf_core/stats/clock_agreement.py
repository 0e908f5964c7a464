"""Whether the clocks of a run agree: the worker's own, CUPTI's, and the supervisor's."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Literal

from attrs import evolve

from aiperf_core.measurements import Audit, Steady
from aiperf_core.results.models import Verdict
from aiperf_core.stats.observations import Answer, Observations

AUDITED_CALLS = 7
# Two clocks may differ by so much, relatively or in seconds, whichever is more.
AGREE, AGREE_S = 0.05, 1e-6
# The supervisor learns of a start and a stop by a message each. What a message takes cancels between two processes, but
# for this much.
MESSAGES_S = 200e-6
# Calls without a pause find warm caches and no waiting, so they are no slower than samples, but on a machine that others
# load at that moment; then the baseline's are slower too. By how much more a sample may claim to be faster than they.
STEADY = 0.25
# What a process does beside the timed call (it wakes, hands over its output) takes all about as long, but for this part of
# the baseline's call, or of its own where that is longer, or for so long.
BESIDE, BESIDE_S = 0.15, 200e-6
# On a busy machine a process waits for a processor; among so many samples there is one that did not.
BESIDE_SAMPLES = 8
# A wait for a processor is short beside so long a call, and fewer samples are enough.
LONG_S = 0.02
# Of a run without pauses, threads may have waited for a processor for this part; else it says nothing.
WAITED = 0.1
# So long do calls without a pause last at least, for messages not to matter.
STEADY_S = 0.01
# The standard deviation of a normal distribution, by the median of the distances from its median.
DEVIATION = 1.4826


def slowest(audits: list[Audit]) -> Audit:
    """Of several ranks' audits that of the rank whose calls took longest, with the strays and launching threads of all."""
    longest = max(audits, key=lambda one: median(one.event_s))
    return evolve(longest, stray=sum(one.stray for one in audits), threads=max(one.threads for one in audits))


def compare(
    baseline: Observations, one: Observations, audit: Audit, slowed_by_profiler: Callable[[], float | None] | None
) -> None:
    """Take an implementation out of the run if events and CUPTI contradict each other.

    The audited calls must take the same time by events as by CUPTI, and the samples must not be faster than they. Slower
    they may be: audited calls repeat the same values, which they may find in a cache. Calls that wait for the GPU by
    themselves cannot be hidden behind the blocking kernel; their events count the host's time too, and only warn. CUPTI
    lengthens that time of the host, so such samples may be faster than the audited calls, down to what these kept the GPU
    busy, where the supervisor's clock bears them out.

    Where the supervisor's clock vouches for the samples, three more kinds of calls only warn. CUPTI sees nothing of what a
    kernel launches. It slows some kernels itself: `slowed_by_profiler` makes calls without a pause under it, and returns
    how many times longer they then take, or None where that cannot be told. And a GPU at its limit of power is slower when
    calls follow each other at once, as audited ones do. It is None for code that nobody trusts, for which nothing vouches.
    """
    by_samples = one.median("device")
    if by_samples is None:
        return
    by_events, by_cupti = median(audit.event_s) - one.clock_cost_s.get("device", 0.0), median(audit.span_s)
    slack = max(AGREE * by_cupti, AGREE_S)
    agree, slower = abs(by_events - by_cupti) <= slack, by_samples >= by_cupti - slack
    if agree and slower:
        return
    figures = {"samples": by_samples, "audited calls by events": by_events, "audited calls by CUPTI": by_cupti}
    told = ", ".join(f"{name} {seconds * 1e6:,.2f} us" for name, seconds in figures.items())
    evidence = {name.replace(" ", "_") + "_s": seconds for name, seconds in figures.items()}
    # A call by events, under CUPTI too, that is shorter than by CUPTI is one whose work the events missed.
    whole = by_events >= by_cupti - slack
    beyond_s, steady_s = _beyond_s(baseline, one), _steady_s(one)
    steady = steady_s is not None and steady_s <= (1 + STEADY) * by_samples
    if whole and not all(
        hid for hid, at in zip(one.samples.hidden, one.samples.device_s, strict=True) if at is not None
    ):
        borne_out = beyond_s <= max(AGREE * by_samples, MESSAGES_S) and (slowed_by_profiler is not None or steady)
        if slower or (by_samples >= _least_busy_s(audit) and borne_out):
            one.find("timing.launch_not_hidden", f"events count the host's time too: {told}", evidence)
            return
    if slower and by_events > by_cupti and slowed_by_profiler and steady:
        message = f"CUPTI saw a part of the work only, which is so where kernels launch kernels: {told}"
        one.find("timing.not_audited", message, evidence)
        return
    if whole and not slower and slowed_by_profiler:
        gap_s = by_cupti - by_samples
        if gap_s >= MESSAGES_S and beyond_s <= gap_s / 2:
            message = f"calls that follow each other at once are slower, and by the supervisor's clock the samples are not: {told}"
            one.find("timing.not_audited", message, evidence)
            return
        if slowed := slowed_by_profiler():
            evidence["slowed_by_profiler"] = slowed
            if by_samples * slowed >= by_cupti - slack:
                message = f"CUPTI slows these calls, by the supervisor's clock to {slowed:.2f} times their time: {told}"
                one.find("timing.not_audited", message, evidence)
                return
    message = f"the clocks disagree by more than {AGREE:.0%} and {AGREE_S * 1e6:g} us: {told}"
    one.find("timing.clocks_disagree", message, evidence, Verdict.UNTRUSTED)


def _least_busy_s(audit: Audit) -> float:
    """What a sample must take, since for so long an audited call kept the GPU busy, on several streams at once or not."""
    busy = min(median(audit.span_s), sum(piece.seconds for piece in audit.work))
    return busy - max(AGREE * busy, AGREE_S)


def _beyond_s(baseline: Observations, one: Observations) -> float:
    """By how much the supervisor's brackets exceed the GPU's time, beyond what the baseline's do, in seconds a call."""
    beyond = _excess(_pairs(one, "device")) - _excess(_pairs(baseline, "device"))
    return max(0.0, beyond) / max(one.calls, 1)


def compare_with_supervisor(observations: Sequence[Observations]) -> None:
    """Take those out of the run whose own clock says less than the supervisor's.

    The supervisor sees when a sample starts and stops, late by a message each; the baseline, which is the harness's own
    code, shows what that adds here. Where calls are short, it also timed many of them without a pause. Only what the
    caller waits for is compared: the GPU's own time leaves out launches by design, and is CUPTI's matter.
    """
    slowed = max(1.0, _slowdown(observations[0]) or 1.0)
    for one in observations:
        found = one.active and (disagreement(observations[0], one) or _too_fast_for_steady(one, slowed))
        if found:
            message, evidence = found
            one.find("timing.clocks_disagree", message, evidence, Verdict.UNTRUSTED)


def _pairs(one: Observations, clock: Literal["wall", "device"] = "wall") -> list[tuple[float, float]]:
    """A sample's time by a clock of the worker's and by the supervisor's bracket, in seconds."""
    times = one.samples.wall_s if clock == "wall" else one.samples.device_s
    both = zip(times, one.samples.bracket_s, strict=True)
    return [(taken, bracket) for taken, bracket in both if taken is not None]


def _excess(pairs: list[tuple[float, float]]) -> float:
    """What the supervisor's bracket has more than the worker's clock, in seconds a sample.

    The least of all samples counts: a busy machine delays some messages, and a clock that lies does so every time.
    """
    return max(0.0, min((bracket - wall for wall, bracket in pairs), default=0.0))


def _slowdown(one: Observations) -> float | None:
    """How many times longer a call takes in runs without pauses, by the supervisor, than a sample says of it."""
    by_worker, steady_s = one.median("wall"), _steady_s(one)
    return steady_s / by_worker if by_worker and steady_s is not None else None


def _steady_s(one: Observations) -> float | None:
    """What a call takes in the fastest run without pauses, by the supervisor; None without one that says something."""
    # A process that others keep from running is slower, whatever its clock says.
    runs = [run for run in one.steady if run.waited_s is None or run.waited_s <= WAITED * run.bracket_s]
    return min((run.bracket_s / run.calls for run in runs), default=None)


def slowed(one: Observations, profiled: Iterable[Steady]) -> float | None:
    """How many times longer a call takes without pauses when it is `profiled`; None where that is unknown."""
    usual, least = _steady_s(one), min((run.bracket_s / run.calls for run in profiled), default=None)
    return least / usual if usual and least else None


def refuse_work_beside(observations: Sequence[Observations]) -> None:
    """Take those out of the run whose process is busy for longer than the baseline's beside the timed call."""
    for one in observations[1:]:
        found = work_beside(observations[0], one)
        if found and one.active:
            message, evidence = found
            one.find("location.work_between_calls", message, evidence)


def work_beside(baseline: Observations, one: Observations) -> tuple[str, dict[str, float]] | None:
    """What a process has to do beside the timed call that the baseline's has not, in words and figures.

    That is between a request and its answer: before the clock starts, or after it stopped and before the output is handed
    over. Before it starts there is next to nothing to do; after it stopped the harness itself looks at the output, and work
    in its stead would not show in the sum of both. The least of the faster half of the samples counts, on both sides: one
    honest sample must not excuse the others. Of an implementation that was looked at again, the looks count, and the baseline's
    between them: the machine may have been quieter before. A process that is stopped uses no processor at all.
    """
    theirs, ours = one.looks or (baseline.answered, one.answered)
    call_s, own_s = (median(answer.held_s for answer in side) if side else 0.0 for side in (theirs, ours))
    enough = BESIDE_SAMPLES if call_s < LONG_S else BESIDE_SAMPLES // 2
    # Who was busy for longer is sooner kept from running behind a call.
    allowed = max(BESIDE * max(call_s, own_s), BESIDE_S)
    stopped_s = median(one.stopped_s) if len(one.stopped_s) >= enough else 0.0
    if stopped_s > allowed:
        return (
            f"its process used {stopped_s * 1e6:,.0f} us of processor time while it was stopped, before a call that takes the "
            f"baseline {call_s * 1e6:,.0f} us",
            {"stopped_s": stopped_s, "baseline_call_s": call_s},
        )
    if len(ours) < enough or not theirs:
        return None
    for where, part in _BESIDE:
        usual, least = _least(theirs, part), _least(ours, part)
        if usual is not None and least is not None and least - usual > allowed:
            return (
                f"its process is busy for {(least - usual) * 1e6:,.0f} us more than the baseline's {where}, which takes the "
                f"baseline {call_s * 1e6:,.0f} us",
                {"excess_s": least - usual, "baseline_beside_s": usual, "baseline_call_s": call_s},
            )
    return None


_BESIDE: tuple[tuple[str, Callable[[Answer], float | None]], ...] = (
    ("between the request and the start of the timed call", lambda answer: answer.begun_s),
    ("beside the timed call", lambda answer: answer.beside_s),
)


def _least(samples: list[Answer], part: Callable[[Answer], float | None]) -> float | None:
    """The least of a part of the answers, among those of samples that are no slower than the median."""
    middle = median(answer.held_s for answer in samples)
    parts = (part(answer) for answer in samples if answer.held_s <= middle)
    return min((one for one in parts if one is not None), default=None)


def disagreement(baseline: Observations, one: Observations) -> tuple[str, dict[str, float]] | None:
    """How far an implementation's own clock is behind the supervisor's, in words and figures; None where it is not.

    Of one that was looked at again the looks count, and the baseline's between them.
    """
    theirs, ours = one.bracket_looks or (_pairs(baseline), _pairs(one))
    if not ours or not theirs:
        return None
    by_worker, excess, usual = median(wall for wall, _ in ours), _excess(ours), _excess(theirs)
    # Of several ranks each sends messages of its own.
    if excess - usual <= max(AGREE * by_worker, MESSAGES_S * max(1, len(one.ranks))):
        return None
    by_supervisor = by_worker + excess - usual
    return (
        f"the clocks disagree: samples take {by_worker * 1e6:,.1f} us by the implementation's own process and "
        f"{by_supervisor * 1e6:,.1f} us by the supervisor's clock, messages taken off",
        {"by_worker_s": by_worker, "by_supervisor_s": by_supervisor, "messages_s": usual},
    )


def unseen_gain(baseline: Observations, one: Observations) -> tuple[str, dict[str, float]] | None:
    """What is wrong with a gain over the baseline, in words and figures, where less than half of it is seen from outside.

    A process that nobody trusts can shorten what its own clock says, by as much as messages may differ, or by more where it
    sends the messages itself. So at least half of what its samples save must be saved twice more: between the messages by
    the supervisor's clock, and from the request until the whole output is there, with the processor time that was used
    before the start. Medians are compared: those of the samples are what the gain is made of.
    """
    ours, theirs = _pairs(one), _pairs(baseline)
    if not (ours and theirs and baseline.calls and one.calls):
        return None
    usual_s = median(wall for wall, _ in theirs) * one.calls / baseline.calls
    gain_s = usual_s - median(wall for wall, _ in ours)
    if gain_s <= 0:
        return None
    missing_s = _missing_between_messages_s(baseline, one)
    seen = "by the supervisor's only {} us less"
    if missing_s <= gain_s / 2:
        missing_s, error_s = _missing_until_output_s(baseline, one)
        seen = "and it has its output, counting what it did before the start, only {} us sooner"
        if missing_s - error_s <= gain_s / 2:
            return None
    return (
        f"by its own clock a sample takes {gain_s * 1e6:,.0f} us less than the baseline's, "
        + seen.format(f"{max(0.0, gain_s - missing_s) * 1e6:,.0f}"),
        {"gain_s": gain_s, "missing_s": missing_s, "baseline_s": usual_s},
    )


def _missing_between_messages_s(baseline: Observations, one: Observations) -> float:
    """What the supervisor's brackets have beyond the samples, more than the baseline's.

    A supervisor that has no processor reads the start late; brackets that are shorter than the call are left out, and where few
    are left, the time between the request and the answer counts.
    """
    views = [[bracket - wall for wall, bracket in _pairs(side) if bracket >= wall] for side in (one, baseline)]
    if any(len(view) < BESIDE_SAMPLES for view in views):
        views = [[answer.beside_s for answer in side.answered] for side in (one, baseline)]
    return median(views[0]) - median(views[1])


def _missing_until_output_s(baseline: Observations, one: Observations) -> tuple[float, float]:
    """What it takes beyond the samples until outputs are there, and was used before they began, more than the baseline.

    And by how much chance may have moved that: the standard error of a median is 1.25 times that of a mean.
    """
    views = [
        [
            answer.replied_s - answer.held_s + (answer.ahead_s or 0.0)
            for answer in side.answered
            if answer.replied_s is not None
        ]
        for side in (one, baseline)
    ]
    if not all(views):
        return 0.0, 0.0
    middles = [median(view) for view in views]
    errors = [
        1.25 * DEVIATION * median(abs(each - middle) for each in view) / math.sqrt(len(view))
        for view, middle in zip(views, middles, strict=True)
    ]
    return middles[0] - middles[1], math.hypot(*errors)


def _too_fast_for_steady(one: Observations, slowed: float) -> tuple[str, dict[str, float]] | None:
    slowdown, by_worker = _slowdown(one), one.median("wall")
    if slowdown is None or by_worker is None or slowdown <= (1 + STEADY) * slowed:
        return None
    if STEADY * by_worker > MESSAGES_S:  # of calls so long, the brackets of single samples tell more
        return None
    steady = slowdown * by_worker
    if steady - by_worker <= AGREE_S:
        return None
    return (
        f"the clocks disagree: a call takes {by_worker * 1e6:,.2f} us by the implementation's own process, and "
        f"{steady * 1e6:,.2f} us in a run without pauses by the supervisor's clock",
        {"by_worker_s": by_worker, "steady_s": steady, "baseline_slowed": slowed},
    )

"""Agreement of the clocks of a run: the worker's, CUPTI's and the supervisor's."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Literal

from attrs import evolve

from aiperf_core.measurements import Audit, Steady
from aiperf_core.results.models import Verdict
from aiperf_core.stats.observations import Answer, Observations

AUDITED_CALLS = 7
# Allowed difference of two clocks: the larger of this share and this time.
AGREE, AGREE_S = 0.05, 1e-6
# The supervisor learns of a start and a stop by a message each. The time of a message cancels between two processes,
# except for this part.
MESSAGES_S = 200e-6
# Calls without a pause find warm caches and never wait, so they are slower than samples only on a loaded machine, where
# the baseline's are slower too. The share by which a sample may be faster than they, beyond that.
STEADY = 0.25
# Work beside the timed call (waking, handing over the output) takes all processes about as long. Allowed difference:
# the larger of this share of the longer call of the two and this time.
BESIDE, BESIDE_S = 0.15, 200e-6
# On a busy machine a process waits for a processor. Number of samples of which at least one did not wait.
BESIDE_SAMPLES = 8
# For calls of this length a wait for a processor is short in comparison, and fewer samples are enough.
LONG_S = 0.02
# Share of a run without pauses that its threads may have waited for a processor; other runs do not count.
WAITED = 0.1
# Least length of a run without pauses, beside which messages do not matter.
STEADY_S = 0.01
# Standard deviation of a normal distribution, in units of its median absolute deviation.
DEVIATION = 1.4826


def slowest(audits: list[Audit]) -> Audit:
    """The audit of the rank with the longest calls, with the strays and the launching threads of all ranks."""
    longest = max(audits, key=lambda one: median(one.event_s))
    return evolve(longest, stray=sum(one.stray for one in audits), threads=max(one.threads for one in audits))


def compare(
    baseline: Observations, one: Observations, audit: Audit, slowed_by_profiler: Callable[[], float | None] | None
) -> None:
    """Take an implementation out of the run if events and CUPTI contradict each other.

    Audited calls must take the same time by events as by CUPTI, and samples must not be faster than audited calls. They
    may be
    slower: audited calls repeat the same values, which may lie in a cache. Calls that wait for the GPU themselves
        cannot be
    hidden behind the blocking kernel. Their events include the host's time, and they get a warning only. CUPTI
    lengthens the host's time, so these samples may be faster than audited calls, down to the time that the GPU was
    busy, if the supervisor's clock confirms them.

    If the supervisor's clock confirms the samples, three more kinds of calls get a warning only. CUPTI does not see
    what a kernel launches. CUPTI slows some kernels: `slowed_by_profiler` makes calls without a pause under it, and
    returns how many times longer they take, or None if that is unknown. A GPU at its power limit is slower when calls
    follow each other at once, as audited calls do. `slowed_by_profiler` is None for untrusted code, which no clock
    confirms.
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
    # If a call is shorter by events than by CUPTI, the events missed a part of its work.
    whole = by_events >= by_cupti - slack
    beyond_s, steady_s = _beyond_s(baseline, one), _steady_s(one)
    steady = steady_s is not None and steady_s <= (1 + STEADY) * by_samples
    if whole and not all(
        hid for hid, at in zip(one.samples.hidden, one.samples.device_s, strict=True) if at is not None
    ):
        borne_out = beyond_s <= max(AGREE * by_samples, MESSAGES_S) and (slowed_by_profiler is not None or steady)
        if slower or (by_samples >= _least_busy_s(audit) and borne_out):
            one.find("timing.launch_not_hidden", f"the events include host time: {told}", evidence)
            return
    if slower and by_events > by_cupti and slowed_by_profiler and steady:
        message = f"CUPTI recorded only a part of the work, as with kernels that launch kernels: {told}"
        one.find("timing.not_audited", message, evidence)
        return
    if whole and not slower and slowed_by_profiler:
        gap_s = by_cupti - by_samples
        if gap_s >= MESSAGES_S and beyond_s <= gap_s / 2:
            message = (
                "calls that follow each other at once are slower, and by the supervisor's clock the samples are not: "
                + told
            )
            one.find("timing.not_audited", message, evidence)
            return
        if slowed := slowed_by_profiler():
            evidence["slowed_by_profiler"] = slowed
            if by_samples * slowed >= by_cupti - slack:
                message = f"CUPTI slows these calls to {slowed:.2f} times their time by the supervisor's clock: {told}"
                one.find("timing.not_audited", message, evidence)
                return
    message = f"the clocks disagree by more than {AGREE:.0%} and {AGREE_S * 1e6:g} us: {told}"
    one.find("timing.clocks_disagree", message, evidence, Verdict.UNTRUSTED)


def _least_busy_s(audit: Audit) -> float:
    """The least time of a sample: the time that an audited call kept the GPU busy, on one stream or several."""
    busy = min(median(audit.span_s), sum(piece.seconds for piece in audit.work))
    return busy - max(AGREE * busy, AGREE_S)


def _beyond_s(baseline: Observations, one: Observations) -> float:
    """The excess of the supervisor's brackets over the GPU's time, less the baseline's excess, in seconds a call."""
    beyond = _excess(_pairs(one, "device")) - _excess(_pairs(baseline, "device"))
    return max(0.0, beyond) / max(one.calls, 1)


def compare_with_supervisor(observations: Sequence[Observations]) -> None:
    """Take implementations out of the run whose own clock says less than the supervisor's.

    The supervisor sees a sample start and stop late by a message each. The baseline, which is trusted code, shows how
    much that adds. Of short calls the supervisor also timed many without a pause. Only wall time is compared: the GPU's
    time excludes launches by design, and CUPTI checks it.
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
    """The least excess of the supervisor's bracket over the worker's clock, in seconds a sample.

    A busy machine delays some messages; a manipulated clock is wrong in every sample.
    """
    return max(0.0, min((bracket - wall for wall, bracket in pairs), default=0.0))


def _slowdown(one: Observations) -> float | None:
    """The time of a call in runs without pauses, by the supervisor's clock, divided by its time in samples."""
    by_worker, steady_s = one.median("wall"), _steady_s(one)
    return steady_s / by_worker if by_worker and steady_s is not None else None


def _steady_s(one: Observations) -> float | None:
    """The supervisor's time of a call in the fastest run without pauses; None without a run that counts."""
    # A process that waits for a processor is slower, whatever its clock says.
    runs = [run for run in one.steady if run.waited_s is None or run.waited_s <= WAITED * run.bracket_s]
    return min((run.bracket_s / run.calls for run in runs), default=None)


def fast_without_pauses(one: Observations, clock: str) -> bool:
    """Whether a run without pauses was as fast as the samples, so that more runs can show no disagreement."""
    by_samples, steady_s = one.median(clock), _steady_s(one)
    return by_samples is not None and steady_s is not None and steady_s <= by_samples


def slowed(one: Observations, profiled: Iterable[Steady]) -> float | None:
    """The time of a call without pauses when it is `profiled`, divided by its usual time; None if unknown."""
    usual, least = _steady_s(one), min((run.bracket_s / run.calls for run in profiled), default=None)
    return least / usual if usual and least else None


def refuse_work_beside(observations: Sequence[Observations]) -> None:
    """Take implementations out of the run that are busier than the baseline beside the timed call."""
    for one in observations[1:]:
        found = work_beside(observations[0], one)
        if found and one.active:
            message, evidence = found
            one.find("location.work_between_calls", message, evidence)


def work_beside(baseline: Observations, one: Observations) -> tuple[str, dict[str, float]] | None:
    """The work of a process beside the timed call that the baseline's process does not have, in words and figures.

    It lies between a request and its answer: before the clock starts, or after it stops and before the output is handed
    over. The time before the start is checked alone: after the stop the harness reads the output, which would cover
    other work in the sum. On both sides the least of the faster half of the samples counts: one honest sample must not
    excuse the others. If an implementation was resampled, its new samples and the baseline's between them count, since
    the machine may have been quieter before. A stopped process uses no processor time.
    """
    theirs, ours = one.looks or (baseline.answered, one.answered)
    call_s, own_s = (median(answer.held_s for answer in side) if side else 0.0 for side in (theirs, ours))
    enough = BESIDE_SAMPLES if call_s < LONG_S else BESIDE_SAMPLES // 2
    # A process that was busy for longer is more likely to be descheduled after a call.
    allowed = max(BESIDE * max(call_s, own_s), BESIDE_S)
    stopped_s = median(one.stopped_s) if len(one.stopped_s) >= enough else 0.0
    if stopped_s > allowed:
        return (
            f"its process used {stopped_s * 1e6:,.0f} us of processor time while it was stopped, before a call that "
            f"takes the baseline {call_s * 1e6:,.0f} us",
            {"stopped_s": stopped_s, "baseline_call_s": call_s},
        )
    if len(ours) < enough or not theirs:
        return None
    for where, part in _BESIDE:
        usual, least = _least(theirs, part), _least(ours, part)
        if usual is not None and least is not None and least - usual > allowed:
            return (
                f"its process is busy for {(least - usual) * 1e6:,.0f} us more than the baseline's {where}, which "
                f"takes the baseline {call_s * 1e6:,.0f} us",
                {"excess_s": least - usual, "baseline_beside_s": usual, "baseline_call_s": call_s},
            )
    return None


_BESIDE: tuple[tuple[str, Callable[[Answer], float | None]], ...] = (
    ("between the request and the start of the timed call", lambda answer: answer.begun_s),
    ("beside the timed call", lambda answer: answer.beside_s),
)


def _least(samples: list[Answer], part: Callable[[Answer], float | None]) -> float | None:
    """The least of a part of the answers, among samples no slower than the median."""
    middle = median(answer.held_s for answer in samples)
    parts = (part(answer) for answer in samples if answer.held_s <= middle)
    return min((one for one in parts if one is not None), default=None)


def disagreement(baseline: Observations, one: Observations) -> tuple[str, dict[str, float]] | None:
    """How far an implementation's own clock is behind the supervisor's, in words and figures; None where they agree.

    If it was resampled, its new samples and the baseline's between them count.
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
    """A gain of which the supervisor sees less than half, in words and figures; None where it sees more.

    An untrusted process can shorten the times of its own clock by as much as messages may differ, or by more if it
    sends the messages itself. At least half of the gain must therefore show twice more: between the messages, by the
    supervisor's clock, and from the request until the whole output is there, including the processor time before the
    start. Medians are compared, as in the gain itself.
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
    """The median excess of the supervisor's brackets over the samples, less the baseline's.

    A supervisor without a processor reads the start late. Brackets shorter than the call are therefore left out. If too
    few are left, the time between the request and the answer counts instead.
    """
    views = [[bracket - wall for wall, bracket in _pairs(side) if bracket >= wall] for side in (one, baseline)]
    if any(len(view) < BESIDE_SAMPLES for view in views):
        views = [[answer.beside_s for answer in side.answered] for side in (one, baseline)]
    return median(views[0]) - median(views[1])


def _missing_until_output_s(baseline: Observations, one: Observations) -> tuple[float, float]:
    """The time until outputs are there beyond the samples, and processor time before their start, less the baseline's.

    The second value is its standard error; that of a median is 1.25 times that of a mean.
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
    if STEADY * by_worker > MESSAGES_S:  # the brackets of single samples are more exact for such long calls
        return None
    steady = slowdown * by_worker
    if steady - by_worker <= AGREE_S:
        return None
    return (
        f"the clocks disagree: a call takes {by_worker * 1e6:,.2f} us by the implementation's own process, and "
        f"{steady * 1e6:,.2f} us in a run without pauses by the supervisor's clock",
        {"by_worker_s": by_worker, "steady_s": steady, "baseline_slowed": slowed},
    )

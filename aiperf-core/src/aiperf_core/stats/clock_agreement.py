"""Agreement of the clocks of a run: the worker's, CUPTI's and the supervisor's."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from attrs import evolve, frozen

from aiperf_core.measurements import Answer, Audit, Bracketed, Samples, Steady
from aiperf_core.results.models import Observations, Sighting, Verdict
from aiperf_core.stats.mann_whitney import chance_of_excess
from aiperf_core.stats.observations import Clocks, answers_of, brackets_of, calls_of, is_observed

DISAGREE = "timing.clocks_disagree"
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
# On a busy machine code differs from itself by chance. Largest chance of that, for a difference that is a finding: a
# run tests a few differences, and none of thousands of runs of honest code should have one.
CHANCE = 1e-5
# Least number of samples of a side with which a difference can be so improbable, where half of them count.
LEAST_TESTED = 20
# The least part of a gain by the GPU's clock that batches of untrusted code must show, and the largest chance that they
# show it where there is none.
SHOWN, SHOWN_BY_CHANCE = 0.75, 1e-3
# Share of a run without pauses that its threads may have waited for a processor; other runs do not count.
WAITED = 0.1
# Least length of a run without pauses, beside which messages do not matter.
STEADY_S = 0.01


@frozen
class Suspicion:
    """A difference from the baseline that honest code does not have on a quiet machine.

    message: the difference in words.
    evidence: its figures.
    chance: how probable it is at least as clear between samples of one code, taken at the same time.
    """

    message: str
    evidence: dict[str, float]
    chance: float

    @property
    def proven(self) -> bool:
        """Whether chance does not explain it."""
        return self.chance <= CHANCE


def slowest(audits: list[Audit]) -> Audit:
    """The audit of the rank with the longest calls, with the strays and the launching threads of all ranks."""
    longest = max(audits, key=lambda one: median(one.event_s))
    return evolve(longest, stray=sum(one.stray for one in audits), threads=max(one.threads for one in audits))


def compare(
    baseline: Observations,
    one: Observations,
    clocks: Clocks,
    audit: Audit,
    slowed_by_profiler: Callable[[], float | None] | None,
) -> Sighting | None:
    """Sighting of events and CUPTI that contradict each other; None where they agree.

    Audited calls must take the same time by events as by CUPTI, and samples must not be faster than audited calls. They
    may be slower: audited calls repeat the same values, which may lie in a cache. Calls that wait for the GPU
    themselves cannot be hidden behind the blocking kernel. Their events include the host's time, and they get a warning
    only. CUPTI lengthens the host's time, so these samples may be faster than audited calls, down to the time that the
    GPU was busy, if the supervisor's clock confirms them.

    If the supervisor's clock confirms the samples, three more kinds of calls get a warning only. CUPTI does not see
    what a kernel launches. CUPTI slows some kernels: `slowed_by_profiler` makes calls without a pause under it, and
    returns how many times longer they take, or None if that is unknown. A GPU at its power limit is slower when calls
    follow each other at once, as audited calls do. `slowed_by_profiler` is None for untrusted code, which no clock
    confirms.
    """
    by_samples = clocks.median(one.samples, "device")
    if by_samples is None:
        return None
    by_events, by_cupti = median(audit.event_s) - clocks.cost_s.get("device", 0.0), median(audit.span_s)
    slack = max(AGREE * by_cupti, AGREE_S)
    agree, slower = abs(by_events - by_cupti) <= slack, by_samples >= by_cupti - slack
    if agree and slower:
        return None
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
            return Sighting("timing.launch_not_hidden", f"the events include host time: {told}", evidence)
    if slower and by_events > by_cupti and slowed_by_profiler and steady:
        message = f"CUPTI recorded only a part of the work, as with kernels that launch kernels: {told}"
        return Sighting("timing.not_audited", message, evidence)
    if whole and not slower and slowed_by_profiler:
        gap_s = by_cupti - by_samples
        if gap_s >= MESSAGES_S and beyond_s <= gap_s / 2:
            message = (
                "calls that follow each other at once are slower, and by the supervisor's clock the samples are not: "
                + told
            )
            return Sighting("timing.not_audited", message, evidence)
        if slowed := slowed_by_profiler():
            evidence["slowed_by_profiler"] = slowed
            if by_samples * slowed >= by_cupti - slack:
                message = f"CUPTI slows these calls to {slowed:.2f} times their time by the supervisor's clock: {told}"
                return Sighting("timing.not_audited", message, evidence)
    message = f"the clocks disagree by more than {100 * AGREE:g} % and {AGREE_S * 1e6:g} us: {told}"
    return Sighting(DISAGREE, message, evidence, Verdict.UNTRUSTED)


def _least_busy_s(audit: Audit) -> float:
    """The least time of a sample: the time that an audited call kept the GPU busy, on one stream or several."""
    busy = min(median(audit.span_s), sum(piece.seconds for piece in audit.work))
    return busy - max(AGREE * busy, AGREE_S)


def _beyond_s(baseline: Observations, one: Observations) -> float:
    """The excess of the supervisor's brackets over the GPU's time, less the baseline's excess, in seconds a call."""
    beyond = _device_excess(one.samples) - _device_excess(baseline.samples)
    return max(0.0, beyond) / max(calls_of(one.samples), 1)


def compare_with_supervisor(observed: Sequence[Observations], clocks: Clocks) -> list[Suspicion | None]:
    """The clearest suspicion of each implementation whose own clock says less than the supervisor's.

    The supervisor sees a sample start and stop late by a message each. The baseline, which is trusted code, shows how
    much that adds. Of short calls the supervisor also timed many without a pause. Only wall time is compared: the GPU's
    time excludes launches by design, and CUPTI checks it.
    """
    slowed = max(1.0, _slowdown(observed[0], clocks) or 1.0)
    found = ((disagreement(observed[0], one), _too_fast_for_steady(one, clocks, slowed)) for one in observed)
    return [min(filter(None, each), key=lambda one: one.chance, default=None) for each in found]


def _device_excess(samples: Samples) -> float:
    """The least excess of the supervisor's bracket over the GPU's clock, in seconds a sample."""
    both = zip(samples.device_s, samples.bracket_s, strict=True)
    return max(0.0, min((bracket - taken for taken, bracket in both if taken is not None), default=0.0))


def _excess(pairs: list[Bracketed]) -> float:
    """The least excess of the supervisor's bracket over the worker's clock, in seconds a sample.

    A busy machine delays some messages; a manipulated clock is wrong in every sample.
    """
    return max(0.0, min((one.bracket_s - one.wall_s for one in pairs), default=0.0))


def _slowdown(one: Observations, clocks: Clocks) -> float | None:
    """The time of a call in runs without pauses, by the supervisor's clock, divided by its time in samples."""
    by_worker, steady_s = clocks.median(one.samples, "wall"), _steady_s(one)
    return steady_s / by_worker if by_worker and steady_s is not None else None


def _steady_s(one: Observations) -> float | None:
    """The supervisor's time of a call in the fastest run without pauses; None without a run that counts."""
    # A process that waits for a processor is slower, whatever its clock says.
    runs = [run for run in one.steady if run.waited_s is None or run.waited_s <= WAITED * run.bracket_s]
    return min((run.bracket_s / run.calls for run in runs), default=None)


def fast_without_pauses(one: Observations, clocks: Clocks, clock: str) -> bool:
    """Whether a run without pauses was as fast as the samples, so that more runs can show no disagreement."""
    by_samples, steady_s = clocks.median(one.samples, clock), _steady_s(one)
    return by_samples is not None and steady_s is not None and steady_s <= by_samples


def slowed(one: Observations, profiled: Iterable[Steady]) -> float | None:
    """The time of a call without pauses when it is `profiled`, divided by its usual time; None if unknown."""
    usual, least = _steady_s(one), min((run.bracket_s / run.calls for run in profiled), default=None)
    return least / usual if usual and least else None


def work_beside(baseline: Observations, one: Observations) -> Suspicion | None:
    """The clearest work of a process beside the timed call that the baseline's process does not have.

    It lies between a request and its answer: before the clock starts, or after it stops and before the output is handed
    over. The time before the start is checked alone: after the stop the harness reads the output, which would cover
    other work in the sum. On both sides the faster half of the samples counts: an honest sample must not excuse the
    others. The least of each side raise the suspicion, and all of them decide how probable it is. If an implementation
    was resampled, its new samples and the baseline's between them count, since the machine may have been quieter
    before.
    """
    again = one.resampled
    theirs, ours = (again.baseline, again.own) if again else (answers_of(baseline.samples), answers_of(one.samples))
    call_s, own_s = (median(answer.held_s for answer in side) if side else 0.0 for side in (theirs, ours))
    enough = BESIDE_SAMPLES if call_s < LONG_S else BESIDE_SAMPLES // 2
    # A process that was busy for longer is more likely to be descheduled after a call.
    allowed = max(BESIDE * max(call_s, own_s), BESIDE_S)
    found = [_while_stopped(baseline, one, call_s, allowed, enough)]
    if len(ours) >= enough and theirs:
        found += [_beside(theirs, ours, call_s, allowed, where, part) for where, part in _BESIDE]
    return min(filter(None, found), key=lambda each: each.chance, default=None)


def _while_stopped(
    baseline: Observations, one: Observations, call_s: float, allowed: float, enough: int
) -> Suspicion | None:
    """Processor time of a stopped process, which uses none. A busy machine stops processes late, both sides' alike."""
    stops, usual_stops = _known(one.samples.stopped_s), _known(baseline.samples.stopped_s)
    stopped_s = median(stops) if len(stops) >= enough else 0.0
    if stopped_s - (median(usual_stops) if usual_stops else 0.0) <= allowed:
        return None
    return Suspicion(
        f"its process used {stopped_s * 1e6:,.0f} us of processor time while it was stopped, before a call that "
        f"takes the baseline {call_s * 1e6:,.0f} us",
        {"stopped_s": stopped_s, "baseline_call_s": call_s},
        chance_of_excess(stops, usual_stops, allowed),
    )


def _beside(
    theirs: list[Answer],
    ours: list[Answer],
    call_s: float,
    allowed: float,
    where: str,
    part: Callable[[Answer], float | None],
) -> Suspicion | None:
    """Time in a part of the answers beyond the baseline's."""
    usual, busy = _parts(theirs, part), _parts(ours, part)
    excess_s = min(busy) - min(usual) if usual and busy else 0.0
    if excess_s <= allowed:
        return None
    return Suspicion(
        f"its process is busy for {excess_s * 1e6:,.0f} us more than the baseline's {where}, which "
        f"takes the baseline {call_s * 1e6:,.0f} us",
        {"excess_s": excess_s, "baseline_beside_s": min(usual), "baseline_call_s": call_s},
        chance_of_excess(busy, usual, allowed),
    )


_BESIDE: tuple[tuple[str, Callable[[Answer], float | None]], ...] = (
    ("between the request and the start of the timed call", lambda answer: answer.begun_s),
    ("beside the timed call", lambda answer: answer.beside_s),
)


def _parts(samples: list[Answer], part: Callable[[Answer], float | None]) -> list[float]:
    """A part of the answers to samples no slower than the median."""
    middle = median(answer.held_s for answer in samples)
    return _known(part(answer) for answer in samples if answer.held_s <= middle)


def _known(values: Iterable[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def disagreement(baseline: Observations, one: Observations) -> Suspicion | None:
    """How far an implementation's own clock is behind the supervisor's; None where they agree.

    If it was resampled, its new samples and the baseline's between them count.
    """
    ours, theirs = brackets_of(one.samples), brackets_of(baseline.samples)
    if one.resampled:
        ours, theirs = one.resampled.own_brackets, one.resampled.baseline_brackets
    if not ours or not theirs:
        return None
    by_worker, excess, usual = median(each.wall_s for each in ours), _excess(ours), _excess(theirs)
    # Of several ranks each sends messages of its own.
    allowed = max(AGREE * by_worker, MESSAGES_S * max(1, len(one.ranks)))
    if excess - usual <= allowed:
        return None
    by_supervisor = by_worker + excess - usual
    beyond, others = ([each.bracket_s - each.wall_s for each in side] for side in (ours, theirs))
    return Suspicion(
        f"the clocks disagree: samples take {by_worker * 1e6:,.1f} us by the implementation's own process and "
        f"{by_supervisor * 1e6:,.1f} us by the supervisor's clock, messages taken off",
        {"by_worker_s": by_worker, "by_supervisor_s": by_supervisor, "messages_s": usual},
        chance_of_excess(beyond, others, allowed),
    )


def not_sooner(baseline: Samples, one: Samples) -> str | None:
    """Why a gain of untrusted code by the wall clock is not believed; None where it is.

    Code knows its inputs only from the request. It changes nothing when its output is there: an observer has stopped
    it, elsewhere it has handed the output over. If even that takes less time than the baseline's call alone, the gain
    is real. Otherwise the code may have saved time of the harness, which lies between the same moments: to wake, to
    copy the output, to send a message.
    """
    calls = baseline.own_s if is_observed(baseline) else baseline.wall_s
    whole_s, call_s = _middle(one.replied_s, one.calls), _middle(calls, baseline.calls)
    if whole_s < call_s:
        return None
    return (
        f"from the release of its inputs until its output was there for good, a call takes {whole_s * 1e6:,.0f} us, "
        f"and the baseline's call alone {call_s * 1e6:,.0f} us: the gain may be time of the harness; make the workload "
        "larger"
    )


def not_shown(baseline: Observations, one: Observations, clocks: Clocks) -> str | None:
    """Why a gain of untrusted code by the GPU's clock is not believed; None where it is.

    That clock is read in the code's own process. Batches are timed from outside, and both sides have the same launches,
    copies and messages in them: chance must not explain that they are shorter, and they must be shorter by most of what
    the GPU's clock says.
    """
    theirs, ours = ([each.call_s for each in side.batches] for side in (baseline, one))
    if not theirs or not ours:
        return "no calls in a row were timed from outside of its process: repeat it without an interruption"
    by_device = [clocks.median(side.samples, "device") or 0.0 for side in (baseline, one)]
    claimed_s, shown_s = by_device[0] - by_device[1], median(theirs) - median(ours)
    if shown_s >= SHOWN * claimed_s and chance_of_excess(theirs, ours, 0.0) <= SHOWN_BY_CHANCE:
        return None
    return (
        f"by the GPU's clock, which its own process reads, a call takes {claimed_s * 1e6:,.1f} us less than the "
        f"baseline's, and in calls in a row by the supervisor's clock {shown_s * 1e6:,.1f} us less: make the workload "
        "larger"
    )


def _middle(times: Sequence[float | None], calls: Sequence[int]) -> float:
    """The median time of a call."""
    return median(taken / count for taken, count in zip(times, calls, strict=True) if taken is not None)


def _too_fast_for_steady(one: Observations, clocks: Clocks, slowed: float) -> Suspicion | None:
    slowdown, by_worker = _slowdown(one, clocks), clocks.median(one.samples, "wall")
    if slowdown is None or by_worker is None or slowdown <= (1 + STEADY) * slowed:
        return None
    if STEADY * by_worker > MESSAGES_S:  # the brackets of single samples are more exact for such long calls
        return None
    steady = slowdown * by_worker
    if steady - by_worker <= AGREE_S:
        return None
    return Suspicion(
        f"the clocks disagree: a call takes {by_worker * 1e6:,.2f} us by the implementation's own process, and "
        f"{steady * 1e6:,.2f} us in a run without pauses by the supervisor's clock",
        {"by_worker_s": by_worker, "steady_s": steady, "baseline_slowed": slowed},
        chance=0.0,
    )

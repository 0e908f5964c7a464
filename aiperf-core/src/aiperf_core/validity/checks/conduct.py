"""Conduct of the harness: that it kept all samples, changed no rule on the way, and let no check fail unnoticed."""

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from aiperf_core.measurements import Samples
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Conduct, Evidence

STATISTIC = "median"
# The smallest difference that a verdict calls one, unless a run sets another.
_FLOOR = 0.01
# One entry a sample stands in each of these.
_COLUMNS = ("round", "block", "step", "device_s", "wall_s", "bracket_s")
# Whoever drops outliers drops no more than these.
_OUTLIERS = 0.1


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """What the harness's record of its own work shows."""
    conduct = evidence.conduct
    if conduct is None:
        return NotObserved("the harness kept no record of its own conduct")
    looks: tuple[Callable[[Evidence, Conduct], Seen | None], ...] = (
        _profiled,
        _dropped,
        _hidden_compilation,
        _smoothed,
        _statistic,
        _too_few,
        _within_noise,
        _options,
        _metric,
        _failed,
    )
    return [seen for one in looks if (seen := one(evidence, conduct)) is not None]


def call_times(samples: Samples, clock: str) -> list[tuple[int, float]]:
    """The round and the seconds of one call, for each sample by a clock (`device` or `wall`)."""
    column = samples.device_s if clock == "device" else samples.wall_s
    together = zip(samples.round, column, samples.calls, strict=False)
    return [(number, time / max(calls, 1)) for number, time, calls in together if time is not None]


# --- samples


def _profiled(_: Evidence, conduct: Conduct) -> Seen | None:
    if not conduct.profiled_samples:
        return None
    message = f"counted samples taken under a profiler, which adds time of its own: {conduct.profiled_samples}"
    return Seen("timing.profiler_overhead", message, {"profiled_samples": conduct.profiled_samples})


def _dropped(evidence: Evidence, conduct: Conduct) -> Seen | None:
    figures = {"samples_taken": conduct.samples_taken, "samples_kept": conduct.samples_kept}
    if conduct.samples_kept != conduct.samples_taken:
        message = f"{conduct.samples_taken} samples were taken and {conduct.samples_kept} kept; all must be"
        return Seen("statistical.cherry_picking", message, figures)
    skipped = _left_plan(conduct)
    if skipped is None:
        return None
    message = f"block {skipped} is not the one that the plan has there: blocks were left out, repeated or exchanged"
    return Seen("statistical.cherry_picking", message, {**figures, "block": skipped})


def _left_plan(conduct: Conduct) -> int | None:
    """Where the order left the plan; None where it kept to it.

    A run may end early, and an implementation may drop out: from then on it has no block any more.
    """
    plan, order = conduct.planned_order, conduct.order
    if not plan:
        return None
    last = {name: index for index, name in enumerate(order)}
    done = 0
    for name in plan:
        if done == len(order):
            return None
        if order[done] == name:
            done += 1
        elif last.get(name, -1) > done:
            return done
    return None if done == len(order) else done


def _hidden_compilation(_: Evidence, conduct: Conduct) -> Seen | None:
    """Whether a few samples were dropped, as slow ones are: the calls in which a compiler was at work again are slow."""
    dropped, taken = conduct.samples_taken - conduct.samples_kept, conduct.samples_taken
    if not 0 < dropped <= _OUTLIERS * taken:
        return None
    message = (
        f"of {taken} samples {dropped} were dropped, as outliers are: a call that compiles anew is one, and counts"
    )
    return Seen("compile.guard_failure_hidden", message, {"samples_taken": taken, "dropped": dropped})


def _smoothed(evidence: Evidence, conduct: Conduct) -> Seen | None:
    lengths = {name: len(getattr(evidence.samples, name)) for name in _COLUMNS}
    there = lengths["block"]
    if not there or (there == conduct.samples_kept and set(lengths.values()) == {there}):
        return None
    message = (
        f"{conduct.samples_kept} samples were kept, and the record has {_range(lengths.values())} of them: "
        "a spread can only be told from each sample as it was taken"
    )
    return Seen("statistical.variance_gaming", message, {"samples_kept": conduct.samples_kept, "recorded": lengths})


def _range(counts: Iterable[int]) -> str:
    ordered = sorted(set(counts))
    return f"{ordered[0]}" if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _too_few(evidence: Evidence, conduct: Conduct) -> Seen | None:
    blocks = len(set(evidence.samples.block))
    passes = min(conduct.passes, blocks) if blocks else conduct.passes
    if passes >= conduct.least_passes or not conduct.samples_taken:
        return None
    message = f"passes taken: {passes}; fewer than {conduct.least_passes} allow no statement"
    return Seen("statistical.insufficient_samples", message, {"passes": passes, "least": conduct.least_passes})


def _within_noise(evidence: Evidence, _: Conduct) -> Seen | None:
    """Whether a gain is less than what the baseline's fresh processes differ among themselves.

    Where both sides have all rounds, each round compares them side by side and the interval knows what rounds differ by.
    A difference between figures of different rounds is told here.
    """
    if evidence.role != "variant" or evidence.baseline is None:
        return None
    ours = call_times(evidence.samples, evidence.clock)
    theirs = call_times(evidence.baseline.samples, evidence.clock)
    rounds = sorted({number for number, _ in theirs})
    if not ours or len(rounds) < 2 or {number for number, _ in ours} == set(rounds):
        return None
    medians = [median(time for number, time in theirs if number == one) for one in rounds]
    mine = median(time for _, time in ours)
    if min(medians) <= 0 or mine <= 0:
        return None
    gain, own = abs(median(time for _, time in theirs) / mine - 1), max(medians) / min(medians) - 1
    if gain <= _FLOOR or gain > own:
        return None
    message = f"a difference of {gain:.1%}, from other rounds than the baseline's, and the baseline's own rounds differ by {own:.1%}"
    return Seen("statistical.within_noise", message, {"difference": gain, "baseline_rounds_s": medians})


# --- rules


def _statistic(_: Evidence, conduct: Conduct) -> Seen | None:
    if conduct.statistic == STATISTIC:
        return None
    message = f"the speedup is a ratio of {conduct.statistic!r}; accepted is the {STATISTIC!r}, which nobody may choose"
    return Seen("statistical.percentile_selection", message, {"statistic": conduct.statistic})


def _options(_: Evidence, conduct: Conduct) -> Seen | None:
    if conduct.options_before == conduct.options_after:
        return None
    message = "the options of the run (limits, budgets, sizes) are others at its end than at its start"
    evidence = {"before": conduct.options_before, "after": conduct.options_after}
    return Seen("evaluation.timeout_manipulation", message, evidence)


def _metric(evidence: Evidence, conduct: Conduct) -> Seen | None:
    """Whether both sides were measured by one definition, and the benchmark stayed what it was when it was declared."""
    baseline = evidence.baseline
    said: list[str] = []
    figures: dict[str, Any] = {}
    if conduct.sources_before != conduct.sources_after:
        said.append("the benchmark's source changed while it was measured")
        figures |= {"sources_before": conduct.sources_before, "sources_after": conduct.sources_after}
    for name in ("clock", "cache"):
        ours, theirs = getattr(evidence, name), getattr(baseline, name) if baseline else None
        if theirs is not None and ours != theirs:
            said.append(f"the {name} is {ours!r}, and {theirs!r} for the baseline")
            figures |= {name: ours, f"baseline_{name}": theirs}
    if evidence.samples.block and not call_times(evidence.samples, evidence.clock):
        said.append(f"no sample was taken by the declared clock, {evidence.clock!r}")
        figures["clock"] = evidence.clock
    return Seen("evaluation.metric_definition_gaming", "; ".join(said), figures) if said else None


def _failed(_: Evidence, conduct: Conduct) -> Seen | None:
    if not conduct.failed_checks:
        return None
    message = f"checks failed, and what they guard was not looked at: {', '.join(conduct.failed_checks)}"
    return Seen("evaluation.fails_open", message, {"failed_checks": conduct.failed_checks})


CHECK = Check("conduct", look)

"""The harness's record of its own work: complete samples, enough of them, and one definition of what is measured."""

from collections.abc import Callable, Iterable
from statistics import median

from aiperf_core.measurements import Samples
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence, SelfCheck

# Fewer passes allow no statement.
LEAST_PASSES = 4
# The smallest difference that a verdict calls one, unless a run sets another.
_FLOOR = 0.01
# Each of these columns has an entry for every sample.
_COLUMNS = ("round", "block", "step", "device_s", "wall_s", "bracket_s")


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Return what the harness's record of its own work shows."""
    record = evidence.self_check
    if record is None:
        return NotObserved("the harness kept no record of its own work")
    looks: tuple[Callable[[Evidence, SelfCheck], Seen | None], ...] = (
        _incomplete,
        _too_few,
        _within_noise,
        _redefined,
    )
    return [seen for one in looks if (seen := one(evidence, record)) is not None]


def call_times(samples: Samples, clock: str) -> list[tuple[int, float]]:
    """The round and the seconds of one call, for each sample by a clock (`device` or `wall`)."""
    column = samples.device_s if clock == "device" else samples.wall_s
    together = zip(samples.round, column, samples.calls, strict=False)
    return [(number, time / max(calls, 1)) for number, time, calls in together if time is not None]


def _incomplete(evidence: Evidence, _: SelfCheck) -> Seen | None:
    lengths = {name: len(getattr(evidence.samples, name)) for name in _COLUMNS}
    kept = lengths["block"]
    if not kept or set(lengths.values()) == {kept}:
        return None
    low, high = min(lengths.values()), max(lengths.values())
    message = (
        f"{kept} samples were kept, and the columns of the record hold {low} to {high}: "
        "a spread can only be computed from every sample as it was taken"
    )
    return Seen("statistical.variance_gaming", message, {"samples_kept": kept, "recorded": lengths})


def _too_few(evidence: Evidence, _: SelfCheck) -> Seen | None:
    passes = len(set(evidence.samples.block))
    if passes >= LEAST_PASSES or not passes:
        return None
    message = f"passes taken: {passes}; fewer than {LEAST_PASSES} allow no statement"
    return Seen("statistical.insufficient_samples", message, {"passes": passes, "least": LEAST_PASSES})


def _within_noise(evidence: Evidence, _: SelfCheck) -> Seen | None:
    """Find a gain that is less than what the baseline's fresh processes differ among themselves.

    Where both sides have all rounds, each round compares them side by side, and the interval covers the differences
    between rounds. This finds a difference between figures of different rounds.
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
    message = (
        f"a difference of {gain:.1%}, from other rounds than the baseline's, and the baseline's own rounds differ by "
        f"{own:.1%}"
    )
    return Seen("statistical.within_noise", message, {"difference": gain, "baseline_rounds_s": medians})


def _redefined(evidence: Evidence, record: SelfCheck) -> Seen | None:
    """Compare what the benchmark declared before the run with its declarations in the processes of the run."""
    planned = record.declared.get("run", {})
    said: list[str] = []
    figures: dict[str, object] = {}
    for process, declared in record.declared.items():
        names = [name for name in planned | declared if planned.get(name) != declared.get(name)]
        if names:
            said.append(f"the benchmark declares another {', '.join(names)} to the {process} than before the run")
            figures[process] = {name: [planned.get(name), declared.get(name)] for name in names}
    if evidence.samples.block and not call_times(evidence.samples, evidence.clock):
        said.append(f"no sample was taken by the declared clock, {evidence.clock!r}")
        figures["clock"] = evidence.clock
    return Seen("evaluation.metric_definition_gaming", "; ".join(said), figures) if said else None


CHECK = Check("self_check", look)

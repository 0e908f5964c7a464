"""One definition of what is measured: what the benchmark declared before the run holds in each of its processes."""

from collections.abc import Iterable

from aiperf_core.measurements import Samples
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Compare what the benchmark declared before the run with its declarations in the processes of the run."""
    if evidence.self_check is None:
        return NotObserved("the self-check of the harness was not recorded")
    declared = evidence.self_check.declared
    planned = declared.get("run", {})
    said: list[str] = []
    figures: dict[str, object] = {}
    for process, told in declared.items():
        names = [name for name in planned | told if planned.get(name) != told.get(name)]
        if names:
            said.append(f"the benchmark declares another {', '.join(names)} to the {process} than before the run")
            figures[process] = {name: [planned.get(name), told.get(name)] for name in names}
    if evidence.samples.block and not call_times(evidence.samples, evidence.clock):
        said.append(f"no sample was taken by the declared clock, {evidence.clock!r}")
        figures["clock"] = evidence.clock
    return [Seen("evaluation.metric_definition_gaming", "; ".join(said), figures)] if said else []


def call_times(samples: Samples, clock: str) -> list[tuple[int, float]]:
    """The round and the seconds of one call, for each sample by a clock (as of `Samples.by`)."""
    together = zip(samples.round, samples.by(clock), samples.calls, strict=False)
    return [(number, time / max(calls, 1)) for number, time, calls in together if time is not None]


CHECK = Check("self_check", look)

"""The notes that hold for the machine, once for all targets of a run."""

from collections.abc import Iterable, Iterator, Sequence

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.results.models import Finding, Row, TargetResult
from aiperf_core.stats.conditions import LOAD

NOT_AUDITED = "timing.not_audited"
# Findings about the machine, which are alike for all rows.
MACHINE = frozenset(
    {
        LOAD,
        "environment.virtualization_overhead",
        "environment.container_resource_limits",
        "environment.memory_overcommit",
        "environment.shared_gpu",
    }
)
# Those that hold for every run of the machine: `aiperf doctor` shows them.
LASTING = frozenset({"environment.virtualization_overhead", "environment.memory_overcommit"})
MOST_NAMES = 6  # of rows in a note; more are counted


def is_machine_wide(finding: Finding) -> bool:
    """Whether a finding is about the machine, not about a row. CUPTI may be missing for all rows."""
    if finding.issue == NOT_AUDITED:
        return not finding.evidence
    return finding.issue in MACHINE and "witness" not in finding.evidence  # which differs from row to row


def machine_notes(results: Sequence[TargetResult], *, lasting: bool = True) -> Iterator[tuple[str, str]]:
    """The notes that hold for the machine: a label and a sentence each.

    lasting: also what is so in every run of the machine, and why there is no energy.
    """
    rows = [(result, row) for result in results for row in result.rows if row.is_believed]
    measured = [(result, row) for result, row in rows if row.time_s]
    concerned: dict[tuple[str, str], list[tuple[TargetResult, Row]]] = {}
    loaded: list[tuple[TargetResult, Row, Finding]] = []
    for result, row in rows:
        for finding in filter(is_machine_wide, row.findings):
            if finding.issue == LOAD:
                loaded.append((result, row, finding))
            elif lasting or finding.issue not in LASTING:
                message = words(finding.message).removeprefix(f"{words(row.name)} ")
                concerned.setdefault((finding.issue, message), []).append((result, row))
    for (issue, message), some in concerned.items():
        yield "warning", f"{issue}{_about(some, len(measured), len(results))}: {message}"
    if loaded:
        about = _about([(result, row) for result, row, _ in loaded], len(measured), len(results))
        load = _load([finding for *_, finding in loaded])
        yield "warning", f"{LOAD}{about}: {load}" if lasting else f"noisy machine: {load}"
    reasons = (words(row.no_energy) for result in results for row in result.rows if row.no_energy)
    for reason in dict.fromkeys(reasons) if lasting else ():
        yield "energy", f"not measurable: {reason}"


def _about(some: Sequence[tuple[TargetResult, Row]], measured: int, targets: int) -> str:
    """The rows of a note in brackets, unless it is about all."""
    if len(some) >= measured > 1:
        return ""
    if len(some) > MOST_NAMES:
        return f" (in {len(some)} of {measured} implementations)"
    names = (f"{result.target}:{row.name}" if targets > 1 else row.name for result, row in some)
    return f" ({', '.join(map(words, names))})"


def _load(findings: Sequence[Finding]) -> str:
    """The highest load of several findings; their own messages where they have no figures."""
    busy = _highest(one.evidence.get("background_median") for one in findings)
    steal = _highest(one.evidence.get("steal_median") for one in findings)
    said = [
        *([f"other processes kept up to {units.percent(busy)} of the processors busy"] if busy else []),
        *(
            [f"the hypervisor took up to {units.percent(steal)} of the processors' time for its other guests"]
            if steal
            else []
        ),
    ]
    return "; ".join(said or dict.fromkeys(words(one.message) for one in findings))


def _highest(values: Iterable[object]) -> float:
    return max((float(value) for value in values if isinstance(value, int | float)), default=0.0)

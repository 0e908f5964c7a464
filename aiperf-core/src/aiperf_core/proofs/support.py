"""The proof behind an issue: its kind, and the attacks, honest look-alikes and recordings by name."""

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.issues import Issue


class Kind(StrEnum):
    """The kind of proof behind an issue. `OWED` and `NONE` are not proof."""

    ATTACKED = "attacked in a run"
    RECORDED = "recorded on a named machine"
    EXCLUDED = "excluded by construction"
    OWED = "owed"
    NONE = "no proof yet"


def name_of(case: Case) -> str:
    """`output:zeros`: the last part of a module's name, and an implementation in it."""
    return f"{case.module.rpartition('.')[2]}:{case.implementation}"


@frozen
class Support:
    """The proof behind an issue: its kind, attacks and honest look-alikes by name, recordings by file."""

    kind: Kind = Kind.NONE
    attacks: tuple[str, ...] = ()
    look_alikes: tuple[str, ...] = ()
    recordings: tuple[str, ...] = ()


def support(issue: Issue, cases: Iterable[Case], recorded: Iterable[Recorded]) -> Support:
    """Return the proof behind an issue. An issue whose proof is owed stays owed, whatever was written for it."""
    of_it = [case for case in cases if case.issue == issue.id]
    attacks = _named(case for case in of_it if not case.honest)
    kept = [evidence for evidence in recorded if evidence.issue == issue.id]
    if issue.owed:
        kind = Kind.OWED
    elif attacks:
        kind = Kind.ATTACKED
    elif any(not evidence.honest for evidence in kept):
        kind = Kind.RECORDED
    else:
        kind = Kind.EXCLUDED if issue.excluded else Kind.NONE
    look_alikes = _named(case for case in of_it if case.honest)
    return Support(kind, attacks, look_alikes, tuple(evidence.file for evidence in kept))


def _named(cases: Iterable[Case]) -> tuple[str, ...]:
    devices: dict[str, list[str]] = {}
    for case in cases:
        devices.setdefault(name_of(case), []).append(case.device)
    return tuple(f"{name} ({', '.join(sorted(kinds))})" for name, kinds in devices.items())

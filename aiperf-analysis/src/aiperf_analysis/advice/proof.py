"""Proof of a recommendation: a believed row of one of its targets that is faster or smaller than the baseline."""

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from aiperf_analysis.selection import Entry, Selection
from aiperf_core.report.result import Figure
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.models import Machine, Verdict

Status = Literal["proven here", "elsewhere", "unproven"]

STATUSES: tuple[Status, ...] = ("proven here", "elsewhere", "unproven")
GAINS = (Verdict.FASTER, Verdict.SMALLER)


@frozen
class Proof:
    """Whether results prove a recommendation.

    status: `proven here` on a machine of this kind, `elsewhere` on another kind, `unproven` without a row.
    entry: the row; None without one.
    gain: its speedup or memory gain.
    """

    status: Status
    entry: Entry | None
    gain: Figure


def proof(targets: Sequence[str], rows: Sequence[Entry], here: Machine) -> Proof:
    """The proof of a recommendation by `rows`, the result of `proving`.

    Rows of this kind of machine come first, then the order of `targets`, then the larger gain.
    """
    if not targets:
        return Proof("unproven", None, Figure(value=None, reason="no target of this repository measures it"))
    found = [one for one in rows if one.base_target in targets]
    if not found:
        return Proof("unproven", None, Figure(value=None, reason="no gain of its targets among the results"))
    best = min(
        found, key=lambda one: (not is_here(one, here), targets.index(one.base_target), -(gain(one).value or 0.0))
    )
    return Proof("proven here" if is_here(best, here) else "elsewhere", best, gain(best))


def proving(selection: Selection) -> list[Entry]:
    """The believed rows with a gain, of the newest bundle of each target, device, kind of machine and size."""
    return [one for one in selection.latest().entries if one.row.role == "variant" and one.row.verdict in GAINS]


def is_here(entry: Entry, here: Machine) -> bool:
    """Whether a row was measured on a machine of the same kind as `here`."""
    return entry.hardware == hardware_key(here, entry.result.device, entry.result.problem.params)


def gain(entry: Entry) -> Figure:
    """The speedup of a faster row, the memory gain of a smaller one."""
    return entry.figure("memory_gain" if entry.row.verdict is Verdict.SMALLER else "speedup")

"""Compare a run with its reproduction, row by row.

A verdict *holds* if the second run has the same verdict; INVALID and UNTRUSTED count as the same. It stays *open* if a
row that was FASTER, SLOWER or SAME is INCONCLUSIVE now. A row that was INCONCLUSIVE, FAILED or SKIPPED claimed nothing.
A row that claimed something and does not run now is *not run*. If the verdict is the same but the intervals of the
speedups do not meet, the speedup *differs*.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import asdict, evolve, frozen

from aiperf_core.errors import ExitCode
from aiperf_core.results.address import Address
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.compare import Compared, Comparison, Difference, compare, metric_of, of_manifests

DISTRUSTED = (Verdict.INVALID, Verdict.UNTRUSTED)
COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SMALLER, Verdict.LARGER, Verdict.SAME)
NO_CLAIM = (Verdict.INCONCLUSIVE, Verdict.FAILED, Verdict.SKIPPED)
MACHINE = ("GPU", "processor")


class Outcome(StrEnum):
    """The comparison of a row's verdicts then and now."""

    HOLDS = "holds"
    DIFFERS = "speedup differs"
    NOTHING = "nothing claimed"
    OPEN = "open"
    NOT_RUN = "not run"
    BROKEN = "does not hold"


@frozen
class Reproduced:
    """A row then (`left`) and now (`right`), with the outcome for its verdict."""

    compared: Compared
    outcome: Outcome


@frozen
class Reproduction:
    """The differences between the runs, and every row that was measured then."""

    differences: list[Difference]
    rows: list[Reproduced]

    @property
    def other_machine(self) -> list[Difference]:
        """The differences that mean another kind of machine."""
        return [one for one in self.differences if one.what in MACHINE]

    def exit_code(self, *, strict: bool) -> ExitCode:
        """4 if a verdict does not hold, else 1 if a row did not run, else 5 if a verdict stays open.

        With `strict`, a speedup that differs does not hold.
        """
        seen = {one.outcome for one in self.rows}
        if Outcome.BROKEN in seen or (strict and Outcome.DIFFERS in seen):
            return ExitCode.BELOW_EXPECTATION
        if Outcome.NOT_RUN in seen or not seen:
            return ExitCode.FAILED
        return ExitCode.INCONCLUSIVE if Outcome.OPEN in seen else ExitCode.OK


def judge(then: Address, now: Bundle, missing: Mapping[str, str]) -> Reproduction:
    """Compare an address with its reproduction. `missing` has the targets that could not be run, with the reasons."""
    known = {**{one.target: one.reason for one in now.manifest.skipped}, **missing}
    wanted = then.targets
    if any(name in wanted for name in now.targets):
        found = compare(then, Address(now))
    else:
        found = Comparison(of_manifests(then.bundle.manifest, now.manifest, wanted), [], paired=False, floor=None)
    rows = [one for one in found.rows if one.left is not None]
    there = {(one.target, one.implementation) for one in rows}
    for result in then.outlines():
        rows += [
            Compared(result.target, row.name, row, None, metric_of(result))
            for row in result.rows
            if row.role != "control" and (result.target, row.name) not in there
        ]
    return Reproduction(found.differences, [_reproduced(one, known.get(one.target)) for one in rows])


def _reproduced(one: Compared, not_run: str | None) -> Reproduced:
    assert one.left is not None
    found = outcome(one.left, one.right)
    reason = one.reason
    if one.right is None:
        reason = not_run or "no longer exists"
    elif not one.right.is_believed:
        reason = one.right.reason
    elif not one.left.is_believed:
        reason = f"then {one.left.verdict.value}: {one.left.reason}"
    return Reproduced(evolve(one, reason=reason), found)


def outcome(then: Row, now: Row | None) -> Outcome:
    """The outcome for a row's verdict."""
    if then.verdict in NO_CLAIM:
        return Outcome.NOTHING
    if now is None or now.verdict in (Verdict.FAILED, Verdict.SKIPPED):
        return Outcome.NOT_RUN
    if now.verdict is Verdict.INCONCLUSIVE and then.verdict in COMPARED:
        return Outcome.OPEN
    if now.verdict is not then.verdict and not {then.verdict, now.verdict} <= {*DISTRUSTED}:
        return Outcome.BROKEN
    before, after = then.speedup, now.speedup
    if then.verdict is not Verdict.SAME and before and after and (before.low > after.high or after.low > before.high):
        return Outcome.DIFFERS
    return Outcome.HOLDS


def document(found: Reproduction, then: str, now: str, code: int) -> dict[str, Any]:
    """A reproduction as plain data."""
    rows = [
        {
            "target": one.compared.target,
            "implementation": one.compared.implementation,
            "then": _side(one.compared.left),
            "now": _side(one.compared.right),
            "ratio": asdict(one.compared.ratio) if one.compared.ratio else None,
            "outcome": one.outcome.value,
            "reason": one.compared.reason,
        }
        for one in found.rows
    ]
    differences = [asdict(one) for one in found.differences]
    return {"then": then, "now": now, "exit_code": int(code), "differences": differences, "rows": rows}


def _side(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    time_s = asdict(row.time_s) if row.time_s else None
    return {"verdict": row.verdict.value, "time_s": time_s, "speedup": asdict(row.speedup) if row.speedup else None}

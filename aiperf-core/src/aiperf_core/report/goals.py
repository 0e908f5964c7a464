"""The goals of targets as a result."""

from collections import Counter
from collections.abc import Iterator

from aiperf_core.report.result import Cell, Column, Figure, Record, Result, Table
from aiperf_core.stats.goal_standings import JudgedGoal, Standings
from aiperf_core.stats.threshold import MET, MISSED, NOT_MEASURED, UNCLEAR

STATES = (MET, MISSED, UNCLEAR, NOT_MEASURED)
NO_CAUSE = "not explained yet"


def view(found: Standings) -> Result:
    """Each goal with the figure that reached it, where that is from, and why it is missed or not measured."""
    columns = [
        Column("target", "target"),
        Column("goal", "goal"),
        Column("reached", "reached", "figure"),
        Column("implementation", "by"),
        Column("origin", "measured in"),
        Column("state", "state", "verdict"),
        Column("why", "why"),
    ]
    note = "The ceilings are those of the same run. A goal is UNCLEAR where the interval contains the bar."
    records = [Record(_cells(goal)) for goal in found.rows]
    return Result(
        analysis="goals",
        title="Goals",
        summary=list(_summary(found)),
        status="ok" if records else "nothing",
        tables=[Table("goals", "Figures to reach and figures reached", columns, records, note)] if records else [],
    )


def _summary(found: Standings) -> Iterator[str]:
    counts = Counter(goal.state for goal in found.rows)
    yield ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no target has a goal"
    for what, names in (("no stored measurement on a GPU", found.never_on_gpu), ("no goal", found.without)):
        if names:
            yield f"{what}: {', '.join(names)}"


def _cells(judged: JudgedGoal) -> dict[str, Cell]:
    goal, reached = judged.goal, judged.reached
    device = "" if goal.device == "cuda" else f" on {goal.device}"
    return {
        "target": judged.target,
        "goal": f"{f'{goal.implementation}: ' if goal.implementation else ''}{goal}{device}",
        "reached": _figure(judged),
        "implementation": reached.implementation if reached else None,
        "origin": _origin(judged),
        "state": judged.state,
        "why": _why(judged) or None,
    }


def _figure(judged: JudgedGoal) -> Figure | None:
    if judged.reached is None:
        return None
    estimate, scale = judged.reached.figure, 100 if judged.goal.is_share else 1
    value, low, high = (end * scale for end in (estimate.value, estimate.low, estimate.high))
    return Figure(value=value, low=low, high=high, unit="%" if judged.goal.is_share else "1", certainty="derived")


def _origin(judged: JudgedGoal) -> str | None:
    """Bundle, machine, date and tier of the figure."""
    origin = judged.origin
    if origin is None:
        return None
    parts = (f"stored results, {origin.bundle}" if origin.file else origin.bundle, origin.machine, origin.date[:10])
    return ", ".join(part for part in (*parts, origin.tier) if part)


def _why(judged: JudgedGoal) -> str:
    """Why a goal has no figure, or is missed."""
    goal = judged.goal
    if judged.reached is None:
        return judged.reason
    if judged.state in (MISSED, UNCLEAR) and goal.cause:
        return f"{goal.cause} ({goal.shown_by})"
    return NO_CAUSE if judged.state == MISSED else ""

"""The goals of targets: a table for a terminal, and a page in Markdown."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render.look import Look
from aiperf_core.stats.goal_standings import JudgedGoal, Standings
from aiperf_core.stats.threshold import MET, MISSED, NOT_MEASURED, UNCLEAR

STYLES = {MET: "bold green", MISSED: "bold yellow", UNCLEAR: "bold yellow", NOT_MEASURED: "dim"}
WIDTHS = 34, 30, 12  # of goal, figure and state in 80 columns
NARROWEST_TABLE = 72
NO_CAUSE = "cause not measured"


def render(found: Standings, look: Look, width: int) -> RenderableType:
    """The standings as a table, with what is missing below it. In a narrow terminal, a list."""
    parts: list[RenderableType] = [_table(found.rows, look, width)] if found.rows else [Text("no target has a goal")]
    return Group(*parts, *(Text(f"\n{line}") for line in _missing(found)))


def _table(rows: Sequence[JudgedGoal], look: Look, width: int) -> RenderableType:
    if width < NARROWEST_TABLE:
        return Group(*(text for standing in rows for text in (*_lines(standing, look), Text())))
    more = (width - 80) // 2
    goal_width, reached_width, state_width = WIDTHS[0] + more, WIDTHS[1] + more, WIDTHS[2]
    table = Table(box=look.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    table.add_column("goal", width=goal_width, overflow="fold")
    table.add_column("reached", width=reached_width, overflow="fold")
    table.add_column("state", width=state_width, overflow="fold")
    for number, standing in enumerate(rows):
        if number:
            table.add_row()
        goal, reached, state = _lines(standing, look)
        table.add_row(goal, reached, state)
    return table


def _lines(standing: JudgedGoal, look: Look) -> tuple[Text, Text, Text]:
    """The goal with its target, the figure with its origin, and the state."""
    goal = Text.assemble((words(standing.target), "bold"), f"\n{_goal(standing)}", (_cause(standing), "dim"))
    reached = "\n".join([*_reached(standing), *_origin(standing)]) or words(standing.reason)
    return goal, look.text(reached), Text(_state(standing), STYLES[standing.state])


def page(found: Standings) -> str:
    """The standings as a page in Markdown."""
    return "\n".join([*_page(found), ""])


def _page(found: Standings) -> Iterator[str]:
    yield "# Goals"
    yield ""
    yield "The figures that the lessons are to reach, and those that they were measured to reach. Ceilings are those of"
    yield "the same run. `aiperf goals --page FILE` writes this page from stored runs and expectations files."
    yield "A goal is UNCLEAR where the interval contains the bar: a repeated run may end otherwise."
    yield ""
    yield "| target | goal | reached | state |"
    yield "| --- | --- | --- | --- |"
    for standing in found.rows:
        figure = " ".join(_reached(standing))
        origin = f" ({', '.join(_origin(standing))})" if standing.origin else ""
        yield f"| `{standing.target}` | {_goal(standing)} | {figure}{origin} | {_state(standing)} |"
    missed = [one for one in found.rows if one.state == MISSED or (one.state == UNCLEAR and one.goal.cause)]
    if missed:
        yield ""
        yield "## Causes of missed and unclear goals"
    for standing in missed:
        goal = standing.goal
        yield ""
        yield f"- `{standing.target}`, {goal}: {f'{goal.cause} (`{goal.shown_by}`)' if goal.cause else NO_CAUSE}"
    for title, names in (
        ("No stored measurement on a GPU", found.never_on_gpu),
        ("No goal", found.without),
    ):
        if names:
            yield ""
            yield f"## {title}"
            yield ""
            yield ", ".join(f"`{name}`" for name in names)


def _goal(standing: JudgedGoal) -> str:
    """A goal in words, with the implementation that must reach it."""
    goal = standing.goal
    device = "" if goal.device == "cuda" else f" on {goal.device}"
    return f"{f'{goal.implementation}: ' if goal.implementation else ''}{goal}{device}"


def _reached(standing: JudgedGoal) -> list[str]:
    """The figure with its interval, and the implementation."""
    reached = standing.reached
    if reached is None:
        return []
    shown = (units.percent_estimate if standing.goal.is_share else units.ratio_estimate)(reached.figure)
    return [f"{shown.value} {shown.interval}", words(reached.implementation)]


def _origin(standing: JudgedGoal) -> list[str]:
    """Bundle, machine, date and tier of the figure."""
    origin = standing.origin
    if origin is None:
        return []
    found = [f"expected, {origin.bundle}" if origin.file else origin.bundle, origin.machine, origin.date[:10]]
    return [words(part) for part in (*found, origin.tier) if part]


def _state(standing: JudgedGoal) -> str:
    """The state, and that a missed goal has no cause."""
    return f"{standing.state}, {NO_CAUSE}" if standing.state == MISSED and not standing.goal.cause else standing.state


def _cause(standing: JudgedGoal) -> str:
    goal = standing.goal
    return f"\ncause: {goal.cause} ({goal.shown_by})" if standing.state in (MISSED, UNCLEAR) and goal.cause else ""


def _missing(found: Standings) -> Iterator[str]:
    """Sentences on what has no goal and no measurement."""
    if found.never_on_gpu:
        yield f"no stored measurement on a GPU: {', '.join(found.never_on_gpu)}"

"""The goals of targets: a table for a terminal, and a page in Markdown."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render.look import Look
from aiperf_core.stats.goal_standings import MISSED, UNMEASURED, Standing, Standings

STYLES = {"met": "bold green", MISSED: "bold yellow", UNMEASURED: "dim"}
GOAL_WIDTH, REACHED_WIDTH, STATE_WIDTH = 34, 30, 12
NO_CAUSE = "cause not measured"


def render(found: Standings, look: Look) -> RenderableType:
    """The standings as a table, with what is missing below it."""
    table = Table(box=look.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    table.add_column("goal", width=GOAL_WIDTH, overflow="fold")
    table.add_column("reached", width=REACHED_WIDTH, overflow="fold")
    table.add_column("state", width=STATE_WIDTH, overflow="fold")
    for number, standing in enumerate(found.rows):
        if number:
            table.add_row()
        goal = Text.assemble((words(standing.target), "bold"), f"\n{_goal(standing)}", (_cause(standing), "dim"))
        reached = Text("\n".join([*_reached(standing), *_origin(standing)]) or words(standing.reason))
        state = Text(_state(standing), STYLES[standing.state])
        table.add_row(goal, look.text(reached.plain), state)
    parts: list[RenderableType] = [table] if found.rows else [Text("no target has a goal")]
    return Group(*parts, *(Text(f"\n{line}") for line in _missing(found)))


def page(found: Standings) -> str:
    """The standings as a page in Markdown."""
    return "\n".join([*_page(found), ""])


def _page(found: Standings) -> Iterator[str]:
    yield "# Goals"
    yield ""
    yield "The figures that the lessons are to reach, and those that they were measured to reach. Ceilings are those of"
    yield "the same run. `aiperf goals --page docs/goals.md` writes this page from stored runs and expectations files."
    yield "A state is close where the interval contains the bar."
    yield ""
    yield "| target | goal | reached | state |"
    yield "| --- | --- | --- | --- |"
    for standing in found.rows:
        figure = " ".join(_reached(standing))
        origin = f" ({', '.join(_origin(standing))})" if standing.origin else ""
        yield f"| `{standing.target}` | {_goal(standing)} | {figure}{origin} | {_state(standing)} |"
    missed = [standing for standing in found.rows if standing.state == MISSED]
    if missed:
        yield ""
        yield "## Causes of missed goals"
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


def _goal(standing: Standing) -> str:
    """A goal in words, with the implementation that must reach it."""
    goal = standing.goal
    device = "" if goal.device == "cuda" else f" on {goal.device}"
    return f"{f'{goal.implementation}: ' if goal.implementation else ''}{goal}{device}"


def _reached(standing: Standing) -> list[str]:
    """The figure with its interval, and the implementation."""
    reached = standing.reached
    if reached is None:
        return []
    shown = (units.percent_estimate if standing.goal.is_share else units.ratio_estimate)(reached.figure)
    return [f"{shown.value} {shown.interval}", words(reached.implementation)]


def _origin(standing: Standing) -> list[str]:
    """Bundle, machine, date and tier of the figure."""
    origin = standing.origin
    if origin is None:
        return []
    found = [f"expected, {origin.bundle}" if origin.file else origin.bundle, origin.machine, origin.date[:10]]
    return [words(part) for part in (*found, origin.tier) if part]


def _state(standing: Standing) -> str:
    """The state; `close` where the interval contains the bar, so that a repeated run may end otherwise."""
    state = f"{standing.state}, {NO_CAUSE}" if standing.state == MISSED and not standing.goal.cause else standing.state
    return f"{state} (close)" if standing.is_close else state


def _cause(standing: Standing) -> str:
    goal = standing.goal
    return f"\ncause: {goal.cause} ({goal.shown_by})" if standing.state == MISSED and goal.cause else ""


def _missing(found: Standings) -> Iterator[str]:
    """Sentences on what has no goal and no measurement."""
    if found.never_on_gpu:
        yield f"no stored measurement on a GPU: {', '.join(found.never_on_gpu)}"

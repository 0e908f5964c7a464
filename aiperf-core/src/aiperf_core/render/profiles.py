"""Profiles in a terminal: why an implementation differs from the baseline, its figures, and its longest operations."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.profiler import Hot
from aiperf_core.profiling import figures
from aiperf_core.profiling.contrast import Contrast, shortened
from aiperf_core.profiling.models import NotProfiled, Profile
from aiperf_core.render.grid import GAP, Column, Line, table, total
from aiperf_core.render.look import Look

_MOST = 8
_LEAST_SHARE = 0.001
_STALLS = 3
_HEADINGS = {"kernel": "kernel", "copy": "kernel", "fill": "kernel", "operator": "operator", "symbol": "symbol"}


def render(profile: Profile, against: Contrast | None, look: Look, width: int) -> RenderableType:
    """One implementation; `against` compares it with the baseline."""
    parts: list[RenderableType] = [_title(profile, look), *_why(profile, against, look)]
    parts += [Text(), *_figures(profile, against, look)]
    hot = [one for one in profile.observed.hot if (one.share or 0.0) >= _LEAST_SHARE]
    if hot:
        parts += [Text(), *_hot(hot, against, look, width)]
    parts += [Text(), *_notes(profile, look)]
    return Group(*parts)


def render_missing(missing: NotProfiled, look: Look) -> RenderableType:
    """An implementation without a profile."""
    head = Text.assemble(
        (words(f"{missing.target}:{missing.implementation}"), "bold"),
        ("  FAILED" if missing.failed else "  SKIPPED"),
    )
    return Group(head, Text(words(missing.reason)))


def _title(profile: Profile, look: Look) -> Text:
    sizes = words(units.parameters(profile.params))
    row = f" ({profile.in_a_row} in a row)" if profile.in_a_row > 1 else ""
    calls = f"{profile.calls:,} calls{row}" if profile.calls > 1 else "1 call"
    rest = f" {look.dot} ".join(("", profile.tool, profile.device, sizes, calls))
    return Text.assemble((words(f"{profile.target}:{profile.implementation}"), "bold"), rest)


def _why(profile: Profile, against: Contrast | None, look: Look) -> list[Text]:
    if against is None:
        return [Text(profile.role, "dim")]
    arrow = "->" if look.plain else "→"
    said = look.text(words(against.conclusion).replace("→", arrow))
    declared = [Text(f"declared: {words(profile.why)}", "dim")] if profile.why else []
    return [*declared, said]


def _figures(profile: Profile, against: Contrast | None, look: Look) -> list[Text]:
    """The figures in their order, beside the figures of the baseline."""
    found = profile.observed.figures
    before = {one.name: one for one in against.figures} if against else {}
    lines: list[Line] = []
    for name in _ordered(found):
        other = before.get(name)
        left = figures.shown(name, other.left) if other else ""
        ratio = f"{units.number(other.ratio)}x" if other and other.ratio is not None else ""
        lines.append(_cells(figures.label(name), left, figures.shown(name, found[name]), ratio, look))
    for name, said in profile.observed.words.items():
        lines.append(_cells(name.replace("_", " "), "", words(said), "", look))
    columns = [Column(("of a call",)), Column((against.left if against else "",), right=True)]
    columns += [Column((profile.implementation,), right=True), Column(("ratio",), right=True)]
    if against is None:
        columns, lines = columns[::2], [line[::2] for line in lines]
    return table(columns, lines, look)


def _ordered(found: Mapping[str, float]) -> list[str]:
    """The figures to show, with the most frequent reasons for which warps stall."""
    stalls = sorted((name for name in found if name.startswith(figures.STALL)), key=lambda name: -found[name])
    return [*(name for name in sorted(found, key=figures.order) if name not in stalls), *stalls[:_STALLS]]


def _cells(label: str, left: str, right: str, ratio: str, look: Look) -> Line:
    return [[Text(label)], [look.text(left, "dim")], [look.text(right)], [Text(ratio, "dim")]]


def _hot(hot: Sequence[Hot], against: Contrast | None, look: Look, width: int) -> list[Text]:
    """The longest operations, beside the time that each took in the baseline. Names fill the room that is left."""
    kind = _HEADINGS.get(hot[0].kind, hot[0].kind)
    heads = ("share", "time", *((against.left,) if against else ()), "count")
    columns = [*(Column((head,), right=True) for head in heads), Column((kind,))]
    before = {(one.left.kind, one.name): one.left for one in against.changed} if against else None
    figured = [_hot_cells(one, before, look) for one in hot[:_MOST]]
    room = width - total(columns[:-1], figured) - GAP
    drawn = table(columns, [[*cells, _name(one, room)] for one, cells in zip(hot, figured, strict=False)], look)
    if len(hot) > _MOST:
        rest = sum(one.share or 0.0 for one in hot[_MOST:])
        drawn.append(Text(f"and {len(hot) - _MOST} more, with {units.percent(rest)} together", "dim"))
    return [*drawn, *_gone(against, look, width)]


def _hot_cells(one: Hot, before: Mapping[tuple[str, str], Hot] | None, look: Look) -> Line:
    share = "" if one.share is None else units.percent(one.share)
    seconds = "" if one.seconds is None else units.seconds(one.seconds)
    count = "" if one.count is None else figures.counted(one.count)
    cells = [[Text(share)], [look.text(seconds)], [Text(count)]]
    if before is not None:
        then = before.get((one.kind, one.name))
        was = "new" if then is None else units.seconds(then.seconds or 0.0)
        cells.insert(2, [look.text(was, "dim")])
    return cells


def _gone(against: Contrast | None, look: Look, width: int) -> list[Text]:
    """The operations of the baseline that this implementation does not have."""
    gone = [one for one in against.gone if (one.share or 0.0) >= _LEAST_SHARE] if against else []
    told = [
        f"gone: {units.seconds(one.seconds or 0.0)} {shortened(words(one.name), width - 20)}" for one in gone[:_MOST]
    ]
    more = [f"and {len(gone) - _MOST} more"] if len(gone) > _MOST else []
    return [look.text(one, "dim") for one in (*told, *more)]


def _name(one: Hot, room: int) -> list[Text]:
    moved = f", {units.size(one.bytes)}" if one.bytes else ""
    below = words(f"{'in' if one.kind == 'symbol' else 'by'} {one.by}") if one.by else ""
    name = Text(shortened(words(one.name + moved), room))
    return [name, Text(shortened(below, room), "dim")] if below else [name]


def _notes(profile: Profile, look: Look) -> list[Text]:
    by_reason: dict[str, list[str]] = {}
    for name, why in profile.observed.missing.items():
        by_reason.setdefault(why, []).append(name)
    lacking = "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())
    notes = [f"not offered by {profile.tool}: {lacking}."] if lacking else []
    files = ", ".join(f"{one.name} ({units.size(one.bytes)})" for one in profile.artifacts)
    return [
        Text(words(one), "dim") for one in (*profile.observed.notes, *notes, *([f"files: {files}"] if files else []))
    ]

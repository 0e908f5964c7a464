"""The page of a device's ceilings, as rich renderables. Nothing here prints."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from attrs import frozen
from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.devices.ceiling_figures import figures, of_datasheet
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.render.grid import GAP, Column, Line, draw, heading, widths
from aiperf_core.render.look import Look

Printer = Callable[[float], str]

_TRANSFERS = {
    "pinned_to_device": "pinned host to device",
    "pinned_from_device": "device to pinned host",
    "pageable_to_device": "pageable host to device",
    "pageable_from_device": "device to pageable host",
}


@frozen
class Section:
    """Figures that belong together: the names of their fields, in order."""

    title: str
    names: tuple[str, ...]


SECTIONS = (
    Section(
        "memory",
        (
            "copy_bytes_per_s",
            "read_bytes_per_s",
            "write_bytes_per_s",
            "stream_bytes_per_s",
            "cache_bytes_per_s",
            "cache_bytes",
            "shared_bytes_per_s",
        ),
    ),
    Section("arithmetic", ("flop_per_s", "vector_flop_per_s")),
    Section(
        "launches and clocks",
        (
            "launch_s",
            "graph_launch_s",
            "launch_wait_s",
            "event_overhead_s",
            "event_step_s",
            "sm_clock_hz",
            "timer_call_s",
            "timer_resolution_s",
        ),
    ),
    Section("transfers", ("transfer_bytes_per_s",)),
    Section("several GPUs", ("peer_bytes_per_s", "all_reduce_bytes_per_s")),
)
_LABELS = {
    "copy_bytes_per_s": "copy (read + write)",
    "read_bytes_per_s": "read",
    "write_bytes_per_s": "write",
    "cache_bytes_per_s": "last-level cache, read",
    "cache_bytes": "last-level cache, size",
    "shared_bytes_per_s": "shared memory, read",
    "launch_s": "kernel after kernel",
    "graph_launch_s": "the same in a graph",
    "launch_wait_s": "launch and wait",
    "event_overhead_s": "excess of events",
    "event_step_s": "step of events",
    "sm_clock_hz": "SM clock",
    "timer_resolution_s": "step of perf_counter",
}
_PARTS: dict[str, Callable[[str], str]] = {
    "flop_per_s": lambda part: f"{part} matrix product",
    "vector_flop_per_s": lambda part: f"{part} multiply-add",
    "stream_bytes_per_s": lambda part: part,
    "transfer_bytes_per_s": lambda part: _TRANSFERS.get(part, part),
    "peer_bytes_per_s": lambda part: f"GPU {part.replace('-', ' to ')}",
    "all_reduce_bytes_per_s": lambda part: f"all-reduce of {part}",
    "timer_call_s": lambda part: f"call of {part}",
}
# Copies between more pairs than this are shown by their slowest and fastest.
_PAIRS_SHOWN = 6
BUSY = 0.05


def render(ceilings: Ceilings, look: Look, width: int) -> RenderableType:
    """The whole page: whose figures these are, the figures in groups, what could not be measured."""
    fractions = of_datasheet(ceilings)
    groups = [(section, list(_rows(ceilings, section, fractions, look))) for section in SECTIONS]
    groups = [(section, rows) for section, rows in groups if rows]
    columns = [Column(("",)), Column(("measured",), right=True)]
    if fractions:
        columns += [Column(("data sheet",), right=True), Column(("of it",), right=True)]
    columns.append(Column(("how",)))
    if not fractions:
        groups = [(section, [[*line[:2], line[4]] for line in rows]) for section, rows in groups]
    wide = widths(columns, [line for _, rows in groups for line in rows])
    parts: list[RenderableType] = [*_title(ceilings, look, width), Text()]
    for section, rows in groups:
        if section is not groups[0][0]:
            parts.append(Text())
        head = heading(columns) if section is groups[0][0] else [[Text()] for _ in columns]
        head[0] = [Text(section.title, "bold")]
        parts += draw(columns, head, [max(wide[0], len(section.title)), *wide[1:]])
        parts.append(Text(look.rule * min(width, sum(wide) + GAP * (len(wide) - 1)), "dim"))
        for line in rows:
            parts += draw(columns, line, wide)
    return Group(*parts, *_missing(ceilings, look, width), *_footer(ceilings, width))


def _title(ceilings: Ceilings, look: Look, width: int) -> list[Text]:
    took = f" in {ceilings.took_s:.1f} s" if ceilings.took_s is not None else ""
    about = [f"measured {_moment(ceilings.measured)}{took}"]
    state = ceilings.state
    if state.get("torch"):
        about.append(f"torch {words(state['torch'])}")
    if state.get("driver"):
        about.append(f"driver {words(state['driver'])}")
    if state.get("power_limit_w"):
        about.append(f"power limit {words(state['power_limit_w'])} W")
    lines = [Text(line, "bold") for line in _wrapped(words(ceilings.device), width)]
    lines += [look.text(line, "dim") for line in _wrapped(", ".join(about), width)]
    if (ceilings.others_busy or 0.0) > BUSY:
        warning = (
            f"Other processes took {units.percent(ceilings.others_busy or 0.0)} of the processors meanwhile: some figures "
            "may be too low. When it is quiet: aiperf ceilings --refresh"
        )
        lines += [Text(line, "yellow") for line in _wrapped(warning, width)]
    return lines


def _moment(iso: str) -> str:
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return words(iso)


def _rows(ceilings: Ceilings, section: Section, fractions: dict[str, float], look: Look) -> Iterator[Line]:
    found = figures(ceilings)
    for name in section.names:
        keys = [key for key in found if key.partition(".")[0] == name]
        if name == "peer_bytes_per_s" and len(keys) > _PAIRS_SHOWN:
            yield from _extremes(keys, found, ceilings, fractions, look)
            continue
        for key in keys:
            yield _line(label_of(key), key, found[key], ceilings, fractions, look)


def _extremes(
    keys: list[str], found: dict[str, float], ceilings: Ceilings, fractions: dict[str, float], look: Look
) -> Iterator[Line]:
    """Of very many pairs, the slowest and the fastest."""
    ordered = sorted(keys, key=lambda key: found[key])
    for word, key in (("slowest", ordered[0]), ("fastest", ordered[-1])):
        label = f"{word} of {len(keys)}: {label_of(key)}"
        yield _line(label, key, found[key], ceilings, fractions, look)


def _line(label: str, key: str, value: float, ceilings: Ceilings, fractions: dict[str, float], look: Look) -> Line:
    show = _printer(key)
    sheet = ceilings.datasheet.get(key)
    return [
        [Text(f"  {words(label)}")],
        [look.text(show(value))],
        [look.text(show(sheet) if sheet else "", "dim")],
        [Text(units.percent(fractions[key]) if key in fractions else "")],
        [look.text(words(ceilings.how.get(key, "")), "dim")],
    ]


def label_of(key: str) -> str:
    """What a figure is called in print."""
    name, _, part = key.partition(".")
    return _PARTS[name](part) if name in _PARTS and part else _LABELS.get(name, name)


def _printer(key: str) -> Printer:
    name = key.partition(".")[0]
    if name.endswith("flop_per_s"):
        unit = "OP/s" if key.endswith(".int8") else "FLOP/s"
        return lambda value: units.rate(value, unit)
    if name.endswith("bytes_per_s"):
        return lambda value: units.rate(value, "B/s")
    if name.endswith("_hz"):
        return lambda value: units.rate(value, "Hz")
    if name.endswith("_bytes"):
        return units.size
    return units.seconds


def _missing(ceilings: Ceilings, look: Look, width: int) -> Iterable[Text]:
    """What has no figure: those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for key, why in ceilings.missing.items():
        by_reason.setdefault(why, []).append(label_of(key))
    if by_reason:
        yield Text()
        yield Text("not measured", "bold")
    for why, labels in by_reason.items():
        for line in _wrapped(f"{', '.join(labels)}: {words(why)}", width, indent="  "):
            yield look.text(line)


def _footer(ceilings: Ceilings, width: int) -> Iterable[Text]:
    if ceilings.datasheet_name:
        yield Text()
        for line in _wrapped(f"data sheet: {words(ceilings.datasheet_name)}; dense, one direction of a link", width):
            yield Text(line, "dim")


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent * 2)

"""The page of a device's ceilings, as rich renderables. Nothing here prints."""

import textwrap
from collections.abc import Callable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.devices.ceiling_figures import figures, of_datasheet
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.render.grid import GAP, Column, Line, draw, fold, heading, total, widths
from aiperf_core.render.look import Look

Printer = Callable[[float], str]
HOW_AT_LEAST = 16  # least width of the last column

_TRANSFERS = {
    "pinned_to_device": "pinned host to device",
    "pinned_from_device": "device to pinned host",
    "pageable_to_device": "pageable host to device",
    "pageable_from_device": "device to pageable host",
}


# The sections of the page: fields in order, each with its label. `{}` stands for the part of a figure, such as `bf16`.
SECTIONS = {
    "memory": {
        "copy_bytes_per_s": "copy (read + write)",
        "read_bytes_per_s": "read",
        "write_bytes_per_s": "write",
        "stream_bytes_per_s": "{}",
        "cache_bytes_per_s": "last-level cache, read",
        "cache_bytes": "last-level cache, size",
        "shared_bytes_per_s": "shared memory, read",
    },
    "arithmetic": {"flop_per_s": "{} matrix product", "vector_flop_per_s": "{} multiply-add"},
    "launches and clocks": {
        "launch_s": "kernel after kernel",
        "graph_launch_s": "the same in a graph",
        "launch_wait_s": "launch and wait",
        "event_overhead_s": "excess of events",
        "event_step_s": "step of events",
        "sm_clock_hz": "SM clock",
        "timer_call_s": "call of {}",
        "timer_resolution_s": "step of perf_counter",
    },
    "transfers": {"transfer_bytes_per_s": "{}", "loopback_bytes_per_s": "process to process"},
    "disk": {"disk_read_bytes_per_s": "disk, read", "disk_write_bytes_per_s": "disk, write"},
    "several GPUs": {"peer_bytes_per_s": "GPU {}", "all_reduce_bytes_per_s": "all-reduce of {}"},
}
_LABELS = {name: label for section in SECTIONS.values() for name, label in section.items()}
_PAIRS_SHOWN = 6  # of copies between GPUs; of more pairs only the slowest and the fastest
BUSY = 0.05  # share of the processors


def render(ceilings: Ceilings, look: Look, width: int) -> RenderableType:
    """The whole page: the device, the figures in sections, and what could not be measured."""
    fractions = of_datasheet(ceilings)
    groups = [(title, list(_rows(ceilings, names, fractions, look))) for title, names in SECTIONS.items()]
    groups = [(title, rows) for title, rows in groups if rows]
    columns = [Column(("",)), Column(("measured",), right=True)]
    if fractions:
        columns += [Column(("data sheet",), right=True), Column(("of it",), right=True)]
    columns.append(Column(("how",)))
    if not fractions:
        groups = [(title, [[*line[:2], line[4]] for line in rows]) for title, rows in groups]
    left = width - GAP - total(columns[:-1], [line[:-1] for _, rows in groups for line in rows])
    groups = [
        (title, [[*line[:-1], _how(line[-1][0], max(left, HOW_AT_LEAST))] for line in rows]) for title, rows in groups
    ]
    wide = widths(columns, [line for _, rows in groups for line in rows])
    parts: list[RenderableType] = [*_title(ceilings, look, width), Text()]
    for number, (title, rows) in enumerate(groups):
        parts += [Text()] if number else []
        head = [[Text()] for _ in columns] if number else heading(columns)
        head[0] = [Text(title, "bold")]
        parts += draw(columns, head, [max(wide[0], len(title)), *wide[1:]])
        parts.append(Text(look.rule * min(width, sum(wide) + GAP * (len(wide) - 1)), "dim"))
        for line in rows:
            parts += draw(columns, line, wide)
    return Group(*parts, *_missing(ceilings, look, width), *_footer(ceilings, width))


def _title(ceilings: Ceilings, look: Look, width: int) -> list[Text]:
    took = f" in {ceilings.took_s:.1f} s" if ceilings.took_s is not None else ""
    about = [f"measured {units.moment(words(ceilings.measured))}{took}"]
    for name, before, after in (
        ("torch", "torch ", ""),
        ("driver", "driver ", ""),
        ("power_limit_w", "power limit ", " W"),
    ):
        if ceilings.state.get(name):
            about.append(f"{before}{words(ceilings.state[name])}{after}")
    lines = [Text(line, "bold") for line in _wrapped(words(ceilings.device), width)]
    lines += [look.text(line, "dim") for line in _wrapped(", ".join(about), width)]
    if (ceilings.others_busy or 0.0) > BUSY:
        warning = (
            f"Other processes took {units.percent(ceilings.others_busy or 0.0)} of the processors meanwhile: "
            "some figures may be too low. When it is quiet: aiperf ceilings --refresh"
        )
        lines += [Text(line, "yellow") for line in _wrapped(warning, width)]
    return lines


def _rows(ceilings: Ceilings, names: Iterable[str], fractions: dict[str, float], look: Look) -> Iterator[Line]:
    found = figures(ceilings)
    for name in names:
        keys = [key for key in found if key.partition(".")[0] == name]
        labels = {key: label_of(key) for key in keys}
        if name == "peer_bytes_per_s" and len(keys) > _PAIRS_SHOWN:
            ordered = sorted(keys, key=lambda key: found[key])
            ends = {"slowest": ordered[0], "fastest": ordered[-1]}
            labels = {key: f"{word} of {len(keys)}: {labels[key]}" for word, key in ends.items()}
        for key, label in labels.items():
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


def _how(text: Text, width: int) -> list[Text]:
    """How a figure was measured, on lines of at most this width."""
    return [Text(part, text.style) for line in _wrapped(text.plain, width) or [""] for part in fold(line, width)]


def label_of(key: str) -> str:
    """What a figure is called in print."""
    name, _, part = key.partition(".")
    label = _LABELS.get(name, name)
    if not part:
        return name if "{}" in label else label
    return label.format(part.replace("-", " to ") if name == "peer_bytes_per_s" else _TRANSFERS.get(part, part))


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
    """The figures that could not be measured, by reason."""
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
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent * 2, break_on_hyphens=False)

"""The figures of ceilings by key: `copy_bytes_per_s`, `flop_per_s.bf16`.

The part of a key before the dot tells the better value: of rates (`_per_s`, `_hz`) the larger, of times (`_s`) the
smaller.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, fields

from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.measurements import Ceilings

REQUIRED = ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s")
NAMES = tuple(
    each.name for each in fields(Ceilings) if each.name.endswith(("_hz", "_s", "_bytes")) and each.name != "took_s"
)
# Properties of the clock and the device rather than limits: the newest value counts.
NEITHER = ("event_overhead_s", "event_step_s", "cache_bytes")

_UNITS = (
    ("_bytes_per_s", "B/s"), ("flop_per_s", "FLOP/s"), ("_per_s", "1/s"), ("_hz", "Hz"), ("_bytes", "B"), ("_s", "s")
)  # fmt: skip


def has(ceilings: Ceilings, group: str) -> bool:
    """Whether a figure of a group was measured."""
    return any(getattr(ceilings, name) for name in GROUPS[group].figures)


def with_figures(ceilings: Ceilings, found: Mapping[str, Any]) -> Ceilings:
    """Ceilings with the better of their own figures and of others (`figures`, `how` and `missing` by key)."""
    both = evolve(
        ceilings,
        **as_fields({**figures(ceilings), **found["figures"]}),
        how={**ceilings.how, **found["how"]},
        missing={**ceilings.missing, **found["missing"]},
    )
    return better(both, ceilings)


def figures(ceilings: Ceilings) -> dict[str, float]:
    """Every measured figure by its key."""
    found: dict[str, float] = {}
    for name in NAMES:
        value = getattr(ceilings, name)
        if isinstance(value, dict):
            found.update({f"{name}.{part}": figure for part, figure in value.items()})
        elif value is not None:
            found[name] = value
    return found


def unit_of(key: str) -> str:
    """The unit of a figure, by its key."""
    if key.endswith("flop_per_s.int8"):
        return "OP/s"
    name = key.partition(".")[0]
    return next((unit for end, unit in _UNITS if name.endswith(end)), "1")


def as_fields(found: Mapping[str, float]) -> dict[str, Any]:
    """The same figures as arguments of `Ceilings`."""
    arguments: dict[str, Any] = {"flop_per_s": {}}
    for key, value in found.items():
        name, dot, part = key.partition(".")
        if dot:
            arguments.setdefault(name, {})[part] = value
        else:
            arguments[name] = value
    return arguments


def better(found: Ceilings, before: Ceilings) -> Ceilings:
    """Merge two measurements of one device: of each figure the better, with the way it was measured."""
    best, how = figures(before), dict(before.how)
    for key, value in figures(found).items():
        if key not in best or beats(key, value, best[key]):
            best[key] = value
            how[key] = found.how.get(key, "")
    missing = {key: why for key, why in {**before.missing, **found.missing}.items() if key not in best}
    return evolve(
        found,
        **as_fields(best),
        how=how,
        missing=missing,
        whole=found.whole or before.whole,
        took_s=before.took_s if before.whole and not found.whole else found.took_s,
    )


def of_datasheet(ceilings: Ceilings) -> dict[str, float]:
    """Each figure as a fraction of its data sheet, where the sheet has a value."""
    return {key: value / sheet for key, value in figures(ceilings).items() if (sheet := ceilings.datasheet.get(key))}


def beats(key: str, value: float, before: float) -> bool:
    """Whether a figure is better than the one measured before."""
    name = key.partition(".")[0]
    if name in NEITHER:
        return True
    return value > before if name.endswith(("_per_s", "_hz")) else value < before

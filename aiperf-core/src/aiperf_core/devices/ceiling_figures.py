"""The figures of ceilings, each by one key: `copy_bytes_per_s`, `flop_per_s.bf16`.

A key that ends in `_per_s` or `_hz`, up to its dot, names a rate, of which more is better; one that ends in `_s` a time, of
which less is.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, fields

from aiperf_core.measurements import Ceilings

REQUIRED = ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s")
NAMES = tuple(
    one.name for one in fields(Ceilings) if one.name.endswith(("_hz", "_s", "_bytes")) and one.name != "took_s"
)
# Not limits that a better run comes closer to, but properties of the clock and the device: the newest counts.
NEITHER = ("event_overhead_s", "event_step_s", "cache_bytes")


def figures(ceilings: Ceilings) -> dict[str, float]:
    """Every figure that was measured, by its key."""
    found: dict[str, float] = {}
    for name in NAMES:
        value = getattr(ceilings, name)
        if isinstance(value, dict):
            found.update({f"{name}.{part}": one for part, one in value.items()})
        elif value is not None:
            found[name] = value
    return found


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
    """Both measurements of one device as one: of each figure the better, with how it was measured."""
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
    """The fraction of its data sheet that each figure reaches, where the sheet has one."""
    return {key: value / sheet for key, value in figures(ceilings).items() if (sheet := ceilings.datasheet.get(key))}


def beats(key: str, value: float, before: float) -> bool:
    """Whether a figure is better than one that was measured before."""
    name = key.partition(".")[0]
    if name in NEITHER:
        return True
    return value > before if name.endswith(("_per_s", "_hz")) else value < before

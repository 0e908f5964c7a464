"""Switches: the flags of one class, of which `Benchmark.switches` makes a ladder of variants.

@dataclass(frozen=True)
class Flags:
    views: bool = switch("bucket_views", adds="bucket views", why="gradients are not copied into buckets")
    static: bool = switch("static_graph", adds="static graph", why="no pass searches for unused parameters")

@both.switches(Flags, leave_one_out=True)
@both.baseline(kind="reasonable")
class PlainDdp:
    flags = Flags()                          # of a variant, those of its mechanisms are True
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from aiperf_core.errors import BenchmarkError
from aiperf_core.names import camel_case

_SWITCH = "switch"


@frozen
class Switch:
    """The declarations of a flag; see `switch`."""

    name: str
    adds: str
    why: str
    less: str
    common: dict[str, Any]
    own: dict[str, Any]


def switch(
    name: str = "",
    *,
    adds: str,
    why: str,
    less: str = "",
    lossy: Any = None,
    requires: str | Sequence[str] = (),
    **own: Any,
) -> Any:
    """Declare a flag, which is False by default, as the field of a frozen dataclass.

    name: of the ladder's variant; the flag's name by default.
    adds, why: its mechanism, as of `Benchmark.variant`.
    less: the mechanism in `why` of the variant without it; `adds` by default.
    lossy, requires: of every variant with this mechanism; a later flag's `lossy` replaces an earlier one's.
    own: further declarations of the ladder's variant: `predict`, `teaches` and `cost`.
    """
    common = {"lossy": lossy, "requires": (requires,) if isinstance(requires, str) else tuple(requires)}
    return dataclasses.field(default=False, metadata={_SWITCH: Switch(name, adds, why, less or adds, common, own)})


def variants_of(flags: Any, ladder: Sequence[str], leave_one_out: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The values of the flags of each variant, and its declarations.

    A ladder of no names has all flags in order. Without its last mechanism the ladder is the step before, so that there
    is no variant for it. Raises `BenchmarkError` for flags without a switch, and for names that no flag has.
    """
    fields = dataclasses.fields(flags) if dataclasses.is_dataclass(flags) else ()
    known = {field.name: field.metadata[_SWITCH] for field in fields if _SWITCH in field.metadata}
    if not known or len(known) < len(fields):
        raise BenchmarkError(f"has switches of {flags!r}; accepted is a frozen dataclass whose fields are switch(...)")
    names = list(ladder) or list(known)
    if unknown := [name for name in names if name not in known]:
        raise BenchmarkError(f"has a ladder with {', '.join(unknown)}; the switches are {', '.join(known)}")
    for count, name in enumerate(names, 1):
        step = known[name]
        below = known[names[count - 2]].name or names[count - 2] if count > 1 else None
        declared = {"name": step.name or name, "builds_on": below, "adds": step.adds, "why": step.why}
        yield _flagged(flags, known, names[:count], {**declared, **step.own})
    for name in names[:-1] if leave_one_out else ():
        others = [other for other in names if other != name]
        adds = tuple(known[other].adds for other in others)
        why = f"the whole ladder, less {known[name].less}"
        yield _flagged(flags, known, others, {"name": f"without_{name}", "adds": adds, "why": why})


def _flagged(
    flags: Any, known: dict[str, Switch], names: Sequence[str], declared: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Flags with these names, and declarations with what the mechanisms have in common."""
    steps = [known[name] for name in names]
    lossy = [step.common["lossy"] for step in steps if step.common["lossy"] is not None]
    requires = tuple(text for step in steps for text in step.common["requires"])
    common = {"lossy": lossy[-1] if lossy else None, "requires": requires}
    return flags(**dict.fromkeys(names, True)), {**common, **declared}


def with_flags(code: type, values: Any, name: str, where: str) -> type:
    """The variant `name` of a class, with these flags; `where` is the place of the class."""
    facts = {"flags": values, "__module__": code.__module__, "declared_name": name, "declared_at": where}
    return type(camel_case(name), (code,), facts)

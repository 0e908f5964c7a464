"""What stands behind an issue: its attacks, look-alikes and recorded evidence, by name."""

from collections.abc import Iterable

from attrs import frozen

from aiperf_core.validity.cases import Case, Recorded


def name_of(case: Case) -> str:
    """`output:zeros`: the last part of a module's name, and an implementation in it."""
    return f"{case.module.rpartition('.')[2]}:{case.implementation}"


@frozen
class Support:
    """What stands behind an issue: attacks and look-alikes by name, each with its devices, and recorded evidence."""

    attacks: tuple[str, ...] = ()
    look_alikes: tuple[str, ...] = ()
    recorded: bool = False


def support(issue: str, cases: Iterable[Case], recorded: Iterable[Recorded]) -> Support:
    """Return what stands behind an issue."""
    of_it = [one for one in cases if one.issue == issue]
    return Support(
        _named(one for one in of_it if not one.honest),
        _named(one for one in of_it if one.honest),
        any(one.issue == issue for one in recorded),
    )


def _named(cases: Iterable[Case]) -> tuple[str, ...]:
    devices: dict[str, list[str]] = {}
    for one in cases:
        devices.setdefault(name_of(one), []).append(one.device)
    return tuple(f"{name} ({', '.join(sorted(found))})" for name, found in devices.items())

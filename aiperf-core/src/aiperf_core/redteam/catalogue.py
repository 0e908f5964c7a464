"""What proves the registry: the cases that there are.

Imported by every command, so nothing here imports torch or runs a case, and what takes time is imported where it is needed.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from aiperf_core import redteam
from aiperf_core.redteam.cases import Case, Recorded

_OURS = f"{redteam.__name__}."


def cases() -> tuple[Case, ...]:
    """The cases of the modules `cases_*` beside this one, by module."""
    return tuple(case for module in _modules() for case in module.CASES)


def recorded() -> tuple[Recorded, ...]:
    """The cases that rest on recorded evidence. Imported when they are asked for: they look at it as the checks do."""
    ours, rare = (importlib.import_module(_OURS + name) for name in ("recorded", "recorded_rare"))
    return (*ours.CASES, *ours.READINGS, *ours.TURNS, *ours.CLOCKS, *rare.CASES)


def _modules() -> list[Any]:
    names = sorted(one.name for one in pkgutil.iter_modules(redteam.__path__) if one.name.startswith("cases_"))
    return [importlib.import_module(_OURS + name) for name in names]


def name_of(case: Case) -> str:
    """`output:zeros`: a module and an implementation of it. The module of a plugin is named in full."""
    return f"{case.module.removeprefix(_OURS)}:{case.implementation}"


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

"""The cases of this package.

Imported by every command, so nothing here imports torch or runs a case.
"""

import importlib
import pkgutil
from typing import Any

import aiperf_redteam
from aiperf_core.validity.cases import Case, Recorded

_OURS = f"{aiperf_redteam.__name__}."


def cases() -> tuple[Case, ...]:
    """The cases of the modules `cases_*` beside this one, by module."""
    return tuple(case for module in _modules() for case in module.CASES)


def recorded() -> tuple[Recorded, ...]:
    """The cases that rest on recorded evidence."""
    ours, rare = (importlib.import_module(_OURS + name) for name in ("recorded", "recorded_rare"))
    return (*ours.CASES, *ours.READINGS, *ours.TURNS, *ours.CLOCKS, *rare.CASES)


def _modules() -> list[Any]:
    names = sorted(one.name for one in pkgutil.iter_modules(aiperf_redteam.__path__) if one.name.startswith("cases_"))
    return [importlib.import_module(_OURS + name) for name in names]

"""The cases of this package.

Imported by every command, so nothing here imports torch or runs a case.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import aiperf_redteam
from aiperf_core.validity.cases import Case, Recorded

_OURS = f"{aiperf_redteam.__name__}."


def cases() -> tuple[Case, ...]:
    """The cases of the modules `cases_*` beside this one, by module."""
    return tuple(case for module in _modules() for case in module.CASES)


def recorded() -> tuple[Recorded, ...]:
    """The recordings of the folder `recordings`: `ISSUE.json` shows the issue, `ISSUE.honest.json` looks like it."""
    package, folder = aiperf_redteam.__name__, Path(aiperf_redteam.__path__[0]) / "recordings"
    return tuple(
        Recorded(
            issue=file.name.removesuffix(".json").removesuffix(".honest"),
            file=f"{package}:recordings/{file.name}",
            honest=file.name.endswith(".honest.json"),
        )
        for file in sorted(folder.glob("*.json"))
    )


def _modules() -> list[Any]:
    names = sorted(one.name for one in pkgutil.iter_modules(aiperf_redteam.__path__) if one.name.startswith("cases_"))
    return [importlib.import_module(_OURS + name) for name in names]

"""Implementations of the chapters: found among the installed targets, never imported by the name of a package."""

import importlib
from collections.abc import Iterable
from typing import Any

from aiperf_core.errors import SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.targets import InstalledTarget, from_a_clone


def code(target: str, name: str) -> Any:
    """A public name of a chapter's target. Raises `SkipError` with the line that installs it."""
    found = {one.name: one for one in load_plugins().targets}.get(target)
    if found is None:
        raise SkipError(missing(target))
    return getattr(importlib.import_module(found.module), name)


def missing(target: str) -> str:
    """The reason for a skipped switch whose chapter is not installed."""
    return f"needs {target}, which is not installed. Get it, {from_a_clone(target.partition('.')[0])}"


def module_of(target: str, targets: Iterable[InstalledTarget]) -> str | None:
    """The module of a target; None where it is not installed."""
    return next((one.module for one in targets if one.name == target), None)

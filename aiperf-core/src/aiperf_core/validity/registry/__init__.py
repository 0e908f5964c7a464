"""The registry: every issue that aiperf guards against, as data.

A file a category, and beside them `guards.toml`, and `incidents.toml` with the public sources where issues were met.
A key of `Issue` that a table lacks has its default; `construction` and `test` make the `Exclusion`.

A check reports what it saw and not what was meant: code that returns zeros is found as `output.wrong_values`, whatever
made it do so. The registry names the ways; the checks name the finding.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aiperf_core.validity.issues import (
    ALWAYS,
    HARD,
    NOTE,
    SOFT,
    Exclusion,
    Guard,
    Incident,
    Issue,
    UnknownIssueError,
)

_FOLDER = Path(__file__).parent
# In the order in which they are listed.
_CATEGORIES = (
    "timing",
    "output",
    "workload",
    "location",
    "memory",
    "cuda",
    "compile",
    "distributed",
    "environment",
    "statistical",
    "evaluation",
    "replay",
    "leak",
    "tamper",
    "policy",
)
_SEVERITIES = {"always": ALWAYS, "hard": HARD, "soft": SOFT, "note": NOTE}


@cache
def _tables(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def categories() -> Mapping[str, str]:
    """Categories in the order of lists, each with what its issues have in common."""
    return {name: _tables(name)["about"] for name in _CATEGORIES}


@cache
def guards() -> tuple[Guard, ...]:
    """The checks that stand behind the issues, in the order in which they work."""
    return tuple(Guard(name=name, **table) for name, table in _tables("guards").items())


@cache
def issues() -> tuple[Issue, ...]:
    """The issues of the core, by category."""
    return tuple(
        _issue(f"{category}.{name}", **table)
        for category in _CATEGORIES
        for name, table in _tables(category).items()
        if name != "about"
    )


def issue(name: str) -> Issue:
    """Return the issue of this id. Raises `UnknownIssueError`, which names the nearest, where there is none."""
    for known in issues():
        if known.id == name:
            return known
    raise UnknownIssueError(name, issues())


@cache
def _incident(key: str) -> Incident:
    table = _tables("incidents")[key]
    return Incident(table.get("year"), table["title"], table["url"])


def _issue(
    name: str,
    *,
    severity: str,
    needs: tuple[str, ...] = (),
    incidents: tuple[str, ...] = (),
    construction: str = "",
    test: str = "",
    **texts: str,
) -> Issue:
    return Issue(
        id=name,
        severity=_SEVERITIES[severity],
        needs=tuple(needs),
        incidents=tuple(_incident(key) for key in incidents),
        excluded=Exclusion(construction=construction, test=test) if construction or test else None,
        **texts,
    )

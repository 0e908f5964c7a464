"""Addresses of results: `BUNDLE`, `BUNDLE:TARGET` or `BUNDLE:TARGET:IMPLEMENTATION`.

In the bundle of a sweep TARGET names all its points, and `TARGET@n=1e6` those with this value.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.results import naming
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.sweep import selects
from aiperf_core.targets import nearest

PARTS = 2  # after the bundle


@frozen
class Address:
    """A bundle, one of its targets, or one implementation of a target."""

    bundle: Bundle
    target: str | None = None
    implementation: str | None = None

    def __str__(self) -> str:
        return ":".join([str(self.bundle.path), *filter(None, (self.target, self.implementation))])

    @property
    def targets(self) -> list[str]:
        """The names of the addressed targets, and of the addressed points of a sweep.

        Raises UsageError for a target that the bundle lacks.
        """
        found = self.matching
        if self.target is not None and not found:
            known = list(self.bundle.targets)
            raise UsageError(f"'{self.bundle.path}' has no result of '{self.target}'.{_hint(self.target, known)}")
        return found

    @property
    def matching(self) -> list[str]:
        """The names of the addressed targets and points; empty where the bundle lacks the target."""
        known = list(self.bundle.targets)
        if self.target is None:
            return known
        return [self.target] if self.target in known else [name for name in known if selects(self.target, name)]

    @property
    def single(self) -> str:
        """The name of the only addressed target. Raises UsageError where there are several."""
        found = self.targets
        if len(found) > 1:
            raise UsageError(
                f"'{self.bundle.path}' has several results of '{self.target}', a sweep; name a point, "
                f"such as {words(found[0])}"
            )
        return found[0]

    def outlines(self) -> list[TargetResult]:
        """The addressed results without samples, with the addressed rows only."""
        return [self.narrowed(self.bundle.outline(name)) for name in self.targets]

    def results(self) -> Iterator[TargetResult]:
        """The addressed results with their samples, one after the other."""
        return (self.narrowed(self.bundle.target(name)) for name in self.targets)

    def narrowed(self, result: TargetResult) -> TargetResult:
        """The result with the addressed rows only. Raises UsageError as `row` does."""
        return evolve(result, rows=[self.row(result)]) if self.implementation is not None else result

    def row(self, result: TargetResult) -> Row:
        """The implementation's row of a result. Raises UsageError where there is none of that name."""
        for row in result.rows:
            if row.name == self.implementation:
                return row
        hint = _hint(self.implementation or "", [row.name for row in result.rows])
        raise UsageError(
            f"'{words(result.target)}' has no implementation '{self.implementation}' in this bundle.{hint}"
        )


def _hint(name: str, known: list[str]) -> str:
    """The nearest name, or all names."""
    known = [words(one) for one in known]
    return nearest(name, known) or f" There are: {', '.join(known) or 'none'}"


def split(text: str, folder: Path = DEFAULT_PARENT) -> tuple[Path | None, list[str]]:
    """The path of an address's bundle, and the other parts. None stands for a name that no bundle has.

    folder: where names of bundles are looked for; see `results.naming`.

    A folder's name may contain colons: an existing folder wins.
    """
    for count in range(PARTS + 1):
        name, *parts = text.rsplit(":", count)
        path = naming.located(name, folder) if len(parts) == count else None
        if path is not None and os.path.isdir(path):
            return path, parts
    name, *parts = text.rsplit(":", PARTS)
    return naming.located(name, folder), parts


def find(text: str, folder: Path = DEFAULT_PARENT) -> Address:
    """Open what `text` names: a bundle as `results.naming` says, with a target and an implementation after colons.

    Raises BundleError for a path at which there is no bundle, UsageError for a name that no bundle has.
    """
    path, parts = split(text, folder)
    if not text or text.startswith(":") or not all(parts):
        raise UsageError(f"{text!r} names no bundle. An address looks like 'artifacts/runs/NAME:ch07.memory_access'.")
    if path is None:
        raise naming.unknown(text.rsplit(":", PARTS)[0], folder)
    return Address(Bundle.open(path), *parts)

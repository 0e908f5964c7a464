"""The entry points of the installed distributions. They are read, not imported."""

import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, version

from attrs import frozen


@frozen
class SetAside:
    """A skipped plugin and the reason. As a string, the message for the user."""

    distribution: str
    version: str
    entry_point: str
    reason: str

    def __str__(self) -> str:
        return f"skipped plugin {self.distribution} {self.version}: {self.reason}"


@frozen
class Origin:
    """An entry point and its distribution.

    module: the module that `load` imports.
    requires: the requirements in the metadata of the distribution.
    """

    distribution: str
    version: str
    entry_point: str
    module: str
    load: Callable[[], object]
    requires: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package of the plugin's module; empty for a top-level module. Known once the module is imported."""
        return getattr(sys.modules.get(self.module), "__package__", None) or ""

    def set_aside(self, reason: str) -> SetAside:
        """This plugin as skipped, with the reason."""
        return SetAside(self.distribution, self.version, self.entry_point, reason)

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed_origins(group: str, path: Sequence[str] | None = None) -> tuple[list[Origin], list[SetAside]]:
    """The entry points of `group`, sorted by distribution, and the distributions with unreadable entry points.

    Not `importlib.metadata.entry_points`: it raises for all if one file is malformed, and parses the entry points of
    every distribution.
    """
    origins: dict[tuple[str, str], Origin] = {}
    unreadable = []
    for distribution in distributions() if path is None else distributions(path=list(path)):
        if f"[{group}]" not in (distribution.read_text("entry_points.txt") or ""):
            continue
        name, version, requires = _identity(distribution)
        try:
            entry_points = list(distribution.entry_points)
        except Exception as error:
            reason = f"its entry_points.txt cannot be parsed: {error}"
            unreadable.append(SetAside(name, version, "", reason))
            continue
        for entry_point in entry_points:
            # Of two copies of a distribution on the path, Python imports the first.
            key = (re.sub(r"[-_.]+", "-", name).lower(), entry_point.name)
            if entry_point.group == group:
                origins.setdefault(key, _origin(name, version, requires, entry_point))
    return [origins[key] for key in sorted(origins)], unreadable


def installed_version(distribution: str) -> str:
    """The version of a distribution; empty if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _origin(name: str, version: str, requires: tuple[str, ...], entry_point: EntryPoint) -> Origin:
    module = entry_point.value.partition(":")[0].strip()
    return Origin(name, version, entry_point.name, module, entry_point.load, requires)


def _identity(distribution: Distribution) -> tuple[str, str, tuple[str, ...]]:
    """Name, version and requirements. Reads the metadata once: each property of a `Distribution` parses them."""
    try:
        metadata = distribution.metadata
        requires = tuple(metadata.get_all("Requires-Dist") or ())
        return metadata["Name"] or "unknown", metadata["Version"] or "unknown", requires
    except Exception:  # METADATA is missing or not text; the exception differs between versions of Python
        return "unknown", "unknown", ()

"""Where plugins come from: the entry points of the installed distributions, read but not imported."""

import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, version

from attrs import frozen


@frozen
class SetAside:
    """A plugin that does not take part, and why. As a string, the line that a user is shown."""

    distribution: str
    version: str
    entry_point: str
    reason: str

    def __str__(self) -> str:
        return f"skipped plugin {self.distribution} {self.version}: {self.reason}"


@frozen
class Origin:
    """An entry point and the distribution that declares it.

    `module` is where `load` will look, and `requires` what the distribution's metadata say it needs.
    """

    distribution: str
    version: str
    entry_point: str
    module: str
    load: Callable[[], object]
    requires: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package that the plugin's module is in, empty when it is in none. Known once the module is imported."""
        return getattr(sys.modules.get(self.module), "__package__", None) or ""

    def set_aside(self, reason: str) -> SetAside:
        """Set this plugin aside for a reason."""
        return SetAside(self.distribution, self.version, self.entry_point, reason)

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed_origins(group: str, path: Sequence[str] | None = None) -> tuple[list[Origin], list[SetAside]]:
    """Return the entry points of `group` by name of distribution, and the distributions whose entry points are unreadable.

    `importlib.metadata.entry_points` would do in a line, but one malformed file anywhere makes it raise for everyone, and
    it parses the entry points of every distribution where a look for the group's heading is enough.
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
            # The first of two copies of a distribution on the path is the one that Python imports.
            key = (re.sub(r"[-_.]+", "-", name).lower(), entry_point.name)
            if entry_point.group == group:
                origins.setdefault(key, _origin(name, version, requires, entry_point))
    return [origins[key] for key in sorted(origins)], unreadable


def installed_version(distribution: str) -> str:
    """The version of a distribution; empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _origin(name: str, version: str, requires: tuple[str, ...], entry_point: EntryPoint) -> Origin:
    module = entry_point.value.partition(":")[0].strip()
    return Origin(name, version, entry_point.name, module, entry_point.load, requires)


def _identity(distribution: Distribution) -> tuple[str, str, tuple[str, ...]]:
    """Return name, version and requirements. The metadata are parsed once; each property of a `Distribution` parses them."""
    try:
        metadata = distribution.metadata
        requires = tuple(metadata.get_all("Requires-Dist") or ())
        return metadata["Name"] or "unknown", metadata["Version"] or "unknown", requires
    except Exception:  # no METADATA, or one that is no text: what is raised differs between versions of Python
        return "unknown", "unknown", ()

"""Which versions of the core a plugin works with: what its distribution requires, as in `Requires-Dist: aiperf-core~=0.1.0`.

An installer sees to it, unless it was told not to look; so the metadata are read again before a plugin is imported.
"""

import re
from collections.abc import Iterable

_OURS = re.compile(r"aiperf[-_.]+core(?![\w.-])", re.IGNORECASE)
_PLAIN = re.compile(r"aiperf-core(?:\[[\w,-]*\])?~=(\d+)\.(\d+)\.(\d+)")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def unmet(requirements: Iterable[str], version: str) -> str:
    """Return what is asked of the core and `version` is not, empty where it fits or where nothing is asked.

    A development version or a release candidate counts as the release that it leads to.
    """
    for requirement in requirements:
        if _OURS.match(requirement) and not _plainly_met(requirement, version) and not _met(requirement, version):
            return requirement
    return ""


def _plainly_met(requirement: str, version: str) -> bool:
    """Whether the form that templates write is met, without `packaging`: its import costs a tenth of `aiperf list`."""
    asked, here = _PLAIN.fullmatch(requirement), _RELEASE.fullmatch(version)
    if asked is None or here is None:
        return False
    least, found = tuple(map(int, asked.groups())), tuple(map(int, here.groups()))
    return found[:2] == least[:2] and found >= least


def _met(text: str, version: str) -> bool:
    """Whether a requirement is met. One that cannot be read is not."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import Version

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    here = Version(version)
    return any(requirement.specifier.contains(one, prereleases=True) for one in (here, here.base_version))

"""Whether the core satisfies the requirements of a plugin's distribution, such as `Requires-Dist: aiperf-core~=0.1.0`.

Installers check this too, unless dependencies are disabled; so it is checked again before a plugin is imported.
"""

import re
from collections.abc import Iterable

_OURS = re.compile(r"aiperf[-_.]+core(?![\w.-])", re.IGNORECASE)
_PLAIN = re.compile(r"aiperf-core(?:\[[\w,-]*\])?~=(\d+)\.(\d+)\.(\d+)")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def unmet(requirements: Iterable[str], version: str) -> str:
    """The requirement on the core that `version` does not meet; empty if all are met.

    A development version or release candidate counts as its release.
    """
    for requirement in requirements:
        if _OURS.match(requirement) and not _plainly_met(requirement, version) and not _met(requirement, version):
            return requirement
    return ""


def _plainly_met(requirement: str, version: str) -> bool:
    """Whether a requirement in the form of the templates is met, without importing `packaging`, which is slow."""
    asked, here = _PLAIN.fullmatch(requirement), _RELEASE.fullmatch(version)
    if asked is None or here is None:
        return False
    least, found = tuple(map(int, asked.groups())), tuple(map(int, here.groups()))
    return found[:2] == least[:2] and found >= least


def _met(text: str, version: str) -> bool:
    """Whether a requirement is met. An invalid requirement is not met."""
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

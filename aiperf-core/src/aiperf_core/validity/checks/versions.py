"""Versions of the driver and the libraries that each side has loaded."""

from collections.abc import Iterable

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

# The part of the GPU's driver that a process maps.
DRIVER = "libcuda"
_NAMED = 5


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Compare the worker's libraries with those of the baseline's worker and of the server that forks both."""
    if evidence.libraries is None:
        return NotObserved("the libraries of the worker are not known")
    differences = _differences(evidence)
    driver = {name: paths for name, paths in differences.items() if name == DRIVER}
    libraries = {name: paths for name, paths in differences.items() if name != DRIVER}
    found = (
        _mismatch("environment.driver_version_mismatch", "another driver is loaded", driver),
        _mismatch("environment.library_version_mismatch", "other builds of libraries are loaded", libraries),
    )
    return [one for one in found if one is not None]


def _differences(evidence: Evidence) -> dict[str, tuple[list[str], list[str]]]:
    """The files of each library that this worker alone has loaded, and those that the others have under its name.

    A library that no other process has loaded is a choice of the implementation, and no difference.
    """
    found = {}
    theirs = (evidence.baseline.libraries if evidence.baseline else None) or {}
    for name, builds in (evidence.libraries or {}).items():
        known = {**(evidence.server_libraries or {}).get(name, {}), **theirs.get(name, {})}
        own = [path for fingerprint, path in builds.items() if fingerprint not in known]
        if known and own:
            found[name] = (sorted(own), sorted(known.values()))
    return found


def _mismatch(issue: str, what: str, differences: dict[str, tuple[list[str], list[str]]]) -> Seen | None:
    if not differences:
        return None
    said = [
        f"{name} from {', '.join(own)}, elsewhere from {', '.join(known)}" for name, (own, known) in differences.items()
    ]
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    figures = {name: {"worker": own, "others": known} for name, (own, known) in differences.items()}
    return Seen(issue, f"{what}: {'; '.join(said[:_NAMED])}{more}", {"libraries": figures})


CHECK = Check("versions", look)

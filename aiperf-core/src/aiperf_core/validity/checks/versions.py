"""Versions: of driver and libraries, on both sides and in the manifest, and whether a result can be got again from them.

Names are those of packages, as in the manifest, and `driver` for the GPU's.
"""

from collections.abc import Iterable

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

DRIVER = "driver"
_TOLD = 5


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Compare the worker's versions with those of the baseline's worker and the manifest."""
    if evidence.versions is None and evidence.conduct is None:
        return NotObserved("the versions that the worker loaded are not known, nor what the run keeps")
    found = [_missing(evidence)] if evidence.conduct else []
    if evidence.versions is not None:
        differences = _differences(evidence)
        drivers = {name: told for name, told in differences.items() if name == DRIVER}
        libraries = {name: told for name, told in differences.items() if name != DRIVER}
        found.append(_mismatch("environment.driver_version_mismatch", "the driver differs", drivers))
        found.append(_mismatch("environment.library_version_mismatch", "libraries differ", libraries))
    return [one for one in found if one is not None]


def _differences(evidence: Evidence) -> dict[str, dict[str, str | None]]:
    """For each name that differs, the version here, that of the baseline's worker and that of the manifest.

    A library that one side alone loads is no difference while the manifest has it in the same version.
    """
    ours, manifest = evidence.versions or {}, evidence.manifest_versions
    theirs = evidence.baseline.versions if evidence.baseline else None
    found: dict[str, dict[str, str | None]] = {}
    for name, version in ours.items():
        others = [known[name] for known in (theirs, manifest) if known and name in known]
        unknown = manifest is not None and theirs is not None and not others
        if unknown or any(other != version for other in others):
            found[name] = {
                "worker": version,
                "baseline": (theirs or {}).get(name),
                "manifest": (manifest or {}).get(name),
            }
    return found


def _mismatch(issue: str, what: str, differences: dict[str, dict[str, str | None]]) -> Seen | None:
    if not differences:
        return None
    told = "; ".join(f"{name}: {_sides(sides)}" for name, sides in list(differences.items())[:_TOLD])
    more = f"; and {len(differences) - _TOLD} more" if len(differences) > _TOLD else ""
    return Seen(issue, f"{what} in version: {told}{more}", {"versions": differences})


def _sides(sides: dict[str, str | None]) -> str:
    return ", ".join(f"{version or 'not there'} ({side})" for side, version in sides.items())


def _missing(evidence: Evidence) -> Seen | None:
    """What a reader would need to get the figures again and the run does not keep."""
    conduct = evidence.conduct
    if conduct is None or conduct.samples_taken == 0:
        return None
    missing = [
        what
        for what, there in (
            ("raw samples", bool(evidence.samples.block)),
            ("seeds", bool(conduct.seeds)),
            ("hashes of the sources", bool(conduct.sources_before)),
            ("the options", bool(conduct.options_before)),
            ("versions", evidence.manifest_versions is None or bool(evidence.manifest_versions)),
        )
        if not there
    ]
    if not missing:
        return None
    message = f"{conduct.samples_taken} samples were taken, and the result lacks {' and '.join(missing)}"
    return Seen("evaluation.unreproducible_result", message, {"missing": missing})


CHECK = Check("versions", look)

"""The bundles in a folder: which there are, and removing one without touching anything else."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from attrs import frozen

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import LOGS, MANIFEST, TARGETS
from aiperf_core.results.models import DOCUMENT_KINDS, Manifest
from aiperf_core.results.signing import SIGNATURE
from aiperf_core.targets import nearest

# What a run leaves behind. Hidden files are those of a write that was killed.
KNOWN = frozenset({MANIFEST, SIGNATURE, TARGETS, LOGS, "profiles", *DOCUMENT_KINDS})
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)


@frozen
class Listed:
    """A bundle in a folder; `manifest` is None where it cannot be read, and `problem` says why."""

    name: str
    targets: int
    manifest: Manifest | None
    problem: str | None = None


def bundles(folder: Path) -> list[Listed]:
    """The bundles in `folder`, newest first; those that cannot be read last. Other folders and links are left out."""
    if not folder.is_dir():
        return []
    found = [_listed(path) for path in folder.iterdir() if _may_be_bundle(path)]
    return sorted(found, key=lambda one: (_created(one), one.name), reverse=True)


def _may_be_bundle(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and (path / MANIFEST).exists()


def _listed(path: Path) -> Listed:
    bundle = Bundle(path)
    try:
        return Listed(path.name, len(bundle.targets), bundle.manifest)
    except BundleError as error:
        return Listed(path.name, 0, None, str(error))


def _created(one: Listed) -> datetime:
    if one.manifest is None:
        return _UNKNOWN_TIME
    try:
        found = datetime.fromisoformat(one.manifest.created)
    except ValueError:
        return _UNKNOWN_TIME
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def named(folder: Path, name: str) -> Path:
    """The folder of bundle `name` in `folder`. Raises UsageError for what is no plain name, or is not there."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UsageError(f"{name!r} is not the name of a bundle in '{folder}'; names are those of: aiperf results list")
    path = folder / name
    if path.is_symlink() or not path.is_dir():
        known = [one.name for one in folder.iterdir() if _may_be_bundle(one)] if folder.is_dir() else []
        hint = nearest(name, known) or " See them: aiperf results list"
        raise UsageError(f"'{folder}' has no bundle {name!r}.{hint}")
    return path


def removable(folder: Path, name: str) -> Path:
    """The folder of a bundle that may be removed: one whose manifest can be read, with nothing of anybody else in it.

    Raises UsageError for a wrong name and BundleError for what is not surely a bundle.
    """
    path = named(folder, name)
    bundle = Bundle.open(path)
    _ = bundle.manifest  # raises for a manifest.json of something else
    foreign = sorted(one.name for one in path.iterdir() if one.name not in KNOWN and not one.name.startswith("."))
    if foreign:
        raise BundleError(
            f"'{path}' was not removed: beside a run's results it holds {foreign[0]!r}"
            f"{f' and {len(foreign) - 1} more' if len(foreign) > 1 else ''}. Move that away, or remove the folder yourself."
        )
    return path


def remove(path: Path) -> None:
    """Remove the folder that `removable` returned. Links in it are removed, never followed."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise BundleError(f"cannot remove '{path}': {error.strerror or error}.") from error

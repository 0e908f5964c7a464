"""Profiles on disk: `profiles/<target>/<implementation>/profile.json` with the files of the tool beside it.

A folder appears complete, by a rename. It may come from an untrusted source: only files that `profile.json` names are
read.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from aiperf_core import atomic
from aiperf_core.errors import BundleError
from aiperf_core.profiling.models import PROFILE_VERSION, Artifact, Profile
from aiperf_core.results import jsontext, structure
from aiperf_core.results.filenames import file_name

FOLDER = "profiles"
PAGE = "profile.json"
DEFAULT_PARENT = Path("artifacts/profiles")
_ATTEMPTS = 1000


def new_folder(out: Path | None, name: str) -> Path:
    """The folder for new profiles: `out`, or one named after the time and `name`. The first profile creates it.

    Raises `BundleError` when `out` exists and is not empty.
    """
    if out is not None:
        if (out.is_dir() and not any(out.iterdir())) or not out.exists():
            return out
        raise BundleError(f"'{out}' is not an empty folder; profiles go to a new one. Choose another --out.")
    stem = f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{file_name(name)}"
    names = (stem, *(f"{stem}-{attempt}" for attempt in range(2, _ATTEMPTS)))
    return next(DEFAULT_PARENT / name for name in names if not (DEFAULT_PARENT / name).exists())


def folder_of(root: Path, target: str, implementation: str) -> Path:
    """The folder of an implementation's profile in a bundle or a folder of profiles."""
    return root / FOLDER / file_name(target) / file_name(implementation)


def artifact(path: Path) -> Artifact:
    """The name, size and SHA-256 of a file. Raises `BundleError` when it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Artifact(name=path.name, bytes=path.stat().st_size, sha256=digest)
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error


def write(root: Path, profile: Profile, source: Path) -> Path:
    """Write a profile and its artifacts, copied from `source`, into `root`; return its folder.

    Raises `BundleError` when the folder exists already or cannot be written.
    """
    place = folder_of(root, profile.target, profile.implementation)
    hidden = place.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        hidden.mkdir(parents=True)
        for one in profile.artifacts:
            shutil.copyfile(source / one.name, hidden / one.name)
        atomic.write(hidden / PAGE, jsontext.to_bytes(structure.document(profile)))
        os.rename(hidden, place)
    except OSError as error:
        shutil.rmtree(hidden, ignore_errors=True)
        raise BundleError(
            f"cannot write '{place}': {error.strerror or error}. Free some space, or choose another --out."
        ) from error
    return place


def read(folder: Path) -> Profile:
    """Read the profile in a folder. Raises `BundleError` when it is missing, damaged or of another format."""
    path = folder / PAGE
    try:
        return parsed(path, path.read_bytes())
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error


def parsed(path: Path, data: bytes) -> Profile:
    """Parse the content of a profile's page. `path` is for messages. Raises `BundleError` as `read` does."""
    try:
        found = jsontext.loads(data)
    except jsontext.JsonError as error:
        raise BundleError(f"'{path}' is not a profile: {error}. Profile again.") from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, int) and version > PROFILE_VERSION:
        raise BundleError(
            f"'{path}' was written by a newer aiperf; its format is {version}, and this aiperf reads up to "
            f"{PROFILE_VERSION}. Upgrade aiperf-core."
        )
    try:
        return structure.structure(found, Profile)
    except jsontext.JsonError as error:
        raise BundleError(f"'{path}' is not a profile of format {PROFILE_VERSION}: {error}. Profile again.") from error


def damaged(folder: Path, profile: Profile) -> Iterator[str]:
    """The names of artifacts that are missing or changed."""
    for one in profile.artifacts:
        path = folder / one.name
        outside = Path(one.name).name != one.name
        if outside or path.is_symlink() or not path.is_file() or artifact(path) != one:
            yield one.name

"""The hashes that a bundle gets when it is closed: whoever changes a file afterwards is found out.

The seal of the manifest covers those of the targets' files, so it stands for the whole bundle but its logs. It is no
signature: who changes files can seal them again. Keep the seal (`aiperf recheck` prints it) elsewhere to tell that too.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attrs import evolve

from aiperf_core.results import jsontext, records
from aiperf_core.results.filenames import MANIFEST

if TYPE_CHECKING:
    from aiperf_core.results.models import Manifest


class Folder(Protocol):
    """What is sealed: the files of a bundle."""

    path: Path

    @property
    def result_files(self) -> Iterable[str]:
        """The paths of the targets' files in the bundle."""

    def file_bytes(self, path: str) -> bytes:
        """The contents of one of them."""


def sealed(bundle: Folder, manifest: "Manifest") -> "Manifest":
    """The manifest with the hashes of the targets' files as they are now, and its own."""
    with_targets = evolve(manifest, hashes=target_hashes(bundle))
    document = jsontext.loads(records.record_bytes(with_targets, bundle.path / MANIFEST))
    return evolve(manifest, hashes={**with_targets.hashes, MANIFEST: seal_of(document)})


def target_hashes(bundle: Folder) -> dict[str, str]:
    """The SHA-256 of the targets' files by their paths in the bundle. Raises BundleError for one that cannot be read."""
    return {path: hashlib.sha256(bundle.file_bytes(path)).hexdigest() for path in bundle.result_files}


def seal_of(document: dict[str, Any]) -> str:
    """The SHA-256 of a manifest's document without this very hash, as compact JSON with sorted keys in ASCII."""
    hashes = {path: digest for path, digest in document["hashes"].items() if path != MANIFEST}
    text = json.dumps({**document, "hashes": hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()

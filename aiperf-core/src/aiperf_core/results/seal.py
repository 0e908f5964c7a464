"""The hashes of a closed bundle, which show any later change of a file.

The hash of the manifest covers the hashes of all documents and samples; it is the *seal* of the bundle, logs excepted.
A seal is not a signature: a person who changes files can seal them again. A copy of the seal (`aiperf recheck` prints
it) shows that too.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from aiperf_core.results import jsontext, records
from aiperf_core.results.filenames import MANIFEST

if TYPE_CHECKING:
    from aiperf_core.results.models import Manifest


def sealed(manifest: "Manifest", hashes: dict[str, str], path: Path) -> "Manifest":
    """The manifest with the hashes of the bundle's files, and with its own. `path` is for messages."""
    with_files = evolve(manifest, hashes=hashes)
    document = jsontext.loads(records.record_bytes(with_files, path))
    return evolve(manifest, hashes={**hashes, MANIFEST: seal_of(document)})


def seal_of(document: dict[str, Any]) -> str:
    """The SHA-256 of a manifest's document without this very hash, as compact JSON with sorted keys in ASCII."""
    hashes = {path: digest for path, digest in document["hashes"].items() if path != MANIFEST}
    text = json.dumps({**document, "hashes": hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()

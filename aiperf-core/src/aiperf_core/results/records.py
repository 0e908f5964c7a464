"""The files of a bundle: records to bytes and back.

Every document is parsed and checked again before it is written.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from attrs import evolve, frozen

from aiperf_core.errors import BundleError
from aiperf_core.measurements import Samples
from aiperf_core.names import words
from aiperf_core.results import jsontext
from aiperf_core.results.filenames import file_name
from aiperf_core.results.models import SCHEMA_VERSION, Document, Manifest, SampleFile, TargetResult
from aiperf_core.results.structure import LARGER, ON_DISK, WHOLE, document, structure

Record = TypeVar("Record")

_CHANGED = "It was cut off or changed after aiperf wrote it; restore it or run again."
_KINDS: dict[type, str] = {Manifest: "manifest", TargetResult: "target", Document: "document"}
# No run writes a larger document. A file of samples is bounded by their number.
_MOST_BYTES = 1 << 29


@frozen
class Stored:
    """The contents of a target's two files, and the name of the second."""

    document: bytes
    samples_name: str
    samples: bytes


# --- reading


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises BundleError for a file that is missing, unreadable or not of this format."""
    return _read(Manifest, path)[0]


def read_document(path: Path) -> Document:
    """Read a document of another package. Raises as `read_manifest` does."""
    return _read(Document, path)[0]


def read_payload(found: Document, record: type[Record], newest: int, reader: str, *, place: str = "") -> Record:
    """Make a record of the payload of a document.

    newest: the format that is read.
    reader: the package that reads it.
    place: the file of a document that `reader` did not write; the payload may then have more fields than the record.

    Raises BundleError that names the document, or its place, for a payload of another format.
    """
    where, version = f"'{place or f'{found.kind}/{words(found.name)}'}'", found.payload.get("format")
    if type(version) is int and version > newest:
        raise BundleError(f"{where} has format {version}, and this {reader} reads format {newest}. Upgrade {reader}.")
    try:
        return structure(found.payload, record, LARGER if place else WHOLE)
    except jsontext.JsonError as error:
        raise BundleError(f"{where} holds no {found.kind} of format {newest}: {error}") from None


def read_target(path: Path, allowed: Callable[[Path], Path] = Path) -> TargetResult:
    """Read a target's result with its samples. `allowed` may refuse the path of their file.

    Raises BundleError for a file that is missing, unreadable, changed or not of this format.
    """
    outline, found = _read_outline(path)
    stored, counts = structure(found["sample_file"], SampleFile), [row["samples"] for row in found["rows"]]
    samples = _read_samples(allowed(path.with_name(stored.name)), stored, counts)
    return evolve(outline, rows=[evolve(row, samples=one) for row, one in zip(outline.rows, samples, strict=True)])


def read_outline(path: Path) -> TargetResult:
    """Read a target's result with empty columns of samples, in a fraction of the time. Raises as `read_target` does."""
    return _read_outline(path)[0]


def _read_outline(path: Path) -> tuple[TargetResult, Any]:
    outline, found = _read(TargetResult, path)
    # A file of samples has one possible name, so that no document can lead elsewhere.
    name, expected = found["sample_file"]["name"], samples_name(outline.target, found["sample_file"]["sha256"])
    if name != expected:
        raise _not_of_format("target", path, jsontext.JsonError("sample_file.name", f"'{name}'", f"'{expected}'"))
    return outline, found


def _read(record: type[Record], path: Path) -> tuple[Record, Any]:
    """A file as a record and as the document that it was made of."""
    try:
        found = jsontext.loads(_bytes(path, _MOST_BYTES))
        _check_version(found, path)
        return structure(found, record, ON_DISK), found
    except jsontext.JsonError as error:
        raise _not_of_format(_KINDS[record], path, error) from error


def _check_version(found: Any, path: Path) -> None:
    version = found.get("schema_version") if isinstance(found, dict) else None
    if type(version) is int and version > 0 and version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        todo = "Upgrade aiperf-core." if newer else "Run its targets again."
        raise BundleError(f"'{path}' has format {version}, and this aiperf reads format {SCHEMA_VERSION} only. {todo}")


def _read_samples(path: Path, stored: SampleFile, counts: list[int]) -> list[Samples]:
    from aiperf_core.results import columns

    try:
        data = _bytes(path, columns.most_bytes(stored.columns, counts))
        digest = hashlib.sha256(data).hexdigest()
        if digest != stored.sha256:
            raise BundleError(
                f"'{path}' does not hold the samples that the target's file was written with: its SHA-256 is {digest}. "
                f"{_CHANGED}"
            )
        return columns.decode(data, stored.columns, counts)
    except jsontext.JsonError as error:
        raise _not_of_format("samples", path, error) from error


def _bytes(path: Path, most: int) -> bytes:
    """The contents of a file of at most `most` bytes."""
    try:
        if (size := path.stat().st_size) > most:
            raise jsontext.JsonError("the top level", f"{size} bytes", f"at most {most}")
        return path.read_bytes()
    except FileNotFoundError:
        raise BundleError(f"'{path}' does not exist; the bundle is incomplete. Run its targets again.") from None
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error


def _not_of_format(kind: str, path: Path, error: jsontext.JsonError) -> BundleError:
    return BundleError(f"'{path}' is not a {kind} file of format {SCHEMA_VERSION}: {error}. {_CHANGED}")


# --- writing


def samples_name(target: str, sha256: str) -> str:
    """The name of the file that holds a target's samples, with this SHA-256."""
    return f"{file_name(target)}.{sha256[:8]}.npz"


def record_bytes(record: Manifest | Document, path: Path) -> bytes:
    """Return the contents of the file of a manifest or a document. `path` is for messages."""
    with _not_written(path):
        return _checked(type(record), document(record))


def target_files(result: TargetResult, path: Path) -> Stored:
    """Return the contents of a target's two files. `path` is for messages."""
    from aiperf_core.results import columns

    with _not_written(path):
        encoded = columns.encode([row.samples for row in result.rows])
        sha256 = hashlib.sha256(encoded.data).hexdigest()
        name = samples_name(result.target, sha256)
        written = document(evolve(result, rows=[evolve(row, samples=Samples()) for row in result.rows]))
        for one, row in zip(written["rows"], result.rows, strict=True):
            one["samples"] = len(row.samples.block)
        written["sample_file"] = document(SampleFile(name, sha256, encoded.columns))
        return Stored(_checked(TargetResult, written), name, encoded.data)


@contextmanager
def _not_written(path: Path) -> Iterator[None]:
    try:
        yield
    except jsontext.JsonError as error:
        raise BundleError(
            f"'{path}' was not written, since the result does not keep to the format: {error}."
        ) from error


def _checked(record: type, found: Any) -> bytes:
    data = jsontext.to_bytes(found)
    structure(jsontext.loads(data), record, ON_DISK)
    return data

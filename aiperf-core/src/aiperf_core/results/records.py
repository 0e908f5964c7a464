"""Between the records and the bytes of their files: strict in both directions.

What is written is parsed again and checked, so that what is on disk is what was checked. What is read must have every
field and no other, each of its very type: a number in quotes is not a number.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, fields, frozen

from aiperf_core.errors import BundleError
from aiperf_core.measurements import Samples
from aiperf_core.results import jsontext
from aiperf_core.results.filenames import file_name
from aiperf_core.results.models import SAMPLES_IN_JSON, SCHEMA_VERSION, Manifest, SampleFile, TargetResult
from aiperf_core.results.validate import validate, version_of

if TYPE_CHECKING:
    from cattrs import Converter

Record = TypeVar("Record")

_CHANGED = "It was cut off or changed after aiperf wrote it; restore it or run again."

# Columns of samples in a file of version 1. In JSON a quote within a string is escaped, so that a key is found nowhere else.
_NAMES = "|".join(one.name for one in fields(Samples)).encode()
_COLUMN = re.compile(rb'(?<!\\)("(?:' + _NAMES + rb')"\s*:\s*)\[[-+.,0-9a-zE\s]*\]')
_WITH_COLUMNS = re.compile(rb'"schema_version"\s*:\s*1\s*\}\s*$')
# No run writes so much. A file of samples is bounded by how many they are.
_MOST_BYTES = 1 << 29


@frozen
class Stored:
    """The contents of a target's two files, and the name of the second."""

    document: bytes
    samples_name: str
    samples: bytes


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises BundleError for a file that is missing, unreadable or not of this format."""
    return structure(_document("manifest", path), Manifest)


def read_target(path: Path, allowed: Callable[[Path], Path] = Path) -> TargetResult:
    """Read a target's result with its samples. `allowed` may refuse the path of their file.

    Raises BundleError for a file that is missing, unreadable, changed or not of this format.
    """
    found = _document("target", path)
    if version_of(found) == SAMPLES_IN_JSON:
        return structure(found, TargetResult)
    outline, stored, counts = _parted(found)
    _check_name(outline, stored, path)
    samples = _read_samples(allowed(path.with_name(stored.name)), stored, counts)
    return evolve(outline, rows=[evolve(row, samples=one) for row, one in zip(outline.rows, samples, strict=True)])


def read_outline(path: Path) -> TargetResult:
    """Read a target's result with empty columns of samples, in a fraction of the time. Raises as `read_target` does."""
    found = _document("target", path, without_samples=True)
    if version_of(found) == SAMPLES_IN_JSON:
        return structure(found, TargetResult)
    outline, stored, _ = _parted(found)
    _check_name(outline, stored, path)
    return outline


def samples_name(target: str, sha256: str) -> str:
    """The name of the file that holds a target's samples, with this SHA-256."""
    return f"{file_name(target)}.{sha256[:8]}.npz"


def manifest_bytes(manifest: Manifest, path: Path) -> bytes:
    """Return the contents of a manifest's file. `path` is for messages."""
    with _not_written(path):
        return _checked("manifest", document(evolve(manifest, schema_version=SCHEMA_VERSION)))


def target_files(result: TargetResult, path: Path) -> Stored:
    """Return the contents of a target's two files. `path` is for messages."""
    from aiperf_core.results import columns

    with _not_written(path):
        encoded = columns.encode([row.samples for row in result.rows])
        sha256 = hashlib.sha256(encoded.data).hexdigest()
        name = samples_name(result.target, sha256)
        rows = [evolve(row, samples=Samples()) for row in result.rows]
        written = document(evolve(result, rows=rows, schema_version=SCHEMA_VERSION))
        for one, row in zip(written["rows"], result.rows, strict=True):
            one["samples"] = len(row.samples.block)
        written["sample_file"] = document(SampleFile(name, sha256, encoded.columns))
        return Stored(_checked("target", written), name, encoded.data)


def document(record: Any) -> Any:
    """Return a record as dicts, lists and scalars."""
    return _converter().unstructure(record)


def structure(document: Any, record: type[Record]) -> Record:
    """Make a record of a document that was validated."""
    return _converter().structure(document, record)


@contextmanager
def _not_written(path: Path) -> Iterator[None]:
    try:
        yield
    except jsontext.JsonError as error:
        raise BundleError(
            f"'{path}' was not written, since the result does not keep to the format: {error}."
        ) from error


def _checked(kind: str, found: Any) -> bytes:
    data = jsontext.to_bytes(found)
    validate(kind, jsontext.loads(data))
    return data


def _parted(found: dict[str, Any]) -> tuple[TargetResult, SampleFile, list[int]]:
    """A document as the result without samples, where they are, and how many each row has."""
    counts = [row["samples"] for row in found["rows"]]
    rows = [{**row, "samples": {}} for row in found["rows"]]
    stored = structure(found["sample_file"], SampleFile)
    rest = {name: value for name, value in found.items() if name != "sample_file"}
    return structure({**rest, "rows": rows}, TargetResult), stored, counts


def _check_name(outline: TargetResult, stored: SampleFile, path: Path) -> None:
    """A file of samples has one name only, so that no document can lead elsewhere."""
    expected = samples_name(outline.target, stored.sha256)
    if stored.name != expected:
        raise _not_of_format(
            "target", path, SCHEMA_VERSION, jsontext.JsonError("sample_file.name", f"'{stored.name}'", f"'{expected}'")
        )


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
        raise _not_of_format("samples", path, SCHEMA_VERSION, error) from error


def _document(kind: str, path: Path, *, without_samples: bool = False) -> Any:
    version = SCHEMA_VERSION
    try:
        data = _bytes(path, _MOST_BYTES)
        if without_samples and _WITH_COLUMNS.search(data, max(0, len(data) - 100)):
            data = _COLUMN.sub(rb"\1[]", data)
        found = jsontext.loads(data)
        _check_version(found, path)
        version = version_of(found)
        validate(kind, found)
    except jsontext.JsonError as error:
        raise _not_of_format(kind, path, version, error) from error
    return found


def _bytes(path: Path, most: int) -> bytes:
    """The contents of a file, which may have so many bytes."""
    try:
        if (size := path.stat().st_size) > most:
            raise jsontext.JsonError("the top level", f"{size} bytes", f"at most {most}")
        return path.read_bytes()
    except FileNotFoundError:
        raise BundleError(f"'{path}' does not exist; the bundle is incomplete. Run its targets again.") from None
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error


def _not_of_format(kind: str, path: Path, version: int, error: jsontext.JsonError) -> BundleError:
    return BundleError(f"'{path}' is not a {kind} file of format {version}: {error}. {_CHANGED}")


def _check_version(found: Any, path: Path) -> None:
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise BundleError(
            f"'{path}' was written by a newer aiperf; its format is {version}, and this aiperf reads up to "
            f"{SCHEMA_VERSION}. Upgrade: pip install --upgrade aiperf-core"
        )


@functools.cache
def _converter() -> "Converter":
    import cattrs

    # detailed_validation would only collect errors; the schema has found them, with their places.
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)
    for kind in (str, bool, int):
        converter.register_structure_hook(kind, _only(kind))
    converter.register_structure_hook(float, _number)
    return converter


def _only(kind: type) -> Any:
    def same(value: Any, asked: type) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {value!r}")
        # cattrs takes this hook for subclasses too, and a Verdict is a string that must become a Verdict.
        return value if asked is kind else asked(value)

    return same


def _number(value: Any, _: type) -> float:
    """JSON has one kind of number, so 3 is a float where a float belongs. A string or a boolean never is."""
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)

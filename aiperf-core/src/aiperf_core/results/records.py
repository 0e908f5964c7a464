"""Between the records and the bytes of their files: strict in both directions.

What is written is parsed again and checked, so that what is on disk is what was checked. What is read must have every
field and no other, each of its very type: a number in quotes is not a number.
"""

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import fields

from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext
from aiperf_core.results.models import SCHEMA_VERSION, Manifest, Samples, TargetResult

if TYPE_CHECKING:
    from cattrs import Converter

Record = TypeVar("Record")

# A column of samples. In JSON a quote within a string is escaped, so that a key is found nowhere else.
_NAMES = "|".join(one.name for one in fields(Samples)).encode()
_COLUMN = re.compile(rb'(?<!\\)("(?:' + _NAMES + rb')"\s*:\s*)\[[-+.,0-9a-zE\s]*\]')


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises BundleError for a file that is missing, unreadable or not of this format."""
    return structure(_document("manifest", path), Manifest)


def read_target(path: Path) -> TargetResult:
    """Read a target's result. Raises BundleError for a file that is missing, unreadable or not of this format."""
    return structure(_document("target", path), TargetResult)


def read_outline(path: Path) -> TargetResult:
    """Read a target's result with empty columns of samples, in a fraction of the time. Raises as `read_target` does."""
    return structure(_document("target", path, without_samples=True), TargetResult)


def manifest_bytes(manifest: Manifest, path: Path) -> bytes:
    """Return the contents of a manifest's file. `path` is for messages."""
    return _checked("manifest", manifest, path)


def target_bytes(result: TargetResult, path: Path) -> bytes:
    """Return the contents of a target's file. `path` is for messages."""
    return _checked("target", result, path)


def document(record: Any) -> Any:
    """Return a record as dicts, lists and scalars, as it stands on disk."""
    return _converter().unstructure(record)


def structure(document: Any, record: type[Record]) -> Record:
    """Make a record of a document that was validated."""
    return _converter().structure(document, record)


def _checked(kind: str, record: Any, path: Path) -> bytes:
    from aiperf_core.results.validate import validate

    try:
        data = jsontext.to_bytes(document(record))
        validate(kind, jsontext.loads(data))
    except jsontext.JsonError as error:
        raise BundleError(
            f"'{path}' was not written, since the result does not keep to the format: {error}."
        ) from error
    return data


def _document(kind: str, path: Path, *, without_samples: bool = False) -> Any:
    from aiperf_core.results.validate import validate

    try:
        data = path.read_bytes()
        found = jsontext.loads(_COLUMN.sub(rb"\1[]", data) if without_samples else data)
        _check_version(found, path)
        validate(kind, found)
    except FileNotFoundError:
        raise BundleError(f"'{path}' does not exist; the bundle is incomplete. Run its targets again.") from None
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error
    except jsontext.JsonError as error:
        raise BundleError(
            f"'{path}' is not a {kind} file of format {SCHEMA_VERSION}: {error}. "
            "It was cut off or changed after aiperf wrote it; restore it or run again."
        ) from error
    return found


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

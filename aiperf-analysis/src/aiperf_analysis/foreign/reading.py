"""Read files of other tools, whichever tool wrote them."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve

from aiperf_analysis.foreign import asv, google_benchmark, hyperfine, nvbench, pytest_benchmark
from aiperf_analysis.foreign.model import Document, ForeignError, Results
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.results.listing import moment

# A tool's documents are told by their fields: whether it is one, and how it is read.
_Reader = tuple[Callable[[Document], bool], Callable[[Document], Results]]
READERS: dict[str, _Reader] = {
    "pytest-benchmark": (pytest_benchmark.is_one, pytest_benchmark.read),
    "asv": (asv.is_one, asv.read),
    "google-benchmark": (google_benchmark.is_one, google_benchmark.read),
    "nvbench": (nvbench.is_one, nvbench.read),
    "hyperfine": (hyperfine.is_one, hyperfine.read),
}
# Files of asv that hold no results.
_BESIDE = ("benchmarks.json", "machine.json")


def read(path: Path) -> Results:
    """Read a file. Raises ForeignError for one that no tool wrote, or another version of it."""
    try:
        content, changed = path.read_bytes(), path.stat().st_mtime
    except OSError as error:
        raise ForeignError(f"cannot read '{words(str(path))}': {error.strerror or error}.") from error
    return parse(content, path, changed)


def parse(content: bytes, path: Path, changed: float) -> Results:
    """Read the content of a file that was last changed at this time, in seconds since 1970. Raises ForeignError."""
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"'{words(str(path))}' is no JSON: {error}.") from error
    document = Document(path, data)
    for is_one, reader in READERS.values():
        if is_one(document):
            found = reader(document).checked()
            return evolve(found, created=_when(document, found.created, changed))
    raise ForeignError(f"'{words(str(path))}' is no result of {', '.join(READERS)}.")


def _when(document: Document, created: str, changed: float) -> str:
    if not created:
        return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    try:
        return moment(created).isoformat(timespec="seconds")
    except ValueError:
        raise document.error(f"{words(created)!r} is no time") from None


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The named files, and all JSON files in named folders; those of asv without results are left out.

    Raises UsageError for a folder without any.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found += [path] if path.name not in _BESIDE else []
            continue
        inside = sorted(one for one in path.rglob("*.json") if one.name not in _BESIDE)
        if not inside:
            raise UsageError(f"'{words(str(path))}' holds no JSON files.")
        found += inside
    return list(dict.fromkeys(found))

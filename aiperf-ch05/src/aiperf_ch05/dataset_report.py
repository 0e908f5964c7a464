"""What is in a dataset of text: lengths of documents, exact duplicates, and how much of a batch is padding."""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.errors import AiperfError, UsageError

PERCENTILES = (50, 90, 99)
DIGEST_BYTES = 16


@frozen
class Padding:
    """A way to make batches, and the share of their places that hold no data.

    way: how documents are put together.
    waste: places without data, as a share of all places.
    cut: the share of the data that lies beyond the context, and is lost.
    """

    way: str
    waste: float
    cut: float


@frozen
class Report:
    """What a dataset holds.

    unit: the unit of all lengths: bytes, words, or the elements of a list.
    documents, empty: how many.
    total: the sum of all lengths.
    least, mean, longest, percentiles: of the lengths.
    histogram: the number of documents by the power of two that their length does not exceed.
    duplicates: documents that equal an earlier one.
    paddings: batches as they may be made.
    """

    unit: str
    documents: int
    empty: int
    total: int
    least: int
    mean: float
    longest: int
    percentiles: dict[str, int]
    histogram: dict[int, int]
    duplicates: int
    paddings: list[Padding]


def report(path: Path, field: str, unit: str, batch: int, context: int) -> Report:
    """Read JSON lines, or plain text with a document on each line, and report on it.

    field: the key of the document in a JSON line; a text, or a list of tokens.
    unit: `words` or `bytes`, of texts.
    batch, context: the number of documents in a batch, and the most that a sequence holds.

    Raises `UsageError` for a file that cannot be read, and `AiperfError` for a line that has no document.
    """
    lengths, seen, duplicates = [], set(), 0
    units_found = set()
    for document in _documents(path, field):
        units_found.add("elements" if isinstance(document, list) else unit)
        raw = json.dumps(document).encode() if isinstance(document, list) else document.encode()
        digest = hashlib.blake2b(raw, digest_size=DIGEST_BYTES).digest()
        duplicates += digest in seen
        seen.add(digest)
        lengths.append(_length(document, unit))
    if not lengths:
        raise AiperfError(f"'{path}' holds no documents; a document is a line")
    if len(units_found) > 1:
        raise AiperfError(f"'{path}' has texts and lists in {field!r}; they have no common length")
    ordered = sorted(lengths)
    return Report(
        unit=units_found.pop(),
        documents=len(lengths),
        empty=lengths.count(0),
        total=sum(lengths),
        least=ordered[0],
        mean=sum(lengths) / len(lengths),
        longest=ordered[-1],
        percentiles={f"p{percent}": ordered[-(-percent * len(ordered) // 100) - 1] for percent in PERCENTILES},
        histogram=dict(sorted(Counter(_power(length) for length in lengths).items())),
        duplicates=duplicates,
        paddings=paddings(lengths, batch, context),
    )


def _documents(path: Path, field: str) -> Iterator[str | list[Any]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                yield (
                    _document(line.rstrip("\n"), field, f"'{path}', line {number}")
                    if path.suffix
                    in (
                        ".jsonl",
                        ".json",
                    )
                    else line.rstrip("\n")
                )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read '{path}': {reason}. Give a file of text, or of JSON lines.") from None


def _document(line: str, field: str, where: str) -> str | list[Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise AiperfError(f"{where} is no JSON: {error}") from None
    document = found.get(field) if isinstance(found, dict) else None
    if isinstance(document, str | list):
        return document
    keys = ", ".join(sorted(found)) if isinstance(found, dict) else type(found).__name__
    raise AiperfError(f"{where} has no text and no list in {field!r}; it has {keys}. Name the key with --field")


def _length(document: str | list[Any], unit: str) -> int:
    if isinstance(document, list):
        return len(document)
    return len(document.encode()) if unit == "bytes" else len(document.split())


def _power(length: int) -> int:
    """The least power of two that is not below a length; 0 for 0."""
    return 1 << (length - 1).bit_length() if length else 0


def paddings(lengths: Sequence[int], batch: int, context: int) -> list[Padding]:
    """The padding of batches in the order of the file, sorted by length, and packed into sequences."""
    kept = [min(length, context) for length in lengths]
    cut = 1 - sum(kept) / sum(lengths) if sum(lengths) else 0.0
    in_order, by_length = (_places(order, batch) for order in (kept, sorted(kept)))
    places = {
        f"every document padded to {context:,}": context * len(kept),
        f"batches of {batch} in the file's order": in_order,
        f"batches of {batch} sorted by length": by_length,
        f"packed into sequences of {context:,}": context * sequences(kept, context),
    }
    return [Padding(way, 1 - sum(kept) / count if count else 0.0, cut) for way, count in places.items()]


def _places(lengths: Sequence[int], batch: int) -> int:
    """The places of batches that are padded to their longest document."""
    groups = [lengths[first : first + batch] for first in range(0, len(lengths), batch)]
    return sum(max(group) * len(group) for group in groups)


def sequences(lengths: Sequence[int], context: int) -> int:
    """The number of sequences that hold all documents: each, longest first, goes where the most room is left."""
    room: list[int] = []  # negative, so that the heap's first has the most
    for length in sorted((length for length in lengths if length), reverse=True):
        if room and -room[0] >= length:
            heapq.heapreplace(room, room[0] + length)
        else:
            heapq.heappush(room, length - context)
    return len(room)

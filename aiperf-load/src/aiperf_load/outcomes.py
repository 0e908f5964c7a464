"""Outcomes of requests: one kind each, and columns of times and counts."""

import io
import zipfile
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from attrs import define, field, fields, frozen
from numpy.typing import NDArray

from aiperf_core.errors import BundleError


class Kind(IntEnum):
    """How a request ended; each has one kind. The numbers are stored."""

    OK = 0
    REFUSED = 1
    TIMEOUT = 2
    CUT = 3
    MALFORMED = 4
    EARLY_STOP = 5
    HTTP_429 = 6
    HTTP_5XX = 7
    HTTP_OTHER = 8
    WRONG_COUNT = 9
    WRONG_TYPE = 10
    ENCODED = 11
    REDIRECTED = 12
    TOO_LARGE = 13
    ENDLESS = 14
    SERVER_ERROR = 15
    INTERRUPTED = 16
    NOT_SENT = 17
    FAILED = 18
    UNTIMED = 19


MEANINGS = {
    Kind.OK: "all tokens arrived",
    Kind.REFUSED: "the connection was refused",
    Kind.TIMEOUT: "no end within the timeout",
    Kind.CUT: "the answer ended before the stream did: without [DONE], or a finish_reason and usage",
    Kind.MALFORMED: "the answer cannot be read: an event was not JSON, or without its fields",
    Kind.EARLY_STOP: "the server stopped before the requested number of tokens",
    Kind.HTTP_429: "HTTP 429: too many requests",
    Kind.HTTP_5XX: "HTTP 500 to 599",
    Kind.HTTP_OTHER: "another HTTP status",
    Kind.WRONG_COUNT: "the server's usage disagrees with the tokens that were asked, sent or counted",
    Kind.WRONG_TYPE: "the answer was no stream of events",
    Kind.ENCODED: "the answer was compressed, though that was not accepted",
    Kind.REDIRECTED: "a redirect, which is not followed",
    Kind.TOO_LARGE: "an event was larger than 1 MiB",
    Kind.ENDLESS: "the stream went on beyond all tokens that were asked for",
    Kind.SERVER_ERROR: "the server sent an error in the stream",
    Kind.INTERRUPTED: "the run was interrupted while it was in flight",
    Kind.NOT_SENT: "the run was interrupted before it was sent",
    Kind.FAILED: "another tool counted it as failed, for a reason that its result does not tell",
    Kind.UNTIMED: "more than a tenth of the tokens by the server's usage had no event that tells their time",
}
# Of requests that the run itself ended: they say nothing about the server.
UNFINISHED = (Kind.INTERRUPTED, Kind.NOT_SENT)


class Flag(IntFlag):
    """Marks of a request; the numbers are stored.

    SPLIT: events with several tokens, whose numbers are known; their gaps were divided evenly.
    UNEVEN: events with several tokens, whose numbers are not known; gaps are those of events.
    NO_USAGE: the server told no numbers of tokens; events were counted.
    """

    SPLIT = 1
    UNEVEN = 2
    NO_USAGE = 4


@define(eq=False)
class Reply:
    """A request while it is in flight, and its answer. Times are those of the monotonic clock, 0 where there is none.

    number: its place in the plan.
    ready_s: when the generator acted.
    sent_s: when it was sent, after the wait for a place under a cap.
    first_s, last_s: when the first and the last token arrived.
    done_s: when the stream ended.
    gaps_s: between neighbouring tokens.
    message: the server's words on why the request did not end well.
    """

    number: int
    scheduled_s: float
    input_tokens: int
    asked_tokens: int
    ready_s: float = 0.0
    sent_s: float = 0.0
    first_s: float = 0.0
    last_s: float = 0.0
    done_s: float = 0.0
    output_tokens: int = 0
    kind: Kind = Kind.NOT_SENT
    status: int = 0
    flags: Flag = field(factory=lambda: Flag(0))
    gaps_s: list[float] = field(factory=list)
    message: str = ""


def _column(dtype: str) -> object:
    return field(metadata={"dtype": dtype})


@frozen(eq=False)
class Outcomes:
    """The replies of a point as columns, in the order of arrival. Times are seconds from the start, NaN for none.

    gap_s: all gaps between tokens, request after request; `gaps` has their numbers.
    messages: the first message of each kind; no column.
    """

    number: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    scheduled_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    ready_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    sent_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    first_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    last_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    done_s: NDArray[np.float64] = _column("float64")  # type: ignore[assignment]
    input_tokens: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    asked_tokens: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    output_tokens: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    kind: NDArray[np.uint8] = _column("uint8")  # type: ignore[assignment]
    status: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    flags: NDArray[np.uint8] = _column("uint8")  # type: ignore[assignment]
    gaps: NDArray[np.int64] = _column("int64")  # type: ignore[assignment]
    gap_s: NDArray[np.float32] = _column("float32")  # type: ignore[assignment]
    messages: dict[Kind, str] = field(factory=dict)

    def __len__(self) -> int:
        return len(self.number)


COLUMNS = {one.name: one.metadata["dtype"] for one in fields(Outcomes) if one.metadata}
_TIMES = ("scheduled_s", "ready_s", "sent_s", "first_s", "last_s", "done_s")


def outcomes(replies: list[Reply], start_s: float) -> Outcomes:
    """Columns of replies, whose times are taken from `start_s`."""
    replies = sorted(replies, key=lambda one: (one.scheduled_s, one.number))
    columns = {name: np.array([getattr(one, name) for one in replies], dtype) for name, dtype in COLUMNS.items()
               if name not in ("gaps", "gap_s")}  # fmt: skip
    for name in _TIMES:
        columns[name] = np.where(columns[name] > 0, columns[name] - start_s, np.nan)
    columns["gaps"] = np.array([len(one.gaps_s) for one in replies], np.int64)
    columns["gap_s"] = np.array([gap for one in replies for gap in one.gaps_s], np.float32)
    messages = {one.kind: one.message for one in reversed(replies) if one.message}
    return Outcomes(**columns, messages=messages)


def to_bytes(points: dict[str, Outcomes]) -> bytes:
    """The columns of points as the bytes of a `.npz` file; a column is named `POINT/COLUMN`."""
    file = io.BytesIO()
    arrays = {f"{point}/{name}": getattr(one, name) for point, one in points.items() for name in COLUMNS}
    # The same columns make the same bytes: entries of a zip file have no time.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, array, allow_pickle=False)
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), inner.getvalue(), zipfile.ZIP_DEFLATED
            )
    return file.getvalue()


def from_bytes(data: bytes, requests: dict[str, int], where: str) -> dict[str, Outcomes]:
    """The columns of points from the bytes of a file. `requests` has the number of each point.

    Raises BundleError for a file that does not hold exactly these columns.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {point: _read(archive, point, count) for point, count in requests.items()}
    except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError, NotImplementedError) as error:
        raise BundleError(f"'{where}' does not hold the samples of its document: {error}.") from None


def _read(archive: zipfile.ZipFile, point: str, count: int) -> Outcomes:
    columns: dict[str, Any] = {
        name: _column_of(archive, f"{point}/{name}", dtype, count) for name, dtype in COLUMNS.items() if name != "gap_s"
    }
    gaps = columns["gaps"]
    if (gaps < 0).any():
        raise ValueError(f"{point}/gaps has a negative number")
    columns["gap_s"] = _column_of(archive, f"{point}/gap_s", COLUMNS["gap_s"], int(gaps.sum()))
    return Outcomes(**columns)


def _column_of(archive: zipfile.ZipFile, name: str, dtype: str, count: int) -> NDArray[Any]:
    entry = archive.getinfo(f"{name}.npy")
    # A header and the values: a file that unpacks to more is refused before it is unpacked.
    if entry.file_size > 4096 + count * np.dtype(dtype).itemsize:
        raise ValueError(f"{name} unpacks to {entry.file_size} bytes")
    with archive.open(entry) as file:
        array = np.lib.format.read_array(io.BytesIO(file.read()), allow_pickle=False)
    if array.dtype != np.dtype(dtype) or array.shape != (count,):
        raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {dtype} ({count},)")
    return array

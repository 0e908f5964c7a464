"""The samples of a target as columns of numbers, in an `.npz` file that `numpy.load` can read.

Each column is one array with the samples of all rows, row after row. The target's file has the number of samples of
each row, and the type and unit of each column. No time is rounded: it is stored in whole nanoseconds or in the
milliseconds of a CUDA event only if that gives back exactly the same number, and otherwise in seconds with double
precision.

A file may come from an unknown source. Its sizes are compared with the target's file before memory is taken. Only plain
numbers are read (no objects, no pickles), and impossible times are refused.
"""

import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from attrs import fields, frozen
from numpy.typing import NDArray

from aiperf_core.measurements import Samples
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.models import Column

Array = NDArray[Any]

NAMES = tuple(one.name for one in fields(Samples))
TIMES = tuple(name for name in NAMES if name.endswith("_s"))
FLAGS = ("hidden", "judged", "throttled")
# Stands for a time that was not taken; no time is negative.
NONE = -1
NEVER_NONE = ("bracket_s",)
# Of a target, all rows together: several hours without a pause. Reading takes memory in proportion.
MOST_SAMPLES = 4_000_000
# Bytes before the numbers of an array, as `numpy.save` writes them. They are compared, never parsed.
HEADER = 128
# Bytes that an archive has for each array: its name twice, sizes, a checksum.
ENTRY = 256
# Units in a second.
PER_SECOND = {"s": 1.0, "ms": 1e3, "ns": 1e9}
TIME_FORMS = (("int32", "ns"), ("int64", "ns"), ("float32", "ms"), ("float64", "s"))
LARGEST_COUNT = (1 << 63) - 1
COUNT_TYPES = ("uint8", "uint16", "uint32", "int64")
# The year that ZIP begins with: the same samples make the same file.
MOMENT = (1980, 1, 1, 0, 0, 0)


@frozen
class Encoded:
    """The contents of a file of samples, and the columns for the target's file."""

    data: bytes
    columns: dict[str, Column]


# --- writing


def encode(rows: Sequence[Samples]) -> Encoded:
    """The samples of a target's rows. Raises JsonError with the place of a value that is not accepted."""
    if sum(len(row.block) for row in rows) > MOST_SAMPLES:
        found = f"{sum(len(row.block) for row in rows)} samples"
        raise JsonError("rows", found, f"at most {MOST_SAMPLES} of all rows together")
    for index, row in enumerate(rows):
        _check_lengths(f"rows[{index}].samples", {name: len(getattr(row, name)) for name in NAMES})
    columns, file = {}, io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            array, unit = _packed(name, [getattr(row, name) for row in rows])
            columns[name] = Column(array.dtype.name, unit)
            info = zipfile.ZipInfo(f"{name}.npy", MOMENT)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(
                info, _header(array.dtype, len(array)) + array.astype(array.dtype.newbyteorder("<")).tobytes()
            )
    return Encoded(file.getvalue(), columns)


def _header(kind: np.dtype[Any], count: int) -> bytes:
    """The bytes before `count` numbers in numpy's file format 1.0 (numpy.lib.format)."""
    text = f"{{'descr': '{kind.newbyteorder('<').str}', 'fortran_order': False, 'shape': ({count},), }}"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", HEADER - 10)
    return start + text.ljust(HEADER - len(start) - 1).encode("ascii") + b"\n"


def _check_lengths(place: str, lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise JsonError(place, f"columns of different lengths ({found})", "one entry a sample in each")


def _packed(name: str, rows: Sequence[Sequence[Any]]) -> tuple[Array, str | None]:
    """A column of all rows in the least space that loses nothing, and its unit if it is a time."""
    for index, row in enumerate(rows):
        _check_values(name, f"rows[{index}].samples.{name}", row)
    values = [value for row in rows for value in row]
    if name in FLAGS:
        return np.array(values, dtype=np.bool_), None
    if name not in TIMES:
        most = max(values, default=0)
        return np.array(values, dtype=next(one for one in COUNT_TYPES if most <= np.iinfo(one).max)), None
    seconds = np.array([NONE if value is None else value for value in values], dtype=np.float64)
    return next(found for form in TIME_FORMS if (found := _as_time(seconds, *form)) is not None)


def _check_values(name: str, place: str, values: Sequence[Any]) -> None:
    """Refuse a value that a row's column cannot hold. All values are checked together first, then one by one."""
    kinds, noun = _accepted(name)
    if all(_is_of(kind, kinds) for kind in set(map(type, values))):
        numbers = [value for value in values if value is not None]
        # NaN compares as neither larger nor smaller, so it shows in the sum only.
        if not numbers or (min(numbers) >= 0 and max(numbers) <= _most(name) and math.isfinite(sum(numbers))):
            return
    for index, value in enumerate(values):
        if not _is_of(type(value), kinds) or (value is not None and not 0 <= value <= _most(name)):
            raise JsonError(f"{place}[{index}]", f"{value!r:.60}", noun)


def _is_of(kind: type, kinds: tuple[type, ...]) -> bool:
    """Whether a type is one of these. To Python a boolean is an integer."""
    return issubclass(kind, kinds) and (kind is not bool or bool in kinds)


def _accepted(name: str) -> tuple[tuple[type, ...], str]:
    if name in FLAGS:
        return (bool,), "true or false"
    if name not in TIMES:
        return (int,), "an integer from 0 to 2^63 - 1"
    if name in NEVER_NONE:
        return (int, float), "a time from 0, in seconds"
    return (int, float, type(None)), "a time from 0, in seconds, or null"


def _most(name: str) -> float:
    """The largest value of a column."""
    return math.inf if name in FLAGS else sys.float_info.max if name in TIMES else LARGEST_COUNT


def _as_time(seconds: Array, kind: str, unit: str) -> tuple[Array, str] | None:
    """The times in a form, or None where the form would change one."""
    none = seconds == NONE
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = seconds * PER_SECOND[unit]
        scaled[none] = NONE
        if kind.startswith("int"):
            scaled = np.rint(scaled)
            if len(scaled) and scaled.max() > min(np.iinfo(kind).max, 1 << 53):
                return None
        packed = scaled.astype(kind)
        same = bool((packed[~none].astype(np.float64) / PER_SECOND[unit] == seconds[~none]).all())
    return (packed, unit) if same else None


# --- reading


def most_bytes(columns: dict[str, Column], counts: Sequence[int]) -> int:
    """The largest size of a file of these columns. Raises JsonError for too many samples."""
    total = sum(counts)
    if total > MOST_SAMPLES:
        raise JsonError("rows", f"{total} samples", f"at most {MOST_SAMPLES} of all rows together")
    # Incompressible data grows by a few bytes.
    return sum(ENTRY + HEADER + 2 + total * np.dtype(one.dtype).itemsize * 17 // 16 for one in columns.values()) + ENTRY


def decode(data: bytes, columns: dict[str, Column], counts: Sequence[int]) -> list[Samples]:
    """The samples of rows with these counts. Raises JsonError with the place in the file for any other content.

    columns: those of the target's file. An older file lacks some; they are times that were not taken.
    """
    if len(data) > most_bytes(columns, counts):
        raise JsonError("the top level", f"{len(data)} bytes", f"at most {most_bytes(columns, counts)} for its samples")
    total = sum(counts)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _members(archive, columns)
            lists: dict[str, list[Any]] = {
                name: _values(archive, members[name], name, columns[name], total) if name in columns else [None] * total
                for name in NAMES
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise JsonError("the top level", f"a damaged archive ({error})", "an .npz file as aiperf writes it") from error
    rows, start = [], 0
    for count in counts:
        rows.append(Samples(**{name: values[start : start + count] for name, values in lists.items()}))
        start += count
    return rows


def _members(archive: zipfile.ZipFile, columns: Collection[str]) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by column: each once and nothing else."""
    found = [one.filename for one in archive.infolist()]
    if sorted(found) != sorted(f"{name}.npy" for name in columns):
        shown = ", ".join(found[: len(NAMES) + 1])[:200]
        raise JsonError("the top level", f"{len(found)} arrays ({shown})", f"one of each: {', '.join(columns)}")
    return {one.filename.removesuffix(".npy"): one for one in archive.infolist()}


def _values(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, column: Column, total: int) -> list[Any]:
    """One column as a list."""
    array = _array(archive, member, name, column, total)
    if name in FLAGS:
        if array.view(np.uint8).max(initial=0) > 1:
            raise JsonError(name, "a byte that is neither 0 nor 1", "true or false")
        return list(array.tolist())
    if name not in TIMES:
        _refuse(name, array, array < 0, "an integer from 0")
        return list(array.tolist())
    assert column.unit
    none = array == NONE
    if name in NEVER_NONE:
        none[:] = False
    with np.errstate(invalid="ignore"):
        _refuse(name, array, ~((array >= 0) | none) | ~np.isfinite(array), "a time from 0, or -1 for none")
    times: list[Any] = (array.astype(np.float64) / PER_SECOND[column.unit]).tolist()
    for index in np.nonzero(none)[0].tolist():
        times[index] = None
    return times


def _refuse(name: str, array: Array, wrong: Array, expected: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise JsonError(f"{name}[{index}]", str(array[index]), expected)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, column: Column, total: int) -> Array:
    """An array of `total` numbers of the type that the target's file says."""
    if (column.dtype, column.unit) not in _forms(name):
        accepted = " or ".join(f"{kind} in {unit}" if unit else kind for kind, unit in _forms(name))
        raise JsonError(name, f"{column.dtype} in {column.unit}", accepted)
    kind = np.dtype(column.dtype).newbyteorder("<")
    size = HEADER + total * kind.itemsize
    if member.file_size != size:
        raise JsonError(name, f"{member.file_size} bytes", f"{size} for {total} numbers of type {column.dtype}")
    if member.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        raise JsonError(name, f"compression {member.compress_type}", "an array that is deflated or stored")
    # Never more than the expected size, whatever the archive contains.
    with archive.open(member) as file:
        content = file.read(size)
    if len(content) != size or content[:HEADER] != _header(kind, total):
        raise JsonError(
            name, f"an array that begins {content[:HEADER].strip()!r:.140}", f"{total} times {column.dtype}"
        )
    return np.frombuffer(content, dtype=kind, offset=HEADER)


def _forms(name: str) -> Sequence[tuple[str, str | None]]:
    """The types and units that a column may have."""
    if name in TIMES:
        return TIME_FORMS
    return [("bool", None)] if name in FLAGS else [(kind, None) for kind in COUNT_TYPES]

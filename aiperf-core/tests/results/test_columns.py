import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.measurements import Samples
from aiperf_core.results import columns, example
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.models import Column

ROWS = [row.samples for row in example.rows()]
COUNTS = [len(row.block) for row in ROWS]
STORED = columns.encode(ROWS)


def one_row(**changes):
    """Two samples, with some columns changed."""
    plain = {name: [False, True] if name in columns.FLAGS else [0, 0] for name in columns.NAMES}
    return Samples(**(plain | changes))


def again(row):
    stored = columns.encode([row])
    (found,) = columns.decode(stored.data, stored.columns, [len(row.block)])
    return stored, found


def refused(data=STORED.data, described=STORED.columns, counts=COUNTS):
    with pytest.raises(JsonError) as caught:
        columns.decode(data, described, counts)
    return str(caught.value)


def archive_with(name, content, *, method=zipfile.ZIP_DEFLATED, rows=STORED):
    """The archive of `rows` with another member of this name."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(rows.data)) as old, zipfile.ZipFile(file, "w", method) as new:
        for one in old.namelist():
            new.writestr(one, content if one == name else old.read(one))
    return file.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


# --- what is kept


def test_samples_come_back():
    assert columns.decode(STORED.data, STORED.columns, COUNTS) == ROWS


def test_an_older_file_has_no_witness():
    older = {name: column for name, column in STORED.columns.items() if name != "witness_s"}
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(STORED.data)) as new, zipfile.ZipFile(file, "w") as old:
        for name in new.namelist():
            if name != "witness_s.npy":
                old.writestr(name, new.read(name))
    read = columns.decode(file.getvalue(), older, COUNTS)
    assert read == [evolve(row, witness_s=[None] * len(row.block)) for row in ROWS]


def test_numpy_reads_the_file():
    with np.load(io.BytesIO(STORED.data), allow_pickle=False) as found:
        assert tuple(found.files) == columns.NAMES
        assert found["cpu_s"].dtype == np.int32
        assert found["cpu_s"][:3].tolist() == [21000, 20000, -1]
        assert {name: str(found[name].dtype) for name in found.files} == {
            name: one.dtype for name, one in STORED.columns.items()
        }


def test_the_same_samples_make_the_same_file():
    assert columns.encode(ROWS) == STORED


@pytest.mark.parametrize(
    ("times", "dtype", "unit"),
    [
        ([1234567 / 1e9, 0.0], "int32", "ns"),
        ([None, 7 / 1e9], "int32", "ns"),
        ([3_000_000_123 / 1e9, 1e-9], "int64", "ns"),
        ([float(np.float32(0.0123456)) / 1e3, None], "float32", "ms"),
        ([0.1 + 0.2, 1e-300], "float64", "s"),
        ([1e308, 5e-324], "float64", "s"),
        ([None, None], "int32", "ns"),
    ],
)
def test_times_take_the_least_that_loses_nothing(times, dtype, unit):
    stored, found = again(one_row(device_s=times))
    assert stored.columns["device_s"] == Column(dtype, unit)
    assert found.device_s == times


@pytest.mark.parametrize(
    ("most", "dtype"),
    [(255, "uint8"), (256, "uint16"), (70_000, "uint32"), (1 << 40, "int64"), ((1 << 63) - 1, "int64")],
)
def test_counts_take_the_least_that_holds_them(most, dtype):
    stored, found = again(one_row(step=[1, most]))
    assert stored.columns["step"] == Column(dtype, None)
    assert found.step == [1, most]
    assert {type(one) for one in found.step} == {int}


TIMES = st.floats(0, allow_infinity=False) | st.integers(0, 1 << 40).map(lambda ns: ns / 1e9)
ROW = st.lists(
    st.tuples(*(
        st.booleans() if name in columns.FLAGS
        else (TIMES if name in columns.NEVER_NONE else st.none() | TIMES) if name in columns.TIMES
        else st.integers(0, (1 << 63) - 1)
        for name in columns.NAMES
    )),
    max_size=5,
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(st.lists(ROW, max_size=3))
def test_nothing_is_lost(rows):
    made = [Samples(*(list(column) for column in zip(*row, strict=True))) if row else Samples() for row in rows]
    stored = columns.encode(made)
    assert columns.decode(stored.data, stored.columns, [len(row) for row in rows]) == made
    assert len(stored.data) <= columns.most_bytes(stored.columns, [len(row) for row in rows])


def test_what_cannot_be_compressed_is_within_the_bound():
    row = Samples(**{name: list(np.random.default_rng(3).random(20_000)) for name in columns.TIMES})
    others = {name: [True] * 20_000 if name in columns.FLAGS else [1] * 20_000 for name in columns.NAMES}
    row = Samples(**{name: getattr(row, name) or others[name] for name in columns.NAMES})
    stored, found = again(row)
    assert found == row
    assert len(stored.data) <= columns.most_bytes(stored.columns, [20_000])


# --- what is not written


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("device_s", [0.1, float("nan")], "at rows[0].samples.device_s[1]: found nan; expected a time from 0, in seconds, or null"),
        ("wall_s", [float("inf"), 0.1], "at rows[0].samples.wall_s[0]: found inf; expected a time from 0, in seconds, or null"),
        ("cpu_s", [-1e-9, 0.1], "at rows[0].samples.cpu_s[0]: found -1e-09; expected a time from 0, in seconds, or null"),
        ("bracket_s", [0.1, None], "at rows[0].samples.bracket_s[1]: found None; expected a time from 0, in seconds"),
        ("device_s", ["1", 0.1], "at rows[0].samples.device_s[0]: found '1'; expected a time from 0, in seconds, or null"),
        ("device_s", [True, 0.1], "at rows[0].samples.device_s[0]: found True; expected a time from 0, in seconds, or null"),
        ("block", [0, 1.0], "at rows[0].samples.block[1]: found 1.0; expected an integer from 0 to 2^63 - 1"),
        ("block", [0, -1], "at rows[0].samples.block[1]: found -1; expected an integer from 0 to 2^63 - 1"),
        ("block", [0, 1 << 63], f"at rows[0].samples.block[1]: found {1 << 63}; expected an integer from 0 to 2^63 - 1"),
        ("judged", [0, True], "at rows[0].samples.judged[0]: found 0; expected true or false"),
        ("cpu_s", [0.1], "at rows[0].samples: found columns of different lengths (round 2, block 2, step 2, device_s 2, wall_s 2, cpu_s 1, bracket_s 2, hidden 2, judged 2, calls 2, voluntary_switches 2, involuntary_switches 2, throttled 2, begun_s 2, answered_s 2, replied_s 2, stopped_s 2, done_s 2, own_s 2, witness_s 2, simulated_s 2); expected one entry a sample in each"),
    ],
)  # fmt: skip
def test_what_is_no_sample_is_not_written(name, values, message):
    with pytest.raises(JsonError) as caught:
        columns.encode([one_row(**{name: values})])
    assert str(caught.value) == message


def test_more_than_can_be_read_is_not_written(monkeypatch):
    monkeypatch.setattr(columns, "MOST_SAMPLES", 17)
    with pytest.raises(JsonError, match=r"at rows: found 18 samples; expected at most 17 of all rows together"):
        columns.encode(ROWS)
    assert refused() == "at rows: found 18 samples; expected at most 17 of all rows together"


# --- what is not read


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file(part):
    assert refused(STORED.data[: int(part * len(STORED.data))]).startswith(
        "at the top level: found a damaged archive ("
    )


def test_other_lengths_than_the_document_says():
    assert refused(counts=[*COUNTS[:-1], COUNTS[-1] + 1]) == (
        "at round: found 146 bytes; expected 147 for 19 numbers of type uint8"
    )


def test_columns_of_different_lengths_in_a_file():
    assert refused(archive_with("judged.npy", npy(np.zeros(17, bool)))) == (
        "at judged: found 145 bytes; expected 146 for 18 numbers of type bool"
    )


def test_another_type_than_the_document_says():
    message = refused(archive_with("cpu_s.npy", npy(np.zeros(18, "<f4"))))
    assert message.startswith("at cpu_s: found an array that begins b\"\\x93NUMPY\\x01\\x00v\\x00{'descr': '<f4'")
    assert message.endswith("expected 18 times int32")


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("block", Column("float64", "s"), "at block: found float64 in s; expected uint8 or uint16 or uint32 or int64"),
        ("judged", Column("uint8", None), "at judged: found uint8 in None; expected bool"),
        ("cpu_s", Column("int32", None), "at cpu_s: found int32 in None; expected int32 in ns or int64 in ns or float32 in ms or float64 in s"),
        ("cpu_s", Column("bool", "ns"), "at cpu_s: found bool in ns; expected int32 in ns or int64 in ns or float32 in ms or float64 in s"),
    ],
)  # fmt: skip
def test_a_type_that_a_column_cannot_have(name, column, message):
    assert refused(described=STORED.columns | {name: column}) == message


class Pickled:
    def __reduce__(self):
        return os.system, ("echo pwned > pwned",)


def test_objects_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = npy(np.array([Pickled()] * 18, dtype=object), allow_pickle=True)
    assert "at cpu_s: found" in refused(archive_with("cpu_s.npy", evil))
    # As long as the numbers would be, so that only its header tells.
    assert "'|O'" in refused(archive_with("cpu_s.npy", evil[:128].ljust(128 + 18 * 4, b"\0")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("device_s", [0.1] * 17 + [np.nan], "at device_s[17]: found nan; expected a time from 0, or -1 for none"),
        ("device_s", [0.1] * 17 + [np.inf], "at device_s[17]: found inf; expected a time from 0, or -1 for none"),
        ("device_s", [0.1] * 17 + [-2.0], "at device_s[17]: found -2.0; expected a time from 0, or -1 for none"),
        ("bracket_s", [0.1] * 17 + [-1.0], "at bracket_s[17]: found -1.0; expected a time from 0, or -1 for none"),
    ],
)
def test_times_that_no_clock_gives(name, array, message):
    assert refused(archive_with(f"{name}.npy", npy(np.array(array)))) == message


def test_a_negative_count():
    data = archive_with("step.npy", npy(np.array([0] * 17 + [-5])))
    assert refused(data, STORED.columns | {"step": Column("int64", None)}) == (
        "at step[17]: found -5; expected an integer from 0"
    )


def test_a_flag_that_is_neither():
    data = archive_with("judged.npy", npy(np.zeros(18, bool))[:-1] + b"\2")
    assert refused(data) == "at judged: found a byte that is neither 0 nor 1; expected true or false"


def bomb(claimed, real):
    """An archive whose first array claims a size and holds another, both of nothing."""
    data = bytearray(archive_with("round.npy", npy(np.zeros(real, np.uint8))))
    at = data.index(b"PK\1\2")
    data[at + 24 : at + 28] = struct.pack("<I", claimed)
    return bytes(data)


def test_a_bomb_is_refused_before_memory_is_taken():
    huge = 64 << 20
    honest, lying = bomb(128 + huge, huge), bomb(146, huge)
    counts, liars = [huge // 16, *[0] * 5], [18]
    tracemalloc.start()
    # More samples than are read; arrays larger than the document says; and a size that is a lie.
    assert refused(honest, counts=counts).startswith("at rows: found 4194304 samples; expected at most 4000000")
    assert "bytes; expected at most" in refused(honest, counts=liars)
    assert "bytes; expected" in refused(honest, counts=[1_000_000])
    assert "bytes; expected at most" in refused(lying, counts=liars)
    refused(lying, counts=[1_000_000])
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_size_that_is_a_lie_costs_what_was_claimed():
    """The array unpacks to much more than the archive says, in a file that is small enough."""
    assert len(bomb(146, 100_000)) < columns.most_bytes(STORED.columns, COUNTS)
    message = refused(bomb(146, 100_000))
    assert "damaged archive" in message or "an array that begins" in message


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names",
    [["../../etc/passwd"], ["round.npy"] * 2, ["/round.npy"], [f"{name}.npy" for name in (*columns.NAMES, "more")]],
)
def test_only_our_arrays_are_in_an_archive(names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    assert f"found {len(names)} arrays (" in refused(file.getvalue())


def test_an_encrypted_array():
    data = bytearray(STORED.data)
    for mark, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        data[data.index(mark) + offset] |= 1
    assert "damaged archive" in refused(bytes(data))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, len(STORED.data) - 1), st.binary(min_size=1, max_size=6), st.sampled_from(["set", "cut", "add"]))
def test_damage_is_one_clear_error_or_changes_nothing(place, junk, how):
    data = STORED.data
    changed = {
        "set": data[:place] + junk + data[place + len(junk) :],
        "cut": data[:place],
        "add": data[:place] + junk + data[place:],
    }[how]
    try:
        found = columns.decode(changed, STORED.columns, COUNTS)
    except JsonError:
        return
    assert found == ROWS

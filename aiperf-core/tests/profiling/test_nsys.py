"""The database here is made by hand, after the schema that Nsight Systems documents; nsys did not write it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job
from aiperf_core.profiling import programs
from aiperf_core.profiling.nsys import DATABASE, REPORT, Nsys, read

JOB = Job(target="a.b", module="m", implementation="wide", device="cuda", params={}, cache="cold")

# Two calls of 100 us: a kernel and a copy in each, with 20 us between them. Between the calls a flush.
SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT, eventType INT NOT NULL, text TEXT, textId INT, globalTid INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
    (start INT NOT NULL, end INT NOT NULL, globalTid INT, correlationId INT, nameId INT NOT NULL, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
    (start INT NOT NULL, end INT NOT NULL, streamId INT, correlationId INT, demangledName INT, shortName INT,
     registersPerThread INT, staticSharedMemory INT, dynamicSharedMemory INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
    (start INT NOT NULL, end INT NOT NULL, streamId INT, correlationId INT, bytes INT NOT NULL, copyKind INT NOT NULL);
INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaMemcpyAsync_v3020'), (3, 'void wide(float*)'), (4, 'a.b:wide');
INSERT INTO NVTX_EVENTS VALUES (1000000, 1100000, 59, 'a.b:wide', NULL, 1), (2000000, 2100000, 59, NULL, 4, 1), (0, NULL, 34, 'mark', NULL, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
    (1010000, 1015000, 1, 11, 1, 0), (1020000, 1025000, 1, 12, 2, 0), (1500000, 1505000, 1, 13, 1, 0),
    (2010000, 2015000, 1, 21, 1, 0), (2020000, 2025000, 1, 22, 2, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
    (1030000, 1060000, 7, 11, 3, 3, 40, 1024, 2048), (1510000, 1900000, 7, 13, 3, 3, 40, 0, 0),
    (2030000, 2060000, 7, 21, 3, 3, 40, 1024, 2048);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1080000, 1090000, 7, 12, 512, 2), (2080000, 2090000, 7, 22, 512, 2);
"""


def database(path: Path, script: str = SCHEMA) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
        made.commit()
    return path


def test_an_export_is_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite"))) as made:
        found: Any = read(made, JOB, 2, "2025.1")
    assert found.figures == {
        "call_s": pytest.approx(100e-6),
        "launches": 1,
        "kernels": 1,
        "copied_bytes": 512,
        "span_s": pytest.approx(60e-6),
        "busy_s": pytest.approx(40e-6),
        "gaps": 1,
        "idle_s": pytest.approx(20e-6),
        "idle_share": pytest.approx(1 / 3),
    }
    assert [(one.name, one.seconds) for one in found.hot] == [
        ("void wide(float*)", pytest.approx(30e-6)),
        ("Memcpy DtoH", pytest.approx(10e-6)),
    ]
    assert found.hot[0].metrics == {"registers": 40, "shared_bytes": 3072}
    assert found.files == [REPORT]


def test_tables_with_a_version_are_read(tmp_path: Path) -> None:
    script = SCHEMA
    for table in (
        "StringIds",
        "NVTX_EVENTS",
        *(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "KERNEL", "MEMCPY")),
    ):
        script = script.replace(table, f"{table}_V2")
    with (
        closing(sqlite3.connect(database(tmp_path / "x.sqlite"))) as plain,
        closing(sqlite3.connect(database(tmp_path / "y.sqlite", script))) as other,
    ):
        assert read(other, JOB, 2, "2025.1") == read(plain, JOB, 2, "2025.1")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL RENAME TO gpu_work", "; its tables gpu_work are not read"),
        ("CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN end TO e", "; its tables CUPTI_ACTIVITY_KIND_KERNEL are not read"),
        ("CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO s", ""),
    ],
)
def test_kernels_that_are_not_read_are_refused(tmp_path: Path, change: str, why: str) -> None:
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite"))) as made:
        made.execute(f"ALTER TABLE {change}")
        if not why:
            made.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO gpu_work")
        with pytest.raises(AiperfError) as raised:
            read(made, JOB, 2, "2025.1")
    assert str(raised.value) == f"nsys recorded no kernels of the calls{why}. Use: --tool torch"


def test_work_of_another_process_with_the_same_id_is_not_ours(tmp_path: Path) -> None:
    process, other = 5 << 24, 6 << 24
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite"))) as made:
        expected = read(made, JOB, 2, "2025.1")
        for table in ("KERNEL", "MEMCPY"):
            made.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_{table} ADD COLUMN globalPid INT DEFAULT {process}")
        made.execute(f"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = {process + 9}")
        values = (
            f"(1040000, 1050000, 8, 11, 3, 3, 40, 0, 0, {other}), (1000000, 1090000, 8, 21, 3, 3, 40, 0, 0, {other})"
        )
        made.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {values}")
        # Its calls come behind ours, in no call of ours.
        calls = f"(3000000, 3005000, {other + 9}, 11, 1, 0), (3010000, 3015000, {other + 9}, 21, 1, 0)"
        made.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {calls}")
        assert read(made, JOB, 2, "2025.1") == expected


ROWS = "rows of nsys have no times, or end before they begin; they were left out."


@pytest.mark.parametrize(
    ("table", "change", "kept"),
    [
        ("RUNTIME", "start = 'soon' WHERE correlationId = 13", True),
        ("KERNEL", "start = NULL WHERE correlationId = 13", True),
        ("KERNEL", "end = 'late' WHERE correlationId = 21", False),
        ("KERNEL", "end = start - 1 WHERE correlationId = 21", False),
        ("MEMCPY", "start = x'00' WHERE correlationId = 22", True),
    ],
)
def test_rows_without_times_are_left_out_and_counted(tmp_path: Path, table: str, change: str, kept: bool) -> None:
    script = SCHEMA.replace(" NOT NULL", "")
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite", script))) as made:
        made.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET {change}")
        found: Any = read(made, JOB, 2, "2025.1")
    assert found.notes == [f"1 of 12 {ROWS}"]
    assert found.figures["kernels"] == (1 if kept else 0.5)


@pytest.mark.parametrize(
    "change",
    [
        "KERNEL SET demangledName = 'x', registersPerThread = 'many', staticSharedMemory = NULL",
        "MEMCPY SET bytes = 'all', copyKind = x'00'",
        "RUNTIME SET nameId = 'x' WHERE correlationId = 13",
    ],
)
def test_columns_without_numbers_are_not_taken_for_numbers(tmp_path: Path, change: str) -> None:
    script = SCHEMA.replace(" NOT NULL", "")
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite", script))) as made:
        made.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{change}")
        found: Any = read(made, JOB, 2, "2025.1")
    assert (found.figures["kernels"], found.figures["busy_s"]) == (1, pytest.approx(40e-6))
    assert found.figures["copied_bytes"] == (0 if "MEMCPY" in change else 512)
    assert found.hot[0].metrics == ({} if "KERNEL" in change else {"registers": 40, "shared_bytes": 3072})


def test_a_database_with_few_times_is_refused(tmp_path: Path) -> None:
    script = SCHEMA.replace(" NOT NULL", "")
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite", script))) as made:
        for table in ("RUNTIME", "KERNEL"):
            made.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET start = 'soon'")
        with pytest.raises(AiperfError) as raised:
            read(made, JOB, 2, "2025.1")
    assert str(raised.value) == (
        "most of what nsys recorded is damaged: 8 of 12 rows have no times, or end before they begin. Profile again, or "
        "use: --tool torch"
    )


def test_copies_that_are_not_read_are_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(database(tmp_path / "x.sqlite"))) as made:
        made.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY RENAME COLUMN bytes TO size")
        notes = read(made, JOB, 2, "2025.1").notes
    assert notes == ["The tables CUPTI_ACTIVITY_KIND_MEMCPY of nsys are not read; work may be missing."]


def test_an_export_without_our_ranges_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path / "x.sqlite", "CREATE TABLE StringIds (id, value)")
    refused = pytest.raises(AiperfError, match="nsys recorded no NVTX range 'a.b:wide'")
    with closing(sqlite3.connect(path)) as made, refused:
        read(made, JOB, 2, "2025.1")


def test_a_report_that_is_missing_or_no_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "version", lambda path: "2025.1")
    with pytest.raises(AiperfError, match=r"nsys left no readable 'profile.sqlite'"):
        Nsys(JOB).summarise(tmp_path, 2)
    (tmp_path / DATABASE).write_bytes(b"no database" * 100)
    with pytest.raises(AiperfError, match=r"nsys left no readable 'profile.sqlite'"):
        Nsys(JOB).summarise(tmp_path, 2)


def test_a_report_is_read_in_any_folder_and_with_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "version", lambda path: "2025.1")
    folder = tmp_path / "50% of #1?"
    folder.mkdir()
    with closing(sqlite3.connect(database(folder / DATABASE))) as made:
        made.execute("UPDATE StringIds SET value = CAST(x'636166e9' AS TEXT) WHERE id = 3")
        made.commit()
    found: Any = Nsys(JOB).summarise(folder, 2)
    assert found.hot[0].name == "caf\ufffd"


def test_what_is_missing_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    assert "install Nsight Systems" in str(Nsys(JOB).unavailable())
    monkeypatch.setattr(programs, "find", lambda name: "/x/nsys")
    assert Nsys(JOB).unavailable() is None
    assert "nsys profiles GPUs" in str(Nsys(evolve(JOB, device="cpu")).unavailable())
    assert "no metrics" in str(Nsys(evolve(JOB, metrics=("x",))).unavailable())


def test_nsys_starts_the_process_and_waits_for_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: "/x/nsys")
    (command,) = Nsys(JOB).commands(["python", "x.py"], tmp_path)
    assert command[:2] == ["/x/nsys", "profile"]
    assert command[-2:] == ["python", "x.py"]
    assert "--capture-range=cudaProfilerApi" in command
    assert f"--output={tmp_path / 'profile'}" in command

"""Readers of traces, and what they say of bad input."""

import gzip
import json
import sqlite3
from contextlib import closing

import pytest

from aiperf_core.errors import AiperfError, UsageError
from aiperf_traces import building, example, kineto, reading
from aiperf_traces import trace as analysis
from aiperf_traces.model import Kind


def write(path, events, **head):
    path.write_text(json.dumps({**head, "traceEvents": events}))
    return path


def kernel(ts=1.0, dur=2.0, name="k", stream=7, **more):
    args = {"device": 0, "stream": stream}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": args,
        **more,
    }


def one(path):
    return reading.read([path])[0]


def test_times_are_nanoseconds_and_columns_are_sorted(tmp_path):
    trace = one(write(tmp_path / "t.json", [kernel(5.001, 0.999), kernel(1.5, 2)]))
    assert trace.slices.start.tolist() == [1500, 5001]
    assert trace.slices.end.tolist() == [3500, 6000]
    assert trace.slices.kind.tolist() == [Kind.COMPUTE] * 2


def test_a_list_of_events_and_pairs_of_begin_and_end_are_read(tmp_path):
    path = tmp_path / "t.json"
    common = {"cat": "cpu_op", "pid": 1, "tid": 1}
    path.write_text(json.dumps([{"ph": "B", "name": "a", "ts": 1, **common}, {"ph": "E", "ts": 4, **common}]))
    trace = one(path)
    assert (trace.slices.start.tolist(), trace.slices.end.tolist()) == ([1000], [4000])


def test_communication_is_known_by_its_library_or_its_arguments(tmp_path):
    named = kernel(name="anything")
    named["args"] = {**named["args"], "Collective name": "allreduce", "Process Group Name": "tp", "Seq": 3}
    trace = one(write(tmp_path / "t.json", [named, kernel(2, name="ncclDevKernel_AllGather_RING_LL()"), kernel(3)]))
    assert trace.slices.kind.tolist() == [Kind.COMMUNICATION, Kind.COMMUNICATION, Kind.COMPUTE]
    assert trace.slices.sequence.tolist() == [3, -1, -1]
    assert trace.names[trace.slices.group[0]] == "tp"


def test_a_gzip_file_gives_the_same_as_the_file(tmp_path):
    job = example.Job(steps=2)
    plain, packed = (one(example.write(tmp_path / name, job)) for name in ("a.json", "a.json.gz"))
    assert plain.slices.start.tolist() == packed.slices.start.tolist()
    assert plain.names == packed.names


def test_a_truncated_file_is_read_as_far_as_it_goes(tmp_path):
    path = example.write(tmp_path / "t.json", example.Job(steps=40))
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    trace = one(path)
    assert 400 < trace.facts["events"] < 800
    (note,) = trace.notes
    assert note.startswith(f"'{path}' is damaged: the file ends early near byte {len(text) // 2:,}. The ")
    assert note in analysis.analyze([path], analysis.Options()).summary


def test_a_gzip_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path):
    path = example.write(tmp_path / "t.json.gz", example.Job(steps=800))
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    trace = one(path)
    assert trace.facts["events"] > 1000
    assert "the gzip data ends early or is damaged (Compressed file ended before" in trace.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty. Record the trace again."),
        (b"hello", "is no trace: a JSON document with the list 'traceEvents' was expected"),
        (b'{"a": 1}', "is no trace: a JSON document with the list 'traceEvents' was expected"),
        (b'{"traceEvents": []}', "has no events in 'traceEvents'. Record again"),
        (b'{"traceEvents": [{"ph"', "is no trace: no event could be read; the file ends early near byte 22."),
        (b"\x1f\x8bnonsense", "is no trace; the gzip data ends early or is damaged"),
        (b"SQLite format 3\0nonsense", "cannot be read as a database of nsys"),
    ],
)
def test_other_files_are_refused_in_a_paragraph(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(AiperfError) as raised:
        one(path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_paths_that_are_no_trace(tmp_path):
    with pytest.raises(UsageError, match=r"does not exist\. Give files of traces"):
        one(tmp_path / "none.json")
    with pytest.raises(UsageError, match=r"is a folder without profile\.json"):
        one(tmp_path)
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"anything")
    with pytest.raises(
        UsageError, match=r"is a report of nsys; export it first: nsys export --type sqlite 'a\.nsys-rep'"
    ):
        one(report)


def test_a_zip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(kineto, "_UNCHECKED", 1 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 50_000_000, 9))
    with pytest.raises(AiperfError, match=r"unpacks to more than 200 times its size, which no trace does"):
        one(path)


def test_values_that_are_nested_too_deeply_are_not_read(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [{"args": ' + b"[" * 100_000)
    with pytest.raises(AiperfError, match=r"entry 1, near byte 17 \(nested too deeply\)"):
        one(path)


def test_a_trace_beyond_the_limit_is_refused(tmp_path):
    path = example.write(tmp_path / "t.json", example.Job(steps=2))
    with pytest.raises(AiperfError, match=r"has more than 1,000 bytes unpacked\. Give a larger --most-bytes"):
        reading.read([path], most_bytes=1000)


def test_bad_events_are_counted_and_left_out(tmp_path):
    events = [
        kernel(),
        kernel(10, -1),
        kernel("soon"),
        kernel(None),
        kernel(1e300),
        7,
        {"ph": "X", "cat": "kernel", "name": 5, "ts": 1, "dur": 1},
        {"ph": "E", "ts": 3, "pid": 9, "tid": 9},
        {"ph": "B", "cat": "cpu_op", "name": "open", "ts": 3, "pid": 1, "tid": 1},
        {"ph": "X", "cat": ["kernel"], "name": "x", "ts": 1, "dur": 1},
        {"ph": "M", "name": "process_name"},
        {"ph": "M", "name": "thread_name"},
    ]
    path = write(tmp_path / "t.json", events)
    trace = one(path)
    assert len(trace.slices) == 1
    assert {name: trace.facts[name] for name in ("events", "backwards", "damaged", "without end")} == {
        "events": 12,
        "backwards": 1,
        "damaged": 6,
        "without end": 1,
    }
    reasons = [one.reason for one in analysis.analyze([path], analysis.Options()).left_out]
    assert "1 slices end before they begin; they were left out." in reasons


def test_overlapping_slices_of_a_stream_are_counted(tmp_path):
    path = write(tmp_path / "t.json", [kernel(1, 5), kernel(3, 5), kernel(4, 1, stream=9)])
    assert one(path).facts["overlapping"] == 1


def test_memory_that_is_alive_at_the_peak(tmp_path):
    def event(ts, size, address, total):
        args = {"Bytes": size, "Addr": address, "Total Allocated": total, "Device Type": 1, "Device Id": 0}
        args["Total Reserved"] = 4000
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}

    def operator(name, ts, dur):
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}

    events = [operator("outer", 10, 50), operator("inner", 12, 8), operator("next", 70, 10)]
    # 500 are from before; 300 are freed before the peak; 1000 of `inner` and 700 of `outer` are alive at it.
    events += [event(13, 1000, 1, 1500), event(14, 300, 2, 1800), event(25, -300, 2, 1500), event(30, 700, 3, 2200)]
    events += [event(75, -700, 3, 1500)]
    found = analysis.analyze([write(tmp_path / "t.json", events)], analysis.Options(memory=True))
    tables = {table.name: table.records for table in found.tables}
    (peak,) = [record.cells for record in tables["memory"]]
    assert (peak["peak"].value, peak["before"].value, peak["reserved"].value) == (2200, 500, 4000)
    assert peak["spare"].value == pytest.approx(45)
    alive = {record.cells["operator"]: record.cells["bytes"].value for record in tables["alive"]}
    assert alive == {"outer / inner": 1000, "outer": 700}


def test_operators_of_the_host_count_without_those_within_them(tmp_path):
    def operator(name, ts, dur, tid=1):
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {}}

    events = [operator("outer", 10, 50), operator("inner", 12, 8), operator("inner", 30, 10), operator("next", 70, 30)]
    events.append(operator("elsewhere", 0, 5, tid=2))
    result = analysis.analyze([write(tmp_path / "t.json", events)], analysis.Options())
    times = {record.cells["name"]: round(record.cells["time"].value * 1e6) for record in result.tables[0].records}
    # The whole is from 0 to 100; the thread with most operators counts.
    assert times == {"outer": 32, "next": 30, "inner": 18, "(outside of operators)": 20}


def test_names_beyond_the_limit_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "MOST_NAMES", 10)
    trace = one(write(tmp_path / "t.json", [kernel(at, 0.5, name=f"k{at}") for at in range(50)]))
    assert len(trace.names) == 11
    assert trace.facts["further names"] == 40
    assert trace.names[-1] == "(further names)"


def test_many_names_are_read_in_bounded_memory():
    names = building.Names()
    for number in range(30_000):
        names.number(f"{number:06}" + "x" * 10_000)
    assert sum(map(len, names.texts)) <= 30_000 * building.MOST_NAME


def test_clocks_that_disagree_are_said(tmp_path):
    events = []
    for at in range(20):
        # The work begins before its launch, as where the device counts in another unit.
        events.append(kernel(10.0 * at, 1, args={"device": 0, "stream": 7, "correlation": at + 1}))
        call = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "args": {"correlation": at + 1}}
        events.append({"ph": "X", "pid": 1, "tid": 1, "ts": 1000.0 + at, "dur": 1, **call})
    result = analysis.analyze([write(tmp_path / "t.json", events)], analysis.Options())
    cells = result.tables[0].records[0].cells
    assert cells["host_bound"].value is None
    assert cells["host_bound"].reason == ("the clocks of host and device disagree: much work begins before its launch")
    assert cells["idle"].value is not None


def test_times_beyond_the_digits_of_a_double_are_said(tmp_path):
    path = write(tmp_path / "t.json", [kernel(1.7e15 + 0.25, 2), kernel(1.7e15 + 9, 2)])
    assert one(path).resolution == 250
    assert "rounded to about 250 ns." in analysis.analyze([path], analysis.Options()).assumptions[1]


# An event of three that has an oddity of profilers, what was left out, and the byte of the event.
ODD = b'{"ph": "X", "cat": "kernel", "name": "beta", "pid": 0, "tid": 7, "ts": 20, "dur": 30, "args": {"device": 0}}'


def odd_trace(path, old=b"", new=b""):
    assert old in ODD
    events = [json.dumps(kernel(1, 9, "alpha")).encode(), ODD.replace(old, new), json.dumps(kernel(60, 5)).encode()]
    path.write_bytes(b'{"traceEvents": [' + b",\n".join(events) + b"]}")
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"device": 0', b'"device": 0, "Comms Id": 9223372036854775815'),
        (b'"device": 0', b'"device": 0, "stream": 18446744073709551614, "correlation": ' + b"9" * 400),
        (b'"pid": 0, "tid": 7', b'"pid": 18446744073709551615, "tid": -9223372036854775809'),
        (b'"device": 0', b'"device": 0, "value": NaN, "least": -Infinity'),
        (b"beta", b"a \x01\n name"),
        (b"beta", b"caf\xe9"),
    ],
)
def test_oddities_of_profilers_are_read(tmp_path, old, new):
    path = odd_trace(tmp_path / "t.json", old, new)
    trace = one(path)
    assert trace.slices.end.tolist() == [10_000, 50_000, 65_000]
    assert (trace.notes, "damaged" in trace.facts) == ([], False)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"beta", rb"C:\Users\q.py", "Invalid \\escape"),
        (b"beta", b'5" disk', "Expecting ',' delimiter"),
        (b'"ts": 20', b'"ts": nan', "Expecting value"),
        (b'"ts": 20', b'"ts": NaN', "a field is missing or cannot be used"),
        (b'"ph": "X", ', b"", "no event of a trace"),
    ],
)
def test_an_event_that_cannot_be_read_is_left_out_alone(tmp_path, old, new, why):
    path = odd_trace(tmp_path / "t.json", old, new)
    trace = one(path)
    assert trace.slices.end.tolist() == [10_000, 65_000]
    assert trace.notes == [
        f"'{path}' is damaged: 1 of 3 events were left out as no JSON or incomplete, the first of them entry 2, near "
        f"byte 139 ({why}). Figures are of the others."
    ]
    assert trace.notes[0] in analysis.analyze([path], analysis.Options()).summary


def test_a_launch_is_found_by_an_id_of_64_bits(tmp_path):
    joined = {"correlation": 2**63 + 5, "device": 2**40, "stream": 7}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    events = [{**call, "args": joined}, {**call, "args": {"correlation": 2**64 - 1}}]
    trace = one(
        write(tmp_path / "t.json", [*events, kernel(9, args=joined), kernel(19, args={"correlation": 2**64 - 1})])
    )
    assert building.launches({"kind": trace.slices.kind, "correlation": trace.slices.correlation}).tolist()[2:] == [
        0,
        -1,
    ]
    assert trace.slices.device[2] == 2**40


@pytest.mark.parametrize(
    "content",
    [
        b'[[1, "a", 4096, 2], [2, "b", -4096, 2], [3, "a", 1, 1]]',
        b'[{"time": 1}, {"time": 2}, {"ph": "M"}]',
        b'{"traceEvents": [{"ph": x}, {"ph": y}, {"ph": "M"}]}',
    ],
)
def test_a_list_of_something_else_is_refused(tmp_path, content):
    path = tmp_path / "memory_timeline.raw.json.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(AiperfError) as raised:
        one(path)
    left_out, place = (2, 1 if content[:1] == b"[" else 17) if b"M" in content else (3, 1)
    why = "Expecting value" if b"x" in content else "no event of a trace"
    assert str(raised.value) == (
        f"'{path}' is no trace, or most of it is damaged: {left_out} of 3 entries are no whole events, the first of them "
        f"entry 1, near byte {place} ({why}). A trace is what torch.profiler's export_chrome_trace writes."
    )


def test_a_file_without_json_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(kineto, "_ENOUGH", 2)
    path = tmp_path / "t.json"
    path.write_bytes(b"[" + b'{"a":[{},' * 100_000)
    with pytest.raises(AiperfError, match=r"most of it is damaged: 3 of 3 entries .*near byte 1 \(nested too deeply\)"):
        one(path)


def test_a_trace_with_nothing_to_analyse_is_refused(tmp_path):
    path = write(tmp_path / "t.json", [{"ph": "M", "name": "process_name"}])
    with pytest.raises(AiperfError) as raised:
        one(path)
    assert str(raised.value) == (
        f"'{path}' has no work of a GPU, no calls, operators or ranges of the host and no events of memory; none of its "
        f"1 events can be analysed. Record again with torch.profiler or nsys."
    )


def test_texts_that_no_file_holds_are_written_all_the_same(tmp_path):
    properties = [{"name": "GPU \ud800"}]
    path = write(tmp_path / "t.json", [kernel(name="caf\udce9")], deviceProperties=properties)
    trace = one(path)
    assert (trace.names, trace.hardware) == (["caf?"], "GPU ?")


def test_fields_that_are_no_json_are_said(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"path": "C:\\Users", "traceEvents": [' + json.dumps(kernel()) + "]}")
    assert one(path).notes == [
        f"'{path}' is damaged: the fields beside its events are no JSON (Invalid \\escape), so its rank and its GPU may be "
        f"missing."
    ]


def test_ranks_come_from_the_file_its_name_or_the_order(tmp_path):
    first = write(tmp_path / "x_rank7.json", [kernel()])
    assert one(first).ranks == [7]
    told = write(tmp_path / "a.json", [kernel()], distributedInfo={"rank": 3, "world_size": 4})
    assert (one(told).ranks, one(told).world) == ([3], 4)
    beyond = write(tmp_path / f"rank{10**30}.json", [kernel()], distributedInfo={"rank": 2**40, "world_size": 10**15})
    assert (one(beyond).ranks, one(beyond).world, one(beyond).rank_known) == ([0], None, False)
    unknown = [write(tmp_path / f"{name}.json", [kernel()]) for name in "bc"]
    traces = reading.read(unknown)
    assert [trace.ranks for trace in traces] == [[0], [1]]
    assert traces[0].notes == ["Not all traces say their rank, so ranks are the order of the files."]


SCHEMA = """
CREATE TABLE StringIds (id INTEGER, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, streamId, correlationId, globalPid, bytes);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
CREATE TABLE NVTX_EVENTS (start, end, text, textId, globalTid);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, deviceId, address, bytes, memoryOperationType);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce'), (3, 'cudaLaunchKernel_v7000'), (4, 'step'),
    (5, 'cudaDeviceSynchronize_v3020');
"""
PROCESS = 5 << 24


def database(path, script=SCHEMA):
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
        for table, rows in {
            "CUPTI_ACTIVITY_KIND_KERNEL": [(100, 200, 0, 7, 1, PROCESS, 1), (150, 260, 0, 8, 2, PROCESS, 2)],
            "CUPTI_ACTIVITY_KIND_MEMCPY": [(300, 320, 0, 7, 3, PROCESS, 4096, 1)],
            "CUPTI_ACTIVITY_KIND_MEMSET": [(330, 340, 0, 7, 4, PROCESS, 64)],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [
                (50, 60, PROCESS + 9, 1, 3),
                (70, 80, PROCESS + 9, 2, 3),
                (90, 95, PROCESS + 9, 3, 3),
                (100, 345, PROCESS + 9, 5, 5),
            ],
            "NVTX_EVENTS": [(40, 400, None, 4, PROCESS + 9), (45, 99, "forward", None, PROCESS + 9)],
            "CUDA_GPU_MEMORY_USAGE_EVENTS": [(10, 0, 1, 1000, 0), (20, 0, 2, 500, 0), (30, 0, 1, 1000, 1)],
        }.items():
            if table in script:
                marks = ", ".join("?" * len(rows[0]))
                made.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        made.commit()
    return path


def test_a_database_of_nsys(tmp_path):
    path = database(tmp_path / "t.sqlite")
    trace = one(path)
    names = [trace.names[number] for number in trace.slices.name[trace.slices.on_device]]
    assert names == ["gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD", "Memset"]
    assert "cudaLaunchKernel" in trace.names
    result = analysis.analyze([path], analysis.Options(window="step", memory=True))
    cells = result.tables[0].records[0].cells
    values = {name: round(cells[name].value * 1e9) for name in ("window", "compute", "communication", "copies", "idle")}
    assert values == {"window": 360, "compute": 100, "communication": 60, "copies": 30, "idle": 170}
    memory = next(table for table in result.tables if table.name == "memory").records[0].cells
    assert memory["peak"].value == 1500


@pytest.mark.parametrize("version", ["_V2", "_v3", "2"])
@pytest.mark.parametrize("table", ["KERNEL", "", "RUNTIME", "MEMCPY", "MEMSET", "NVTX_EVENTS", "StringIds"])
def test_tables_with_a_version_are_read(tmp_path, table, version):
    plain = database(tmp_path / "t.sqlite")
    other = database(tmp_path / "u.sqlite")
    with closing(sqlite3.connect(other)) as made:
        names = [row[0] for row in made.execute("SELECT name FROM sqlite_master")]
        for name in names:
            if name.endswith(table):
                made.execute(f"ALTER TABLE {name} RENAME TO {name}{version}")
        made.commit()
    for path in (plain, other):
        result = analysis.analyze([path], analysis.Options(window="step", memory=True))
        tables = [[record.cells for record in table.records] for table in result.tables]
        if path == plain:
            expected = tables
    assert (tables, one(other).notes) == (expected, [])


def test_what_is_in_two_versions_of_a_table_counts_once(tmp_path):
    path = database(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL_V2 VALUES (270, 280, 0, 7, 9, 0, 1)")
        made.commit()
    assert one(path).slices.end[one(path).slices.on_device].tolist() == [200, 260, 280, 320, 340]


KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize("change", [f"{KERNEL} RENAME TO gpu_work", f"{KERNEL} RENAME COLUMN end TO stop"])
def test_kernels_in_a_table_that_is_not_read_are_refused(tmp_path, change):
    path = database(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"ALTER TABLE {change}")
    with pytest.raises(AiperfError) as raised:
        one(path)
    assert str(raised.value) == (
        f"'{path}' has no kernels in a table that is known ({KERNEL}), and work of a GPU in tables that are not read: "
        f"{'gpu_work' if 'gpu_work' in change else KERNEL}. Export it with another version of nsys."
    )


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            "ALTER TABLE NVTX_EVENTS RENAME COLUMN end TO stop",
            "has tables that are not read: NVTX_EVENTS. Figures are without them.",
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME TO CUPTI_ACTIVITY_KIND_RUNTIME_API",
            "has tables that are not read: CUPTI_ACTIVITY_KIND_RUNTIME_API. Figures are without them.",
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY RENAME COLUMN start TO begin",
            "has tables that are not read: CUPTI_ACTIVITY_KIND_MEMCPY. Figures are without them.",
        ),
        (
            f"DROP TABLE {KERNEL}",
            f"has 3 launches of kernels and no table of kernels ({KERNEL}); no compute is in its figures. Record "
            "with nsys profile --trace=cuda,nvtx.",
        ),
        (
            "DELETE FROM StringIds WHERE id = 2",
            "names 1 of 2 kernels (table StringIds); the others count as compute, also where they communicate.",
        ),
    ],
)
def test_a_database_says_what_it_lacks(tmp_path, change, note):
    path = database(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as made:
        made.execute(change)
        made.commit()
    assert one(path).notes == [f"'{path}' {note}"]


def test_a_database_with_few_times_is_refused(tmp_path):
    path = database(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as made:
        for table in (KERNEL, "CUPTI_ACTIVITY_KIND_RUNTIME"):
            made.execute(f"UPDATE {table} SET start = 'soon'")
        made.commit()
    with pytest.raises(AiperfError) as raised:
        one(path)
    assert str(raised.value) == (
        f"most of '{path}' is damaged: 6 of 10 rows have no times. Export again: nsys export --type sqlite "
        f"REPORT.nsys-rep"
    )


def test_a_database_of_something_else(tmp_path):
    with pytest.raises(AiperfError, match=r"is a database without the tables of a trace"):
        one(database(tmp_path / "t.sqlite", "CREATE TABLE StringIds (id, value);"))


def test_correlations_of_processes_are_kept_apart(tmp_path):
    path = database(tmp_path / "t.sqlite")
    other = 6 << 24
    with closing(sqlite3.connect(path)) as made:
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 600, 1, 7, 1, ?, 1)", (other,))
        made.commit()
    trace = one(path)
    from aiperf_traces.breakdown import launches_of

    launch = launches_of(trace)[trace.slices.device == 1]
    assert launch.tolist() == [-1]

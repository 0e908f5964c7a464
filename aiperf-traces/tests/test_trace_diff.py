"""trace-diff: the parts add up, and unlike traces are refused."""

import sqlite3
from contextlib import closing

import pytest

from aiperf_core.errors import UsageError
from aiperf_traces import example, paths, trace_diff

TEXT = '{"traceEvents": [EVENT]}'


def diff(tmp_path, a, b, **options):
    files = [example.write(tmp_path / f"{name}.json", job) for name, job in (("a", a), ("b", b))]
    return trace_diff.analyze(files, trace_diff.Options(**options))


def cells(result):
    return {record.cells["name"]: record.cells for record in result.tables[0].records}


def test_more_calls_and_idle_time_add_up(tmp_path):
    found = diff(tmp_path, example.Job(steps=8, layers=4), example.Job(steps=5, layers=6))
    assert found.details["window_change_ns"] == 40_000
    assert found.details["sum_of_changes_ns"] == pytest.approx(40_000, abs=1e-6)
    kernel = next(one for name, one in cells(found).items() if "vectorized" in name)
    assert (kernel["state"], round(kernel["change"].value * 1e9)) == ("more calls", 36_000)
    assert (kernel["calls_a"].value, kernel["calls_b"].value) == (4, 6)
    assert kernel["ratio"].low <= 1 <= kernel["ratio"].high
    assert round(cells(found)["(idle)"]["change"].value * 1e9) == 4000


def test_a_slower_kernel_is_named(tmp_path):
    found = diff(tmp_path, example.Job(steps=8, layers=2), example.Job(steps=8, layers=2, straggler=0, late=9000))
    kernel = next(one for name, one in cells(found).items() if "vectorized" in name)
    assert kernel["state"] == "slower"
    assert kernel["ratio"].value == pytest.approx(22.5 / 18)
    assert found.summary[0] == "A window of B takes 0.009 ms longer: 0.107 ms against 0.098 ms of A."


def test_what_is_in_one_trace_only(tmp_path, monkeypatch):
    a = example.write(tmp_path / "a.json", example.Job(steps=7))
    monkeypatch.setattr(example, "UPDATE", "adam(float*)")
    b = example.write(tmp_path / "b.json", example.Job(steps=7))
    found = trace_diff.analyze([a, b], trace_diff.Options())
    assert found.details["states"]["added"] == found.details["states"]["gone"] == 1
    assert cells(found)["adam(float*)"]["state"] == "added"
    assert cells(found)["adam(float*)"]["ratio"].reason == "it is in one trace only"


def test_equal_traces_are_alike(tmp_path):
    found = diff(tmp_path, example.Job(steps=8), example.Job(steps=8))
    assert found.details["states"]["alike"] == 4
    assert found.summary[0] == "A window takes 0.138 ms in both traces."


def test_the_rows_beyond_the_top_are_summed(tmp_path):
    found = diff(tmp_path, example.Job(steps=8, layers=4), example.Job(steps=8, layers=6), top=1)
    rows = found.tables[0].records
    assert [row.cells["name"] for row in rows[1:]] == ["(3 more)", "(idle)", "(all: the window)"]
    total = sum(row.cells["change"].value for row in rows[:-1])
    assert total == pytest.approx(rows[-1].cells["change"].value)


def test_unlike_traces_are_refused(tmp_path):
    a = example.write(tmp_path / "a.json", example.Job())
    with pytest.raises(UsageError, match=r"trace-diff compares two traces; 1 were given"):
        trace_diff.analyze([a], trace_diff.Options())
    nsys = tmp_path / "b.sqlite"
    with closing(sqlite3.connect(nsys)) as made:
        made.execute("CREATE TABLE NVTX_EVENTS (start, end, text, textId, globalTid)")
        made.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 'x', NULL, 1)")
        made.commit()
    with pytest.raises(UsageError, match=r"is a trace of kineto, .* of nsys; they name and time work differently"):
        trace_diff.analyze([a, nsys], trace_diff.Options())
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}'
    steps = tmp_path / "c.json"
    steps.write_text(TEXT.replace("EVENT", event))
    with pytest.raises(UsageError, match=r"a\.json' has steps of the profiler and '.*c\.json' has none"):
        trace_diff.analyze([a, steps], trace_diff.Options())
    host = tmp_path / "d.json"
    host.write_text(TEXT.replace("EVENT", event.replace("kernel", "cpu_op")))
    with pytest.raises(UsageError, match=r"c\.json' has work of a GPU and '.*d\.json' has none"):
        trace_diff.analyze([host, steps], trace_diff.Options())


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("triton_poi_fused_add_12", "triton_poi_fused_add"),
        ("f(lambda()#3}::operator()", "f(lambda()#}::operator()"),
        ("gemm_128x64_sm90", "gemm_128x64_sm90"),
        ("k_0123456789abcdef01", "k"),
    ],
)
def test_names_of_kernels_are_normalised(name, same):
    assert paths.normalised(name) == same


def test_short_names_of_kernels():
    assert paths.short("void at::native::add_kernel<4, at::X>(int)") == "add_kernel"
    assert paths.short("<unknown>") == "<unknown>"

"""The traces here are made by hand, after the trace event format and Kineto's categories; no GPU wrote them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job
from aiperf_core.profiling.torch_tool import TRACE, TorchTool, read

JOB = Job(target="a.b", module="m", implementation="wide", device="cuda", params={}, cache="cold")


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


# Two calls of 100 us. In each a launch within an operator, a graph of two kernels, a copy; a flush lies between the calls.
GPU = [
    one
    for start, first in ((1000.0, 10), (2000.0, 20))
    for one in (
        event("user_annotation", "a.b:wide", start, 100.0),
        event("cpu_op", "aten::mul", start + 5, 20.0),
        event("cpu_op", "aten::mul_inner", start + 6, 10.0),
        event("cuda_runtime", "cudaLaunchKernel", start + 8, 4.0, correlation=first),
        event("cuda_runtime", "cudaGraphLaunch", start + 30, 4.0, correlation=first + 1),
        event("cuda_runtime", "cudaMemcpyAsync", start + 40, 4.0, correlation=first + 2),
        event("cuda_runtime", "cudaDeviceSynchronize", start + 50, 40.0, correlation=first + 3),
        event(
            "kernel", "void mul<float>(float*)", start + 20, 10.0, 7, correlation=first, **{"registers per thread": 32}
        ),
        # Clocks of the GPU and of the host differ a little: one that seems to end after its call belongs to it all the same.
        event("kernel", "node", start + 40, 20.0, 7, correlation=first + 1),
        event("kernel", "node", start + 85, 20.0, 7, correlation=first + 1),
        event("gpu_memcpy", "Memcpy DtoH", start + 60, 5.0, 7, correlation=first + 2, bytes=4096),
    )
] + [
    event("cuda_runtime", "cudaMemsetAsync", 1500.0, 4.0, correlation=99),
    event("gpu_memset", "Memset", 1510.0, 400.0, 7, correlation=99, bytes=1 << 26),
    {"ph": "M", "name": "process_name"},
]


def test_work_of_the_gpu_belongs_to_the_call_that_launched_it() -> None:
    found = read({"schemaVersion": 1, "traceEvents": GPU}, JOB, 2)
    assert {name: found.figures[name] for name in ("launches", "kernels", "gaps", "copied_bytes")} == {
        "launches": 2,
        "kernels": 3,
        "gaps": 2,
        "copied_bytes": 4096,
    }
    assert found.figures["busy_s"] == pytest.approx(55e-6)
    assert found.figures["idle_share"] == pytest.approx(30 / 85)
    assert [(one.name, one.by, one.count) for one in found.hot] == [
        ("node", None, 2),
        ("void mul<float>(float*)", "aten::mul_inner", 1),
        ("Memcpy DtoH", None, 1),
    ]
    assert found.hot[1].metrics == {"registers": 32}


def test_a_trace_without_gpu_work_says_what_to_try() -> None:
    only_host = [one for one in GPU if one.get("cat") in ("user_annotation", "cpu_op", "cuda_runtime")]
    with pytest.raises(AiperfError, match="CUPTI recorded no work of the GPU: .*--tool nsys"):
        read({"traceEvents": only_host}, JOB, 2)


CPU = [
    event("user_annotation", "a.b:wide", 0.0, 100.0),
    event("cpu_op", "aten::softmax", 10.0, 60.0),
    event("cpu_op", "aten::_softmax", 15.0, 50.0),
    event("cpu_op", "aten::add", 80.0, 10.0),
    event("cpu_op", "aten::fill_", 150.0, 400.0),
]


def test_operators_have_the_time_that_is_their_own() -> None:
    found: Any = read({"traceEvents": CPU}, evolve(JOB, device="cpu"), 1)
    own = {one.name: (one.seconds, one.share) for one in found.hot}
    assert own["aten::_softmax"] == (pytest.approx(50e-6), pytest.approx(0.5))
    assert own["aten::softmax"] == (pytest.approx(10e-6), pytest.approx(0.1))
    assert own["aten::add"] == (pytest.approx(10e-6), pytest.approx(0.1))
    assert found.figures["operators"] == 3
    assert found.figures["outside_share"] == pytest.approx(0.3)


def test_a_trace_without_the_ranges_of_the_calls_is_refused() -> None:
    with pytest.raises(AiperfError, match="no range 'a.b:wide'"):
        read({"traceEvents": CPU[1:]}, JOB, 1)


@pytest.mark.parametrize(
    "data",
    [None, b"no gzip", gzip.compress(b'{"traceEv', mtime=0), gzip.compress(b"{}", mtime=0)[:-4]],
    ids=["no file", "no gzip", "no whole JSON", "no whole gzip"],
)
def test_a_trace_that_was_cut_off_is_refused(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / TRACE).write_bytes(data)
    with pytest.raises(AiperfError, match=r"The trace of the torch profiler cannot be read .* Profile again\."):
        TorchTool(JOB).summarise(tmp_path, 1)


def test_a_whole_trace_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / TRACE).write_bytes(gzip.compress(json.dumps({"traceEvents": GPU}).encode()))
    assert TorchTool(JOB).summarise(tmp_path, 2).files == [TRACE]


def test_events_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    odd = [b'{"ph": "X", "name": "C:\\Users"}', b'{"ph": "X", "name": "n", "ts": NaN, "dur": 1}']
    odd += [b'{"ph": "C", "args": {"id": 18446744073709551615, "value": NaN, "text": "\xe9\x01"}}']
    text = json.dumps({"traceEvents": GPU}).encode()[:-2] + b", " + b", ".join(odd) + b"]}"
    (tmp_path / TRACE).write_bytes(gzip.compress(text))
    found = TorchTool(JOB).summarise(tmp_path, 2)
    assert found.figures["kernels"] == 3
    assert found.notes == ["2 of 26 slices of the trace are no JSON or incomplete; they were left out."]


def changed(events: list[dict[str, Any]], cat: str, **fields: Any) -> list[dict[str, Any]]:
    """The events, those of a category with other fields; a field that is None is missing."""
    return [
        {key: value for key, value in {**one, **fields}.items() if value is not None} if one.get("cat") == cat else one
        for one in events
    ]


@pytest.mark.parametrize("fields", [{"tid": None}, {"tid": [1]}, {"pid": "x", "tid": "y"}, {"args": None}])
def test_operators_and_calls_without_a_usual_thread_are_read(fields: dict[str, Any]) -> None:
    for events, device in ((GPU, "cuda"), (CPU, "cpu")):
        job = evolve(JOB, device=device)
        expected = read({"traceEvents": events}, job, 2)
        odd = changed(changed(events, "cpu_op", **fields), "user_annotation", **fields)
        assert read({"traceEvents": odd}, job, 2) == expected


def test_operators_of_threads_with_numbers_and_names_are_told_apart() -> None:
    events = [*CPU, {**event("cpu_op", "aten::other", 16.0, 4.0), "tid": "worker"}]
    found: Any = read({"traceEvents": events}, evolve(JOB, device="cpu"), 1)
    assert {one.name: one.seconds for one in found.hot}["aten::other"] == pytest.approx(4e-6)


@pytest.mark.parametrize("args", [None, "none", [1], {"correlation": [11]}, {"correlation": 11, "bytes": "all"}])
def test_arguments_that_are_none_belong_to_no_call(args: Any) -> None:
    odd = [
        {**event("gpu_memcpy", "Memcpy", 1090.0, 1.0), "args": args},
        {**event("cuda_runtime", "x", 1091.0, 1.0), "args": args},
    ]
    assert read({"traceEvents": [*GPU, *odd]}, JOB, 2).figures["copied_bytes"] == 4096


@pytest.mark.parametrize("fields", [{"cat": ["kernel"]}, {"dur": -1.0}, {"dur": True}, {"name": 5}])
def test_slices_that_are_none_are_left_out_and_counted(fields: dict[str, Any]) -> None:
    odd = {**event("kernel", "odd", 1090.0, 1.0, 7, correlation=10), **fields}
    found = read({"traceEvents": [*GPU, odd]}, JOB, 2)
    assert found.figures["kernels"] == 3
    assert found.notes == ["1 of 25 slices of the trace are no JSON or incomplete; they were left out."]


def test_a_trace_most_of_which_cannot_be_read_is_refused() -> None:
    with pytest.raises(AiperfError) as raised:
        read({"traceEvents": [CPU[0], {"ph": "X", "name": "n", "ts": 1}, {"ph": "X", "ts": 1, "dur": 1}]}, JOB, 1)
    assert str(raised.value) == (
        "The trace of the torch profiler cannot be read (2 of 3 slices of the trace are no JSON or incomplete). Profile "
        "again."
    )


def test_torch_has_no_metrics() -> None:
    assert TorchTool(JOB).unavailable() is None
    assert "--tool ncu" in str(TorchTool(evolve(JOB, metrics=("x",))).unavailable())

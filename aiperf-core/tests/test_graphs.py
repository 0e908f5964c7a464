"""A captured call runs before, is recorded, and is replayed; on a machine without a GPU torch's part only takes notes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core import Benchmark, graphs
from aiperf_core.benchmark import call_with
from aiperf_core.errors import BenchmarkError, KernelError, SkipError
from aiperf_core.kernels import launcher


class Gpu:
    """Torch's streams and graphs, as notes of what happens in which order."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.end_raises: Exception | None = None

    def stream(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, wait_stream=lambda other: self.notes.append(f"{name} waits for {other.name}"))

    @contextmanager
    def on(self, stream: SimpleNamespace) -> Iterator[None]:
        self.notes.append(f"on {stream.name}")
        yield

    @contextmanager
    def capturing(self, graph: Any) -> Iterator[None]:
        self.notes.append("capture")
        try:
            yield
        finally:
            # As torch does: a broken capture raises once more at its end.
            if self.end_raises is not None:
                raise self.end_raises


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu()
    monkeypatch.setattr(graphs, "cuda_driver", lambda: SimpleNamespace())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: found.stream("current"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda: found.stream("side"))
    monkeypatch.setattr(torch.cuda, "stream", found.on)
    monkeypatch.setattr(torch.cuda, "graph", found.capturing)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: found.notes.append("replay")))
    return found


def test_calls_come_before_the_capture_on_a_stream_of_their_own(gpu: Gpu) -> None:
    x, calls = torch.ones(3), []

    def run(a: torch.Tensor) -> torch.Tensor:
        calls.append(a)
        gpu.notes.append("run")
        return a + 1

    found = graphs.captured(run, x, warmups=2)
    assert gpu.notes == [
        "side waits for current",
        "on side",
        "run",
        "run",
        "current waits for side",
        "capture",
        "run",
    ]
    assert all(a is x for a in calls)
    assert found.replay() is found.out
    assert gpu.notes[-1] == "replay"


class Sum:
    def run(self, x: torch.Tensor) -> float:
        return self.total(x)

    def total(self, x: torch.Tensor) -> float:
        if self.capturing:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines")
        self.capturing = True
        return 1.0

    capturing = False


def test_code_that_waits_is_named_with_its_line(gpu: Gpu) -> None:
    gpu.end_raises = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    with pytest.raises(KernelError) as caught:
        graphs.captured(Sum().run, torch.ones(3))
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.strip().startswith("raise RuntimeError(")
    )
    assert str(caught.value) == (
        f"'{__name__}.Sum.run' cannot be captured in a CUDA graph (test_graphs.py:{line}: raise RuntimeError(\"CUDA "
        'error: operation not permitted when stream is capturing\\nmore lines")): CUDA error: operation not permitted '
        "when stream is capturing. Captured code must not wait for the GPU (.item(), .cpu(), synchronize, printing a "
        "tensor), allocate outside of torch, or load a kernel: do that in prepare"
    )


def test_a_callable_without_a_file_is_named_by_its_type(gpu: Gpu) -> None:
    class Run:
        calls = 0

        def __call__(self) -> None:
            self.calls += 1
            if self.calls > 1:
                raise KernelError("the kernel is not loaded.")

    with pytest.raises(KernelError, match=r"Run' cannot be captured in a CUDA graph: the kernel is not loaded\. C"):
        graphs.captured(Run())


def test_errors_of_calls_before_the_capture_and_missing_memory_stay_as_they_are(gpu: Gpu) -> None:
    with pytest.raises(TypeError):
        graphs.captured(lambda: len(5))  # type: ignore[arg-type]

    def run() -> None:
        if "capture" in gpu.notes:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        graphs.captured(run)


def test_without_a_gpu_it_is_skipped(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SkipError) as caught:
        graphs.captured(lambda: None)
    assert str(caught.value) == "needs a CUDA GPU; torch finds none"


class Doubled:
    def prepare(self, x: torch.Tensor, by: float) -> None:
        self.out, self.by = torch.empty_like(x), by

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, self.by, out=self.out)


def eager(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def bench_of(*codes: Any) -> Benchmark:
    bench = Benchmark(goal="speed")
    for code in codes:
        bench.variant(device="cuda", why="less")(code)
    return bench


@pytest.mark.parametrize(("code", "expected"), [(Doubled, 3.0), (eager, 2.0)], ids=["class", "function"])
def test_a_variant_in_a_graph_is_captured_in_prepare_and_replayed(gpu: Gpu, code: Any, expected: float) -> None:
    by_name = bench_of(code, graphs.graphed(graphs.snake_case(code.__name__))).implementations_on("cuda")
    by_code = bench_of(graphs.graphed(code)).implementations_on("cuda")
    assert by_name[1].name == by_code[0].name == f"{graphs.snake_case(code.__name__)}_graph"
    for graph in (by_name[1], by_code[0]):
        gpu.notes.clear()
        x, instance = torch.ones(3), graph.code()
        given = {"x": x, "by": 3.0, "other": 1}
        call_with(instance.prepare, given)
        assert gpu.notes[-1] == "capture"
        out = call_with(instance.run, given)
        assert out.tolist() == [expected] * 3
        assert call_with(instance.run, given) is out
        assert gpu.notes[-2:] == ["replay", "replay"]


def test_a_variant_that_cannot_be_captured_names_its_line(gpu: Gpu) -> None:
    instance = graphs.graphed(Sum)()
    with pytest.raises(KernelError, match=r"Sum.run' cannot be captured in a CUDA graph \(test_graphs.py:\d+: raise "):
        call_with(instance.prepare, {"x": torch.ones(3)})


def test_a_graph_is_skipped_without_a_gpu(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SkipError, match="needs a CUDA GPU; torch finds none"):
        call_with(graphs.graphed(eager)().prepare, {"x": torch.ones(3)})


def test_a_graph_of_what_is_not_declared_before_it() -> None:
    with pytest.raises(BenchmarkError) as caught:
        bench_of(eager, graphs.graphed("eagre"))
    assert re.fullmatch(
        r".*test_graphs\.py:\d+ \(eagre_graph\): is a graph of 'eagre'; declared before it on 'cuda' are eager\.",
        str(caught.value),
    )
    with pytest.raises(BenchmarkError, match=r"\(eager_graph\): is a CUDA graph on 'cpu'; declare it on 'cuda'\.$"):
        Benchmark(goal="speed").variant(device="cpu", why="less")(graphs.graphed(eager))


def test_what_the_driver_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(
        CUresult=int,
        cuGetErrorName=lambda status: (0, b"CUDA_ERROR_INVALID_VALUE"),
        cuGetErrorString=lambda status: (0, b"invalid argument"),
    )
    monkeypatch.setattr(launcher, "cuda_driver", lambda: driver)
    with pytest.raises(KernelError) as caught:
        graphs.done((1,))
    assert str(caught.value) == "the CUDA driver refused: CUDA_ERROR_INVALID_VALUE: invalid argument"


@pytest.mark.gpu
def test_a_replay_reads_the_current_values() -> None:
    x = torch.ones(5, device="cuda")
    found = graphs.captured(lambda a: a * 2, x)
    x.fill_(3)
    assert found.replay().tolist() == [6.0] * 5


@pytest.mark.gpu
def test_a_wait_in_a_capture_is_named() -> None:
    with pytest.raises(KernelError, match=r"\(test_graphs.py:\d+: .*item\(\)"):
        graphs.captured(lambda a: a.sum().item(), torch.ones(5, device="cuda"))

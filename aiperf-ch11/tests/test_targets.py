"""The GPU's implementations are right in every order that their streams allow; `pytest --aiperf` tests the processor's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aiperf_ch11 import event_dag, host_device_overlap, stream_ordered_alloc
from aiperf_core.benchmark import bind, call_with
from aiperf_core.errors import SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch11" and "cpu" in one.devices]


# --- kernels, on the host


def product_of_layer(out: Any, x: Any, w: Any, rows: int, width: int) -> None:
    out.copy_(torch.relu(x @ w))


def product_of_tile(out: Any, a: Any, b: Any, w: Any, rows: int, width: int) -> None:
    out.copy_(torch.relu((a if b is None else (a + b) / 2) @ w))


def measure(result: Any, state: Any, count: int) -> None:
    state[0] += result.square().sum()


def decide(state: Any, norms: Any, limit: float) -> None:
    norm = state[0].sqrt()
    norms[int(state[2])] = norm
    state[1] = min(1.0, limit / float(norm))
    state[2] += 1
    state[0] = 0


def add_result(total: Any, result: Any, state: Any, count: int) -> None:
    total += state[1] * result


def scale(x: Any, scratch: Any, factor: float, n: int) -> None:
    scratch.copy_(x * factor)


def add_scratch(total: Any, scratch: Any, n: int) -> None:
    total += scratch


class Streams:
    """A recording that a host plays on simulated streams, with the interface of `Recording`.

    A lazy device does nothing before the host waits for it, and then the least, on the last stream that can go on. An
    eager one does everything at once.
    """

    lazy = True
    kernels: dict[str, Callable[..., None]]

    def __init__(self, streams: int = 1) -> None:
        self.queues: list[list[Any]] = [[] for _ in range(streams)]
        self.calls: list[tuple[str, Any]] = []
        self.recorded: set[object] = set()

    def launch(self, kernel: Any, *args: Any, stream: int = 0, **shape: Any) -> None:
        self.calls.append(("queue", (stream, lambda: self.kernels[kernel.signature.name](*args))))

    def copy(self, destination: torch.Tensor, source: torch.Tensor, *, stream: int = 0) -> None:
        self.calls.append(("queue", (stream, lambda: destination.copy_(source))))

    def record(self, *, stream: int = 0) -> object:
        event = object()
        self.calls.append(("queue", (stream, lambda: self.recorded.add(event))))
        return event

    def wait(self, event: object, *, stream: int = 0) -> None:
        self.calls.append(("queue", (stream, event)))

    def allocate(self, size: int, *, stream: int = 0, pool: Any = None) -> torch.Tensor:
        return torch.full((size // 4,), torch.nan)

    def free(self, memory: torch.Tensor, *, stream: int = 0) -> None:
        self.calls.append(("queue", (stream, lambda: memory.fill_(torch.nan))))

    def finish(self, until: Any = 0) -> None:
        self.calls.append(("finish", until))

    def call(self, function: Any, *args: Any) -> None:
        numbers = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args]
        self.calls.append(("call", (function, torch.tensor(numbers, dtype=torch.int64))))

    def play(self) -> None:
        self.recorded.clear()
        for kind, what in self.calls:
            if kind == "queue":
                self.queues[what[0]].append(what[1])
            elif kind == "call":
                what[0](what[1])
            while self.goes_on(kind, what) and self.step():
                pass
        while self.step():
            pass
        assert not any(self.queues)

    def goes_on(self, kind: str, what: Any) -> bool:
        if kind != "finish":
            return not self.lazy
        return bool(self.queues[what]) if isinstance(what, int) else what not in self.recorded

    def step(self) -> bool:
        for queue in reversed(self.queues):
            if queue and (callable(queue[0]) or queue[0] in self.recorded):
                first = queue.pop(0)
                if callable(first):
                    first()
                return True
        return False


@pytest.fixture(params=[True, False], ids=["lazy", "eager"])
def streams(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Streams]:
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **rest: empty(*size, **rest))
    for module in (event_dag, host_device_overlap, stream_ordered_alloc):
        monkeypatch.setattr(module, "Recording", Streams)
    monkeypatch.setattr(stream_ordered_alloc, "Pool", lambda kept_bytes: kept_bytes)
    monkeypatch.setattr(Streams, "lazy", request.param)
    return Streams


def drawn(bench: Any, size: dict[str, float]) -> dict[str, Any]:
    """All that an implementation may ask for."""
    given: dict[str, Any] = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    static = call_with(bench.task.static, given) if bench.task.static else {}
    return {**size, **static, **call_with(bench.task.inputs, given)}


def right_twice(bench: Any, code: type, size: dict[str, float]) -> None:
    given = drawn(bench, size)
    right = bench.answer(size, {name: value for name, value in given.items() if name not in size})
    instance = code()
    call_with(instance.prepare, given)
    for _ in range(2):
        torch.testing.assert_close(bind(instance.run, given)(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("stages", "tiles"), [(4, 6), (3, 1), (2, 13)])
@pytest.mark.parametrize("code", [event_dag.Barriers, event_dag.Events])
def test_tiles_wait_for_what_they_read(
    streams: type[Streams], monkeypatch: pytest.MonkeyPatch, code: type, stages: int, tiles: int
) -> None:
    monkeypatch.setattr(streams, "kernels", {"product": product_of_tile}, raising=False)
    right_twice(event_dag.bench, code, {"stages": stages, "tiles": tiles, "rows": 3, "width": 31})


H = host_device_overlap


@pytest.mark.parametrize("code", [H.ReadEach, H.OnDevice, H.OneLate, H.DeviceAlone, H.Independent])
def test_no_batch_is_overwritten_before_it_is_copied(
    streams: type[Streams], monkeypatch: pytest.MonkeyPatch, code: type
) -> None:
    kernels = {"product": product_of_layer, "measure": measure, "decide": decide, "add": add_result}
    monkeypatch.setattr(streams, "kernels", kernels, raising=False)
    for layers in (1, 2):
        try:
            right_twice(H.bench, code, {"steps": 9, "rows": 5, "width": 67, "layers": layers})
        except SkipError as error:
            pytest.skip(str(error))


S = stream_ordered_alloc


@pytest.mark.parametrize("code", [S.FromDriver, S.StreamOrdered, S.KeptPool, S.Arena])
def test_scratch_memory_lives_as_long_as_its_round(
    streams: type[Streams], monkeypatch: pytest.MonkeyPatch, code: type
) -> None:
    monkeypatch.setattr(streams, "kernels", {"scale": scale, "add": add_scratch}, raising=False)
    right_twice(S.bench, code, {"rounds": 21, "streams": 3, "n": 37})


def test_some_results_are_scaled_down_and_some_are_not() -> None:
    size: dict[str, float] = {"steps": 40, "rows": 16, "width": 64, "layers": 2}
    given = drawn(H.bench, size)
    norms = H.reference(given["records"], given["weights"], 16, 64)["norms"]
    assert 5 <= int((norms > H.limit_of(16, 64)).sum()) <= 35


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []

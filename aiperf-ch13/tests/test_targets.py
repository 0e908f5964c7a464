"""What is computed again is the same, and less is kept; `pytest --aiperf` tests every target at the smallest and at awkward sizes."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch13 import activation_memory, chunked_cross_entropy
from aiperf_core.benchmark import Benchmark, bind, call_with
from aiperf_core.results.models import TargetResult
from aiperf_core.testing import Measure, interpreted, problems

Size = dict[str, float]

SIZE: Size = {"blocks": 3, "every": 2, "width": 42, "heads": 3, "batch": 5, "length": 13, "vocabulary": 67}


def drawn(size: Size, bench: Benchmark = activation_memory.bench) -> dict[str, Any]:
    """All that an implementation may ask for."""
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    task = bench.task
    assert task.static is not None
    return {**size, **call_with(task.static, given), **call_with(task.inputs, given)}


def leaves(output: dict[str, Any]) -> list[torch.Tensor]:
    return [output["losses"], output["head"], *(matrix for block in output["weights"] for matrix in block)]


def error(output: dict[str, Any], right: dict[str, Any]) -> float:
    """The largest of the errors of all tensors."""
    pairs = zip(leaves(output), leaves(right), strict=True)
    return max(float((one - wanted).norm() / wanted.norm()) for one, wanted in pairs)


def test_what_is_computed_again_is_computed_in_the_same_way() -> None:
    given = drawn(SIZE)
    outputs = {}
    for one in activation_memory.bench.implementations_on("cpu"):
        instance = one.code()
        call_with(instance.prepare, given)
        outputs[one.name] = bind(instance.run, given)()
    kept = outputs.pop("keep_all")
    assert len(outputs) == 3
    for name, output in outputs.items():
        assert error(output, kept) < 1e-6, name


def saved_bytes(run: Any, given: dict[str, Any]) -> int:
    """Bytes that autograd keeps of a call, of each memory once; what is computed again is not kept."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        bind(run, given)()
    return sum(kept.values())


def test_each_keeps_less_than_the_one_before_it() -> None:
    given = drawn({"blocks": 4, "every": 2, "width": 64, "heads": 2, "batch": 2, "length": 32, "vocabulary": 31})
    kept = {}
    for name in ("keep_all", "every_kth", "full"):
        (one,) = (one for one in activation_memory.bench.implementations_on("cpu") if one.name == name)
        instance = one.code()
        call_with(instance.prepare, given)
        kept[name] = saved_bytes(instance.run, given)
    assert kept["keep_all"] > 1.3 * kept["every_kth"] > 1.3 * kept["full"]


def test_selective_computes_no_product_again_but_the_narrowing() -> None:
    products = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            products.append(func in activation_memory.PRODUCTS or func in activation_memory.ATTENTION)
            return func(*args, **(kwargs or {}))

    given = drawn(SIZE)
    counted = {}
    for name in ("keep_all", "selective", "full"):
        (one,) = (one for one in activation_memory.bench.implementations_on("cpu") if one.name == name)
        instance = one.code()
        call_with(instance.prepare, given)
        products.clear()
        with Counting():
            bind(instance.run, given)()
        counted[name] = sum(products)
    # Of a block that is computed again: three products and attention. Its last product is needed by nothing that follows.
    assert counted["full"] == counted["keep_all"] + 4 * SIZE["blocks"]
    assert counted["selective"] == counted["keep_all"]


def test_recomputed_keeps_no_logits() -> None:
    size: Size = {"tokens": 128, "chunk": 32, "width": 16, "vocabulary": 1009}
    given = drawn(size, chunked_cross_entropy.bench)
    kept = []
    for implementation in (chunked_cross_entropy.all_logits, chunked_cross_entropy.recomputed):
        kept.append(saved_bytes(implementation, given))
    logits_bytes = 4 * 128 * 1009
    assert kept[0] > logits_bytes > 5 * kept[1]


def test_the_fused_kernel_is_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")) == "loss_and_slope is right\n"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the compiler imports
def test_compiled_blocks_are_right() -> None:
    given = drawn(SIZE)
    compiled, full = activation_memory.FullCompiled(), activation_memory.Full()
    for instance in (compiled, full):
        call_with(instance.prepare, given)
    assert error(bind(compiled.run, given)(), bind(full.run, given)()) < 1e-2


class Queue:
    """A stream of a GPU that is not there: it does what it is given at once, and notes what it waits for."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def wait_stream(self, other: "Queue") -> None:
        self.told.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: str) -> None:
        self.told.append(f"{self.name} waits for {event}")

    def record_event(self) -> str:
        copies = sum(line.startswith("copies") for line in self.told)
        return f"copy {copies}"


def test_offloaded_blocks_come_back_one_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    copies, kernels = Queue("copies", told), Queue("kernels", told)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: kernels)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(activation_memory, "LEAVING", 2)
    given = drawn(SIZE)
    ahead, full = activation_memory.Offloaded(), activation_memory.Full()
    monkeypatch.setattr(ahead, "make_ready", lambda stream: None)
    for one in (ahead, full):
        call_with(one.prepare, given)
    # What `make_ready` makes on a GPU.
    ahead.device, ahead.copies = given["stream"].device, copies  # type: ignore[assignment]
    ahead.host = [torch.empty_like(given["stream"]) for _ in given["weights"]]
    expected = bind(full.run, given)()
    for _ in range(2):
        told.clear()
        assert error(bind(ahead.run, given)(), expected) == 0
        # The third input leaves while two are on their way: the memory of the first is free after its copy.
        out = ["copies waits for kernels"] * 3 + ["kernels waits for copy 1"]
        # All have left when the first is wanted again; that of the block below comes meanwhile.
        back = ["kernels waits for copy 2", "kernels waits for copy 3"]
        back += ["copies waits for kernels", "copies waits for kernels", "kernels waits for copy 4"]
        back += ["copies waits for kernels", "kernels waits for copy 5", "kernels waits for copy 6"]
        assert told == out + back
        assert ahead.back == {}


def test_measured(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.activation_memory:selective")
    assert problems(result) == []
    assert [row.name for row in result.rows] == ["keep_all", "selective"]
    assert all(peaks(result).values())


def test_chunks_are_measured(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.chunked_cross_entropy:at_once")
    assert problems(result) == []
    assert list(peaks(result)) == ["all_logits", "recomputed", "at_once"]  # which the last builds on


def peaks(result: TargetResult) -> dict[str, int]:
    """Peak memory of each row, in bytes."""
    return {row.name: (row.memory and row.memory.peak_bytes) or 0 for row in result.rows}


@pytest.mark.long
def test_less_memory_at_the_sizes_of_the_lesson(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.activation_memory", size="cpu")
    assert problems(result) == []
    assert [row.name for row in result.rows] == ["keep_all", "every_kth", "selective", "full"]
    peak = peaks(result)
    assert peak["keep_all"] > 1.1 * peak["selective"] > 1.1 * peak["full"]
    assert peak["keep_all"] > peak["every_kth"] > peak["full"]


@pytest.mark.long
def test_chunks_take_less_memory_at_the_sizes_of_the_lesson(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.chunked_cross_entropy", size="cpu")
    assert problems(result) == []
    peak = peaks(result)
    assert peak.keys() == {"all_logits", "recomputed", "at_once"}
    assert peak["all_logits"] > 1.5 * max(peak["recomputed"], peak["at_once"])


@pytest.mark.gpu
def test_chunks_take_less_memory_on_a_gpu(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.chunked_cross_entropy", device="cuda", size="cuda")
    assert problems(result) == []
    peak = peaks(result)
    assert peak["all_logits"] > 2 * max(peak["recomputed"], peak["at_once"])


@pytest.mark.gpu
def test_less_memory_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure) -> None:
    result = aiperf_measure("ch13.activation_memory", device="cuda", size="cuda")
    assert problems(result) == []
    peak = peaks(result)
    assert peak["keep_all"] > peak["every_kth"] > peak["full"] > peak["offloaded"]
    assert peak["keep_all"] > peak["selective"] > peak["full"]

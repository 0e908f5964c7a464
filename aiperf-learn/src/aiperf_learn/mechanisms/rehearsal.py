"""Launches that an implementation makes, without a GPU: it runs once on tensors that have shapes and no values."""

import sys
from contextlib import ExitStack
from functools import cache, partial, wraps
from typing import Any

from attrs import evolve, frozen

from aiperf_core.benchmark import Benchmark, Implementation, Params, call_with
from aiperf_core.errors import AiperfError, BenchmarkError
from aiperf_core.kernels import CudaSource
from aiperf_core.kernels.cuda import RecordedLaunch
from aiperf_core.kernels.launcher import launch_of
from aiperf_core.launches import Filling, Ready
from aiperf_learn.mechanisms.occupancy import blocks_at_once
from aiperf_learn.mechanisms.syntax import File, Reader, file_of
from aiperf_learn.mechanisms.tokens import NotEvaluated, Preprocessor, Token, tokens_of
from aiperf_learn.mechanisms.warp import MOST_STEPS, MemoryReader, Trace, Warp, trace

# Values of inputs are drawn where an address needs them, up to these bytes.
MOST_BYTES = 1 << 27


@frozen
class Launch:
    """A launch of an implementation: the implementation's name, the file of the kernel, and what was recorded.

    is_all: False where the implementation calls operations of torch beside its launches, or what it does is not known.
    is_ready: True for a ready implementation, which passes inputs to the parameters of their names.
    """

    implementation: str
    source: CudaSource
    recorded: RecordedLaunch
    is_all: bool = True
    is_ready: bool = False

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.recorded.shape.grid
        return x * y * z

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.recorded.shape.block
        return x * y * z


def sources_of(module: str) -> list[CudaSource]:
    """The files of kernels that a benchmark's module names."""
    return [value for value in vars(sys.modules[module]).values() if isinstance(value, CudaSource)]


def launches(
    benchmark: Benchmark, implementation: Implementation, sources: list[CudaSource], sizes: Params
) -> tuple[list[Launch], str]:
    """The launches of an implementation for a GPU at these sizes, and why there are none; empty where there are."""
    with ExitStack() as stack:
        recordings = [(source, stack.enter_context(source.recording(partial(_held, source)))) for source in sources]
        operations: list[str] = []
        try:
            benchmark.rehearse(_watched(implementation, operations), sizes)
        except Exception as error:  # an author's code, on tensors and a machine that it was not written for
            try:
                return [_declared(implementation, sizes)], ""
            except (AiperfError, AttributeError, TypeError):
                return [], f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    is_ready = hasattr(implementation.code, "ready")
    made = [
        Launch(implementation.name, source, one, not operations, is_ready)
        for source, recorded in recordings
        for one in recorded
    ]
    return made, "" if made else "it launches no kernel of CUDA C++"


def _declared(implementation: Implementation, sizes: Params) -> Launch:
    """The launch that a ready implementation declares, as far as sizes tell it; its arguments are not known.

    Raises `AiperfError`, `AttributeError` and `TypeError` for another implementation.
    """
    code: Any = implementation.code
    ready: Ready = code.ready
    known = {**sizes}
    for name, make in ready.make.items():
        try:
            known[name] = call_with(make, known) if callable(make) else make
        except (BenchmarkError, KeyError):  # it needs a tensor
            continue
    kernel, source = code.kernel_at(sizes), ready.source
    if not isinstance(source, CudaSource) or isinstance(ready.grid, Filling):
        raise NotEvaluated(f"{implementation.name} launches no kernel of CUDA C++ with a grid of its own")
    rules = (ready.grid, ready.block, ready.shared_bytes, ready.cluster)
    grid, block, shared, cluster = (call_with(rule, known) if callable(rule) else rule for rule in rules)
    recorded = RecordedLaunch(kernel, {}, launch_of(grid, block, shared, cluster))
    return Launch(implementation.name, source, recorded, is_all=False)


def _watched(implementation: Implementation, operations: list[str]) -> Implementation:
    """The implementation, whose `run` notes the operations of torch that it calls."""
    code: Any = implementation.code
    if not implementation.is_class or hasattr(code, "ready"):
        return implementation
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operations.append(str(function))
            return function(*args, **(kwargs or {}))

    @wraps(code.run)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Operations():  # type: ignore[no-untyped-call]
            return code.run(self, *args, **kwargs)

    return evolve(implementation, code=type(code.__name__, (code,), {"run": run}))


def _held(source: CudaSource, kernel: str, threads: int, shared_bytes: int) -> tuple[int, int]:
    return blocks_at_once(source, kernel, threads, shared_bytes)


# --- the kernel of a launch


def constant(tokens: Any) -> int:
    """The value of an expression of constants, as of an `#if`."""
    file = file_of(())
    value = Warp(file, ((1, 1, 1), (1, 1, 1))).value(Reader(tokens, file, set()).expression())
    if not isinstance(value.data[0], int):
        raise NotEvaluated("a condition of the preprocessor")
    return value.data[0]


@cache
def parsed(source: CudaSource) -> File:
    """Functions and types of a file of kernels. Raises `NotEvaluated` for a file that the parser does not read."""
    return file_of(list(Preprocessor(constant).file(source.path)))


def traced(
    launch: Launch,
    reader: MemoryReader | None = None,
    *,
    warp: int = 0,
    most_steps: int = MOST_STEPS,
    is_cut: bool = True,
) -> Trace:
    """The accesses of a warp of a launch's middle block."""
    import torch

    shape = launch.recorded.shape
    arguments: dict[str, Any] = {}
    for name, value in launch.recorded.arguments.items():
        arguments[name] = name if isinstance(value, torch.Tensor) else value if isinstance(value, int) else None
    x, y, z = (blocks // 2 for blocks in shape.grid)
    try:
        file = parsed(launch.source)
    except NotEvaluated as error:
        return Trace(is_whole=False, stopped=str(error))
    tokens: list[Token] = list(tokens_of(launch.recorded.kernel))
    return trace(file, launch.recorded.kernel, tokens, arguments, (shape.grid, shape.block), warp=warp,
                 block=(x, y, z), reader=reader, most_steps=most_steps, is_cut=is_cut)  # fmt: skip


def reader_of(benchmark: Benchmark, sizes: Params) -> MemoryReader | None:
    """Reads inputs that the lesson draws, by the names of the kernel's parameters; None for inputs of many bytes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    def drawn() -> dict[str, Any]:
        given = {**sizes, "device": "cpu", "rank": 0, "generator": torch.Generator().manual_seed(0)}
        values: dict[str, Any] = call_with(benchmark.task.inputs, given)
        return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}

    with FakeTensorMode(allow_non_fake_inputs=True):  # allocates nothing
        count = sum(value.nbytes for value in drawn().values())
    if count > MOST_BYTES:
        return None
    tensors = {name: value.contiguous().flatten() for name, value in drawn().items() if not value.is_floating_point()}

    def read(name: str, offset: int, _: str) -> int | None:
        tensor = tensors.get(name, tensors.get(name.removesuffix("_ptr")))
        if tensor is None or offset % tensor.element_size():
            return None
        place = offset // tensor.element_size()
        return int(tensor[place]) if 0 <= place < len(tensor) else None

    return read

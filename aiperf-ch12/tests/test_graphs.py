"""Graphs are built as the driver's bindings want them, which is checked without a GPU: types and arguments are the real ones."""

import ctypes
import re
import struct
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_ch12 import cuda_graphs, graph_if_else, graph_update, graph_while
from aiperf_core import graphs, recorded
from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaKernel
from aiperf_core.kernels.launcher import BoundLaunch, Frame, launch_of
from aiperf_core.recorded import Recording

driver = pytest.importorskip("cuda.bindings.driver")


class Driver:
    """The bindings' types, and functions that note their arguments after counting them against the real ones."""

    def __init__(self, version: int = 13000) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.version, self.nodes = version, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(driver, name)
        if not name.startswith("cu") or isinstance(real, type):
            return real
        takes = re.match(rf"{name}\((.*)\)", real.__doc__.strip().splitlines()[0])
        assert takes is not None, real.__doc__
        count = len(re.sub(r"\[.*?\]", "", takes[1]).split(",")) if takes[1] else 0

        def call(*arguments: Any) -> Any:
            assert len(arguments) == count, f"{name} takes {takes[1]}"
            self.calls.append((name, arguments))
            return self.answer(name, arguments)

        return call

    def answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        good = driver.CUresult.CUDA_SUCCESS
        if name in ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphAddNode"):
            self.nodes += 1
            kind = driver.CUgraph if name == "cuGraphCreate" else driver.CUgraphNode
            return good, kind(self.nodes)
        answers = {
            "cuDriverGetVersion": self.version,
            "cuCtxGetCurrent": driver.CUcontext(8192),
            "cuGraphConditionalHandleCreate": driver.CUgraphConditionalHandle(77),
            "cuGraphInstantiate": driver.CUgraphExec(5),
            "cuGetErrorString": b"invalid argument",
        }
        return (good, answers[name]) if name in answers else (good,)

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(graphs, "cuda_driver", lambda: found)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: SimpleNamespace(cuda_stream=22))
    monkeypatch.setattr(torch.cuda, "Event", lambda: SimpleNamespace(cuda_event=23, record=lambda stream: None))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=21))
    monkeypatch.setattr(recorded, "_addresses", lambda: [0] * len(recorded.ENTRY_POINTS))
    monkeypatch.setattr(CudaKernel, "bound", bound)
    # The body of a loop is the driver's to make.
    monkeypatch.setattr(graphs, "body_of", lambda params, number: driver.CUgraph(99 + number))
    return found


def bound(kernel: CudaKernel, args: Any, grid: Any, block: Any, shared_bytes: int = 0) -> BoundLaunch:
    """A launch of function 4096, whose parameters have eight bytes each; tensors are on the host."""
    assert len(args) == len(kernel.signature.parameters), kernel
    frame = Frame(8 * len(args), range(0, 8 * len(args), 8))
    values = [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in args]
    struct.pack_into("".join("d" if isinstance(one, float) else "Q" for one in values), frame.parameters, 0, *values)
    return BoundLaunch(f"kernel '{kernel.signature.name}'", 4096, launch_of(grid, block, shared_bytes, None), frame)


def test_a_chain_is_a_node_a_kernel_and_an_edge_between_two(fake: Driver) -> None:
    variant = cuda_graphs.LaunchLoop()
    variant.prepare(torch.zeros(300), torch.zeros(300), 300, 2)
    graph = graphs.Graph()
    graph.chain(variant.recording)
    nodes = fake.of("cuGraphAddKernelNode")
    assert len(nodes) == 1 + 6 * 2
    params = nodes[0][3]
    assert (params.gridDimX, params.blockDimX, params.gridDimY) == (2, cuda_graphs.BLOCK, 1)
    assert int(params.func) == 4096
    ((_, before, after, edges, count),) = fake.of("cuGraphAddDependencies")
    assert count == len(before) == len(after) == len(edges) == 12
    assert [int(one) for one in before[1:]] == [int(one) for one in after[:-1]]
    assert {(one.type, one.from_port) for one in edges} == {(0, 0)}
    graph.launch()
    graph.launch()
    assert len(fake.of("cuGraphInstantiate")) == 1
    assert [int(stream) for _, stream in fake.of("cuGraphLaunch")] == [21, 21]


def test_edges_to_early_launches_let_a_kernel_start_early(fake: Driver) -> None:
    variant = cuda_graphs.EarlyLoop()
    variant.prepare(torch.zeros(3), torch.zeros(3), 3, 1)
    graphs.Graph().chain(variant.recording)
    ((_, _, _, edges, _),) = fake.of("cuGraphAddDependencies")
    assert {(one.type, one.from_port) for one in edges} == {(1, 1)}


def test_a_recording_with_more_than_launches_is_no_chain(fake: Driver) -> None:
    calls = Recording()
    calls.finish()
    with pytest.raises(KernelError, match="is more than a chain of launches: there is the wait of the host"):
        graphs.Graph().chain(calls)


def test_a_loop_is_a_conditional_node_behind_the_start(fake: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = graph_while.WhileGraph()
    variant.prepare(torch.zeros(5, 5, dtype=torch.float64), 5, 2.0)
    ((graph, after, edges, count, params),) = fake.of("cuGraphAddNode")
    assert count == len(after) == len(edges) == 1
    assert params.type == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    assert params.conditional.type == driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    assert (int(params.conditional.handle), params.conditional.size) == (77, 1)
    assert fake.of("cuGraphConditionalHandleCreate")[0][2:] == (1, driver.CU_GRAPH_COND_ASSIGN_DEFAULT)
    inside = [one for one in fake.of("cuGraphAddKernelNode") if int(one[0]) == 99]
    outside = [one for one in fake.of("cuGraphAddKernelNode") if int(one[0]) == int(graph)]
    assert (len(inside), len(outside)) == (4, 2)
    # The kernel that tells knows the condition, as its last parameter.
    addresses = (ctypes.c_void_p * 6).from_address(int(inside[-1][3].kernelParams))
    assert ctypes.c_uint64.from_address(addresses[5] or 0).value == 77
    assert inside[-1][3].gridDimX == 1


def on_host(step: graph_update.Steps, drive: torch.Tensor, nodes: int) -> torch.Tensor:
    """The log of the steps, whose kernels a host runs in the order in which they are launched."""
    step.drive, step.log, step.nodes = drive, torch.empty_like(drive), nodes
    step.here, step.there = torch.zeros_like(drive[0]), torch.zeros_like(drive[0])
    for number in range(len(drive)):
        for kernel, (*given, _) in step.kernels(*step.rows(number)):
            if kernel == "put":
                given[1].copy_(given[0])
            elif kernel == "mix":
                given[0].copy_(0.75 * given[1] + 0.25 * given[1].roll(-1))
            else:
                given[0].copy_(
                    (0.5 if kernel == "take" else 1) * given[1] + (1 if kernel == "take" else 0.25) * given[2]
                )
    return step.log


@pytest.mark.parametrize("nodes", [3, 4, 64])
def test_the_kernels_of_a_step_are_the_step(nodes: int) -> None:
    drive = torch.randn(7, 37, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(on_host(graph_update.Recaptured(), drive, nodes), graph_update.reference(drive, nodes))


def test_a_branch_is_a_conditional_node_with_two_bodies(fake: Driver) -> None:
    variant = graph_if_else.Conditional()
    variant.prepare(torch.zeros(300), torch.zeros(4, dtype=torch.int32), 2, 9)
    ((_, _, _, _, params),) = fake.of("cuGraphAddNode")
    assert params.conditional.type == driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
    assert params.conditional.size == 2
    rounds = {
        int(graph): rounds_of(params) for graph, _, _, params in fake.of("cuGraphAddKernelNode") if int(graph) > 90
    }
    assert rounds == {99: 9, 100: 2}  # the first body is that of a condition that is not zero


def rounds_of(params: Any) -> int:
    """The fifth parameter of a node's kernel."""
    return ctypes.c_uint64.from_address((ctypes.c_void_p * 6).from_address(int(params.kernelParams))[4] or 0).value


def test_three_nodes_of_each_step_get_new_rows(fake: Driver) -> None:
    variant = graph_update.SetNodes()
    variant.prepare(torch.zeros(5, 300), 64)
    kinds = [recorded.KINDS[entry[0]] for entry in variant.calls._entries]
    assert kinds.count("new launch of a node") == 3 * kinds.count("graph") == 15
    assert len(fake.of("cuGraphAddKernelNode")) == 64


def test_the_cooperative_grid_fits_the_chip(fake: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_while, "grid_that_fills", lambda kernel, block: 6)
    monkeypatch.setattr(graph_while, "cuda_driver", lambda: fake)
    variant = graph_while.Cooperative()
    variant.prepare(torch.zeros(64, 64, dtype=torch.float64), 64, 2.0)
    variant.run()
    ((_, *shape, stream, _),) = fake.of("cuLaunchCooperativeKernel")
    assert (shape, stream) == ([6, 1, 1, 256, 1, 1, 0], 21)


def test_an_older_driver_is_skipped_with_its_version(fake: Driver) -> None:
    fake.version = 12030
    with pytest.raises(SkipError) as caught:
        graph_while.WhileGraph().prepare(torch.zeros(5, 5, dtype=torch.float64), 5, 2.0)
    assert str(caught.value) == "needs a driver of CUDA 12.4 or later, for loops in graphs (this one is of 12.3)"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_kernels_compile(arch: str) -> None:
    files = (cuda_graphs.device_code, graph_while.device_code, graph_while.loop_code, graph_update.device_code)
    files += graph_if_else.device_code, graph_if_else.branch_code
    for source in files:
        assert source.compile(arch)
    assert set(cuda_graphs.STAGES) < set(cuda_graphs.device_code.names())

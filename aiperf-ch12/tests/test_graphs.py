"""Graphs are built as the driver's bindings want them, which is checked without a GPU: types and arguments are the real ones."""

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_ch12 import cuda_graphs, graph_while
from aiperf_core import graphs
from aiperf_core.errors import SkipError

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
            "cuModuleGetFunction": driver.CUfunction(4096),
            "cuModuleLoadData": driver.CUmodule(1),
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
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=21))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for source in (cuda_graphs.device_code, graph_while.device_code, graph_while.loop_code):
        monkeypatch.setattr(source, "cubin_for", lambda device: b"code")
    # The body of a loop is the driver's to make.
    monkeypatch.setattr(graphs, "body_of", lambda params: driver.CUgraph(99))
    return found


def values_at(call: graphs.Prepared, *kinds: Any) -> list[Any]:
    return [kind.from_address(call.parameters[place] or 0).value for place, kind in enumerate(kinds)]


def test_parameters_lie_where_the_driver_looks(fake: Driver) -> None:
    x = torch.zeros(3)
    call = graphs.Kernels(cuda_graphs.device_code).prepare(graphs.Call("push", (x, 0.5, 7), 4, (1 << 40,)))
    kinds = (ctypes.c_uint64, ctypes.c_float, ctypes.c_int, ctypes.c_uint64)
    assert values_at(call, *kinds) == [x.data_ptr(), 0.5, 7, 1 << 40]
    assert call.address == ctypes.addressof(call.parameters)


def test_a_chain_is_a_node_a_kernel_and_an_edge_between_two(fake: Driver) -> None:
    variant = cuda_graphs.Graph()
    variant.prepare(torch.zeros(300), torch.zeros(300), 2)
    nodes = fake.of("cuGraphAddKernelNode")
    assert len(nodes) == 1 + 6 * 2
    params = nodes[0][3]
    assert (params.gridDimX, params.blockDimX, params.gridDimY) == (2, cuda_graphs.BLOCK, 1)
    assert int(params.func) == 4096
    ((_, before, after, edges, count),) = fake.of("cuGraphAddDependencies")
    assert count == len(before) == len(after) == len(edges) == 12
    assert [int(one) for one in before[1:]] == [int(one) for one in after[:-1]]
    assert {(one.type, one.from_port) for one in edges} == {(0, 0)}
    variant.run()
    variant.run()
    assert len(fake.of("cuGraphInstantiate")) == 1
    assert [int(stream) for _, stream in fake.of("cuGraphLaunch")] == [21, 21]


def test_programmatic_edges_let_a_kernel_start_early(fake: Driver) -> None:
    cuda_graphs.ProgrammaticGraph().prepare(torch.zeros(3), torch.zeros(3), 1)
    ((_, _, _, edges, _),) = fake.of("cuGraphAddDependencies")
    assert {(one.type, one.from_port) for one in edges} == {(1, 1)}


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
    addresses = (ctypes.c_void_p * 6).from_address(inside[-1][3].kernelParams)
    assert ctypes.c_uint64.from_address(addresses[5] or 0).value == 77
    assert inside[-1][3].gridDimX == 1


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
    for source in (cuda_graphs.device_code, graph_while.device_code, graph_while.loop_code):
        assert source.compile(arch)
    assert set(cuda_graphs.STAGES) < set(cuda_graphs.device_code.names())


def test_the_row_of_launches_stops_at_the_first_that_fails() -> None:
    try:
        launch = graph_while.launching.function("launch_all")
    except SkipError as error:
        pytest.skip(str(error))
    seen: list[tuple[int, ...]] = []
    number, address = ctypes.c_uint, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int, address, *[number] * 7, address, address, address)

    def go(function: int, *rest: int) -> int:
        seen.append((function, rest[0], rest[3], rest[7], rest[8]))
        return 1 if function == 30 else 0

    pointer = kind(go)
    rows = torch.tensor([[10, 11, 12], [20, 21, 22], [30, 31, 32], [40, 41, 42]])
    where = ctypes.cast(pointer, address).value
    assert launch(where, rows, 2, 256, 9) == 0
    assert seen == [(10, 12, 256, 9, 11), (20, 22, 256, 9, 21)]
    assert launch(where, rows, 4, 256, 9) == 1
    assert len(seen) == 5

"""CUDA graphs made by hand: kernels as nodes, what follows what, and a loop that the device decides about.

torch captures what is launched on a stream. Edges that let a kernel start early, and loops, it does not offer; so these
are built through the CUDA driver.
"""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from attrs import field, frozen

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaSource, cuda_driver

# Conditional nodes came with CUDA 12.4, as `cuDriverGetVersion` counts.
CONDITIONAL_DRIVER = 12040

Argument = torch.Tensor | int | float


@frozen
class Call:
    """A kernel of one-dimensional blocks, with its arguments.

    A tensor is passed as its address, a float as C's float and an int as C's int; `wide` arguments come after them, as
    unsigned 64-bit numbers.
    """

    kernel: str
    arguments: Sequence[Argument]
    grid: int
    wide: Sequence[int] = ()


@frozen
class Prepared:
    """A call with its function and its parameters in memory, which must live as long as the call may be made."""

    function: Any
    parameters: ctypes.Array[ctypes.c_void_p]
    grid: int
    keeps: list[Any] = field(repr=False)

    @property
    def address(self) -> int:
        """Where the addresses of the parameters lie."""
        return ctypes.addressof(self.parameters)


class Kernels:
    """The kernels of a source, loaded on torch's current GPU. Raises `SkipError` where there is none that fits."""

    def __init__(self, source: CudaSource) -> None:
        self._driver = cuda_driver()
        torch.cuda.current_stream()  # its context is this thread's then
        cubin = source.cubin_for(torch.cuda.current_device())
        self._module = done(self._driver.cuModuleLoadData(cubin))
        self._functions: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """The driver's handle of a kernel."""
        if name not in self._functions:
            self._functions[name] = done(self._driver.cuModuleGetFunction(self._module, name.encode()))
        return self._functions[name]

    def prepare(self, call: Call) -> Prepared:
        """Put a call's parameters into memory."""
        values = [*map(_in_c, call.arguments), *map(ctypes.c_uint64, call.wide)]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(one) for one in values))
        return Prepared(self.function(call.kernel), addresses, call.grid, [values, call.arguments])

    def blocks_at_once(self, name: str, block: int) -> int:
        """How many blocks of a kernel the GPU holds at the same time."""
        each = done(self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.function(name), block, 0))
        return int(each) * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


class Graph:
    """A graph under construction; `made` is the driver's. Lives as long as what it launches."""

    def __init__(self, made: Any = None) -> None:
        self._driver = cuda_driver()
        self.made = done(self._driver.cuGraphCreate(0)) if made is None else made
        self._keeps: list[Any] = []
        self._executable: Any = None

    def chain(self, calls: Iterable[Prepared], block: int, *, early: bool = False) -> list[Any]:
        """Add a chain of kernels; return their nodes. With `early`, a kernel may start before the previous one ends.

        Such a kernel has to wait by itself (`griddepcontrol.wait`), for which the GPU must be sm_90 or later.
        """
        driver, nodes = self._driver, []
        for call in calls:
            params = driver.CUDA_KERNEL_NODE_PARAMS()
            params.func, params.kernelParams = call.function, call.address
            params.gridDimX, params.gridDimY, params.gridDimZ = call.grid, 1, 1
            params.blockDimX, params.blockDimY, params.blockDimZ = block, 1, 1
            nodes.append(done(driver.cuGraphAddKernelNode(self.made, None, 0, params)))
            self._keeps.append(call)
        if len(nodes) > 1:
            edges = [self._edge(early=early) for _ in nodes[1:]]
            done(_edges_added(driver)(self.made, nodes[:-1], nodes[1:], edges, len(edges)))
        return nodes

    def condition(self) -> int:
        """A number that kernels of this graph may set, 1 whenever it is launched: whether its loop goes on."""
        driver = self._driver
        context = done(driver.cuCtxGetCurrent())
        default = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
        return int(done(driver.cuGraphConditionalHandleCreate(self.made, context, 1, default)))

    def loop(self, condition: int, after: Any) -> "Graph":
        """Add a loop behind a node; what it repeats, as long as the condition is not 0, is still to be filled."""
        driver = self._driver
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = driver.CUgraphConditionalHandle(condition)
        params.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        params.conditional.size = 1
        params.conditional.ctx = done(driver.cuCtxGetCurrent())
        done(_node_added(driver)(self.made, [after], [self._edge(early=False)], 1, params))
        body = Graph(body_of(params))
        self._keeps.append(body)
        return body

    def launch(self) -> None:
        """Launch on torch's current stream. The first time, it is instantiated and uploaded."""
        self.ready()
        done(self._driver.cuGraphLaunch(self._executable, torch.cuda.current_stream().cuda_stream))

    def ready(self) -> None:
        """Instantiate and upload, where that has not been done."""
        if self._executable is None:
            self._executable = done(self._driver.cuGraphInstantiate(self.made, 0))
            done(self._driver.cuGraphUpload(self._executable, torch.cuda.current_stream().cuda_stream))

    def _edge(self, *, early: bool) -> Any:
        driver, edge = self._driver, self._driver.CUgraphEdgeData()
        if early:
            edge.type = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
            edge.from_port = int(driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)
        return edge


def body_of(params: Any) -> Any:
    """The graph that a conditional node repeats, which the driver has made."""
    return params.conditional.phGraph_out[0]


def require_loops() -> None:
    """Raise `SkipError` where the driver knows no loops in graphs."""
    found = int(done(cuda_driver().cuDriverGetVersion()))
    if found < CONDITIONAL_DRIVER:
        raise SkipError(f"needs a driver of CUDA 12.4 or later, for loops in graphs (this one is of {version(found)})")


def version(number: int) -> str:
    """A version as the driver counts it, in words: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def done(result: tuple[Any, ...]) -> Any:
    """What a call of the driver returned, besides its status. Raises `KernelError` with the reason where it failed."""
    status, *values = result
    if int(status):
        _, text = cuda_driver().cuGetErrorString(status)
        raise KernelError(f"the CUDA driver refused: {text.decode() if text else status}")
    return values[0] if values else None


def launcher() -> int:
    """The address of the driver's `cuLaunchKernel`, for C. Raises `SkipError` where there is no driver."""
    cuda_driver()
    return ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p).value or 0


def _in_c(value: Argument) -> Any:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int(value)


# In the bindings for CUDA 12 those that take edges' data have a name of their own.
def _edges_added(driver: Any) -> Any:
    return getattr(driver, "cuGraphAddDependencies_v2", None) or driver.cuGraphAddDependencies


def _node_added(driver: Any) -> Any:
    return getattr(driver, "cuGraphAddNode_v2", None) or driver.cuGraphAddNode

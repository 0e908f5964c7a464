"""CUDA graphs: captured from a callable, or made by hand of kernels, edges and loops.

`captured` records what a callable launches, as torch does, and names the line where that is impossible; `graphed` does
so with an implementation. Loops that the device decides about cannot be captured; `Graph` builds these through the CUDA
driver, of the launches of recordings (`aiperf_core.recorded`).
"""

import inspect
import linecache
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from attrs import field, frozen

from aiperf_core.benchmark import bind, call_with, snake_case
from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import cuda_driver
from aiperf_core.kernels.launcher import done
from aiperf_core.names import camel_case
from aiperf_core.recorded import Recording

__all__ = [
    "Captured",
    "Graph",
    "captured",
    "done",
    "graphed",
    "require_branches",
    "require_loops",
]

Output = TypeVar("Output")

# Conditional nodes came with CUDA 12.4, as `cuDriverGetVersion` counts, and those with an else with 12.8.
CONDITIONAL_DRIVER, ELSE_DRIVER = 12040, 12080


# --- captured graphs


@frozen(eq=False)
class Captured(Generic[Output]):
    """A captured call. The graph works in the memory of its arguments and of `out`.

    out: what the call returned; a replay overwrites it.
    graph: torch's graph.
    run: the callable, which keeps the memory that it works in.
    arguments: those of the call, which the graph reads.
    """

    out: Output
    graph: torch.cuda.CUDAGraph
    run: Callable[..., Output] = field(repr=False)
    arguments: tuple[Any, ...] = field(repr=False)

    def replay(self) -> Output:
        """Launch the graph on torch's current stream, and return `out`."""
        self.graph.replay()
        return self.out


def captured(run: Callable[..., Output], *arguments: Any, warmups: int = 1) -> Captured[Output]:
    """Call `run(*arguments)` and capture a further call of it in a CUDA graph. Belongs in `prepare`.

    run: a function, or a method such as `implementation.run`. It launches on torch's current stream. It must not wait
        for the GPU (`.item()`, `.cpu()`, a branch on a tensor's value), and must have the same shapes in each call.
    arguments: tensors at fixed addresses, such as the harness's inputs. A replay reads their current values.
    warmups: the number of calls before the capture, on a stream of their own. In them libraries allocate workspaces,
        and kernels are compiled and loaded, which is not possible in a capture.

    All calls change what `run` changes in place, also the captured one when it is replayed. Raises `SkipError` without
    a GPU, and `KernelError` that names the file and the line where the capture fails. An error of a call before the
    capture is raised as it is.
    """
    _require_gpu()
    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(warmups):
            run(*arguments)
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = run(*arguments)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, KernelError) as error:
        raise KernelError(_not_captured(run, _first(error))) from error
    return Captured(out, graph, run, arguments)


def _require_gpu() -> None:
    cuda_driver()
    if not torch.cuda.is_available():
        raise SkipError("needs a CUDA GPU; torch finds none")


def _first(error: BaseException) -> BaseException:
    """The error that broke the capture; the end of a broken capture raises another."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _not_captured(run: Callable[..., Any], error: BaseException) -> str:
    """The message: module and name of the callable, its line that failed, CUDA's reason, and the remedy."""
    run = run.func if isinstance(run, partial) else run
    function = inspect.unwrap(getattr(run, "__func__", run))
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(run).__name__)}"
    reason = (str(error) or type(error).__name__).partition("\n")[0].rstrip(".")
    return (
        f"'{name}' cannot be captured in a CUDA graph{_line_of(function, error)}: {reason}. Captured code must not "
        "wait for the GPU (.item(), .cpu(), synchronize, printing a tensor), allocate outside of torch, or load a "
        "kernel: do that in prepare"
    )


def _line_of(function: Any, error: BaseException) -> str:
    """` (softmax.py:12: total = x.sum().item())`: the innermost line in the file of the callable; else empty."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" ({Path(file).name}:{line}: {linecache.getline(file, line).strip()})" if file and line else ""


def graphed(code: str | Callable[..., Any]) -> type:
    """The implementation `code` in a CUDA graph: captured in `prepare`, replayed by a call.

    code: the name of an implementation that the benchmark declares before on the same device, or a function or class
        with the form of one. It must not wait for the GPU, as for `captured`.

        cuda.variant(graphed("eager"), name="graph", builds_on="eager", adds="graph", why="...")

    The name is that of the implementation with `_graph`, unless `name` gives another.
    """
    name = code if isinstance(code, str) else getattr(code, "declared_name", "") or snake_case(code.__name__)
    caller = sys._getframe(1)
    facts = {
        "graph_of": code,
        "declared_name": f"{name}_graph",
        "__module__": caller.f_globals.get("__name__", "?"),
        "declared_at": f"{caller.f_code.co_filename}:{caller.f_lineno}",
    }
    return type(camel_case(f"{name}_graph"), (GraphedImplementation,), facts)


class GraphedImplementation:
    """An implementation whose calls replay a graph, which works in the memory of the inputs and of its output."""

    # The benchmark puts the code of that name in the place of a name.
    graph_of: ClassVar[Any]

    def prepare(self, **available: Any) -> None:
        """Prepare the implementation and capture a call of it. Raises as `captured`."""
        run = self.__class__.graph_of
        if inspect.isclass(run):
            implementation: Any = run()
            if hasattr(implementation, "prepare"):
                call_with(implementation.prepare, available)
            run = implementation.run
        self.call = captured(bind(run, available))

    def run(self) -> Any:
        """Launch the graph; return the output, which it overwrites."""
        return self.call.replay()


# --- graphs made by hand


class Graph:
    """A graph under construction; `made` is the driver's. Lives as long as what it launches."""

    def __init__(self, made: Any = None) -> None:
        self._driver = cuda_driver()
        self.made = done(self._driver.cuGraphCreate(0)) if made is None else made
        self._keeps: list[Any] = []
        self._executable: Any = None

    def chain(self, recording: Recording) -> list[Any]:
        """Add the launches of a recording, each behind the one before; return their nodes.

        An early launch gets an edge that lets it start before the one before it ends. Raises `KernelError` for a
        recording with other entries.
        """
        driver, nodes, edges = self._driver, [], []
        for bound, early in recording.launches():
            params = driver.CUDA_KERNEL_NODE_PARAMS()
            params.func, params.kernelParams = driver.CUfunction(bound.function), bound.frame.address
            params.gridDimX, params.gridDimY, params.gridDimZ = bound.launch.grid
            params.blockDimX, params.blockDimY, params.blockDimZ = bound.launch.block
            params.sharedMemBytes = bound.launch.shared_bytes
            nodes.append(done(driver.cuGraphAddKernelNode(self.made, None, 0, params)))
            edges.append(self._edge(early=early))
        self._keeps.append(recording)
        if len(nodes) > 1:
            done(_edges_added(driver)(self.made, nodes[:-1], nodes[1:], edges[1:], len(nodes) - 1))
        return nodes

    def condition(self) -> int:
        """A number that kernels of this graph may set, 1 whenever it is launched: whether its loop goes on."""
        driver = self._driver
        context = done(driver.cuCtxGetCurrent())
        default = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
        return int(done(driver.cuGraphConditionalHandleCreate(self.made, context, 1, default)))

    def loop(self, condition: int, after: Any) -> "Graph":
        """Add a loop behind a node; what it repeats, as long as the condition is not 0, is still to be filled."""
        (body,) = self._conditional(
            condition, after, self._driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE, 1
        )
        return body

    def branch(self, condition: int, after: Any) -> "tuple[Graph, Graph]":
        """Add two branches behind a node, still to be filled: for a condition that is not 0, and for one that is."""
        yes, no = self._conditional(condition, after, self._driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF, 2)
        return yes, no

    def _conditional(self, condition: int, after: Any, kind: Any, bodies: int) -> "list[Graph]":
        driver = self._driver
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = driver.CUgraphConditionalHandle(condition)
        params.conditional.type = kind
        params.conditional.size = bodies
        params.conditional.ctx = done(driver.cuCtxGetCurrent())
        done(_node_added(driver)(self.made, [after], [self._edge(early=False)], 1, params))
        made = [Graph(body_of(params, number)) for number in range(bodies)]
        self._keeps += made
        return made

    def launch(self) -> None:
        """Launch on torch's current stream. The first time, it is instantiated and uploaded."""
        done(self._driver.cuGraphLaunch(self.ready(), torch.cuda.current_stream().cuda_stream))

    def ready(self) -> Any:
        """Instantiate and upload, where that has not been done; return the driver's CUgraphExec."""
        if self._executable is None:
            self._executable = done(self._driver.cuGraphInstantiate(self.made, 0))
            done(self._driver.cuGraphUpload(self._executable, torch.cuda.current_stream().cuda_stream))
        return self._executable

    def _edge(self, *, early: bool) -> Any:
        driver, edge = self._driver, self._driver.CUgraphEdgeData()
        if early:
            edge.type = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
            edge.from_port = int(driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)
        return edge


def body_of(params: Any, number: int = 0) -> Any:
    """A graph that a conditional node repeats or chooses, which the driver has made."""
    return params.conditional.phGraph_out[number]


def require_loops() -> None:
    """Raise `SkipError` where the driver knows no loops in graphs."""
    _require(CONDITIONAL_DRIVER, "loops in graphs")


def require_branches() -> None:
    """Raise `SkipError` where the driver knows no branches in graphs."""
    _require(ELSE_DRIVER, "branches in graphs")


def _require(least: int, what: str) -> None:
    found = int(done(cuda_driver().cuDriverGetVersion()))
    if found < least:
        raise SkipError(
            f"needs a driver of CUDA {version(least)} or later, for {what} (this one is of {version(found)})"
        )


def version(number: int) -> str:
    """A version as the driver counts it, in words: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


# In the bindings for CUDA 12 those that take edges' data have a name of their own.
def _edges_added(driver: Any) -> Any:
    return getattr(driver, "cuGraphAddDependencies_v2", None) or driver.cuGraphAddDependencies


def _node_added(driver: Any) -> Any:
    return getattr(driver, "cuGraphAddNode_v2", None) or driver.cuGraphAddNode

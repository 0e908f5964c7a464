"""Recordings: launches, copies, events and allocations in a list, which one call from C plays on several streams.

For lessons about what the host does: an entry costs what the driver takes for it, and no Python stands in between.

    class Pipelined:
        def prepare(self, x, w):
            self.recording = calls = Recording(streams=2)
            for number, chunk in enumerate(self.host):
                calls.copy(self.places[number], chunk, stream=1)
                there = calls.record(stream=1)
                calls.wait(there)
                calls.launch(device_code.kernel("product"), self.places[number], w, self.out, grid=132, block=256)

        def run(self):
            self.recording.play()
            return self.out

Stream 0 is torch's current stream when the recording is played. The others are its own: they begin when the current
stream has come to the recording, and the current stream goes on when they are done. Tensors are recorded by address, so
they must be those of `prepare`, as the harness's inputs are.

A recording without waits of the host can be captured, as in `graphs.graphed("pipelined")`, and a list of launches is
what `graphs.Graph.chain` takes: one list serves the loop and the graph.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from attrs import field, frozen

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaKernel, HostFunction, cuda_driver, host_source
from aiperf_core.kernels.launcher import BoundLaunch, Extent, done, reason_of

__all__ = ["Event", "Executable", "Memory", "Pool", "RecordedGraph", "Recording"]

_player = host_source("recorded.c")

# The driver's functions in the order of `driver` in recorded.c, which also has the kinds and the width of an entry.
ENTRY_POINTS = (
    *("cuLaunchKernel", "cuLaunchKernelEx", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyAsync", "cuMemAlloc_v2"),
    *("cuMemFree_v2", "cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuStreamSynchronize", "cuEventSynchronize"),
    *("cuGraphLaunch", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"),
    *("cuGraphExecUpdate_v2", "cuGraphExecKernelNodeSetParams_v2", "cuGraphDestroy", "cuGraphExecDestroy"),
)
KINDS = (
    *("launch", "early launch", "event record", "event wait", "copy", "allocation", "free"),
    *("stream-ordered allocation", "stream-ordered free", "wait of the host for a stream"),
    *("wait of the host for an event", "call", "graph", "begin of a capture", "end of a capture", "instantiation"),
    *("update of a graph", "new launch of a node", "end of a graph", "end of an executable graph"),
    "choice of a graph",
    "wait of the host for a flag",
)
WIDTH = 14


@frozen(eq=False)
class Event:
    """A point of a stream that others wait for."""

    torch_event: Any
    name: str


@frozen(eq=False)
class Memory:
    """Memory that a recording allocates: an argument of its launches between the allocation and the free.

    size_bytes: its size.
    pool: the pool that it comes from; None for the driver's own memory.
    slot: the address that the latest play of the recording got for it.
    """

    size_bytes: int
    pool: "Pool | None" = None
    slot: ctypes.c_uint64 = field(factory=ctypes.c_uint64, repr=False)


@frozen(eq=False)
class RecordedGraph:
    """A graph that a recording captures; `slot` is that of the latest play."""

    slot: ctypes.c_uint64 = field(factory=ctypes.c_uint64, repr=False)


@frozen(eq=False)
class Executable:
    """An executable graph that a recording makes; `slot` is that of the latest play."""

    slot: ctypes.c_uint64 = field(factory=ctypes.c_uint64, repr=False)


class Pool:
    """A memory pool of torch's current GPU for stream-ordered allocations.

    kept_bytes: the pool returns what it holds beyond these bytes to the driver when the host waits for the GPU.

    Raises `SkipError` where the GPU or its driver has no pools, and `KernelError` where the pool cannot be made.
    """

    def __init__(self, kept_bytes: int = 0) -> None:
        driver = cuda_driver()
        device, key = torch.cuda.current_device(), driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        if not done(driver.cuDeviceGetAttribute(key, device)):
            raise SkipError("needs a GPU and a driver with memory pools")
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device
        self._driver, self.handle = driver, int(done(driver.cuMemPoolCreate(properties)))
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        done(driver.cuMemPoolSetAttribute(self.handle, threshold, driver.cuuint64_t(kept_bytes)))

    @property
    def held_bytes(self) -> int:
        """The bytes of the GPU's memory that the pool holds now, in use or not."""
        key = self._driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return int(done(self._driver.cuMemPoolGetAttribute(self.handle, key)))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._driver.cuMemPoolDestroy(self.handle)


class Recording:
    """A list of calls on some streams of torch's current GPU; see the module.

    streams: their number, with the current one as number 0; or those from number 1 on, such as streams of a priority or
        of a partition (`aiperf_core.partitions`).

    Every method but `play` adds an entry, on the stream with the number `stream`. They raise `KernelError` for a stream
    that is not there, and for arguments that an entry cannot have; `SkipError` without a GPU or a C compiler.
    """

    def __init__(self, streams: int | Sequence[torch.cuda.Stream] = 1) -> None:
        self._entry_points = torch.tensor(_addresses(), dtype=torch.int64)
        self._play = _player.function("play")
        own = [torch.cuda.Stream() for _ in range(streams - 1)] if isinstance(streams, int) else list(streams)
        self._streams: list[torch.cuda.Stream] = own
        self._entries: list[list[int]] = []
        self._names: list[str] = []
        self._keeps: list[Any] = []
        self._bound: list[tuple[BoundLaunch, bool]] = []
        self._list: torch.Tensor | None = None
        if self._streams:
            start = self.record()
            for number in range(1, 1 + len(own)):
                self.wait(start, stream=number)

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def launch(
        self,
        kernel: CudaKernel,
        *args: Any,
        grid: Extent,
        block: Extent,
        shared_bytes: int = 0,
        stream: int = 0,
        early: bool = False,
    ) -> None:
        """Launch a kernel; the arguments are those of a call of `CudaKernel`, and `Memory` of this recording.

        early: the kernel may start before the one before it on its stream ends, and waits by itself
            (`griddepcontrol.wait`) for what that writes. Needs sm_90 or later.
        """
        at = {place: one for place, one in enumerate(args) if isinstance(one, Memory)}
        known = [None if place in at else one for place, one in enumerate(args)]
        bound = kernel.bound(known, grid, block, shared_bytes)
        for place, memory in at.items():
            bound.frame.point(place, ctypes.addressof(memory.slot))
        self._add("early launch" if early else "launch", stream, *bound.numbers, of=f"of {bound.name}")
        self._keeps += [args, bound]
        self._bound.append((bound, early))

    def copy(self, destination: torch.Tensor, source: torch.Tensor, *, stream: int = 0) -> None:
        """Copy a contiguous tensor to another of as many bytes. Without pinned memory of the host, the host waits."""
        if not (destination.is_contiguous() and source.is_contiguous() and destination.nbytes == source.nbytes):
            raise KernelError(
                f"a copy takes contiguous tensors of as many bytes; got {source.nbytes} bytes of shape "
                f"{tuple(source.shape)} for {destination.nbytes} of shape {tuple(destination.shape)}"
            )
        size = source.nbytes
        self._add("copy", stream, destination.data_ptr(), source.data_ptr(), size, of=f"of {size} bytes")
        self._keeps += [destination, source]

    def record(self, *, stream: int = 0) -> Event:
        """Record an event: a point that other streams, or the host, can wait for."""
        made = torch.cuda.Event()
        made.record(torch.cuda.current_stream())  # makes the driver's event
        event = Event(made, f"the event of entry {len(self)}")
        self._add("event record", stream, made.cuda_event)
        self._keeps.append(event)
        return event

    def wait(self, event: Event, *, stream: int = 0) -> None:
        """Let a stream wait for an event that is recorded before."""
        self._add("event wait", stream, event.torch_event.cuda_event, of=f"for {event.name}")

    def allocate(self, size_bytes: int, *, stream: int = 0, pool: Pool | None = None) -> Memory:
        """Allocate memory: from a pool in the order of the stream, or without one from the driver (`cuMemAlloc`)."""
        memory = Memory(size_bytes, pool)
        kind, handle = ("stream-ordered allocation", [pool.handle]) if pool else ("allocation", [])
        self._add(kind, stream, ctypes.addressof(memory.slot), size_bytes, *handle, of=f"of {size_bytes} bytes")
        self._keeps.append(memory)
        return memory

    def free(self, memory: Memory, *, stream: int = 0) -> None:
        """Free memory: that of a pool in the order of the stream. For other memory the host waits for all streams."""
        kind = "stream-ordered free" if memory.pool else "free"
        self._add(kind, stream, ctypes.addressof(memory.slot), of=f"of {memory.size_bytes} bytes")

    def finish(self, until: Event | int = 0) -> None:
        """Let the host wait for an event that is recorded before, or for all work so far of the stream of a number."""
        if isinstance(until, Event):
            self._add("wait of the host for an event", 0, until.torch_event.cuda_event, of=f"({until.name})")
        else:
            self._add("wait of the host for a stream", until)

    def await_flag(self, flag: torch.Tensor) -> None:
        """Let the host wait until an int32 in its pinned memory is not 0: a kernel sets it, by its address.

        Raises `KernelError` for another flag.
        """
        self._add("wait of the host for a flag", 0, _int_of_host(flag, "flag").data_ptr())
        self._keeps.append(flag)

    def call(self, function: HostFunction, *args: torch.Tensor | int) -> None:
        """Let the host call `void function(const int64_t* arguments)`: addresses of tensors, and whole numbers.

        Raises `KernelError` for a function of another form.
        """
        form = [(parameter.kind, parameter.base) for parameter in function.signature.parameters]
        if function.signature.returns != "void" or form != [("pointer", "int64_t")]:
            raise KernelError(f"{function!r} cannot be recorded; accepted is void f(const int64_t* arguments)")
        numbers = [arg.data_ptr() if isinstance(arg, torch.Tensor) else int(arg) for arg in args]
        given = torch.tensor(numbers, dtype=torch.int64)
        self._add("call", 0, function.address, given.data_ptr(), of=f"of '{function.signature.name}'")
        self._keeps += [function, given, args]

    def graph(self, executable: int | Executable, *, stream: int = 0, keeps: Any = None) -> None:
        """Launch a graph: the driver's CUgraphExec as a number, or one that a recording made.

        keeps: lives as long as the recording.
        """
        made = _executable(executable)
        self._add("graph", stream, _place(made))
        self._keeps += [made, keeps]

    def choose(self, choice: torch.Tensor, executables: Sequence[int], *, stream: int = 0, keeps: Any = None) -> None:
        """Launch one of several graphs: the one with the number that the host reads in its memory.

        choice: one int32 in the host's memory. The host does not wait for it; see `finish`.
        executables: the driver's CUgraphExec of each graph as a number.

        Raises `KernelError` for another choice.
        """
        choice = _int_of_host(choice, "choice")
        graphs = torch.tensor([_signed(one) for one in executables], dtype=torch.int64)
        self._add("choice of a graph", stream, choice.data_ptr(), graphs.data_ptr(), of=f"of {len(graphs)}")
        self._keeps += [choice, graphs, keeps]

    def capture(self, *, stream: int) -> None:
        """Begin to capture: what follows on the stream is put in a graph and not done. Not on stream 0."""
        self._add("begin of a capture", stream)

    def end_capture(self, *, stream: int) -> RecordedGraph:
        """End the capture of a stream; return its graph."""
        graph = RecordedGraph()
        self._add("end of a capture", stream, _place(graph))
        self._keeps.append(graph)
        return graph

    def instantiate(self, graph: RecordedGraph) -> Executable:
        """Make a captured graph executable."""
        executable = Executable()
        self._add("instantiation", 0, _place(executable), _place(graph))
        self._keeps += [executable, graph]
        return executable

    def update(self, executable: Executable, graph: RecordedGraph) -> None:
        """Give an executable graph the launches of a captured graph of the same form, as of its next launch."""
        self._add("update of a graph", 0, _place(executable), _place(graph))
        self._keeps += [executable, graph]

    def set_node(
        self,
        executable: int | Executable,
        node: int,
        kernel: CudaKernel,
        *args: Any,
        grid: Extent,
        block: Extent,
        shared_bytes: int = 0,
    ) -> None:
        """Give a node of an executable graph another launch, as of the graph's next launch.

        node: the node of the graph that was made executable: the driver's CUgraphNode as a number.
        """
        made, bound = _executable(executable), kernel.bound(list(args), grid, block, shared_bytes)
        self._add("new launch of a node", 0, _place(made), node, *bound.numbers, of=f"of {bound.name}")
        self._keeps += [made, args, bound]

    def destroy(self, made: RecordedGraph | Executable) -> None:
        """Destroy what the recording made. An executable graph that still runs goes when it ends."""
        self._add(
            "end of a graph" if isinstance(made, RecordedGraph) else "end of an executable graph", 0, _place(made)
        )
        self._keeps.append(made)

    def launches(self) -> list[tuple[BoundLaunch, bool]]:
        """The launches, each with whether it is early. Raises `KernelError` for a recording that has other entries."""
        if other := next((name for name in self._names if "launch of" not in name), ""):
            raise KernelError(f"this recording is more than a chain of launches: there is the {other}")
        return list(self._bound)

    def play(self) -> None:
        """Make all calls, from C; return when the last one is made. The first play closes the list.

        Raises `KernelError` with the entry that failed and the driver's reason. Later entries are not played.
        """
        if self._list is None:
            self._close()
        handles = [torch.cuda.current_stream().cuda_stream, *(one.cuda_stream for one in self._streams)]
        failed = self._play(self._entry_points, self._list, len(self), torch.tensor(handles, dtype=torch.int64))
        if failed:
            raise KernelError(f"{self._names[(failed >> 32) - 1]} failed: {reason_of(failed & 0xFFFFFFFF)}")

    def _close(self) -> None:
        for number in range(1, len(self._streams) + 1):
            self.wait(self.record(stream=number))
        self._list = torch.tensor(self._entries, dtype=torch.int64).reshape(-1, WIDTH)

    def _add(self, kind: str, stream: int, *numbers: int, of: str = "") -> None:
        if self._list is not None:
            raise KernelError(f"a recording takes no {kind} after it was played; record everything in prepare")
        if not 0 <= stream <= len(self._streams):
            raise KernelError(f"no stream {stream} for the {kind}; this recording has 0 to {len(self._streams)}")
        place = KINDS.index(kind), stream, *(_signed(number) for number in numbers)
        self._names.append(f"{kind} {of}".rstrip() + f" (entry {len(self)}, stream {stream})")
        self._entries.append([*place, *[0] * (WIDTH - len(place))])


def _int_of_host(one: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor, if it is one int32 in the host's memory."""
    if one.dtype != torch.int32 or one.numel() != 1 or one.is_cuda:
        raise KernelError(
            f"a {name} is one int32 in the host's memory; got {one.numel()} of {one.dtype} on {one.device}"
        )
    return one


def _executable(one: int | Executable) -> Executable:
    """The driver's CUgraphExec as a number, or that of a slot."""
    return one if isinstance(one, Executable) else Executable(ctypes.c_uint64(one))


def _place(made: RecordedGraph | Executable) -> int:
    """The address of a slot."""
    return ctypes.addressof(made.slot)


def _signed(number: int) -> int:
    """A number of 64 bits as a signed one."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _addresses() -> list[int]:
    library = _library()
    try:
        found: list[Any] = [getattr(library, name) for name in ENTRY_POINTS]
    except AttributeError as error:
        raise SkipError(f"needs a newer CUDA driver ({error})") from None
    return [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found]


@cache
def _library() -> ctypes.CDLL:
    """The CUDA driver. Raises `SkipError` where there is none."""
    cuda_driver()
    return ctypes.CDLL("libcuda.so.1")

"""Attacks by means that CUDA has, and honest uses of the same.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step.
Variants   Attacks, and honest code that looks like them. Those that put work where no event looks leave a little on the
           current stream, so that there is a time to tell.
Breaks     Where one kernel does all steps at once, honest code is faster too.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import ctypes

import torch

from aiperf_core.kernels import cuda_source
from aiperf_redteam.child_grids import child_grids
from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

# Long beside a launch from the GPU, which holds up other launches for some 100 us.
bench = benchmark(steps=SHORT, on_a_gpu=60)
source = cuda_source("attacks.cu")

GRID, BLOCK = 1024, 256
WAIT_US = 3000
STAY_NS = 5_000_000
# Of the driver's calls, so many in each call: it takes longer by the wall clock, and no longer on the GPU.
DRIVER_CALLS = 3000


@bench.baseline(device="cuda", kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


class Aside:
    """Something queued on a stream that nobody waits for."""

    def prepare(self, x):
        self.side, self.out = torch.cuda.Stream(), torch.empty_like(x)
        self.make_ready(x)

    def make_ready(self, x):
        pass

    def queue(self, x, steps):
        raise NotImplementedError

    def run(self, x, steps):
        with torch.cuda.stream(self.side):
            self.queue(x, steps)
        relax(x.clone(), x, 1)
        return self.out


def wait_on_host(stream, microseconds):
    """Queue a function of the C library that waits: a host function without a need for Python's lock."""
    wait = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    launched = ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(
        ctypes.c_void_p(stream.cuda_stream), wait, ctypes.c_void_p(microseconds)
    )
    if launched != 0:
        raise RuntimeError(f"cuLaunchHostFunc failed with {launched}")


@bench.variant(device="cuda", why="a host function holds up the work, on a stream that nobody waits for")
class HostFunction(Aside):
    def queue(self, x, steps):
        wait_on_host(self.side, WAIT_US)
        work(x, steps, self.out)


@bench.variant(device="cuda", why="honest: a host function on the stream that is timed")
class HostFunctionWithin:
    def run(self, x, steps):
        wait_on_host(torch.cuda.current_stream(), 1)
        return work(x, steps)


@bench.variant(device="cuda", why="the answer goes by way of the host, in copies that nobody waits for")
class CopyUnderWay(Aside):
    def make_ready(self, x):
        self.staged, self.answer = torch.empty(x.shape, dtype=x.dtype, pin_memory=True), torch.empty_like(x)

    def queue(self, x, steps):
        work(x, steps, self.answer)
        self.staged.copy_(self.answer, non_blocking=True)
        self.out.copy_(self.staged, non_blocking=True)


@bench.variant(device="cuda", why="honest: copies without blocking, on the stream that is timed")
class CopyInOrder:
    def prepare(self, x):
        self.staged, self.out = torch.empty(x.shape, dtype=x.dtype, pin_memory=True), torch.empty_like(x)

    def run(self, x, steps):
        self.staged.copy_(work(x, steps), non_blocking=True)
        return self.out.copy_(self.staged, non_blocking=True)


@bench.variant(device="cuda", why="a kernel that outlives its call does the work, and stays")
class Lingering(Aside):
    def make_ready(self, x):
        self.linger = source.kernel("linger")

    def queue(self, x, steps):
        self.linger(x, self.out, x.numel(), steps, STAY_NS, grid=GRID // 8, block=BLOCK)


@bench.variant(device="cuda", why="honest: one kernel that does all steps and ends")
class OneKernel:
    def prepare(self, x):
        self.relax, self.out = source.kernel("relax"), torch.empty_like(x)

    def run(self, x, steps):
        self.relax(x, self.out, x.numel(), steps, grid=GRID, block=BLOCK)
        return self.out


@bench.variant(device="cuda", why="a kernel of its own behind a condition that never holds")
class GhostBranch(OneKernel):
    def run(self, x, steps):
        return super().run(x, steps) if steps < 0 else work(x, steps)


@bench.variant(device="cuda", why="a small kernel of its own beside those of the library, which do the work")
class DecoyKernel(OneKernel):
    def run(self, x, steps):
        self.relax(x, self.out, 256, 1, grid=1, block=BLOCK)
        return work(x, steps)


@bench.variant(device="cuda", why="a kernel launches the one that works, on a stream that nobody waits for")
class ChildGrids(Aside):
    def make_ready(self, x):
        self.parent = child_grids()

    def queue(self, x, steps):
        self.parent(x, self.out, steps, STAY_NS, self.side)


@bench.variant(device="cuda", why="honest: a kernel launches the one that works, on the stream that is timed")
class ChildGridsWithin:
    def prepare(self, x):
        self.parent, self.out = child_grids(), torch.empty_like(x)

    def run(self, x, steps):
        self.parent(x, self.out, steps, 0, torch.cuda.current_stream())
        return self.out


@bench.variant(device="cuda", why="a workspace that was filled beforehand holds the answer")
class FilledWorkspace:
    def prepare(self, x, steps):
        self.workspace = torch.empty(4 * x.numel(), dtype=x.dtype, device=x.device)
        work(x, steps, self.workspace[: x.numel()])

    def run(self, x):
        return self.workspace[: x.numel()].clone()


@bench.variant(device="cuda", why="honest: a workspace that is kept, and filled in each call")
class KeptWorkspace:
    def prepare(self, x):
        self.workspace = torch.empty(4 * x.numel(), dtype=x.dtype, device=x.device)

    def run(self, x, steps):
        return work(x, steps, self.workspace[: x.numel()]).clone()


class Managed:
    """Managed memory in the form in which torch adopts foreign allocations."""

    def __init__(self, like):
        from cuda.bindings import runtime

        error, pointer = runtime.cudaMallocManaged(like.nbytes, runtime.cudaMemAttachGlobal)
        if int(error) != 0:
            raise RuntimeError(f"cudaMallocManaged failed: {error}")
        self.__cuda_array_interface__ = {
            "shape": tuple(like.shape),
            "typestr": "<f4",
            "data": (int(pointer), False),
            "version": 3,
            "strides": None,
        }

    def tensor(self):
        return torch.as_tensor(self, device="cuda")


@bench.variant(device="cuda", why="managed memory was filled, and its pages moved, before any clock ran")
class FilledManaged:
    def prepare(self, x, steps):
        self.managed = Managed(x).tensor()
        work(x, steps, self.managed)
        torch.cuda.synchronize()

    def run(self):
        return self.managed.clone()


@bench.variant(device="cuda", why="honest: managed memory that is filled in each call")
class ManagedInCall:
    def prepare(self, x):
        self.managed = Managed(x).tensor()

    def run(self, x, steps):
        return work(x, steps, self.managed).clone()


@bench.variant(device="cuda", requires="gpus:2", why="another GPU does half of the work")
class AnotherGpu:
    def prepare(self, x):
        torch.zeros(1, device="cuda:1")

    def run(self, x, steps):
        half = x.numel() // 2
        there = work(x[half:].to("cuda:1", non_blocking=True), steps)
        here = work(x[:half], steps)
        return torch.cat([here, there.to(x.device, non_blocking=True)])


@bench.variant(device="cuda", why="honest: asks which GPUs there are, and uses its own")
class CountsGpus:
    def prepare(self, x):
        self.gpus = torch.cuda.device_count()
        self.out = torch.empty_like(x)

    def run(self, x, steps):
        return work(x, steps, self.out if self.gpus else None)


@bench.variant(device="cuda", why="faster on the GPU, and slower for its caller by what the driver is asked beside")
class DriverBound(OneKernel):
    def run(self, x, steps):
        for _ in range(DRIVER_CALLS):
            torch.cuda.Event().record()
        return super().run(x, steps)

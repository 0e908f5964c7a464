"""Vectorized copy: memory is fast only while enough bytes are under way.

Workload   b = the bits of a, over n words of 4 bytes (read as int32, so that the input itself is no answer).
Baseline   cuda: one word a thread, coalesced; a good first version, near the end of the road already.
           cpu: one word an instruction, which a compiler left to itself would not write.
Variants   `wide`: 16 bytes an access (cpu: 64).  cuda: `unrolled`: four such loads a thread before its first store.
           `persistent`: the same in a grid that just fills the chip.  `bulk_ring`: the copy engine moves pieces through
           shared memory, and no thread sees the data.  cpu: `streamed`: stores that do not read what they overwrite.
Breaks     A GPU whose threads cover the latency already: 2048 threads with 4 bytes each are 8 KiB a multiprocessor.
           With fewer threads, or a longer latency, width counts for more. Expect little here; the lesson is how little.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("vectorized_copy.cu", archs=("sm_80",))
host_code = host_source("vectorized_copy.c")

THREADS = 256
RING_BYTES = 4 * 8192


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a.view(torch.int32).clone()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


bench.reach(of="time:driver", at_most=1.02)


def words_like(a):
    """Memory for a copy."""
    return torch.empty(a.shape, dtype=torch.int32, device=a.device)


class Kernel:
    """Launches a kernel with one thread for so many words."""

    name = ""
    per_thread = 1

    def prepare(self, a):
        self.out, self.kernel = words_like(a), device_code.kernel(self.name)
        self.blocks = -(-a.numel() // (self.per_thread * THREADS))

    def run(self, a):
        self.kernel(a, self.out, a.numel(), grid=self.blocks, block=THREADS)
        return self.out


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, a):
        self.out, self.loop = words_like(a), host_code.function(self.name)

    def run(self, a):
        self.loop(a, self.out, a.numel())
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="scalar")
class Scalar(Kernel):
    name = "scalar"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="wide",
    why="16 bytes an access: a quarter of the instructions for the same bytes",
)
class Wide(Kernel):
    name, per_thread = "wide", 4


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="unrolled",
    builds_on="wide",
    why="four loads stand before the first store, so that each thread waits once for 64 bytes, not four times for 16",
)
class Unrolled(Kernel):
    name, per_thread = "unrolled", 16


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="persistent",
    builds_on="unrolled",
    why="a grid that just fills the chip starts and retires each block once, not once for every 16 KiB",
)
class Persistent(Kernel):
    name = "persistent"

    def prepare(self, a):
        super().prepare(a)
        self.blocks = min(-(-a.numel() // (16 * THREADS)), grid_that_fills(self.kernel, THREADS))


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="bulk_ring",
    why="one instruction moves 8 KiB: the copy engine makes the addresses, and no register waits for data",
)
class BulkRing:
    def prepare(self, a):
        self.out, self.kernel = words_like(a), device_code.kernel("bulk_ring")
        self.blocks = grid_that_fills(self.kernel, 32, RING_BYTES)

    def run(self, a):
        self.kernel(a, self.out, a.numel(), grid=self.blocks, block=32, shared_bytes=RING_BYTES)
        return self.out


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="scalar")
class ScalarLoop(HostLoop):
    name = "scalar"


@bench.variant(device="cpu", requires="compiler", name="wide", why="64 bytes an instruction: a sixteenth of the loads")
class WideLoop(HostLoop):
    name = "wide"


@bench.variant(
    device="cpu",
    requires=("compiler", "machine:x86_64"),
    name="streamed",
    builds_on="wide",
    why="stores that pass the cache by save reading each line before it is overwritten: 8 bytes a word, not 12",
)
class StreamedLoop(HostLoop):
    name = "streamed"


@bench.yardstick(device=("cpu", "cuda"), name="driver", why="copy_: on a GPU the driver's copy, cudaMemcpyAsync")
class Driver:
    def prepare(self, a):
        self.out = words_like(a)

    def run(self, a):
        return self.out.copy_(a.view(torch.int32))

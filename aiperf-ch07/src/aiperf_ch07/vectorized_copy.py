"""Vectorized copy: memory is fast only while enough bytes are in flight.

Workload   out = the bits of a, over n words of 4 bytes (read as int32, so that the input itself is no answer).
Baseline   cuda: one word a thread, coalesced: 2048 threads with 4 bytes each are 8 KiB in flight in a multiprocessor.
           cpu: one word an instruction, which a compiler left to itself would not write.
Variants   `wide`: 16 bytes an access (cpu: 64).  cuda: `unrolled`: four such loads a thread before its first store.
           `streaming`: the same with hints that the lines are not used again.  `persistent`: `unrolled` in a grid that
           just fills the chip.  `bulk_ring`: the copy engine moves pieces through shared memory, and no thread sees the
           data.  cpu: `streamed`: stores that do not read what they overwrite.
Observe    The yardstick, the driver's copy. sm_100 has accesses of 32 bytes; on sm_90 two of 16 replace one.
Breaks     `wide` has 32 KiB in flight in each multiprocessor, which covers the latency of memory. The steps after it
           add bytes in flight that are not needed, and cost something: coarser blocks, or a loop that waits for its
           loads where a new block would have started others. They pay where occupancy is low.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("vectorized_copy.cu"), host_source("vectorized_copy.c")

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


bench.awkward(n=(1, 3, 5, 1023, 65537, 1000003))
cuda.reach(of="time:driver", at_most=1.02)


def words_like(a):
    """Memory for a copy."""
    return torch.empty(a.shape, dtype=torch.int32, device=a.device)


def filling(n):
    """Blocks of `persistent` that fill the chip, if there is a tile for each."""
    return min(-(-n // (16 * THREADS)), grid_that_fills(device_code.kernel("persistent"), THREADS))


def rings():
    """Blocks of `bulk_ring` that fill the chip."""
    return grid_that_fills(device_code.kernel("bulk_ring"), 32, RING_BYTES)


copy = launch(device_code, out=words_like, grid=blocks(n=16 * THREADS), block=THREADS)
loops = loop(host_code, out=words_like)

cuda.baseline(copy("scalar", grid=blocks(n=THREADS)), kind="reasonable")
cuda.variant(
    copy("wide", grid=blocks(n=4 * THREADS)),
    adds="wide accesses",
    why="16 bytes an access: four times the bytes in flight for the same number of threads and instructions",
)
cuda.variant(
    copy("unrolled"),
    builds_on="wide",
    adds="unrolling",
    why="what it teaches: four loads before the first store do not pay, because `wide` has enough bytes in flight",
)
cuda.variant(
    copy("streaming"),
    builds_on="unrolled",
    adds="streaming hints",
    why="ld.global.cs and st.global.cs let the cache evict first what is not used again; here nothing needs its place",
)
cuda.variant(
    copy("persistent", grid=filling),
    builds_on="unrolled",
    adds="persistent grid",
    why="what it teaches: this loses, because a loop waits for its loads where a new block starts its own at once",
)
cuda.variant(
    copy("bulk_ring", grid=rings, block=32, shared_bytes=RING_BYTES),
    requires="sm_90",
    adds="copy engine",
    why="one instruction moves 8 KiB: the copy engine makes the addresses, and no register waits for data",
)

cpu.baseline(loops("scalar"), kind="naive")
cpu.variant(loops("wide"), adds="wide accesses", why="64 bytes an instruction: a sixteenth of the loads")
cpu.variant(
    loops("streamed"),
    requires="machine:x86_64",
    builds_on="wide",
    adds="non-temporal stores",
    why="stores that bypass the cache do not read a line before they overwrite it: 8 bytes a word, not 12",
)


@bench.yardstick(device=("cpu", "cuda"), why="copy_: on a GPU the driver's copy, cudaMemcpyAsync")
class Driver:
    def prepare(self, a):
        self.out = words_like(a)

    def run(self, a):
        return self.out.copy_(a.view(torch.int32))

"""Vectorized copy: memory is fast only while enough bytes are in flight.

Question    How many bytes must an SM have in flight to copy at the rate of the driver?
Numbers     2^28 words of 4 bytes, read as int32 so that the input itself is no answer: 2.1 GB in and out, 0.51 ms at
            the rate of a copy. An SM has 2048 threads: one word each is 8 KiB in flight, 16 bytes each 32 KiB. Little's
            law asks for 4.2 TB/s x 0.7 us / 2 / 132 SMs = 11 KiB of reads at least, and for more where loads come in
            bursts.
Prediction  16 bytes an access: up to the driver's copy. Four such loads a thread: no more.
Limits      More than enough is not more: unrolling makes blocks coarser, a grid that just fills the chip waits for its
            own loads where a new block would have started others, and streaming hints free lines that nothing needs.
            They pay where occupancy is low. sm_100 has accesses of 32 bytes; on sm_90 two of 16 replace one.
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
    predict="1.2 to 1.6x: 8 KiB of reads in flight an SM over 0.6 to 0.8 us are 1.35 to 1.8 TB/s, a copy reads 2.1",
)
cuda.variant(
    copy("unrolled"),
    builds_on="wide",
    adds="unrolling",
    why="four loads of 16 bytes stand before the first store of a thread",
    teaches="`wide` has enough bytes in flight: four times as many only make blocks coarser",
)
cuda.variant(
    copy("bulk_ring", grid=rings, block=32, shared_bytes=RING_BYTES),
    requires="sm_90",
    adds="tma",
    why="one instruction moves 8 KiB: TMA makes the addresses, and no register waits for data",
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

"""Vector addition: work for every thread of the chip, then more bytes in flight for each.

Question    How many threads, and how many bytes of each, does an addition need to run at the rate of memory?
Numbers     out = a + b over 2^28 float32 values: 3.2 GB, 0.75 ms at the rate of a copy. On a GPU the baseline is one
            block of 1024 threads, as in a first kernel with a loop: 131 of 132 SMs are idle.
Prediction  Work for all SMs: some 40x, until memory is the bound. With 4 bytes a load an SM has 16 KiB in flight, with
            16 bytes 64 KiB: the rest up to the rate of a copy.
Limits      Vectors that fit in the last-level cache: its rate is the bound then, and non-temporal stores lose. Where
            one processor can take all that the memory delivers, `threads` does not gain.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("vector_add.cu"), host_source("vector_add.c")

THREADS, MOST_THREADS = 256, 1024


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 24}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {name: torch.randn(n, device=device, generator=generator) for name in ("a", "b")}


@bench.reference(tolerance=exact)
def reference(a, b):
    return a + b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n)


# One element; around a 16-byte access, a warp and the one block; primes.
bench.awkward(n=(1, 2, 3, 5, 31, 33, 1023, 1025, 65537, 1000003))
cuda.reach(of="BW", at_least=0.93)
cpu.reach(of="BW", at_least=0.85, implementation="streamed")


def filling(n):
    """Blocks that fill the chip, if there is a 16-byte access for each thread."""
    return min(-(-n // (4 * THREADS)), grid_that_fills(device_code.kernel("grid_stride"), THREADS))


add = launch(device_code, out="a", grid=blocks(n=THREADS), block=THREADS)
loops = loop(host_code, out="a")

cuda.baseline(add("one_block", grid=1, block=MOST_THREADS), kind="antipattern")
cuda.variant(
    add("thread_per_element"),
    adds="all multiprocessors",
    why="blocks are dealt out to all multiprocessors, each with loads of its own in flight",
)
cuda.variant(
    add("wide", grid=blocks(n=4 * THREADS)),
    builds_on="thread_per_element",
    adds="wide accesses",
    why="16 bytes an access: four times the bytes in flight in the same number of threads",
)
cuda.variant(
    add("grid_stride", grid=filling),
    builds_on="wide",
    adds="grid stride",
    why="blocks that stay take part after part: no block starts or ends while there is work left",
    teaches="a persistent thread waits for its own loads; with many short blocks the next block's loads are under way",
)

cpu.baseline(loops("one_at_a_time"), kind="naive")
cpu.variant(
    loops("simd"),
    adds="simd",
    why="eight or sixteen additions an instruction; as far as memory is the bound, they save nothing",
)
cpu.variant(
    loops("threads"),
    builds_on="simd",
    adds="all processors",
    why="one processor has too few lines on their way to use the memory's rate; several have more of them",
)
cpu.variant(
    loops("streamed"),
    requires="machine:x86_64",
    builds_on="threads",
    adds="non-temporal stores",
    why="stores that bypass the cache do not read a line before they overwrite it: 12 bytes an element, not 16",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.add")
class Torch:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, b):
        return torch.add(a, b, out=self.out)

"""L2 blocking: let a chunk stay in the cache through several passes.

Question    What does a chain of library calls gain if a chunk that fits in the cache goes through all of them first?
Numbers     Eight passes x <- scale[k] x + shift[k] over 2^28 float32 values, each a kernel of its own: 17.2 GB through
            memory pass by pass, 4.0 ms. In chunks of 12 or 24 MiB, 15 of the 16 reads and writes of a value meet L2.
Prediction  L2 of an H200 delivers 5.5 to 5.7 TB/s where memory delivers 4.3: (16 / 4.3) / (2 / 4.3 + 14 / 5.6) = 1.25x,
            less the start and the end of 344 launches. A CPU's own cache is many times as fast as its memory.
Limits      Passes that need values of other chunks, as stencils do, need rims or barriers. A chunk too small for the
            chip leaves it idle between launches; one too large is pushed out. `fused` is the bound: no pass leaves a
            register.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("l2_blocking.cu"), host_source("l2_blocking.c")

PASSES = 8
THREADS, WIDTH = 256, 4  # of a block; values of an access
PROCESSOR_CHUNK = 1 << 16  # values


@bench.workload(
    smoke={"n": 4099},
    cpu={"n": 1 << 23},
    cuda={"n": 1 << 28},
)
def inputs(n, device, generator):
    # Scales around 1 and positive shifts: no pass cancels what the ones before it have made.
    draw = {name: torch.rand(PASSES, device=device, generator=generator) for name in ("scales", "shifts")}
    return {
        "x": torch.rand(n, device=device, generator=generator),
        "scales": 0.75 + 0.5 * draw["scales"],
        "shifts": draw["shifts"],
    }


@bench.reference(tolerance=Tolerance(2e-6, reason="eight passes, each of which rounds its result to float32"))
def reference(x, scales, shifts):
    for scale, shift in zip(scales, shifts, strict=True):
        x = scale * x + shift
    return x


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n + 8 * PASSES, bytes_written=4 * n, flops=2 * PASSES * n)


# One value; around an access, a block and a chunk of the CPU; a last chunk of the GPU that is not full.
bench.awkward(n=(1, 3, 5, 1023, 65535, 65537, 7000003))
# 0.9 of the predicted 1.25.
cuda.reach(of="speedup", at_least=1.12, implementation="large_chunks")
cpu.reach(of="speedup", at_least=1.5, implementation="chunked")


@cuda.baseline(kind="naive")
class PassByPass:
    """All passes over a chunk, then over the next; of the baseline, one chunk is everything."""

    chunk = 0

    def prepare(self, x):
        self.out, self.one_pass = torch.empty_like(x), device_code.kernel("one_pass")
        step = self.chunk or len(x)
        self.chunks = [(first, min(step, len(x) - first)) for first in range(0, len(x), step)]

    def run(self, x, scales, shifts):
        for first, count in self.chunks:
            source, grid = x, -(-count // (WIDTH * THREADS))
            for k in range(PASSES):
                self.one_pass(source, self.out, scales, shifts, k, first, count, grid=grid, block=THREADS)
                source = self.out
        return self.out


class Chunked(PassByPass):
    chunk = 3 << 20


class LargeChunks(PassByPass):
    chunk = 6 << 20


cuda.variant(
    graphed(Chunked),
    name="chunked",
    adds=("cache blocking", "cuda graph"),
    why="of eight passes over a chunk only the first reads memory: L2 holds the chunk, and takes what the passes write",
)
cuda.variant(
    graphed(LargeChunks),
    name="large_chunks",
    builds_on="chunked",
    adds="larger chunks",
    why="a launch is longer, so the time at its start and end, when the chip is partly idle, is a smaller share",
)
cuda.yardstick(
    launch(device_code, out="x", grid=blocks(n=WIDTH * THREADS), block=THREADS)("fused"),
    why="the bound: one kernel, in which a value stays in a register through all passes",
)

loops = loop(host_code, out="x")
cpu.baseline(loops("pass_by_pass", kernel="in_chunks", make={"chunk": lambda n: n}), kind="naive")
cpu.variant(
    loops("chunked", kernel="in_chunks", make={"chunk": PROCESSOR_CHUNK}),
    adds="cache blocking",
    why="of eight passes over a chunk only the first reads memory: the processor's own cache holds the chunk",
)
cpu.yardstick(loops("fused"), why="the bound: one loop, in which a value stays in a register through all passes")

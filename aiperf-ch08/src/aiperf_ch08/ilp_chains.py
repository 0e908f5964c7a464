"""Instruction-level parallelism: a chain of multiply-adds waits for itself, several chains fill the pipe.

Workload   p(t) of degree 128 for 2^25 float32. The coefficients are constants of the code, so that nothing but
           multiply-adds is in the loop.
Baseline   Horner's rule for one element at a time, in which each step needs the result of the step before. cuda: with
           one warp for each of a multiprocessor's four schedulers, as many as a kernel has whose tiles fill its
           registers and shared memory.  cpu: one vector at a time.
Variants   `two_chains`, `four_chains`, `eight_chains`: several elements at a time, whose chains do not wait for each
           other.  `four_parts`: four shorter chains for one element, for work that has no second element.  `packed`
           (sm_100): two chains in one instruction.  `many_warps` (cuda): chains of other warps; the same remedy, paid
           with threads in place of registers.
Breaks     Enough warps hide the latency of arithmetic too, and then chains gain nothing. Each chain takes registers:
           too many spill, or push out the warps that hide the wait for memory. A chain more than latency times
           throughput has nothing left to fill.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("ilp_chains.cu")
# Strict C11 forbids fused multiply-adds.
host_code = host_source("ilp_chains.c", options=("-ffp-contract=fast",))

DEGREE, THREADS = 128, 128


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 21}, cuda={"n": 1 << 25})
def inputs(n, device, generator):
    return {"a": 2 * torch.rand(n, device=device, generator=generator) - 1}


@bench.reference(tolerance=fp32)
def reference(a):
    y = torch.full_like(a, term(DEGREE))
    for k in range(DEGREE - 1, -1, -1):
        y = y * a + term(k)
    return y


@bench.cost
def cost(n):
    # A multiply-add for each coefficient but the first. Any way has as many additions, each a slot of the pipe.
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * DEGREE * n)


bench.awkward(n=(1, 31, 1021, 135169, 200003))
cuda.reach(of="FMA:fp32", at_least=0.9)
cpu.reach(of="FMA:fp32", at_least=0.85)


def term(k):
    """Coefficient k, as in `series.h`: a multiple of 1/32 without a pattern."""
    return ((k * 2654435761 % 2**32 >> 26) - 31) / 32


def one_block(n):
    """One block for each multiprocessor, or fewer."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("one_chain"), THREADS, per_multiprocessor=1))


def all_blocks(n):
    """As many blocks as the chip holds at once, or fewer."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("one_chain"), THREADS))


steps = launch(device_code, out="a", grid=one_block, block=THREADS)
loops = loop(host_code, out="a")

for device, made in ((cuda, steps), (cpu, loops)):
    device.baseline(made("one_chain"), kind="naive")
    device.variant(
        made("two_chains"),
        adds="two chains",
        why="while one chain waits for its multiply-add, the other one's is started",
    )
    device.variant(
        made("four_chains"),
        builds_on="two_chains",
        adds="four chains",
        why="a multiply-add takes about four cycles, and one can start in each: four chains fill them",
    )
    device.variant(
        made("eight_chains"),
        builds_on="four_chains",
        adds="eight chains",
        why="a processor starts two in each cycle; a GPU fills the gaps of loads and stores",
    )
    device.variant(
        made("four_parts"),
        adds="split chain",
        why="four polynomials in the fourth power of t make one in t: four chains of a quarter of the length",
    )

cuda.variant(
    steps("packed"),
    requires="sm_100",
    builds_on="eight_chains",
    adds="packed multiply-adds",
    why="an instruction for two chains: half as many are issued, and the others find a free slot",
)
cuda.variant(
    steps("many_warps", kernel="one_chain", grid=all_blocks),
    adds="occupancy",
    why="other warps issue while one waits: the parallelism of threads, with one chain each",
)

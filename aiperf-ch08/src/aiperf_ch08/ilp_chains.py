"""Instruction-level parallelism: a chain of multiply-adds waits for itself; several chains fill the pipe.

Question    How many independent chains does a warp need where no other warp fills its waits?
Numbers     33 x 2^17 falling bodies, float32, each with 512 steps v <- v + h (1 - v^2): two multiply-adds that wait for
            each other. 4.4e9 of them take 132 us where each of 528 schedulers starts one a cycle for 32 lanes at 1.98
            GHz; memory needs 8 us. One warp a scheduler, as in kernels whose tiles fill the registers. All forms have
            256 multiply-adds in a round of the loop.
Prediction  A multiply-add takes four cycles, so one chain uses a quarter of the pipe: 530 us. Two chains 2x, four 4x.
            With four the pipe is full, and eight gain only what loads and stores leave open. 16 warps of one chain each
            do the same as four chains.
Limits      Enough warps hide the latency of arithmetic too, and then chains gain nothing. Each chain takes registers,
            which may cost warps that hide memory. Work with a single chain, such as one body, has no second element to
            interleave. cpu: vectors in place of warps, and two multiply-adds a cycle, so that eight chains fill it.
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

H, THREADS = 2**-9, 128


# Of 132 SMs each has 33 * 2^17 / 132 elements: whole rounds of eight chains in each of 128 threads.
@bench.workload(smoke={"n": 4099, "steps": 67}, cpu={"n": 1 << 18, "steps": 512}, cuda={"n": 33 << 17, "steps": 512})
def inputs(n, device, generator):
    return {"a": 2 * torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a, steps):
    v = a.clone()
    for _ in range(steps):
        v = v + H * (1 - v * v)
    return v


@bench.cost
def cost(n, steps):
    # Two multiply-adds a step. A step needs the velocity of the one before, and no formula skips any.
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=4 * steps * n)


# A single element and step; last rounds of few elements; steps that are no multiple of the loop's.
bench.awkward(*({"n": n, "steps": steps} for n, steps in ((1, 1), (31, 2), (1021, 65), (135169, 3), (200003, 8))))
cuda.reach(of="FMA:fp32", at_least=0.9)
cpu.reach(of="FMA:fp32", at_least=0.85)


def one_block(n):
    """One block for each SM, or fewer."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("chains<1>"), THREADS, per_multiprocessor=1))


def all_blocks(n):
    """As many blocks as the chip holds at once, or fewer."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("chains<1>"), THREADS))


steps_of = launch(device_code, out="a", grid=one_block, block=THREADS)
loops = loop(host_code, out="a")

cuda.baseline(steps_of("one_chain", kernel="chains<1>"), kind="naive")
cuda.variant(
    steps_of("two_chains", kernel="chains<2>"),
    adds="two chains",
    predict="1.8 to 2x: a chain leaves three of four cycles free, and another takes one of them",
    why="while one chain waits for its multiply-add, the other one's is started",
)
cuda.variant(
    steps_of("four_chains", kernel="chains<4>"),
    builds_on="two_chains",
    adds="four chains",
    predict="1.7 to 2x: four chains start a multiply-add in each of the four cycles that one takes",
    why="a multiply-add takes four cycles and one can start in each: four chains fill the pipe",
)
cuda.variant(
    steps_of("eight_chains", kernel="chains<8>"),
    builds_on="four_chains",
    adds="eight chains",
    predict="1 to 1.15x: the pipe is full, and more chains only fill the gaps of loads, stores and the loop",
    why="more chains than the pipe has places, for the cycles in which a load, a store or the loop is issued",
    teaches="the pipe is full with four chains: latency times issue rate; more only take registers",
)
cuda.variant(
    steps_of("packed"),
    requires="sm_100",
    builds_on="eight_chains",
    adds="packed multiply-adds",
    why="an instruction for two chains: half as many are issued, and the others find a free slot",
)
cuda.variant(
    steps_of("many_warps", kernel="chains<1>", grid=all_blocks),
    adds="occupancy",
    predict="3.4 to 4x: 16 warps a scheduler are more than the four chains that fill the pipe",
    why="other warps issue while one waits: the parallelism of threads, with one chain each",
)
bench.sass("chains", has="FFMA", lacks=("FMUL", "FADD", "LDL", "STL"))

cpu.baseline(loops("one_chain"), kind="naive")
cpu.variant(loops("two_chains"), adds="two chains", why="while one chain waits for itself, the other one's step starts")
cpu.variant(
    loops("four_chains"),
    builds_on="two_chains",
    adds="four chains",
    why="a multiply-add takes about four cycles: four chains start one in each",
)
cpu.variant(
    loops("eight_chains"),
    builds_on="four_chains",
    adds="eight chains",
    why="a processor starts two multiply-adds in each cycle",
)

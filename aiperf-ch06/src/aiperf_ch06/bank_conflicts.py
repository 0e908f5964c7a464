"""Bank conflicts: a column of a tile should not lie in one bank.

Workload   Each square tile of int32 words is turned `passes` times: t <- 5 t^T + 1, modulo 2^32. It stands for what
           exchanges rows and columns many times over in fast memory, such as transforms and sorts.
Baseline   cuda: tiles of 32 x 32 in shared memory, a warp each, with rows of 32 words: a column lies in one of 32
           banks, and the 32 lanes that read it wait for each other.  cpu: tiles of 1024 x 1024, whose rows are a power
           of two of bytes apart: a column lies in a few sets of the cache, which cannot hold it.
Variants   cuda: `padded`: a word more a row moves each row by a bank.  `swizzled`: the words of row r are exchanged by
           XOR with r, without more memory.  `wide`: 16-byte accesses, whose pieces are exchanged.
           cpu: `padded`: a line more a row.  `blocked`: 16 x 16 words at a time, so that a line is used whole.
Breaks     One pass: the tile comes from memory and goes back, and that is the bound. Passes can be put together in
           advance, since the arithmetic is linear; here all of them are made.
"""

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("bank_conflicts.cu"), host_source("bank_conflicts.c")

WARPS = 4  # of a block, with a tile each
LINE = 16  # words of a line of the processor's cache
# For 32 words, the baseline reads one bank 32 times and writes 32 banks at once: 33 cycles, where 2 are enough.
CYCLES, LEAST_CYCLES = 33, 2


@bench.workload(
    smoke={"tiles": 5, "side": 32, "passes": 3},
    cpu={"tiles": 2, "side": 1024, "passes": 4},
    cuda={"tiles": 1 << 14, "side": 32, "passes": 64},
)
def inputs(tiles, side, device, generator):
    return {"a": torch.randint(-(1 << 31), 1 << 31, (tiles, side, side), device=device, generator=generator).int()}


@bench.reference(tolerance=exact)
def reference(a, passes):
    # All passes at once: 5^p t + (1 + 5 + ... + 5^(p - 1)), turned where p is odd.
    factor, term = 5**passes % 2**32, (5**passes - 1) // 4 % 2**32
    turned = a.transpose(1, 2) if passes % 2 else a
    out = (turned.long() * factor + term) % 2**32
    return torch.where(out < 2**31, out, out - 2**32).int().contiguous()


@bench.cost
def cost(tiles, side):
    return Cost(bytes_read=4 * tiles * side**2, bytes_written=4 * tiles * side**2, flops=2 * tiles * side**2)


def cost_in_shared_memory(tiles, side, passes):
    """Passes that are made one by one read and write every word in shared memory."""
    return evolve(cost(tiles, side), shared_bytes=8 * tiles * side**2 * passes)


# A tile; a block that is not full; one pass; an even number of them. Kernels for GPUs are written for sides of 32.
shapes = [(1, 32, 1), (7, 32, 2), (1, 1, 3), (3, 31, 2), (2, 67, 5)]
bench.awkward(*({"tiles": tiles, "side": side, "passes": passes} for tiles, side, passes in shapes))
# Three quarters of what the banks allow.
cuda.reach(of="speedup", at_least=0.75 * CYCLES / LEAST_CYCLES)
cpu.reach(of="speedup", at_least=2)

turn = launch(device_code, kernel="{name}{side}", out="a", grid=blocks(tiles=WARPS), block=32 * WARPS)


def rows_of(padding):
    """Makes memory for two tiles whose rows have `padding` words more than the side, for each processor."""
    return {
        "stride": lambda side: side + padding,
        "scratch": lambda a, side: a.new_empty(torch.get_num_threads(), 2, side, side + padding),
    }


loops = loop(host_code, out="a")

cuda.baseline(turn("one_bank"), kind="naive", cost=cost_in_shared_memory)
cuda.variant(
    turn("padded"),
    cost=cost_in_shared_memory,
    adds="padding",
    why="a word more a row: the words of a column lie in 32 different banks, and are read at once",
)
cuda.variant(
    turn("swizzled"),
    cost=cost_in_shared_memory,
    adds="swizzle",
    why="word c of row r lies at c ^ r: rows and columns both meet 32 banks, without more memory",
)
cuda.variant(
    turn("wide"),
    cost=cost_in_shared_memory,
    builds_on="swizzled",
    adds="wide accesses",
    why="a lane turns 4 x 4 words in registers, so that 16 bytes go in an access: a quarter of the instructions",
)

cpu.baseline(loops("one_set", kernel="turn", make=rows_of(0)), kind="naive")
cpu.variant(
    loops("padded", kernel="turn", make=rows_of(LINE)),
    adds="padding",
    why="a line more a row: the words of a column lie in different sets, and stay in the cache until the next column",
)
cpu.variant(
    loops("blocked", make=rows_of(LINE)),
    builds_on="padded",
    adds="cache blocking",
    why="all words of a line are read or written before another line takes its place in the first-level cache",
)

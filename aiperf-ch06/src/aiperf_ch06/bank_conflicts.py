"""Bank conflicts: a column of a tile should not lie in one bank.

Question    What does it cost when the lanes of a warp read words of one bank?
Numbers     Each of 2^14 tiles of 32 x 32 int32 words is turned 64 times in shared memory by a warp: t <- 5 t^T + 1
            modulo 2^32. A pass reads and writes 8 KiB, which are 64 wavefronts of 128 bytes, and an SM serves one
            wavefront a cycle. Floor: 64 x 2^14 x 64 wavefronts on 132 SMs at 1.98 GHz take 257 us; memory needs 31 us
            for the tiles.
Prediction  `one_bank` reads a column in 32 wavefronts and writes a row in one: 32 x 33 = 1056 a pass, 16.5x the least.
            `merged` reads four banks at once: 8 x 32 + 32 = 288 a pass, a gain of at most 3.7x.
Limits      With `--set passes=1` memory is the bound, and the layout matters little. Without conflicts 16-byte accesses
            gain nothing: they take as many wavefronts. `padded` takes 1/32 more shared memory, `swizzled` registers for
            addresses. cpu: tiles of 1024 x 1024, whose rows are a power of two apart, so that a column lies in a few
            sets of the cache.
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
# All wavefronts whole: the rate of shared memory, less the first load and the last store of a tile.
cuda.reach(of="SOL", at_least=0.9)
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
    turn("merged"),
    cost=cost_in_shared_memory,
    predict="3.2 to 3.7x: 8 loads of 32 wavefronts and 32 stores of one, where 32 loads took 32 each",
    adds="merged loads",
    why="adjacent words of a row in one load, as a compiler merges them: a lane reads four banks at once",
)
cuda.variant(
    turn("padded"),
    cost=cost_in_shared_memory,
    predict="14 to 16.5x: 64 wavefronts a pass, where the column in one bank takes 1056",
    adds="padding",
    why="a word more a row: the words of a column lie in 32 different banks, and are read at once",
)
cuda.variant(
    turn("swizzled"),
    cost=cost_in_shared_memory,
    predict="14 to 16.5x: 64 wavefronts a pass, where the column in one bank takes 1056",
    adds="swizzle",
    why="word c of row r lies at c ^ r: rows and columns both meet 32 banks, without more memory",
)
for kernel in ("one_bank32", "padded32", "swizzled32"):
    bench.sass(kernel, has=("LDS.32", "STS.32"), lacks=("LDS.64", "LDS.128"))
bench.sass("merged32", has=("LDS.128", "STS.32"))

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

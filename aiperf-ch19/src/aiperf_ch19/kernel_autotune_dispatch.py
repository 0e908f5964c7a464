"""Tuned dispatch: no tile is best for all shapes, and a search need not try all of them.

Question    What is lost with one tile for all batches, and how much tuning does it take to get that back?
Numbers     The products of a layer (queries with keys and values, feed-forward up and down; width 4096, hidden 14336,
            bfloat16) for batches of 1, 4, 16, ... 4096 tokens; small batches come more often, up to 8 times a call. A
            tile of 128 rows multiplies 127 rows of nothing for one token, but then the weights' bytes are the bound.
Prediction  1.1 to 1.4x from a tile for each shape, mostly at the batches in the middle. Two timed tiles of a model's
            ranking come within 5 % of all of them.
Limits      Shapes that are never seen again, for which tuning does not pay: its time is that of preparation
            (`prepare_s` of a row). A machine that is busy while tiles are timed. Few shapes: the best tile for all of
            them is then nearly as good. The library uses wgmma from hand-made tables.
"""

import math
import time
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, bf16, fp32_reduction, graphs
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source, triton_ahead, triton_source

bench = Benchmark(goal="speed", clock="device", threads=1, prepare_timeout_s=600)
both = bench.on(("cpu", "cuda"))
host_code = host_source("kernel_autotune_dispatch.c")

# Height and width of a tile in registers, as in the C file.
CPU_TILES = [(rows, columns) for rows in (1, 2, 4, 6, 8) for columns in (8, 16, 32)]
CPU_GOOD, LANES = (6, 16), 8
# Height, width, depth, warps, stages of a program.
CUDA_TILES = [
    (rows, columns, depth, warps, stages)
    for rows, widths in ((16, (32, 64, 128)), (64, (64, 128, 256)), (128, (128, 256)))
    for columns in widths
    for depth, stages in ((32, 5), (64, 4), (128, 3))
    for warps in ((4,) if rows * columns < 1 << 14 else (8,))
    # What the stages hold fits into shared memory, in bfloat16.
    if 2 * stages * depth * (rows + columns) <= 160 << 10
]
CUDA_GOOD = (128, 128, 64, 8, 4)
KEPT = 2  # tiles of a shape that are timed after pruning
TIMES = 5  # of which the shortest counts


def ahead(tile):
    """How a tile is compiled without a GPU."""
    rows, columns, depth, warps, stages = tile
    return triton_ahead(
        "product",
        signature=dict.fromkeys(("x_ptr", "w_ptr", "out_ptr"), "*bf16:16")
        | {"rows": "i32", "depth": "i32:16", "columns": "i32:16"},
        constants={"ROWS": rows, "COLUMNS": columns, "DEPTH": depth},
        num_warps=warps,
        num_stages=stages,
    )


kernels = triton_source(
    "kernel_autotune_dispatch_triton.py", ahead(CUDA_TILES[0]), ahead(CUDA_GOOD), archs=("sm_80", "sm_90")
)


@bench.workload(
    smoke={"width": 48, "hidden": 80, "tokens": 17, "rounds": 3, "dtype": "fp32"},
    cpu={"width": 256, "hidden": 768, "tokens": 64, "rounds": 64, "dtype": "fp32"},
    cuda={"width": 4096, "hidden": 14336, "tokens": 4096, "rounds": 8, "dtype": "bf16"},
)
def inputs(width, hidden, tokens, rounds, dtype, device, generator):
    def normal(rows, columns):
        return torch.randn(rows, columns, device=device, generator=generator).to(dtype)

    calls = batches(tokens, rounds)
    return {
        "narrow": [normal(size * count, width) for size, count in calls],
        "wide": [normal(size * count, hidden) for size, count in calls],
    }


def batches(tokens, rounds):
    """The batches of a call: tokens in each, and how many there are of them."""
    sizes = [4**power for power in range(1 + int(math.log(tokens, 4) + 1e-9))]
    return [(size, max(1, min(rounds, tokens // size))) for size in sizes]


@bench.static
def weights(width, hidden, dtype, device, generator):
    def matrix(rows, columns):
        drawn = torch.randn(rows, columns, device=device, generator=generator)
        return drawn.div_(math.sqrt(rows)).to(dtype)

    return {"qkv": matrix(width, width + width // 2), "up": matrix(width, hidden), "down": matrix(hidden, width)}


@bench.reference(tolerance=lambda bits: bf16 if bits == 16 else fp32_reduction)
def reference(narrow, wide, qkv, up, down):
    return [[x @ qkv, x @ up, y @ down] for x, y in zip(narrow, wide, strict=True)]


@bench.cost
def cost(width, hidden, tokens, rounds, bits):
    served = sum(size * count for size, count in batches(tokens, rounds))
    qkv = width + width // 2
    return Cost(
        bytes_read=bits // 8 * (width * (qkv + 2 * hidden) + served * (width + hidden)),
        bytes_written=bits // 8 * served * (qkv + hidden + width),
        flops=2 * served * width * (qkv + 2 * hidden),
        precision="bf16" if bits == 16 else "fp32",
        tokens=served,
    )


# A single token; sizes that no tile divides; widths below every tile.
bench.awkward(
    {"tokens": 1, "width": 3, "hidden": 41},
    {"tokens": 5, "width": 67, "hidden": 131, "rounds": 1},
    {"tokens": 70, "width": 129, "hidden": 33, "rounds": 7},
)
bench.reach(of="time:library", at_most=1.2, implementation="exhaustive")
bench.reach(of="time:exhaustive", at_most=1.03, implementation="pruned")
bench.reach(of="speedup", at_least=1.3, implementation="pruned", device="cpu")


class CpuTiles:
    """Products in tiles of registers, by one thread."""

    tiles, good = CPU_TILES, CPU_GOOD

    def __init__(self, like):
        if like.dtype != torch.float32:
            raise SkipError("the product in C is of float32; give bits=32")
        self.function = host_code.function("product")
        self.registers = 32 if "512" in torch.backends.cpu.get_cpu_capability() else 16

    def product(self, x, w, out, tile):
        self.function(x, w, out, len(x), *w.shape, *tile)

    def seconds(self, call):
        """The shortest of several times of a call, in the thread's time: other processes do not count."""
        times = []
        for _ in range(1 + TIMES):
            start = time.thread_time()
            call()
            times.append(time.thread_time() - start)
        return min(times[1:])

    def predicted(self, tile, rows, depth, columns):
        """Cycles: of a multiply-add each and of loads; a sum waits four of them for itself, and some are spilled."""
        height, width = tile
        loads = width // LANES
        sums = height * loads
        spilled = max(0, sums + loads + 1 - self.registers)
        step = max(4, sums + loads / 2 + 0.75 * spilled)
        return -(-rows // height) * (columns // width * step + columns % width * 4 * height) * depth


class CudaTiles:
    """Products in tiles of Triton programs."""

    tiles, good = CUDA_TILES, CUDA_GOOD

    def __init__(self, like):
        self.kernel = kernels.kernel("product")
        self.processors = torch.cuda.get_device_properties(like.device).multi_processor_count

    def product(self, x, w, out, tile):
        rows, columns, depth, warps, stages = tile
        stages = 2 * stages // x.element_size()  # which lie in shared memory
        grid = (-(-len(x) // rows), -(-w.shape[1] // columns))
        constants = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "num_warps": warps, "num_stages": stages}
        self.kernel[grid](x, w, out, len(x), *w.shape, **constants)

    def seconds(self, call):
        """The shortest of several times of a call, in a graph: a launch takes longer than many a call."""
        graph = graphs.captured(lambda: [call() for _ in range(TIMES)])
        times = []
        for _ in range(1 + TIMES):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3 / TIMES)
        return min(times[1:])

    def predicted(self, tile, rows, depth, columns):
        """Waves of programs, times the steps of each: products or loads, whichever take longer.

        In units of the loads of 4 KiB: on sm_80 and sm_90 some 64 x 64 x 32 products take as long, or half of it.
        """
        height, width, deep, *_ = tile
        waves = -(-(-(-rows // height) * -(-columns // width)) // self.processors)
        products, loads = height * width * deep / (64 * 64 * 32), (height + width) * deep / (64 * 32)
        return waves * (-(-depth // deep) * max(products, loads, 0.5) + 8)


def tiles_beside(like):
    """The tiles of the device of this tensor."""
    return (CudaTiles if like.is_cuda else CpuTiles)(like)


@both.baseline(kind="reasonable")
class OneTile:
    def prepare(self, narrow, wide, qkv, up, down, tokens, rounds):
        self.machine = tiles_beside(qkv)
        self.out: Any = []
        self.calls: Any = []
        cases: dict[Any, Any] = {}
        for (size, _), x, y in zip(batches(tokens, rounds), narrow, wide, strict=True):
            self.out.append([])
            for name, given, w in (("qkv", x, qkv), ("up", x, up), ("down", y, down)):
                self.out[-1].append(given.new_empty(len(given), w.shape[1]))
                for part, out in zip(given.split(size), self.out[-1][-1].split(size), strict=True):
                    self.calls.append((part, w, out, (size, name)))
                    cases.setdefault((size, name), (part, w, out))
        self.table = self.tune(cases)
        for shape, case in cases.items():  # what the calls need is compiled
            self.machine.product(*case, self.table[shape])

    def run(self):
        for x, w, out, shape in self.calls:
            self.machine.product(x, w, out, self.table[shape])
        return self.out

    def tune(self, cases):
        """A tile for each shape, a batch and the name of a matrix. `cases` has a product of each."""
        return {shape: self.choose(x, w, out) for shape, (x, w, out) in cases.items()}

    def choose(self, x, w, out):
        """A tile for this product."""
        return self.machine.good

    def fastest(self, tiles, *case):
        """The tile whose shortest time of several is the shortest."""
        product, seconds = self.machine.product, self.machine.seconds
        return min(tiles, key=lambda tile: seconds(lambda: product(*case, tile)))


@both.variant(adds="rule by shape", why="a tile that is no taller than the batch multiplies no rows that do not exist")
class ByRule(OneTile):
    def choose(self, x, w, out):
        good = self.machine.good
        height = min((tile[0] for tile in self.machine.tiles if tile[0] >= len(x)), default=good[0])
        # In all else as near to the good tile as there is one.
        same = [tile for tile in self.machine.tiles if tile[0] == min(height, good[0])]
        return min(same, key=lambda tile: [abs(one - other) for one, other in zip(tile[1:], good[1:], strict=True)])


@both.variant(adds="tuned table", why="the tile of each shape is the fastest of all, as timed on this machine")
class Exhaustive(OneTile):
    def choose(self, x, w, out):
        return self.fastest(self.machine.tiles, x, w, out)


@both.variant(
    builds_on="exhaustive",
    adds="nearest shape",
    why="tiles of the smallest and the largest batch serve those between, for a part of the trials",
    teaches="a tile that suits both ends is not the best between them: spared trials cost time in every call",
)
class Transferred(Exhaustive):
    def tune(self, cases):
        ends = (min(cases)[0], max(cases)[0])
        tuned = super().tune({shape: case for shape, case in cases.items() if shape[0] in ends})
        return {(size, name): tuned[min(ends, key=lambda one: abs(math.log(one / size))), name] for size, name in cases}


@both.variant(
    builds_on="exhaustive",
    adds="pruning by a model",
    why="padding, waves and traffic rank the tiles, and only the first two are timed",
    teaches="a model of three terms comes close to trying all tiles, for a tenth of the trials",
)
class Pruned(Exhaustive):
    def choose(self, x, w, out):
        shape = (len(x), *w.shape)
        ranked = sorted(self.machine.tiles, key=lambda tile: self.machine.predicted(tile, *shape))
        return self.fastest(ranked[:KEPT], x, w, out)


@both.yardstick(why="the library's product, cuBLAS or MKL, whose own tables choose by shape")
class Library(OneTile):
    def prepare(self, narrow, wide, qkv, up, down, tokens, rounds):
        self.out, self.calls = [], []
        for (size, _), x, y in zip(batches(tokens, rounds), narrow, wide, strict=True):
            cases = ((x, qkv), (x, up), (y, down))
            self.out.append([given.new_empty(len(given), w.shape[1]) for given, w in cases])
            for (given, w), out in zip(cases, self.out[-1], strict=True):
                self.calls += [(part, w, into) for part, into in zip(given.split(size), out.split(size), strict=True)]

    def run(self):
        for x, w, out in self.calls:
            torch.mm(x, w, out=out)
        return self.out

"""Aggregated atomics: one request to a counter for a block of elements, not one for each.

Question    Threads write what they keep side by side. Who gives out the places?
Numbers     The elements of 2^27 int32 that are not negative, 1 in 2 (`--size few` 1 in 10, `--size most` 9 in 10): 0.54
            GB read and 0.27 GB written, 0.19 ms at 4.25 TB/s. Two passes count, add up and write: 0.54 GB more, 0.32
            ms. One address takes an atomic a clock of L2, some 1.7 GHz.
Prediction  An atomic for each of 67 million elements: 39 ms, in proportion to what is kept. One for each of 4.2 million
            warps: 2.5 ms, whatever is kept. One for each of 16,384 blocks: 10 us, hidden, so 0.32 / 0.19 = 1.7x of two
            passes. Blocks that look back wait for those before, and keep the order.
Limits      `per_thread`, `per_warp` and `per_block` give up the order, which differs from call to call; judged is
            that no element is lost. Few elements kept, such as 1 in 1,000: an atomic for each is hidden too. With many
            counters, the lanes of a warp want different ones.
"""

import torch

from aiperf_core import Benchmark, Cost, exact, lossy
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("atomics_aggregation.cu"), host_source("atomics_aggregation.c")

THREADS = 256
TILE = 32 * THREADS


@bench.workload(
    smoke={"n": 4099, "share": 0.5},
    cpu={"n": 1 << 22, "share": 0.5},
    cuda={"n": 1 << 27, "share": 0.5},
    few={"n": 1 << 27, "share": 0.1},
    most={"n": 1 << 27, "share": 0.9},
)
def inputs(n, share, device, generator):
    values = torch.randint(1 << 31, (n,), device=device, generator=generator, dtype=torch.int32)
    # As many in each draw, at random places.
    order = torch.randperm(n, device=device, generator=generator, dtype=torch.int32)
    return {"a": torch.where(order < kept_of(n, share), values, -1 - values)}


def kept_of(n, share):
    return round(n * share)


@bench.reference(tolerance=exact)
def reference(a):
    return a[a >= 0]


@bench.cost
def cost(n, share):
    return Cost(bytes_read=4 * n, bytes_written=4 * kept_of(n, share))


@bench.metric
def lost(output, reference):
    """The part of the elements that differ from the reference, both sorted."""
    if not len(reference):
        return 0.0
    return float((output.sort().values != reference.sort().values).double().mean())


# An element that is kept; some of a warp; all, and a tile and one more; none but one; several tiles.
bench.awkward(*({"n": n, "share": share} for n, share in ((1, 1), (31, 0.3), (8193, 1), (8192, 1e-4), (50_021, 0.7))))
# One read and one write of 0.81 GB; of stores, the first and the last sector of each warp's part are not whole.
cuda.reach(of="BW", at_least=0.85)
bench.sass("per_thread", has="ATOMG", lacks="POPC", arch="sm_90a")
bench.sass("per_warp", has=("VOTE", "ATOMG", "POPC"))
bench.sass("per_block", has=("VOTE", "ATOMG", "POPC"), lacks=("LDL", "STL"))


def kept_values(a, n, share):
    """Memory for what is kept."""
    return a.new_empty(kept_of(n, share))


def tiles_of(n):
    return -(-n // TILE)


def counter(a):
    return a.new_zeros(1)


counted = launch(
    device_code, out=kept_values, make={"counter": counter}, zero=("counter",), grid=blocks(n=THREADS), block=THREADS
)
loops = loop(host_code, out=kept_values)
any_order = lossy("lost", at_most=1e-12)  # none


@cuda.baseline(kind="reasonable")
class TwoPasses:
    def prepare(self, a, n, share):
        self.out, self.counts = kept_values(a, n, share), a.new_empty(tiles_of(n))
        self.sums = torch.empty_like(self.counts)
        self.count, self.write = device_code.kernel("count_tiles"), device_code.kernel("write_tiles")

    def run(self, a, n):
        self.count(a, self.counts, n, grid=len(self.counts), block=THREADS)
        torch.cumsum(self.counts, 0, dtype=torch.int32, out=self.sums)
        self.write(a, self.out, self.sums, n, grid=len(self.counts), block=THREADS)
        return self.out


cuda.variant(
    counted("per_thread"),
    adds="atomic counter",
    why="each element gets its place at once, so that all is read in one pass",
    predict="at most 0.1x: 67 million atomics on one address, one a clock, in place of 0.32 ms",
    teaches="one address serves an atomic a clock: a second pass over all elements costs less than a hundredth of that",
    lossy=any_order,
)
cuda.variant(
    counted("per_warp"),
    builds_on="per_thread",
    adds="warp aggregation",
    why="a ballot counts the lanes that keep something, and one of them asks for all",
    predict="8 to 16x: 4.2 million atomics for 67 million",
    lossy=any_order,
)
cuda.variant(
    counted("per_block", grid=blocks(n=TILE)),
    builds_on="per_warp",
    adds="block aggregation",
    why="8192 elements ask once: ballots count within warps, and shared memory has the sums of warps",
    predict="6 to 20x: 16,384 atomics are hidden behind 0.19 ms of bytes",
    lossy=any_order,
)
cuda.variant(
    launch(
        device_code,
        out=kept_values,
        make={"states": lambda a, n: torch.zeros(tiles_of(n) + 1, dtype=torch.int64, device=a.device)},
        zero=("states",),
        grid=blocks(n=TILE),
        block=THREADS,
    )("look_back"),
    builds_on="per_block",
    adds="decoupled look-back",
    why="a block's place is what the blocks before publish, not what a counter says: the order stays",
    predict="0.6 to 1.0x: the same bytes, and waits for the blocks before",
    teaches="order has a price: a block cannot store before it knows the sums of those before it",
)

cpu.baseline(loops("two_passes"), kind="reasonable")
cpu.variant(
    loops("per_element"),
    adds="atomic counter",
    why="each element gets its place at once, so that all is read in one pass",
    predict="at most 0.5x: an atomic is some 20 cycles, and its line goes from core to core",
    teaches="an atomic for each element costs more than to read all of them again",
    lossy=any_order,
)
cpu.variant(
    loops("per_block"),
    builds_on="per_element",
    adds="block aggregation",
    why="4096 elements are moved in the core's own cache, and ask once",
    predict="at least 3x: no atomic for an element, and no branch that depends on it",
    lossy=any_order,
)


@bench.yardstick(device=("cpu", "cuda"), name="masked_select", why="torch.masked_select, which keeps the order")
def masked_select(a):
    return torch.masked_select(a, a >= 0)

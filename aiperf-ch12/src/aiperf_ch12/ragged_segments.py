"""Ragged work: threads with equal shares of all elements need not know whose segment is long.

Question    A few segments of a list are a thousand times as long as the others. Who reads them?
Numbers     The means of 60,000 segments of 128 to 1024 float32 values and of 16 of a million, in shuffled order: 51
            million values, 202 MB, 46 us at 4.4 TB/s. A block of 256 threads has 8 loads of 4 bytes under way, 8 KB in
            all: in 0.6 to 0.8 us each, a million values take 0.3 to 0.4 ms.
Prediction  A block for each segment ends with the longest: 5 to 9x the floor. A queue changes the order, but not the
            longest. Equal shares of 4096 elements take the floor, and a second kernel for what shares carry over.
Limits      Segments of one length: a block for each is as good, and has no second kernel. Segments of a few elements: a
            warp for each share spends its time on sums of lanes; a thread for each short segment is better then. The
            order of a sum depends on where shares begin.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import filling, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
device_code = cuda_source("ragged_segments.cu")
host_code = host_source("ragged_segments.c")

THREADS, SHARE = 256, 4096
WARPS = THREADS // 32
SHORTEST, LONGEST = 128, 1024
SHUFFLED = 1  # the seed of the order


@bench.workload(
    smoke={"short": 61, "long": 2, "length": 9001},
    cpu={"short": 3000, "long": 1, "length": 1 << 22},
    cuda={"short": 60_000, "long": 16, "length": 1_000_000},
    equal={"short": 85_000, "long": 0, "length": 0},
)
def inputs(short, long, length, device, generator):
    # Means are not near zero, so that a sum's terms do not cancel.
    return {"x": 1 + torch.randn(elements_of(short, long, length), device=device, generator=generator)}


@bench.static
def segments_of(short, long, length, device):
    order = torch.randperm(short + long, generator=torch.Generator().manual_seed(SHUFFLED))
    return {"ends": lengths(short, long, length)[order].cumsum(0).to(device, torch.int32)}


def lengths(short, long, length):
    """Short segments of evenly spread lengths, and long ones."""
    spread = SHORTEST + (LONGEST - SHORTEST + 1) * torch.arange(short) // max(short, 1)
    return torch.cat((spread, torch.full((long,), int(length))))


def elements_of(short, long, length):
    return int(lengths(short, long, length).sum())


@bench.reference(tolerance=fp32_reduction)
def reference(x, ends):
    sums = torch.cat((x.new_zeros(1), x.cumsum(0)))[ends.long()]
    counts = ends.diff(prepend=ends.new_zeros(1))
    return sums.diff(prepend=x.new_zeros(1)) / counts.clamp(min=1)


@bench.cost
def cost(short, long, length):
    count = elements_of(short, long, length)
    return Cost(bytes_read=4 * (count + short + long), bytes_written=4 * (short + long), flops=count)


# One segment of one element; empty segments, alone and among others; segments as long as a share, and one less.
bench.awkward(
    {"short": 0, "long": 1, "length": 1},
    {"short": 1, "long": 0, "length": 0},
    {"short": 5, "long": 4100, "length": 0},
    {"short": 0, "long": 3, "length": SHARE - 1},
    {"short": 0, "long": 2, "length": SHARE},
    {"short": 7, "long": 1, "length": 50_021},
)
# A read of the list at 0.9 of the rate, and a second kernel of some 3 us beside 46 us.
cuda.reach(
    of="RBW",
    at_least=0.8,
    implementation="merge_path",
    cause="a part of the time does not depend on the elements: with sixteen times the short segments it is reached",
    shown_by="size:short=960000",
)


def longest_first(ends):
    return torch.argsort(ends.diff(prepend=ends.new_zeros(1)), descending=True).to(torch.int32)


def means(ends, x):
    return x.new_empty(len(ends))


by_segments = launch(device_code, out=means, grid=lambda ends: len(ends), block=THREADS)

cuda.baseline(by_segments("block_per_segment"), kind="reasonable")
cuda.variant(
    launch(
        device_code,
        out=means,
        make={
            "order": longest_first,
            "segments": lambda ends: len(ends),
            "next": lambda ends: ends.new_zeros(1),
        },
        zero=("next",),
        grid=filling(at_most=lambda ends: len(ends)),
        block=THREADS,
    )("queue"),
    adds="longest first queue",
    why="blocks take the next segment when they are done, the longest first, so that none begins near the end",
    predict="0.9 to 1.2x: the longest segment begins at once, and is as long as before",
    teaches="a queue balances items and splits none: one that is longer than its share of all is the time",
)


@cuda.variant(
    name="merge_path",
    adds="equal shares",
    why="warps share one list of all elements and ends equally, and the parts of a segment are added up at the end",
    predict="3 to 6x: 202 MB at the rate of all blocks, 50 us, and a second kernel for what is carried over, in place "
    "of 4 MB at the rate of one block, 0.3 ms",
)
class MergePath:
    def prepare(self, x, ends):
        self.out = means(ends, x)
        self.segments, self.elements = len(ends), len(x)
        self.shares = -(-(self.segments + self.elements) // SHARE)
        self.owner, self.carry = ends.new_empty(self.shares), x.new_empty(self.shares)
        self.equal_shares, self.add_carries = map(device_code.kernel, ("equal_shares", "add_carries"))

    def run(self, x, ends):
        shape, carried = {"grid": -(-self.shares // WARPS), "block": THREADS}, (self.owner, self.carry, self.segments)
        self.equal_shares(x, ends, self.out, *carried, self.elements, self.shares, **shape)
        self.add_carries(ends, self.out, *carried, self.shares, **shape)
        return self.out


in_c = loop(host_code, out=means, make={"segments": lambda ends: len(ends), "elements": lambda x: len(x)})
cpu.baseline(in_c("segments_each"), kind="reasonable")
cpu.variant(
    in_c("queue", make={"order": longest_first, "segments": lambda ends: len(ends)}),
    adds="longest first queue",
    why="threads take the next segment when they are done, the longest first",
    predict="1 to 1.3x: 4.2 million elements of the longest in place of 5.1 million of a half",
)
cpu.variant(
    in_c("merge_path"),
    adds="equal shares",
    why="each thread has half of all elements, also if that is a part of a segment",
    predict="1.2 to 1.8x: 2.9 million elements in place of 5.1 million",
)


@bench.yardstick(device=("cpu", "cuda"), name="segment_reduce", why="torch.segment_reduce, whose mean may not be empty")
class SegmentReduce:
    def prepare(self, ends):
        self.offsets = torch.cat((ends.new_zeros(1), ends))

    def run(self, x):
        return torch.segment_reduce(x, "mean", offsets=self.offsets, initial=0)

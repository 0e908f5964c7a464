"""Work that is found at run time: squares are divided where the integrand is sharp, and nobody knows where before.

Question    An integral needs small squares in few places. Who learns of the next ones: the host, a launch whose size is
            known before, or a warp that takes them from a queue?
Numbers     64 peaks of width 2^-9 over 64 x 64 regions. The finest squares everywhere are 2048^2, of 16 points each: 67
            M points of 64 peaks, 43 G instructions, 1.4 ms. A warp looks at the four quarters of a square, by 32 points
            each: some 41,000 squares in five levels, 3.4 G instructions, 0.11 ms.
Prediction  Levels cost a launch, and where the host reads how many squares are left a wait too, 15 to 25 us: 0.1 ms for
            five levels beside 0.11 ms of work. Launches that read the number themselves wait for no host. A queue of
            one launch has no levels, whose ends leave warps without work, but three atomics a square.
Limits      A bound of levels must be known for launches without the host. Functions that are sharp everywhere: the
            finest squares at once are less work. A queue needs room for all squares. Launches from the device need
            relocatable device code, which is linked with the toolkit's library; they are not measured here.
"""

import math
from typing import Any

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("dynamic_parallelism.cu")

THREADS, PLACES = 256, 5  # a block; the seed of the peaks' places
OPERATIONS = 10  # of a point for each peak

disagreement = Tolerance(2e-4, reason="a square is done where two rules differ by 2^-24 of a peak")


@bench.workload(
    smoke={"peaks": 4, "regions": 8, "log2_narrow": 5, "deepest": 4, "digits": 20, "room": 1 << 12},
    cuda={"peaks": 64, "regions": 64, "log2_narrow": 9, "deepest": 5, "digits": 24, "room": 1 << 16},
)
def inputs(peaks, device, generator):
    # Of about one height, so that as many squares are divided in each draw.
    return {"heights": 1 + torch.rand(peaks, device=device, generator=generator) / 16}


@bench.static
def places(peaks, device):
    return {"centres": torch.rand(2, peaks, generator=torch.Generator().manual_seed(PLACES)).to(device)}


@bench.reference(tolerance=disagreement)
def reference(heights, centres, regions, log2_narrow):
    # A peak is a product of two functions whose integral is an arc tangent.
    edges = torch.linspace(0, 1, int(regions) + 1, dtype=heights.dtype, device=heights.device)[:, None]
    below = [torch.atan((edges - each.to(heights.dtype)) * 2.0**log2_narrow) / math.pi for each in centres]
    along_x, along_y = (each.diff(dim=0) for each in below)
    return (along_x * heights) @ along_y.T


@bench.cost
def cost(peaks, regions, deepest):
    # A rule of 16 points for each region at least.
    return Cost(bytes_read=12 * peaks, bytes_written=4 * regions**2, flops=OPERATIONS * 16 * peaks * regions**2)


def cost_of_levels(peaks, regions, deepest):
    """A launch a level, one after another."""
    return evolve(cost(peaks, regions, deepest), launches=deepest)


def cost_of_finest(peaks, regions, deepest):
    """The rule for each of the finest squares."""
    finest = regions << deepest
    return evolve(cost(peaks, regions, deepest), flops=OPERATIONS * 16 * peaks * finest**2)


bench.accept("cost.flops", because="the reference is a closed form")
bench.awkward(
    {"peaks": 1, "regions": 1, "log2_narrow": 0, "deepest": 1},
    {"peaks": 3, "regions": 5, "log2_narrow": 3, "deepest": 7},
)
cuda.reach(of="speedup", at_least=3, implementation="queue")  # a twelfth of the points, at a quarter of the rate
bench.sass("queue", has=("MUFU.RCP", "SHFL.BFLY"))


class Squares:
    """Squares in a list, each as a code; regions are the first."""

    record: Any

    def prepare(self, heights, centres, peaks, regions, log2_narrow, deepest, digits, room):
        self.out, self.deepest, self.room = heights.new_empty(regions, regions), deepest, room
        self.given = (centres, heights, peaks, log2_narrow, regions, deepest)
        self.digits, self.calls = digits, Recording()
        self.record()

    def begin(self, counts, filled):
        """Record that the list has the regions, that nothing is added, and what is counted at the start."""
        regions = len(self.out)
        number = torch.arange(regions * regions)
        first = torch.zeros(filled, dtype=torch.int64)
        first[: len(number)] = (number // regions * (1 << 28) | number % regions) + 1
        self.families, self.counts = self.out.new_empty(self.room, dtype=torch.int64), counts.to(self.out.device)
        self.first, self.start = first.to(self.out.device), self.counts.clone()
        self.zeros = torch.zeros_like(self.out)
        for place, value in ((self.families[:filled], self.first), (self.counts, self.start), (self.out, self.zeros)):
            self.calls.copy(place, value)

    def launch(self, calls, kernel, *more):
        code = device_code.kernel(kernel)
        given = (self.out, self.families, self.counts, *self.given, self.digits, *more, self.room)
        calls.launch(code, *given, grid=grid_that_fills(code, THREADS), block=THREADS)

    def run(self):
        self.calls.play()
        return self.out


@cuda.baseline(kind="naive", cost=cost_of_finest)
class Flat(Squares):
    """The finest squares everywhere."""

    def record(self):
        self.calls.launch(device_code.kernel("flat"), self.out, *self.given, grid=self.out.numel(), block=THREADS)


class Levels(Squares):
    """A launch for each level, of which the kernel reads how many squares it has."""

    def record(self):
        regions = self.out.numel()
        self.begin(torch.tensor([regions, *[0] * self.deepest], dtype=torch.int32), regions)
        for number in range(self.deepest):
            self.level(number)

    def level(self, number):
        self.launch(self.calls, "level", number)


@cuda.variant(
    adds="levels by the host",
    why="only squares that two rules disagree about are divided; the host reads how many there are after each level",
    predict="3 to 9x: 0.11 ms of work and 0.1 ms of launches and waits, in place of 1.4 ms",
)
class HostLevels(Levels):
    def record(self):
        self.levels: list[Recording] = []
        self.left = torch.zeros(self.deepest + 1, dtype=torch.int32, pin_memory=True)
        super().record()

    def level(self, number):
        calls = Recording()
        self.launch(calls, "level", number)
        self.levels.append(calls)

    def run(self):
        self.calls.play()
        for number, level in enumerate(self.levels, 1):
            level.play()
            self.left.copy_(self.counts)  # waits
            if not self.left[number]:
                break
        return self.out


cuda.variant(
    graphed(Levels),
    name="bounded_levels",
    cost=cost_of_levels,
    builds_on="host_levels",
    adds="levels in a graph",
    why="as many launches as there can be levels, which read on the device how many squares they have: nobody waits",
    predict="1.2 to 2x: five nodes of a few us in place of five waits of 15 to 25 us, beside 0.11 ms",
)


@cuda.variant(
    builds_on="bounded_levels",
    adds="work queue",
    why="a warp takes the next square when it is there, of whatever level, and no level waits for the end of another",
    teaches="five levels of thousands of squares fill the chip, and their ends cost less than three atomics a square: "
    "a queue pays where levels are many and short",
)
class Queue(Squares):
    def record(self):
        regions = self.out.numel()
        self.begin(torch.tensor([0, regions, regions], dtype=torch.int32), self.room)
        self.launch(self.calls, "queue")

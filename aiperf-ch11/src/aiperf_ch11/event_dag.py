"""Dependencies: a tile can start when its own inputs are ready, and not when the slowest tile is.

Workload   Tiles of float32 go through stages. A stage takes the mean of a tile and of the tile before it, and then one
           round, or for every sixth tile eight: a product with the stage's weights, and relu. Which tiles are slow
           differs from stage to stage. On a GPU each tile has a stream; on a processor two threads take tiles.
Baseline   All tiles of a stage, then a wait for all, then the next stage. While the slow tiles finish, most of
           the chip is idle.
Variants   `events`: a tile waits for the two tiles that it reads. cuda: streams wait for events; the host launches the
           whole call ahead. cpu: when a tile is over, those that it was the last input of are queued.
           `events_graph` (cuda): the same dependencies, captured in a graph.  `barriers_graph` (cuda): the stages of
           the baseline in a graph, to tell the gain of dependencies from that of launches.
Breaks     Tiles of equal cost that fill the chip: a barrier then costs only itself. Tiles that are all read by each
           tile of the next stage, which is a barrier by nature. A chain of slow tiles: that is the longest path, and no
           order is shorter.
"""

import math
import queue
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import graphed
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("event_dag.c", options=("-ffp-contract=fast",))

STREAMS, THREADS = 12, 2
EVERY, SLOW = 6, 8


@bench.workload(
    smoke={"stages": 3, "tiles": 7, "rows": 3, "width": 17},
    cpu={"stages": 4, "tiles": 6, "rows": 128, "width": 256},
    cuda={"stages": 4, "tiles": 12, "rows": 128, "width": 1024},
)
def inputs(stages, tiles, rows, width, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    # Half of the values are lost to relu: this factor keeps the size of the rest.
    return {"x": normal(tiles, rows, width), "weights": normal(stages, width, width) * math.sqrt(2 / width)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, weights):
    for stage, weight in enumerate(weights):
        mixed = (x + x.roll(1, 0)) / 2
        for tile in range(len(x)):
            for _ in range(rounds(stage, tile)):
                mixed[tile] = torch.relu(mixed[tile] @ weight)
        x = mixed
    return x


@bench.cost
def cost(stages, tiles, rows, width):
    count = sum(rounds(stage, tile) for stage in range(stages) for tile in range(tiles))
    return Cost(
        bytes_read=4 * (tiles * rows * width + stages * width * width),
        bytes_written=4 * tiles * rows * width,
        flops=2 * count * rows * width * width,
    )


# One tile, which is also the tile before it; two, each before the other.
bench.awkward(
    {"stages": 1, "tiles": 1, "rows": 1, "width": 1},
    {"stages": 3, "tiles": 1, "rows": 5, "width": 31},
    {"stages": 5, "tiles": 2, "rows": 2, "width": 67},
    {"stages": 2, "tiles": 13, "rows": 1, "width": 33},
)
cuda.reach(of="time:barriers_graph", at_most=0.75, implementation="events_graph")


def rounds(stage, tile):
    """How many rounds a tile needs in a stage: the third or the sixth of six tiles is slow."""
    return SLOW if (tile - 3 * stage) % EVERY == EVERY - 1 else 1


class Tiles:
    """Stages on streams. Results and spare places are of each stage and tile, so that no tile waits for a place."""

    def prepare(self, x, stages, tiles):
        self.results, self.spare = (x.new_empty(stages, *x.shape) for _ in range(2))
        self.streams = [torch.cuda.Stream() for _ in range(min(tiles, STREAMS))]
        self.done = [[torch.cuda.Event() for _ in range(tiles)] for _ in range(stages)]

    def run(self, x, weights):
        caller = torch.cuda.current_stream()
        for stream in self.streams:
            stream.wait_stream(caller)
        for stage, weight in enumerate(weights):
            for tile in range(len(x)):
                with torch.cuda.stream(self.streams[tile % STREAMS]):
                    self.before(stage, tile)
                    self.launch(x, weight, stage, tile)
                    self.after(stage, tile)
            self.between(caller)
        for stream in self.streams:
            caller.wait_stream(stream)
        return self.results[-1]

    def launch(self, x, weight, stage, tile):
        """Launch the operations of a stage on a tile."""
        inputs, count = self.results[stage - 1] if stage else x, rounds(stage, tile)
        places = self.results[stage, tile], self.spare[stage, tile]
        here, there = places if count % 2 == 0 else places[::-1]
        torch.lerp(inputs[tile], inputs[tile - 1], 0.5, out=here)
        for _ in range(count):
            torch.mm(here, weight, out=there).relu_()
            here, there = there, here

    def before(self, stage, tile):
        """Called before a tile's launches, on its stream."""

    def after(self, stage, tile):
        """Called behind them."""

    def between(self, caller):
        """Called between stages."""


@cuda.baseline(kind="reasonable", name="barriers")
class Barriers(Tiles):
    def between(self, caller):
        torch.cuda.synchronize()


@cuda.variant(
    name="events", adds="events", why="a stream waits for the two tiles that it reads, and nothing waits for the rest"
)
class Events(Tiles):
    def before(self, stage, tile):
        if stage:
            torch.cuda.current_stream().wait_event(self.done[stage - 1][tile - 1])

    def after(self, stage, tile):
        self.done[stage][tile].record()


class Joined(Tiles):
    def between(self, caller):
        for stream in self.streams:
            caller.wait_stream(stream)
        for stream in self.streams:
            stream.wait_stream(caller)


cuda.variant(
    graphed(Joined),
    name="barriers_graph",
    adds="graph",
    why="barriers that the host does not wait at; the slow tiles remain",
)
cuda.variant(
    graphed("events"),
    builds_on="events",
    adds="graph",
    why="the dependencies are those of the events, and nothing is launched",
)


class Pooled:
    """Stages by threads, of which each takes the next tile that is ready."""

    def prepare(self, x, stages):
        self.results, self.spare = (x.new_empty(stages, *x.shape) for _ in range(2))
        self.stage = host_code.function("stage")

    def work(self, x, weights, stage, tile):
        """A stage of a tile."""
        inputs = self.results[stage - 1] if stage else x
        places = self.results[stage, tile], self.spare[stage, tile]
        self.stage(inputs[tile], inputs[tile - 1], weights[stage], *places, rounds(stage, tile), *x.shape[1:])


@cpu.baseline(kind="reasonable", name="barriers")
class StagesOfThreads(Pooled):
    def run(self, x, weights):
        with ThreadPoolExecutor(THREADS) as threads:
            for stage in range(len(weights)):
                list(threads.map(lambda tile, stage=stage: self.work(x, weights, stage, tile), range(len(x))))
        return self.results[-1]


@cpu.variant(
    name="events", adds="events", why="a tile is ready when the two that it reads are, and threads take what is ready"
)
class TilesOfThreads(Pooled):
    def run(self, x, weights):
        stages, tiles = len(weights), len(x)
        missing = [[min(tiles, 2)] * tiles for _ in range(stages)]  # inputs that are not yet there
        done: queue.SimpleQueue[tuple[Future[None], int, int]] = queue.SimpleQueue()
        with ThreadPoolExecutor(THREADS) as threads:

            def submit(stage, tile):
                future = threads.submit(self.work, x, weights, stage, tile)
                future.add_done_callback(lambda future: done.put((future, stage, tile)))

            for tile in range(tiles):
                submit(0, tile)
            for _ in range(stages * tiles):
                future, stage, tile = done.get()
                future.result()
                for reader in {tile, (tile + 1) % tiles} if stage + 1 < stages else ():
                    missing[stage + 1][reader] -= 1
                    if not missing[stage + 1][reader]:
                        submit(stage + 1, reader)
        return self.results[-1]

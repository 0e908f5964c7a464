"""Dependencies: a tile can start when its own inputs are ready, and not when the slowest tile is.

Question    What does a barrier between stages cost, when the tiles of a stage take different times?
Numbers     12 tiles of 128 x 512 float32 values go through 4 stages. A stage takes the mean of a tile and of the tile
            before it, then one round, or for two of the 12 tiles eight: a product with the stage's weights, and relu.
            A round has 4 blocks and takes about 300 us; all tiles together never fill the chip. On a GPU each tile
            has a stream; on a processor two threads take tiles.
Prediction  With barriers each stage lasts 8 rounds: 32. The longest path of dependencies is 8 + 1 + 8 + 1 = 18 rounds:
            1.78x at most. The host makes some 260 calls of 2 to 6 us, and slow tiles wait for those before theirs: a
            graph saves that.
Limits      Tiles of equal cost: a barrier then costs only itself. If every tile of a stage reads every tile of the one
            before, the dependencies are a barrier. With rounds below about 50 us the launches are the path.
"""

import math
import queue
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="speed", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda", requires="compiler"), bench.on("cpu", requires="compiler")
device_code = cuda_source("event_dag.cu")
host_code = host_source("event_dag.c", options=("-ffp-contract=fast",))

STREAMS, THREADS = 12, 2
EVERY, SLOW = 6, 8
BLOCKS, TILE = 4, 32  # of a round, each with TILE x TILE threads


@bench.workload(
    smoke={"stages": 3, "tiles": 7, "rows": 3, "width": 17},
    cpu={"stages": 4, "tiles": 6, "rows": 128, "width": 256},
    cuda={"stages": 4, "tiles": 12, "rows": 128, "width": 512},
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
# The longest path, 18 of 32 rounds, and 8 % for the nodes between them.
cuda.reach(of="time:barriers", at_most=18 / 32 * 1.08, implementation="events_graph")


def rounds(stage, tile):
    """How many rounds a tile needs in a stage: the third or the sixth of six tiles is slow."""
    return SLOW if (tile - 3 * stage) % EVERY == EVERY - 1 else 1


class Tiles:
    """Stages on streams. Results and spare places are of each stage and tile, so that no tile waits for a place."""

    def prepare(self, x, weights, stages, tiles):
        self.results, self.spare = (x.new_empty(stages, *x.shape) for _ in range(2))
        self.streams = range(1, 1 + min(tiles, STREAMS))
        self.calls, self.done = Recording(streams=1 + len(self.streams)), {}
        for stage in range(stages):
            for tile in range(tiles):
                stream = 1 + tile % STREAMS
                self.before(stage, tile, stream)
                self.launch(x, weights, stage, tile, stream)
                self.done[stage, tile] = self.calls.record(stream=stream)
            self.between()

    def launch(self, x, weights, stage, tile, stream):
        """Launch the rounds of a stage on a tile; the first reads two tiles."""
        inputs, count = self.results[stage - 1] if stage else x, rounds(stage, tile)
        kernel, pair, block = device_code.kernel("product"), (inputs[tile], inputs[tile - 1]), (TILE, TILE)
        for left in reversed(range(count)):
            out = (self.spare if left % 2 else self.results)[stage, tile]
            given = (out, *pair, weights[stage], *x.shape[1:])
            self.calls.launch(kernel, *given, grid=BLOCKS, block=block, stream=stream)
            pair = out, None

    def before(self, stage, tile, stream):
        """Called before a tile's launches."""

    def between(self):
        """Called behind each stage."""

    def run(self):
        self.calls.play()
        return self.results[-1]


@cuda.baseline(kind="reasonable", name="barriers")
class Barriers(Tiles):
    def between(self):
        for stream in self.streams:
            self.calls.finish(stream)


@cuda.variant(
    name="events",
    adds="events",
    why="a stream waits for the two tiles that it reads, and nothing waits for the rest",
    predict="1.2 to 1.78x: 18 rounds on the longest path in place of 32, and the calls of the host",
)
class Events(Tiles):
    def before(self, stage, tile, stream):
        if stage:
            self.calls.wait(self.done[stage - 1, (tile - 1) % len(self.results[0])], stream=stream)


cuda.variant(
    graphed("events"),
    builds_on="events",
    adds="graph",
    why="the dependencies are those of the events, and no tile waits for launches of the tiles before it",
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

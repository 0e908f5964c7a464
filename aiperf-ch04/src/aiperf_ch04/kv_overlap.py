"""KV overlap: hand over the cache of a layer while the next one is computed.

Question    How much of a prompt's hand-over can be done by the time its prefill ends?
Numbers     32 layers of 8192 tokens and width 4096 in bfloat16; a layer's product, 275 GFLOP, makes its keys and
            values, 67 MB, which the next rank, in a ring, needs. In all 8.8 TFLOP and 2.1 GB: 4096 operations a byte
            that is sent, which is the width. At 700 TFLOP/s 13 ms, at 380 GB/s 5.7 ms.
Prediction  The baseline takes the sum. With a message a layer, what is left at the end is one of 32 layers: at most
            (13 + 5.7) / (13 + 0.2) = 1.4x. Messages take multiprocessors from the products, so `by_layer` stays below;
            `puts` leaves them to copy engines. On a CPU the processors that compute also move the messages: no gain.
Limits      Below 700 / 0.38 = 1,800 operations a byte the transfer is the longer of both, and only the prefill is
            hidden. Prompts so short that a message for each layer is latency: below some 200 tokens a layer's 1.6 MB
            take less than the 5 us that a message takes to start.
"""

import torch

from aiperf_ch04.rounding import ONE_ROUNDING
from aiperf_core import Benchmark, Cost, Tolerance, units
from aiperf_core.distributed import exchange, put, symmetric_buffers, wait_all

bench = Benchmark(
    goal="latency",
    clock="wall",
    no_gain_on={
        "cpu": "the processors that compute the layers also move the messages, so that nothing is left to hide"
    },
)
# A random matrix neither shrinks nor stretches an error against what it is an error of: roundings add up.
DEEPEST = 32
all_layers = Tolerance(
    1.5e-2,
    reason=f"{DEEPEST} roundings to bfloat16 in a row, of {units.percent(ONE_ROUNDING)} each, are off by "
    f"{units.percent(ONE_ROUNDING * DEEPEST**0.5)}, with half as much again to spare",
)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")


@bench.workload(
    smoke={"layers": 3, "tokens": 37, "width": 29, "world_size": 2},
    cpu={"layers": 4, "tokens": 512, "width": 128, "world_size": 2},
    cuda={"layers": 32, "tokens": 8192, "width": 4096, "world_size": 2},
)
def inputs(tokens, width, device, generator):
    return {"x": torch.randn(tokens, width, device=device, generator=generator).bfloat16()}


@bench.static
def model(layers, width, device, generator):
    drawn = torch.randn(layers, width, width, device=device, generator=generator)
    return {"weights": (drawn / width**0.5).bfloat16()}


@bench.reference(tolerance=all_layers)
def reference(x, weights, world_size):
    made = []
    for activations, matrices in zip(x, weights, strict=True):
        caches = []
        for matrix in matrices:
            activations = activations @ matrix
            caches.append(activations)
        made.append(torch.stack(caches))
    return [made[rank - 1] for rank in range(world_size)]


@bench.cost
def cost(layers, tokens, width, world_size):
    return Cost(
        bytes_read=2 * tokens * width + 2 * layers * width**2,
        bytes_written=2 * layers * tokens * width,
        flops=2 * layers * tokens * width**2,
        precision="bf16",
        wire_bytes=2 * layers * tokens * width if world_size > 1 else 0,
        tokens=tokens,
    )


bench.awkward(
    {"layers": 1, "tokens": 1, "width": 1, "world_size": 2}, {"layers": 5, "tokens": 101, "width": 61, "world_size": 3}
)
# All transfers but those of two of 32 layers' time are hidden (0.94), and products of this size reach 0.9 of the rate
# of large ones.
bench.reach(of="SOL", at_least=0.85)


class AtTheEnd:
    """Prefill; the methods choose when a layer is handed over."""

    def prepare(self, x, weights, rank, world_size):
        self.after, self.before = (rank + 1) % world_size, (rank - 1) % world_size
        self.made = x.new_empty(len(weights), *x.shape)
        self.make_memory()

    def make_memory(self):
        self.received = torch.empty_like(self.made)

    def run(self, x, weights):
        works = []
        for layer, matrix in enumerate(weights):
            torch.mm(x, matrix, out=self.made[layer])
            works += self.hand(layer)
            x = self.made[layer]
        return self.end(works)

    def hand(self, layer):
        """Called when a layer was made; the works to wait for."""
        return []

    def end(self, works):
        wait_all(exchange({self.after: self.made}, {self.before: self.received}))
        return self.received


both.baseline(AtTheEnd, kind="reasonable")


@both.variant(adds="a message a layer", why="a layer is on its way while the next one is computed")
class ByLayer(AtTheEnd):
    def hand(self, layer):
        return exchange({self.after: self.made[layer]}, {self.before: self.received[layer]})

    def end(self, works):
        wait_all(works)
        return self.received


@cuda.variant(
    builds_on="by_layer", adds="copy engines", why="no multiprocessor is taken from the products to move a layer"
)
class Puts(AtTheEnd):
    def make_memory(self):
        self.pool = symmetric_buffers(*self.made.shape, dtype=self.made.dtype)
        self.sending, self.ready = torch.cuda.Stream(), torch.cuda.Event()

    def run(self, x, weights):
        self.pool.barrier()  # every rank has begun its call, and does not read the layers of its last call any more
        return super().run(x, weights)

    def hand(self, layer):
        self.ready.record()
        self.sending.wait_event(self.ready)
        with torch.cuda.stream(self.sending):
            put(self.pool.all[self.after][layer], self.made[layer])
        return []

    def end(self, works):
        torch.cuda.current_stream().wait_stream(self.sending)
        self.pool.barrier()
        return self.pool.mine

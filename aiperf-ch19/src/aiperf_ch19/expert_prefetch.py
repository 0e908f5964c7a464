"""Experts in host memory: keep those that are asked for often, and fetch the next before it is asked for.

Question    How much of the time that experts travel to the GPU does keeping them save, and how much predicting them?
Numbers     16 batches of 4096 tokens go through four layers, each a dense part and the one of 16 experts that a router
            chooses when the layer begins; 26 of 64 experts have room. An expert is 34 MB: 0.61 ms at 55 GB/s. A layer
            is 275 GFLOP and 0.3 GB of other passes: 0.42 ms. Each call begins with none, and asks for 38 of them: the
            copies are 23 ms, the layers 27.
Prediction  `on_demand` copies 64 times: 39 + 27 ms. `lru` copies 40: 24 + 27 ms, 1.3x. `predicted` copies 44, of which
            29 begin a layer early, beside 0.42 ms of it: 15 * 0.61 + 29 * 0.19 + 27 = 42 ms, 1.2x, at 0.4 of the
            memory for experts.
Limits      Fewer tokens: from 4096 to 400, layers take 0.04 ms, and nothing is left to hide a copy behind. Routers that
            nobody can predict (`--set predictable=0`). A processor, whose own memory the experts are in: it shows the
            bookkeeping, with a thread in place of the DMA engine.
"""

from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction

bench = Benchmark(
    goal="latency",
    clock="wall",
    cache="warm",
    no_gain_on={
        "cpu": "host memory is the processor's own: to copy an expert takes as long as to read it in its place"
    },
)
both = bench.on(("cpu", "cuda"))

ORDER = 3  # the seed of the routes: which experts are asked for decides how many are copied


def rounding(bits):
    """The tolerance of the tokens' states."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="the stream is rounded to bfloat16 twice in each of four layers, as are its products")


@bench.workload(
    smoke={
        "layers": 3,
        "experts": 5,
        "slots": 4,
        "width": 24,
        "hidden": 40,
        "rows": 3,
        "steps": 4,
        "predictable": 0.8,
        "dtype": "fp32",
    },
    cpu={
        "layers": 4,
        "experts": 16,
        "slots": 26,
        "width": 256,
        "hidden": 1024,
        "rows": 8,
        "steps": 16,
        "predictable": 0.8,
        "dtype": "fp32",
    },
    cuda={
        "layers": 4,
        "experts": 16,
        "slots": 26,
        "width": 2048,
        "hidden": 4096,
        "rows": 4096,
        "steps": 16,
        "predictable": 0.8,
        "dtype": "bf16",
    },
)
def inputs(layers, experts, width, rows, steps, predictable, dtype, device, generator):
    x = torch.randn(steps, rows, width, device=device, generator=generator).to(dtype)
    return {"x": x, "routes": routes_of(layers, experts, steps, predictable).to(device)}


def routes_of(layers, experts, steps, predictable):
    """The expert of each step and layer, [steps, layers], for all draws alike."""
    order = torch.Generator().manual_seed(ORDER)

    def asked():
        # The square makes the first experts the most popular ones.
        return (torch.rand(int(steps), generator=order).square() * experts).long()

    routes = [asked()]
    for layer in range(1, int(layers)):
        follows = torch.rand(int(steps), generator=order) < predictable
        routes.append(torch.where(follows, following(layer, routes[-1], experts), asked()))
    return torch.stack(routes, 1)


def following(layer, expert, experts):
    """The expert of a layer that most often follows one of the layer before. Popular ones stay nearly as popular."""
    return (expert + layer % 2) % experts


@bench.static
def parameters(layers, experts, width, hidden, dtype, device, generator):
    seeds = torch.randint(1 << 31, (layers + layers * experts,), device=device, generator=generator)
    dense = torch.stack([matrices(seed, hidden, width, dtype) for seed in seeds[:layers]])
    return {"dense": dense, "seeds": seeds[layers:]}


def matrices(seed, hidden, width, dtype):
    """The matrices of an expert, drawn where the seed is: up, and down turned, so that they are one piece.

    Only seeds are arguments, as an argument would have memory on the device for every expert.
    """
    generator = torch.Generator(seed.device).manual_seed(int(seed))
    return torch.randn(2, hidden, width, device=seed.device, generator=generator).mul_(0.5 * width**-0.5).to(dtype)


def part(stream, matrices):
    """The stream with what two matrices make of it added."""
    inner = functional.rms_norm(stream, stream.shape[-1:])
    return stream + functional.silu(inner @ matrices[0].t()) @ matrices[1]


@bench.reference(tolerance=rounding)
def reference(x, routes, dense, seeds, hidden, width, experts, dtype):
    out = []
    for stream, chosen in zip(x, routes.tolist(), strict=True):
        for layer, expert in enumerate(chosen):
            own = matrices(seeds[layer * experts + expert], hidden, width, dtype).to(x.dtype)
            stream = part(part(stream, dense[layer]), own)
        out.append(stream)
    return torch.stack(out)


@bench.cost
def cost(layers, experts, width, hidden, rows, steps, predictable, bits):
    tokens, size = rows * steps, bits // 8
    asked = sum(len(layer.unique()) for layer in routes_of(layers, experts, steps, predictable).t())
    piece = size * 2 * hidden * width
    return Cost(
        bytes_read=piece * layers + size * tokens * width + 8 * layers * (experts + steps),
        bytes_written=size * tokens * width,
        to_device_bytes=piece * asked,
        flops=8 * tokens * layers * hidden * width,
        precision="bf16" if bits == 16 else "fp32",
        tokens=tokens,
    )


# A single slot, expert or layer; a slot for each expert.
bench.awkward(
    {"slots": 1},
    {"experts": 1, "slots": 2, "rows": 1, "width": 7},
    {"layers": 1, "steps": 9, "slots": 2},
    {"slots": 15, "predictable": 0, "steps": 7},
)
bench.accept("cost.repeated_reads", because="a step may ask for the experts that lie in their slots already")
# 42 of 27 ms, and a tenth for copies that wait for a wrong one.
bench.reach(of="time:all_resident", at_most=1.7, implementation="predicted")
# 26 of 64 experts are 0.87 of 2.15 GB; both have 0.27 GB of outputs, and what a layer needs.
bench.reach(of="memory:all_resident", at_most=0.6, implementation="predicted")


class ByThread:
    """Copies between two places in a processor's memory, by a thread of its own."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)

    def at_once(self, to, source) -> Future[Any] | None:
        to.copy_(source)
        return None

    def start(self, to, source) -> Future[Any] | None:
        return self.pool.submit(to.copy_, source)

    def wait(self, copy):
        if copy is not None:
            copy.result()


class ByEngine:
    """Copies to a GPU, by its DMA engine; none starts before what was launched until then is done."""

    def __init__(self):
        self.stream = torch.cuda.Stream()

    def start(self, to, source):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            to.copy_(source, non_blocking=True)
            return self.stream.record_event()

    at_once = start  # the products behind it wait

    def wait(self, copy):
        torch.cuda.current_stream().wait_event(copy)


@both.baseline(kind="naive")
class OnDemand:
    keeps = predicts = False

    def prepare(self, x, seeds, slots, experts, hidden, width):
        self.experts = experts
        self.copies: Any = ByEngine() if x.is_cuda else ByThread()
        piece = (2, hidden, width)
        self.host = torch.empty(len(seeds), *piece, dtype=x.dtype, pin_memory=x.is_cuda)
        for place, seed in zip(self.host, seeds, strict=True):
            place.copy_(matrices(seed, hidden, width, x.dtype))
        self.slots = x.new_empty(min(slots, len(seeds)), *piece)
        self.out = torch.empty_like(x)

    @torch.inference_mode()
    def run(self, x, routes, dense):
        # By expert, its slot and its copy, the least recently used first. Each call begins with none.
        self.held: OrderedDict[int, tuple[int, Any]] = OrderedDict()
        self.fetched = 0
        for stream, chosen, out in zip(x, routes.tolist(), self.out, strict=True):
            for layer, expert in enumerate(chosen):
                matrices = self.get(layer * self.experts + expert)
                if self.predicts and layer + 1 < len(dense) and len(self.slots) > 1:
                    likely = following(layer + 1, expert, self.experts)
                    self.fetch((layer + 1) * self.experts + likely, self.copies.start)
                stream = part(part(stream, dense[layer]), matrices)
            out.copy_(stream)
        for _, copy in self.held.values():  # what was predicted last may be under way
            self.copies.wait(copy)
        return self.out

    def get(self, expert):
        """The matrices of an expert, when its copy is there."""
        if not self.keeps:
            self.held.clear()
        self.fetch(expert, self.copies.at_once)
        self.copies.wait(self.held[expert][1])
        return self.slots[self.held[expert][0]]

    def fetch(self, expert, copy):
        """Copy an expert that has no slot into a free one, or into that of the least recently used."""
        if expert in self.held:
            self.held.move_to_end(expert)
            return
        slot = len(self.held)
        if slot == len(self.slots):
            slot, before = self.held.popitem(last=False)[1]
            self.copies.wait(before)
        self.held[expert] = (slot, copy(self.slots[slot], self.host[expert]))
        self.fetched += 1


@both.variant(
    adds="cache of experts", why="an expert that is asked for again is there, unless many others came between"
)
class Lru(OnDemand):
    keeps = True


@both.variant(
    builds_on="lru",
    adds="prediction",
    why="the expert that most often comes next travels while this layer is computed, and only surprises are waited for",
)
class Predicted(Lru):
    predicts = True


@both.yardstick(why="all experts on the device: the time that no cache can beat")
class AllResident:
    def prepare(self, x, seeds, hidden, width):
        self.out = torch.empty_like(x)
        self.store = x.new_empty(len(seeds), 2, hidden, width)
        for place, seed in zip(self.store, seeds, strict=True):
            place.copy_(matrices(seed, hidden, width, x.dtype))

    @torch.inference_mode()
    def run(self, x, routes, dense, experts):
        for stream, chosen, out in zip(x, routes.tolist(), self.out, strict=True):
            for layer, expert in enumerate(chosen):
                stream = part(part(stream, dense[layer]), self.store[layer * experts + expert])
            out.copy_(stream)
        return self.out

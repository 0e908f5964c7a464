"""Experts in host memory: keep those that are asked for often, and fetch the next before it is asked for.

Workload   `steps` batches of `rows` tokens, one after the other, through `layers` layers, each a dense part and one of
           `experts` experts, which is given for the batch. It may only be used when its layer has begun, as a router's
           choice. All experts are in host memory; `slots` of them have room on the device. Some are asked for more
           often, and after the expert of a layer a certain one follows in the next, in a share `predictable` of cases.
Baseline   The expert of a layer is copied when the layer begins, always.
Variants   `lru`: experts stay until their slot is needed, the least recently used one first.  `predicted`: when a layer
           begins, the expert that most often follows is copied for the next layer, while this one is computed.
Yardstick  `all_resident`: every expert has a place on the device.
Breaks     Few tokens: an expert is multiplied in far less time than it travels, and nothing is left to hide it behind.
           Routers that nobody can predict. A processor, whose own memory the experts are in: it shows the bookkeeping,
           with a thread in place of the copy engine, and gains nothing.
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
    draw = {"device": device, "generator": generator}

    def asked():
        # The square makes the first experts the most popular ones.
        return (torch.rand(steps, **draw).square() * experts).long()

    routes = [asked()]
    for layer in range(1, layers):
        follows = torch.rand(steps, **draw) < predictable
        routes.append(torch.where(follows, following(layer, routes[-1], experts), asked()))
    x = torch.randn(steps, rows, width, **draw).to(dtype)
    return {"x": x, "routes": torch.stack(routes, 1)}


def following(layer, expert, experts):
    """The expert of a layer that most often follows one of the layer before. Popular ones stay nearly as popular."""
    return (expert + layer % 2) % experts


@bench.static
def parameters(layers, experts, width, hidden, dtype, device, generator):
    def matrices(count):
        # Up, and down turned: of one shape, so that an expert is one piece.
        drawn = torch.randn(count, 2, hidden, width, device=device, generator=generator)
        return drawn.mul_(0.5 * width**-0.5).to(dtype)

    return {"dense": matrices(layers), "store": matrices(layers * experts)}


def part(stream, matrices):
    """The stream with what two matrices make of it added."""
    inner = functional.rms_norm(stream, stream.shape[-1:])
    return stream + functional.silu(inner @ matrices[0].t()) @ matrices[1]


@bench.reference(tolerance=rounding)
def reference(x, routes, dense, store, experts):
    out = []
    for stream, chosen in zip(x, routes.tolist(), strict=True):
        for layer, expert in enumerate(chosen):
            stream = part(part(stream, dense[layer]), store[layer * experts + expert])
        out.append(stream)
    return torch.stack(out)


@bench.cost
def cost(layers, width, hidden, rows, steps, bits):
    # Of the experts one a layer at least: which others are asked for, the trace decides.
    tokens, size = rows * steps, bits // 8
    return Cost(
        bytes_read=size * (4 * layers * hidden * width + tokens * width) + 8 * layers * steps,
        bytes_written=size * tokens * width,
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
bench.accept("cost.bytes_read", because="the store has all experts, of which a trace may ask for one a layer")
bench.reach(of="time:all_resident", at_most=1.6, implementation="predicted")


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
    """Copies to a GPU, by its copy engine; none starts before what was launched until then is done."""

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

    def prepare(self, x, store, slots, experts):
        self.experts = experts
        self.copies: Any = ByEngine() if x.is_cuda else ByThread()
        # On a GPU the argument stays there, but nothing reads it.
        self.host = store.cpu().pin_memory() if x.is_cuda else store
        self.slots = torch.empty_like(store[:slots])
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
    def prepare(self, x):
        self.out = torch.empty_like(x)

    @torch.inference_mode()
    def run(self, x, routes, dense, store, experts):
        for stream, chosen, out in zip(x, routes.tolist(), self.out, strict=True):
            for layer, expert in enumerate(chosen):
                stream = part(part(stream, dense[layer]), store[layer * experts + expert])
            out.copy_(stream)
        return self.out

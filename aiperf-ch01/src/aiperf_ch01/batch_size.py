"""Batch size: weights that are read for few requests are read for little arithmetic.

Workload   A multi-layer perceptron, relu(x Wup) Wdown, for many requests: bfloat16 on a GPU, float32 on a CPU
           (`element_bytes` is 2 or 4). The number of requests in a call of the model is free. On a GPU all calls are
           one CUDA graph, and the time is the GPU's own: launches are the lesson of `launch_overhead`.
Baseline   Calls of four requests each. Every call reads all weights again.
Variants   `batch_32`, `batch_128`, `whole`: more requests a call, until one call has all of them.  `roofline`: the
           smallest batch whose operations for each byte exceed the ridge that `prepare` measures here.
Breaks     Far beyond the ridge arithmetic is the limit, and a larger batch only adds latency: the first request waits
           for the last. At the ridge itself a machine is near its best only if it reads while it computes; a machine
           that does both in turn reaches half. Where requests arrive one by one, waiting for a batch costs time that is
           not measured here.
"""

import math
import time

import torch

from aiperf_core import Benchmark, Cost, bf16, fp32
from aiperf_core.graphs import captured

bench = Benchmark(goal="throughput", clock="device")
both = bench.on(("cpu", "cuda"))

FEW = 4
# By the bytes of an element; many processors have no arithmetic in bfloat16.
DTYPES = {2: torch.bfloat16, 4: torch.float32}
MEASURED_TIMES = 5


@bench.workload(
    smoke={"requests": 41, "width": 19, "hidden": 53, "element_bytes": 4},
    cpu={"requests": 512, "width": 256, "hidden": 1024, "element_bytes": 4},
    cuda={"requests": 512, "width": 2048, "hidden": 8192, "element_bytes": 2},
)
def inputs(requests, width, element_bytes, device, generator):
    x = torch.randn(requests, width, device=device, generator=generator)
    return {"x": x.to(DTYPES[element_bytes])}


@bench.static
def weights(width, hidden, element_bytes, device, generator):
    up = torch.randn(width, hidden, device=device, generator=generator) / math.sqrt(width)
    down = torch.randn(hidden, width, device=device, generator=generator) / math.sqrt(hidden)
    return {"up": up.to(DTYPES[element_bytes]), "down": down.to(DTYPES[element_bytes])}


def tolerance(element_bytes):
    return bf16 if element_bytes == 2 else fp32


@bench.reference(tolerance=tolerance)
def reference(x, up, down):
    return torch.relu(x @ up) @ down


@bench.cost
def cost(requests, width, hidden, element_bytes):
    return Cost(
        bytes_read=element_bytes * (2 * width * hidden + requests * width),
        bytes_written=element_bytes * requests * width,
        flops=4 * requests * width * hidden,
        precision="bf16" if element_bytes == 2 else "fp32",
        tokens=requests,
    )


# Fewer requests than a batch; primes, with a last batch that is smaller.
bench.awkward(
    {"requests": 3, "width": 521, "hidden": 61},
    {"requests": 131, "width": 31, "hidden": 67, "element_bytes": 2},
)
bench.reach(of="MM:bf16", at_least=0.55, implementation="whole")
bench.reach(of="time:whole", at_most=1.1, implementation="roofline")


class Batches:
    """Calls of the model with `batch` requests each; with all of them where it is None."""

    batch: int | None = None

    def prepare(self, x, up, down):
        self.out = torch.empty_like(x)
        size = min(self.batch or len(x), len(x))
        self.between = torch.empty(size, up.shape[1], device=x.device, dtype=x.dtype)
        self.parts = list(zip(x.split(size), self.out.split(size), strict=True))
        self.graph = captured(self.calls, up, down) if x.is_cuda else None

    def run(self, up, down):
        return self.graph.replay() if self.graph else self.calls(up, down)

    def calls(self, up, down):
        for requests, answers in self.parts:
            between = self.between[: len(requests)]
            torch.mm(requests, up, out=between).relu_()
            torch.mm(between, down, out=answers)
        return self.out


@both.baseline(kind="naive", name="batch_4")
class BatchOf4(Batches):
    batch = FEW


@both.variant(name="batch_32", adds="batch of 32", why="a weight that is read serves 32 requests instead of 4")
class BatchOf32(Batches):
    batch = 32


@both.variant(
    name="batch_128", builds_on="batch_32", adds="batch of 128", why="a weight that is read serves 128 requests"
)
class BatchOf128(Batches):
    batch = 128


@both.variant(adds="batch at the ridge", why="reading the weights takes no longer than the arithmetic on them")
class Roofline(Batches):
    def prepare(self, x, up, down):
        width, hidden = up.shape
        self.batch = batch_at_ridge(width, hidden, up.element_size(), ridge(x, up, down))
        super().prepare(x, up, down)


@both.variant(builds_on="batch_128", adds="one batch", why="each weight is read once, for all requests")
class Whole(Batches):
    batch = None


def intensity(batch, width, hidden, element_bytes):
    """Operations for each byte of a call: the weights, the input and the output, each once."""
    return 4 * batch * width * hidden / (element_bytes * (2 * width * hidden + 2 * batch * width))


def batch_at_ridge(width, hidden, element_bytes, flop_per_byte):
    """The smallest power of two whose intensity reaches the ridge; at most 4 x hidden."""
    batch = 1
    while intensity(batch, width, hidden, element_bytes) < flop_per_byte and batch < 4 * hidden:
        batch *= 2
    return batch


def ridge(x, up, down):
    """The measured ridge: the operation rate of a call with all requests, by the byte rate of a call with one."""
    whole, single = Whole(), Whole()
    whole.prepare(x, up, down)
    single.prepare(x[:1], up, down)
    rate = 4 * len(x) * up.numel() / seconds(lambda: whole.run(up, down), x.device)
    bandwidth = 2 * up.nbytes / seconds(lambda: single.run(up, down), x.device)
    return rate / bandwidth


def seconds(call, device):
    """The shortest time of a call of several; the first is not counted."""
    times = []
    for _ in range(1 + MEASURED_TIMES):
        wait_for(device)
        start = time.perf_counter()
        call()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def wait_for(device):
    """Wait for the work of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

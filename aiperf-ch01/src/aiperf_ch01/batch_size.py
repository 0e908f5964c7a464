"""Batch size: weights that are read for few requests are read for little arithmetic.

Question    From which number of requests on is a call bound by arithmetic and no longer by reading the weights?
Numbers     relu(x Wup) Wdown for 512 requests; on a GPU 67 MB of bfloat16 weights, and all calls in one CUDA graph, so
            that launches are no part of the time. Batch B has an intensity of B / (1 + B / 8192) FLOP/byte.
Prediction  Time falls as 1 / batch up to the ridge, the machine's FLOP/s by its bytes/s: on an H200 near 200 FLOP/byte,
            so that 256 is the first power of two beyond it. There the time is near that of one batch of all requests.
Limits      Beyond the ridge a larger batch only adds latency. At the ridge a machine is near its best only if it reads
            while it computes. Requests that arrive one by one wait for their batch, which is not measured here.
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
MEASURED_TIMES = 20
MUCH_BYTES = 1 << 30  # far beyond every cache


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
# Two calls read 67 MB once more, 16 us beside 57 if nothing of it overlaps.
bench.reach(of="time:whole", at_most=1.28, implementation="roofline")


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
    """The measured ridge: the operation rate of a call with all requests, by the rate at which weights are read.

    A GPU's rate is that of a copy: a product for one request is launches and gaps. A CPU's is that of such a product.
    """
    whole, single = Whole(), Whole()
    whole.prepare(x, up, down)
    rate = 4 * len(x) * up.numel() / seconds(lambda: whole.run(up, down), x.device)
    if x.is_cuda:
        much = torch.empty(MUCH_BYTES, dtype=torch.uint8, device=x.device)
        return rate * seconds(much.clone, x.device) / (2 * MUCH_BYTES)
    single.prepare(x[:1], up, down)
    return rate * seconds(lambda: single.run(up, down), x.device) / (2 * up.nbytes)


def seconds(call, device):
    """The shortest time of a call of several; the first is not counted."""
    times = (seconds_on_gpu if device.type == "cuda" else seconds_on_cpu)(call)
    return min(times[1:])


def seconds_on_cpu(call):
    """The times of single calls."""
    times = []
    for _ in range(1 + MEASURED_TIMES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def seconds_on_gpu(call):
    """The times of single calls by the GPU's clock, each after a write of four times the L2.

    The host launches a call while the GPU still writes: its launch is no part of the time.
    """
    filled = torch.empty(4 * torch.cuda.get_device_properties().L2_cache_size, dtype=torch.uint8, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(1 + MEASURED_TIMES)]
    for start, end in events:
        filled.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in events]

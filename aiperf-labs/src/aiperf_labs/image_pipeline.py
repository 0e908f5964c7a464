"""An input pipeline: from encoded images in a file to a network that never waits.

Workload   A file of `count` images of 3 x side x side bytes, each byte the difference to its left neighbour, as in the
           "sub" filter of PNG. They are decoded on the processor, normalised, and classified in batches by a small
           convolutional network. The file is in the page cache.
Baseline   One image after the other is decoded and normalised into a batch of float32, which is copied to the device
           and classified; then comes the next batch.
Variants   cuda: `pinned`: batches are assembled in pinned memory.  `overlapped`: a batch is copied in a stream of its
           own, while the processor decodes the next.  `workers`: threads decode the next batches ahead.
           `bytes_copied`: bytes are copied, and normalised on the GPU.  `whole_batches`: a batch is decoded by one
           operation, not image by image.  Without one step: `without_workers` is the whole ladder but for the threads.
           cpu: `batch_by_batch`: batches are decoded at once.  `decoded_ahead`: by a thread, while the network has the
           batch before.
Breaks     A network that takes longer than decoding: then any of the overlaps hides all of it. A machine without a
           spare processor: threads that decode take their time from the network.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cpu, cuda = bench.on("cpu"), bench.on("cuda")

CHANNELS, FIRST, SECOND, CLASSES = 3, 8, 16, 64
MIDDLE, SPREAD = 127.5, 64.0
MOST_WORKERS = 8
CHUNK = 32  # images that the reference takes at once


@bench.workload(
    files="images",
    smoke={"count": 23, "side": 13, "batch": 5},
    cpu={"count": 512, "side": 64, "batch": 64},
    cuda={"count": 2048, "side": 96, "batch": 128},
)
def inputs(count, side, device, generator):
    images = torch.randint(256, (count, CHANNELS, side, side), dtype=torch.uint8, device=device, generator=generator)
    return {"images": images.cpu()}


@bench.static
def network(device, generator):
    shapes = {"first": (FIRST, CHANNELS, 3, 3), "second": (SECOND, FIRST, 3, 3), "head": (CLASSES, SECOND)}
    draw = {"device": device, "generator": generator}
    return {name: torch.randn(shape, **draw) / torch.Size(shape[1:]).numel() ** 0.5 for name, shape in shapes.items()}


def normalised(pixels, dtype=torch.float32):
    return pixels.to(dtype).sub_(MIDDLE).div_(SPREAD)


def classes_of(x, first, second, head):
    x = functional.conv2d(x, first, stride=2, padding=1).relu_()
    x = functional.conv2d(x, second, stride=2, padding=1).relu_()
    return functional.linear(x.mean((2, 3)), head)


@bench.reference(tolerance=fp32_reduction)
def reference(images, first, second, head):
    found = []
    for some in images.split(CHUNK):
        pixels = torch.cumsum(some, -1, dtype=torch.uint8).to(first.device)
        found.append(classes_of(normalised(pixels, first.dtype), first, second, head))
    return torch.cat(found)


@bench.cost
def cost(count, side):
    half, quarter = -(-side // 2), -(-side // 4)
    products = half**2 * FIRST * CHANNELS * 9 + quarter**2 * SECOND * FIRST * 9 + CLASSES * SECOND
    pixels = count * CHANNELS * side**2
    # A pixel is added once, and normalised by two operations.
    return Cost(
        bytes_read=pixels, bytes_written=4 * count * CLASSES, flops=2 * count * products + 3 * pixels, tokens=count
    )


# A single pixel; more images in a batch than there are; a last batch that is not full, of more batches than workers.
bench.awkward(
    {"count": 1, "side": 1, "batch": 1}, {"count": 3, "side": 7, "batch": 8}, {"count": 31, "side": 10, "batch": 2}
)
bench.reach(of="speedup", at_least=1.3, device="cpu")
cuda.reach(of="speedup", at_least=4)


class Pipeline:
    """Batches one after the other; a class below sets what it adds.

    pinned: host memory of batches is pinned.  overlapped: copies run in a stream of their own, and only the
    network waits for them.  ahead: threads decode.  narrow: bytes are copied.  whole: batches are decoded at once.
    """

    pinned = overlapped = ahead = narrow = whole = False

    def prepare(self, first, second, head, count, side, batch):
        self.weights, self.device, self.batch = (first, second, head), first.device, batch
        self.shape = (count, CHANNELS, side, side)
        self.workers = min(MOST_WORKERS, max(1, torch.get_num_threads() - 1)) if self.ahead else 0
        # A batch that is copied or waits, one that each thread decodes, and one that is decoded while it is copied.
        self.slots = self.workers + 2
        dtype = torch.uint8 if self.narrow else torch.float32
        shape = (min(batch, count), *self.shape[1:])
        self.hosts = [torch.empty(shape, dtype=dtype, pin_memory=self.pinned) for _ in range(self.slots)]
        if self.ahead:
            # As in torch's DataLoader: an operation of a worker is for one processor. It holds for the worker alone.
            self.threads = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))
        if self.overlapped:
            self.copies, self.copied = torch.cuda.Stream(), [torch.cuda.Event() for _ in range(self.slots)]

    def run(self, images):
        source = torch.from_file(images, shared=False, size=torch.Size(self.shape).numel(), dtype=torch.uint8)
        parts = source.view(self.shape).split(self.batch)
        return torch.cat([self.classify(slot, host) for slot, host in self.decoded(parts)])

    def decoded(self, parts):
        """The batches in order. A slot is filled again only after the batch before it was classified."""
        if not self.ahead:
            yield from (self.fill(number, part) for number, part in enumerate(parts))
            return
        soon = self.slots - 1
        waiting = deque(self.threads.submit(self.fill, number, part) for number, part in enumerate(parts[:soon]))
        for number in range(soon, soon + len(parts)):
            yield waiting.popleft().result()
            if number < len(parts):
                waiting.append(self.threads.submit(self.fill, number, parts[number]))

    def fill(self, number, part):
        """Decode a batch into the memory of its slot, which is free once it has been copied to the device."""
        slot = number % self.slots
        host = self.hosts[slot][: len(part)]
        if self.overlapped:
            self.copied[slot].synchronize()
        for some, out in [(part, host)] if self.whole else zip(part, host, strict=True):
            pixels = torch.cumsum(some, -1, dtype=torch.uint8)
            out.copy_(pixels if self.narrow else normalised(pixels))
        return slot, host

    def classify(self, slot, host):
        if not self.overlapped:
            x = host.to(self.device)
        else:
            with torch.cuda.stream(self.copies):
                x = host.to(self.device, non_blocking=True)
                self.copied[slot].record()
            torch.cuda.current_stream().wait_event(self.copied[slot])
            x.record_stream(torch.cuda.current_stream())
        return classes_of(normalised(x) if self.narrow else x, *self.weights)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class ImageByImage(Pipeline):
    pass


@cuda.variant(adds="pinned memory", why="the copy engine reads pinned memory itself; pageable memory is copied twice")
class Pinned(Pipeline):
    pinned = True


@cuda.variant(
    builds_on="pinned",
    adds="copy stream",
    why="the processor decodes the next batch while this one is copied and classified",
)
class Overlapped(Pinned):
    overlapped = True


@cuda.variant(
    builds_on="overlapped", adds="workers", why="several threads decode, and the batches of each are ready when needed"
)
class Workers(Overlapped):
    ahead = True


@cuda.variant(
    builds_on="workers",
    adds="bytes copied",
    why="a quarter of the bytes cross the bus, and the GPU normalises them; the processor writes no float32",
)
class BytesCopied(Workers):
    narrow = True


@cuda.variant(
    builds_on="bytes_copied",
    adds="whole batches",
    why="an operation for a batch, not for an image: the interpreter, which threads share, is hardly needed",
)
class WholeBatches(BytesCopied):
    whole = True


@cuda.variant(
    adds=("pinned memory", "copy stream", "bytes copied", "whole batches"),
    why="the whole ladder without threads: how much of it one thread can do that decodes whole batches",
)
class WithoutWorkers(WholeBatches):
    ahead = False


@cpu.variant(adds="workers", why="a thread decodes the next batches while the network has this one")
class DecodedAhead(Pipeline):
    ahead = True


@cpu.variant(adds="whole batches", why="an operation for a batch, not for an image, and on all processors")
class BatchByBatch(Pipeline):
    whole = True

"""An input pipeline: encoded images reach a network as fast as all processors decode them.

Question    Images are decoded, normalised, copied and classified. Which part is the bound, and what hides the others?
Numbers     A file of 2048 images of 3 x 96 x 96 bytes: each a zlib stream of 14 KB, whose bytes are differences to the
            left neighbour, as in PNG. A processor inflates an image in 80 us at 350 MB/s; to add, normalise and store
            it takes 30, of which 20 are calls from Python: 0.22 s in all. As float32 they are 226 MB, 28 ms from
            pageable memory at 8 GB/s, 4 from pinned memory at 55. The network is 5 GFLOP, less than 1 ms.
Prediction  `workers`, eight: at most 8x, and 5x if each image holds the interpreter, which they share, for 20 us.
            `whole_batches` holds it for 3. `bytes_copied`: 84 us of decoding an image, not 100, and a quarter of the
            bytes. `pinned` and `overlapped` shorten copies that decoding hides by then. All: 220 / 22 ms = 10x.
            On two processors decoding and network share them: at most 2x.
Limits      A network that takes longer than decoding hides it behind any overlap. Without a spare processor, threads
            that decode take their time from the network. Images of more than 1 MB hide the calls of Python.
"""

import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.switches import switch

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cpu, cuda = bench.on("cpu"), bench.on("cuda")

CHANNELS, FIRST, SECOND, CLASSES = 3, 8, 16, 64
MIDDLE, SPREAD = 127.5, 64.0
MOST_WORKERS = 8
CHUNK = 32  # images that the reference takes at once
DISTINCT = 64  # images that are drawn and encoded; a file repeats them in any order
DIFFERENCES = 16  # values of a difference, -8 to 7: four bits each, which Huffman's code reaches


@bench.workload(
    files="images",
    smoke={"count": 23, "side": 13, "batch": 5},
    cpu={"count": 512, "side": 64, "batch": 64},
    cuda={"count": 2048, "side": 96, "batch": 128},
)
def inputs(count, side, device, generator):
    draw = {"device": device, "generator": generator}
    drawn = torch.randint(DIFFERENCES, (min(count, DISTINCT), CHANNELS * side**2), **draw) - DIFFERENCES // 2
    records = torch.stack([encoded(image) for image in drawn.to(torch.uint8).cpu()])
    return {"images": records[torch.randint(len(records), (count,), **draw).cpu()]}


def record_bytes(side):
    """Bytes of an image in the file: four bits a difference, and room for headers and tables of the stream."""
    return CHANNELS * side**2 * 5 // 8 + 128


def encoded(image):
    """The record of an image in uint8: its zlib stream, and zeros behind it."""
    stream = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    data = stream.compress(image.numpy().tobytes()) + stream.flush()
    record = torch.zeros(record_bytes(int((len(image) // CHANNELS) ** 0.5)), dtype=torch.uint8)
    record[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return record


def inflated(record):
    """The differences of an image, of its record as an array."""
    return np.frombuffer(zlib.decompress(record), np.uint8)


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
def reference(images, first, second, head, side):
    scores = []
    for records in images.split(CHUNK):
        differences = np.stack([inflated(record) for record in records.numpy()]).reshape(-1, CHANNELS, side, side)
        pixels = torch.cumsum(torch.from_numpy(differences), -1, dtype=torch.uint8).to(first.device)
        scores.append(classes_of(normalised(pixels, first.dtype), first, second, head))
    return torch.cat(scores)


@bench.cost
def cost(count, side):
    half, quarter = -(-side // 2), -(-side // 4)
    products = half**2 * FIRST * CHANNELS * 9 + quarter**2 * SECOND * FIRST * 9 + CLASSES * SECOND
    pixels = count * CHANNELS * side**2
    return Cost(
        bytes_read=pixels // 2,  # four bits a difference
        bytes_written=4 * count * CLASSES,
        to_device_bytes=pixels // 2,
        flops=2 * count * products + 3 * pixels,  # a pixel is added once, and normalised by two operations
        tokens=count,
    )


# A single pixel; more images in a batch than there are; a last batch that is not full, of more batches than workers.
bench.awkward(
    {"count": 1, "side": 1, "batch": 1}, {"count": 3, "side": 7, "batch": 8}, {"count": 31, "side": 10, "batch": 2}
)
# Decoding ahead and the network share two processors, 2x at most; the first batch and the last are not shared.
cpu.reach(of="speedup", at_least=1.3, implementation="workers")
# Eight workers take 84 of the 110 us that an image takes at first: 10x. Half of it, as they share the interpreter.
cuda.reach(of="speedup", at_least=5)


@dataclass(frozen=True)
class Flags:
    workers: bool = switch(
        adds="workers", why="threads decode the next batches while the network has this one, as zlib holds no lock"
    )
    whole_batches: bool = switch(
        adds="whole batches",
        why="an operation for a batch, not for an image: the interpreter, which threads share, is hardly needed",
    )
    bytes_copied: bool = switch(
        adds="bytes copied",
        why="a quarter of the bytes cross the bus, and the GPU normalises them; the processor writes no float32",
    )
    pinned: bool = switch(
        adds="pinned memory",
        why="the DMA engine reads pinned memory itself; pageable memory is copied twice",
        teaches="copies are hidden already while decoding takes longer than they do",
    )
    overlapped: bool = switch(
        adds="copy stream",
        why="the next batch is copied while this one is classified",
        teaches="copy and network together take less than decoding, so there is nothing to hide them from",
    )


@cuda.switches(Flags, leave_one_out=True)
@cpu.switches(Flags, ladder=("workers", "whole_batches"), leave_one_out=True)
@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class ImageByImage:
    """Batches one after the other, each image decoded and normalised by itself."""

    flags = Flags()

    def prepare(self, first, second, head, count, side, batch):
        self.weights, self.device, self.batch = (first, second, head), first.device, batch
        self.shape = (CHANNELS, side, side)
        self.workers = min(MOST_WORKERS, max(1, torch.get_num_threads() - 1)) if self.flags.workers else 0
        # A batch that is copied or waits, one that each thread decodes, and one that is decoded while it is copied.
        self.slots = self.workers + 2
        dtype = torch.uint8 if self.flags.bytes_copied else torch.float32
        shape = (min(batch, count), *self.shape)
        self.hosts = [torch.empty(shape, dtype=dtype, pin_memory=self.flags.pinned) for _ in range(self.slots)]
        self.differences = [torch.empty(shape, dtype=torch.uint8) for _ in range(self.slots)]
        self.records = (count, record_bytes(side))
        if self.flags.workers:
            # As in torch's DataLoader: an operation of a worker is for one processor. It holds for the worker alone.
            self.threads = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))
        if self.flags.overlapped:
            self.copies, self.copied = torch.cuda.Stream(), [torch.cuda.Event() for _ in range(self.slots)]

    def run(self, images):
        records = np.memmap(images, np.uint8, "r", shape=self.records)
        parts = [records[begin : begin + self.batch] for begin in range(0, len(records), self.batch)]
        return torch.cat([self.classify(slot, host) for slot, host in self.decoded(parts)])

    def decoded(self, parts):
        """The batches in order. A slot is filled again only after the batch before it was classified."""
        if not self.flags.workers:
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
        host, differences = self.hosts[slot][: len(part)], self.differences[slot][: len(part)]
        if self.flags.overlapped:
            self.copied[slot].synchronize()
        rows = differences.numpy().reshape(len(part), -1)
        for row, record in enumerate(part):
            rows[row] = inflated(record)
            if not self.flags.whole_batches:
                self.add_up(differences[row], host[row])
        if self.flags.whole_batches:
            self.add_up(differences, host)
        return slot, host

    def add_up(self, differences, out):
        """Write the pixels of an image or a batch, as bytes or normalised."""
        if self.flags.bytes_copied:
            torch.cumsum(differences, -1, dtype=torch.uint8, out=out)
        else:
            out.copy_(normalised(torch.cumsum(differences, -1, dtype=torch.uint8)))

    def classify(self, slot, host):
        if not self.flags.overlapped:
            x = host.to(self.device)
        else:
            with torch.cuda.stream(self.copies):
                x = host.to(self.device, non_blocking=True)
                self.copied[slot].record()
            torch.cuda.current_stream().wait_event(self.copied[slot])
            x.record_stream(torch.cuda.current_stream())
        return classes_of(normalised(x) if self.flags.bytes_copied else x, *self.weights)

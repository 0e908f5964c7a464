"""Transfers: the next chunk travels while this one is in use, and the longer of both is the time.

Workload   relu(x w) for x in chunks that do not lie where they are used: on a GPU in pinned memory of the host, on
           a processor in a file, whose pages are in the page cache. x is the same for all calls, w is new. A chunk
           takes about as long to come as to be used.
Baseline   Copy a chunk, compute, copy the next. cuda: on one stream, without a wait of the host: each chunk still waits
           for the one before.
Variants   cuda: `alternating_streams`: two streams take every second chunk; while one computes, the other
           copies.  `copy_stream`: copies have a stream of their own, and events tell when a chunk is there and when its
           place is free.  cpu: `read_ahead`: a thread reads the next chunk.
Breaks     One of the two is far longer: it hides the other, and there is little to hide. Pageable memory: the driver
           copies through a buffer of its own, and the host waits. One chunk: nothing overlaps. Many small ones:
           the start of each copy counts.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import host_source

bench = Benchmark(
    goal="throughput",
    clock="wall",
    folder=True,
    no_gain_on={"cpu": "a processor copies from the page cache itself, and copy and product wait for the same memory"},
)
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("h2d_compute_overlap.c", options=("-ffp-contract=fast",))

PLACES = 2


@bench.workload(
    smoke={"chunks": 3, "rows": 5, "width": 31, "outs": 7},
    cpu={"chunks": 10, "rows": 2048, "width": 1024, "outs": 6},
    cuda={"chunks": 16, "rows": 4096, "width": 1024, "outs": 1536},
)
def inputs(width, outs, device, generator):
    return {"w": torch.randn(width, outs, device=device, generator=generator) / math.sqrt(width)}


@bench.static
def data(chunks, rows, width, device, generator):
    return {"x": torch.randn(chunks, rows, width, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, w):
    return torch.stack([torch.relu(chunk @ w) for chunk in x])


@bench.cost
def cost(chunks, rows, width, outs):
    x, w, out = chunks * rows * width, width * outs, chunks * rows * outs
    return Cost(
        bytes_read=4 * (x + w), bytes_written=4 * out, to_device_bytes=4 * x, flops=2 * x * outs, tokens=chunks * rows
    )


# One chunk, and as many as there are places; one row of one element.
bench.awkward(
    {"chunks": 1, "rows": 1, "width": 1, "outs": 1},
    {"chunks": 1, "rows": 3, "width": 17, "outs": 33},
    {"chunks": 2, "rows": 7, "width": 129, "outs": 5},
    {"chunks": 7, "rows": 2, "width": 61, "outs": 13},
)
# The floor is the copies alone.
cuda.reach(of="PCI", at_least=0.9)


class Copied:
    """Chunks of pinned memory, and places for two on the GPU."""

    def prepare(self, x, w):
        self.host = torch.empty(x.shape, pin_memory=True).copy_(x)
        self.out = x.new_empty(*x.shape[:2], w.shape[1])
        self.places = x.new_empty(PLACES, *x.shape[1:])
        self.streams = [torch.cuda.Stream() for _ in range(PLACES)]
        self.there, self.free = ([torch.cuda.Event() for _ in range(PLACES)] for _ in range(2))

    def copy(self, number):
        """Copy a chunk to its place."""
        return self.places[number % PLACES].copy_(self.host[number], non_blocking=True)

    def compute(self, number, w):
        """Use the chunk in its place."""
        torch.mm(self.places[number % PLACES], w, out=self.out[number]).relu_()


@cuda.baseline(kind="reasonable")
class OneStream(Copied):
    def run(self, w):
        for number in range(len(self.host)):
            self.copy(number)
            self.compute(number, w)
        return self.out


@cuda.variant(adds="two streams", why="the copies of one stream run while the other one computes")
class AlternatingStreams(Copied):
    def run(self, w):
        caller = torch.cuda.current_stream()
        for stream in self.streams:
            stream.wait_stream(caller)
        for number in range(len(self.host)):
            with torch.cuda.stream(self.streams[number % PLACES]):
                self.copy(number)
                self.compute(number, w)
        for stream in self.streams:
            caller.wait_stream(stream)
        return self.out


@cuda.variant(
    adds="copy stream", why="copies follow each other without a gap, and wait only for a place that is still in use"
)
class CopyStream(Copied):
    def run(self, w):
        caller, copies = torch.cuda.current_stream(), self.streams[0]
        copies.wait_stream(caller)
        for number in range(len(self.host)):
            place = number % PLACES
            with torch.cuda.stream(copies):
                if number >= PLACES:
                    copies.wait_event(self.free[place])
                self.copy(number)
                self.there[place].record(copies)
            caller.wait_event(self.there[place])
            self.compute(number, w)
            self.free[place].record(caller)
        return self.out


class Read:
    """Chunks of a file, and places for two in memory.

    stream(file): reads and uses all chunks. Each implementation has its own.
    """

    stream: Any

    def prepare(self, x, w, folder):
        self.path, self.bytes = Path(folder) / "x", x[0].nbytes
        x.numpy().tofile(self.path)
        self.out = x.new_empty(*x.shape[:2], w.shape[1])
        self.places = x.new_empty(PLACES, *x.shape[1:])
        self.views = [memoryview(place.numpy()).cast("B") for place in self.places]
        self.outs, self.columns = w.shape[1], w.new_empty(w.shape[::-1])
        self.layer = host_code.function("layer")

    def read(self, file, number):
        """Read a chunk to its place."""
        count = os.preadv(file, [self.views[number % PLACES]], number * self.bytes)
        if count != self.bytes:
            raise OSError(f"{self.path} has {count} bytes of chunk {number}; expected {self.bytes}")

    def compute(self, number):
        """Use the chunk in its place."""
        self.layer(self.places[number % PLACES], self.columns, self.out[number], *self.places.shape[1:], self.outs)

    def run(self, w):
        self.columns.copy_(w.t())
        file = os.open(self.path, os.O_RDONLY)
        try:
            self.stream(file)
        finally:
            os.close(file)
        return self.out


@cpu.baseline(kind="reasonable")
class InTurn(Read):
    def stream(self, file):
        for number in range(len(self.out)):
            self.read(file, number)
            self.compute(number)


@cpu.variant(adds="reading thread", why="the system copies the next chunk to its place while this one is in use")
class ReadAhead(Read):
    def stream(self, file):
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self.read, file, 0)
            for number in range(len(self.out)):
                coming.result()
                if number + 1 < len(self.out):
                    coming = reader.submit(self.read, file, number + 1)
                self.compute(number)

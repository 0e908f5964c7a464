"""Transfers: while a chunk is in use, the next one comes and the last one's result goes; the longest sets the time.

Question    How long does work take whose inputs and results are in the host's memory, beside the copies themselves?
Numbers     relu(x w) of 32 chunks of 3072 x 1024 float32 values in pinned memory, w of 1024 x 1024. Up and down 403 MB
            each: 7.3 ms at 55 GB/s. The products are 206 GFLOP: 6 ms at 35 TFLOP/s. The floor is the longest of the
            three, not their sum.
Prediction  All on a stream: 7.3 + 6 + 7.3 ms. Copies up beside the rest: 13.3 ms, 1.55x. All three at once: 7.3 ms and
            a first and a last chunk alone, 34/32 of it: 1.7x more, since PCIe carries both directions at once.
Limits      With one part ten times as long as the others, at most 1.2x. With 4 chunks (`--size few_chunks`) the ends
            take half as long again as the middle; below about 1 MB a chunk (`--size many_chunks`) the launches of a
            chunk take longer than its copy. Pageable memory: the driver copies it itself, and nothing overlaps.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import host_source
from aiperf_core.switches import switch

bench = Benchmark(
    goal="throughput",
    clock="wall",
    folder=True,
    deferred=True,  # the results lie in the host's memory; `output` brings them to the judge
    no_gain_on={"cpu": "a processor copies from the page cache itself, and copy and product wait for the same memory"},
)
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("copy_overlap.c", options=("-ffp-contract=fast",))

PLACES = 2


@bench.workload(
    smoke={"chunks": 3, "rows": 5, "width": 31, "outs": 7},
    cpu={"chunks": 10, "rows": 2048, "width": 1024, "outs": 6},
    cuda={"chunks": 32, "rows": 3072, "width": 1024, "outs": 1024},
    few_chunks={"chunks": 4, "rows": 24576, "width": 1024, "outs": 1024},
    many_chunks={"chunks": 512, "rows": 192, "width": 1024, "outs": 1024},
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
        bytes_read=4 * (x + w),
        bytes_written=4 * out,
        to_device_bytes=4 * x,
        from_device_bytes=4 * out,
        flops=2 * x * outs,
        tokens=chunks * rows,
    )


# One chunk, and as many as there are places; one row of one element.
bench.awkward(
    {"chunks": 1, "rows": 1, "width": 1, "outs": 1},
    {"chunks": 1, "rows": 3, "width": 17, "outs": 33},
    {"chunks": 2, "rows": 7, "width": 129, "outs": 5},
    {"chunks": 7, "rows": 2, "width": 61, "outs": 13},
)
# 32/34 for the ends of the pipeline, and a tenth less for a link that carries both directions.
cuda.reach(of="PCI", at_least=0.85, implementation="three_streams")


@dataclass(frozen=True)
class Flags:
    copy_stream: bool = switch(
        "copy_stream",
        adds="copy stream",
        why="copies up follow each other without a gap, and wait only for a place that is still in use",
        predict="1.4 to 1.6x: 7.3 + 6 + 7.3 ms against 6 + 7.3 ms",
    )
    duplex: bool = switch(
        "three_streams",
        adds="full duplex",
        why="results go down on a stream of their own: PCIe and the DMA engines work in both directions at once",
        predict="1.5 to 1.8x: 6 + 7.3 ms against 7.3 ms and two chunks at the ends",
    )


@cuda.switches(Flags)
@cuda.baseline(kind="reasonable")
class OneStream:
    """Chunks and results in pinned memory, and two places for each on the GPU, whose uses events order."""

    flags = Flags()

    def prepare(self, x, w):
        self.chunks = torch.empty(x.shape, pin_memory=True).copy_(x)
        self.results = torch.empty(*x.shape[:2], w.shape[1], pin_memory=True)
        self.places, self.outs = x.new_empty(PLACES, *x.shape[1:]), x.new_empty(PLACES, *self.results.shape[1:])
        self.own = [torch.cuda.Stream() for _ in range(2)]
        self.came, self.read, self.made, self.went = ([torch.cuda.Event() for _ in range(PLACES)] for _ in range(4))

    def run(self, w):
        caller = torch.cuda.current_stream()
        up = self.own[0] if self.flags.copy_stream else caller
        down = self.own[1] if self.flags.duplex else caller
        up.wait_stream(caller)
        for number, (chunk, result) in enumerate(zip(self.chunks, self.results, strict=True)):
            place, used = number % PLACES, number >= PLACES
            with torch.cuda.stream(up):
                if used:
                    up.wait_event(self.read[place])
                self.places[place].copy_(chunk, non_blocking=True)
                self.came[place].record(up)
            caller.wait_event(self.came[place])
            if used:
                caller.wait_event(self.went[place])
            torch.mm(self.places[place], w, out=self.outs[place]).relu_()
            self.read[place].record(caller)
            self.made[place].record(caller)
            with torch.cuda.stream(down):
                down.wait_event(self.made[place])
                result.copy_(self.outs[place], non_blocking=True)
                self.went[place].record(down)
        caller.wait_stream(down)
        caller.synchronize()

    def finish(self):
        """Nothing is left to be done."""

    def output(self):
        return self.results.cuda()


class Read:
    """Chunks of a file, and places for two in memory; `stream(file)` reads and uses all chunks."""

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

    def finish(self):
        """Nothing is left to be done."""

    def output(self):
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

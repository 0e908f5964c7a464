"""Loading a checkpoint: read the tensors that are asked for, once, to where they are used.

Question    What does a process wait for that needs a quarter of the tensors of a checkpoint, as a rank of four does?
Numbers     200 tensors of 640 kB in a file that is not in the page cache, S = 128 MB; 50 of them are asked for, 32 MB.
            On a GPU they have 2.56 MB. The parameters that they replace are there already. The floor is S / 4 from the
            disk.
Prediction  Reading everything is S / d, with d bytes/s of the disk, and a copy of S / 4: at most 4x by reading only the
            tensors that are asked for, and the time of the copy by reading to where they are used. A page fault of a
            mapping reads ahead around its page (`queue/read_ahead_kb`): 128 KiB make five requests of a tensor, one
            after another, and 8 MiB read its twelve neighbours too. A read asks for a tensor, four threads for four.
Limits      A process that needs all tensors gains no bytes (`--set wanted=200`). Tensors below some 100 kB: requests to
            the disk are as small. A file in the page cache is not limited by the disk: the copies then decide. A file
            that is cut while it is mapped kills the process (SIGBUS); a read says that the file ends too early.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from aiperf_ch05 import checkpoint
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError

bench = Benchmark(goal="latency", clock="wall", folder="evicted")
cuda, both = bench.on("cuda"), bench.on(("cpu", "cuda"))

THREADS = 4


@bench.workload(
    smoke={"tensors": 7, "wanted": 3, "elements": 1021},
    cpu={"tensors": 200, "wanted": 50, "elements": 160_000},
    cuda={"tensors": 200, "wanted": 50, "elements": 640_000},
)
def inputs(tensors, wanted, device, generator):
    if wanted > tensors:
        raise BenchmarkError(f"wanted={wanted} of tensors={tensors}; accepted are up to as many as there are")
    return {"names": torch.randperm(tensors, device=device, generator=generator)[:wanted].sort().values}


@bench.static
def saved(tensors, elements, device, generator):
    return {"state": torch.randn(tensors, elements, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(state, names):
    return state[names]


@bench.cost
def cost(wanted, elements):
    size = 4 * wanted * elements
    return Cost(bytes_read=size, bytes_written=size, disk_read_bytes=size, to_device_bytes=size)


bench.awkward(
    {"tensors": 1, "wanted": 1, "elements": 1},
    {"tensors": 11, "wanted": 11, "elements": 37},
    {"tensors": 23, "wanted": 19, "elements": 4099},
)
bench.accept("cost.bytes_read", because="only the tensors that are asked for are read")
# Four requests of 640 kB at a time where the ceiling has four of 1 MB, of which the last ones are alone: 12 of 12.5.
both.reach(of="DISK", at_least=0.85)


class Loading:
    """Parameters `out`, and a way to fill them from the file that `save` writes."""

    save: Any

    def prepare(self, folder, state, wanted, elements):
        self.folder, self.out = Path(folder), state.new_empty(wanted, elements)
        self.save(state.cpu())

    def place(self, tensors):
        """Copy tensors, in the order of the parameters, to where they are used."""
        for parameter, tensor in zip(self.out, tensors, strict=True):
            parameter.copy_(tensor)
        return self.out


@both.baseline(kind="naive")
class LoadAll(Loading):
    mapped = False

    def save(self, state):
        torch.save({f"layer.{place}": tensor.clone() for place, tensor in enumerate(state)}, self.folder / "state.pt")

    def run(self, names):
        state = torch.load(self.folder / "state.pt", mmap=self.mapped, weights_only=True)
        return self.place(state[f"layer.{place}"] for place in names.tolist())


@both.variant(
    adds="mapping",
    why="torch.load(mmap=True) reads the pages that a copy touches: those of the tensors that are asked for",
    predict="at most 4x: a quarter of the bytes",
    teaches="a page fault reads ahead around its page: where that is 8 MiB, the whole file is read, in slow requests",
)
class Mapped(LoadAll):
    mapped = True


@both.variant(
    builds_on="mapped",
    adds="reads into place",
    why="a read asks the disk for a whole tensor and leaves it where it is used, where a page fault asks for few pages",
)
class Reads(Loading):
    """Reads by `threads` threads to memory of the host, which is page-locked if `pinned`."""

    threads, pinned = 1, False

    def prepare(self, folder, state, wanted, elements):
        super().prepare(folder, state, wanted, elements)
        on_host = torch.empty(self.out.shape, pin_memory=self.pinned)
        self.host = self.out if self.out.device.type == "cpu" else on_host

    def save(self, state):
        checkpoint.save(self.folder, list(state))

    def run(self, names):
        places = checkpoint.places_in(self.folder)
        wanted = [places[place] for place in names.tolist()]
        files = {path: os.open(path, os.O_RDONLY) for path, _, _ in wanted}
        try:
            with ThreadPoolExecutor(self.threads) as readers:
                list(readers.map(lambda place, host: self.read(files, place, host), wanted, self.host))
        finally:
            for file in files.values():
                os.close(file)
        return self.out if self.host is self.out else self.up()

    def read(self, files, place, host):
        """Read a tensor's bytes to its place in the host's memory."""
        path, first, size = place
        checkpoint.read_bytes(files[path], path, first, host.numpy().data.cast("B")[:size])

    def up(self):
        """Copy all that was read to the GPU."""
        self.out.copy_(self.host)
        return self.out


@both.variant(
    builds_on="reads",
    adds="four threads",
    why="the disk always has the next requests, and copies out of the page cache are made by several processors",
)
class Threads(Reads):
    threads = THREADS


@cuda.variant(
    builds_on="threads",
    adds="page-locked memory",
    why="the DMA copy engine takes a tensor from where the disk's bytes lie, without a staging buffer of the driver",
)
class Pinned(Threads):
    pinned = True


@both.yardstick(requires="package:safetensors", why="safetensors: a mapped file without a pickle, opened lazily")
class Safetensors(Loading):
    def save(self, state):
        from safetensors.torch import save_file

        save_file({f"layer.{place}": tensor.clone() for place, tensor in enumerate(state)}, self.folder / "state")

    def run(self, names):
        from safetensors import safe_open

        with safe_open(self.folder / "state", "pt") as file:
            return self.place(file.get_tensor(f"layer.{place}") for place in names.tolist())

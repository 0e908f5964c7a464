"""Checkpoints: the training stands still for a copy, not for the disk.

Question    How long does a training stand still to be saved so that a crash at any moment leaves a whole checkpoint:
            the new one or the one before?
Numbers     400 tensors of 640 kB, of which 100 are trained in float32 and 300, in int8, stay as they are: S = 256 MB,
            on a GPU 1.02 GB. A save is S bytes to the disk and three waits for it (fsync): for the file, for the
            manifest, and for the folder in which that replaces the old one. A copy in memory is S bytes read and S
            written.
Prediction  A stall of S / d, with d bytes/s of the disk, becomes S / c of the copy: c / d times less, for whatever the
            disk does. Only what changes is a quarter of S, so at most 4x of either. Page-locked memory brings c of a
            GPU from that of the driver's staging buffer to the rate of the bus.
Limits      `sharded` gains only where one file does not reach the rate of the disk. Where saves follow each other
            faster than the disk writes, each waits for the one before. A snapshot takes as much memory of the host
            again, and page-locked memory is lost to all other processes. The thread takes processor time and disk rate
            from the training. Where temporary files are in memory, fsync is free. A save that is under way when the
            power fails is lost; the checkpoint before is not.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from aiperf_ch05 import checkpoint
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError

bench = Benchmark(goal="latency", clock="wall", folder=True, deferred=True)
cpu, cuda, both = bench.on("cpu"), bench.on("cuda"), bench.on(("cpu", "cuda"))

SHARDS = 4


@bench.workload(
    smoke={"tensors": 7, "trained_tensors": 3, "elements": 1021},
    cpu={"tensors": 400, "trained_tensors": 100, "elements": 160_000},
    cuda={"tensors": 400, "trained_tensors": 100, "elements": 640_000},
)
def inputs(tensors, trained_tensors, elements, device, generator):
    if not 0 < trained_tensors < tensors:
        raise BenchmarkError(
            f"trained_tensors={trained_tensors} of tensors={tensors}; accepted are from 1 to all but one of them"
        )
    return {"trained": list(torch.randn(trained_tensors, elements, device=device, generator=generator))}


@bench.static
def given(tensors, trained_tensors, elements, device, generator):
    size = (tensors - trained_tensors, 4 * elements)  # as many bytes in a tensor as in a trained one
    return {"frozen": list(torch.randint(-128, 128, size, dtype=torch.int8, device=device, generator=generator))}


@bench.reference(tolerance=exact)
def reference(frozen, trained):
    return words_of(frozen, trained)


def words_of(frozen, trained):
    """Integers that change with any bit of a state, and with an exchange of two of its tensors."""
    mixed = torch.zeros_like(trained[0], dtype=torch.int32)
    for place, tensor in enumerate(frozen):
        mixed += (2 * place + 1) * tensor.view(torch.int32)
    return [mixed + tensor.view(torch.int32) for tensor in trained]


@bench.cost
def cost(trained_tensors, elements):
    # At least a copy of the tensors that change: the others may have been saved before. The disk is no part of the
    # least cost, because a call may end before the checkpoint is on it.
    changed = 4 * trained_tensors * elements
    return Cost(bytes_read=changed, bytes_written=changed)


sizes = ((2, 1, 1), (3, 2, 1009), (11, 1, 37), (23, 19, 8))
bench.awkward(
    *({"tensors": tensors, "trained_tensors": trained, "elements": elements} for tensors, trained, elements in sizes)
)
bench.accept("cost.bytes_read", because="tensors that do not change may have been saved before")
cpu.reach(of="time:copy", at_most=1.3, implementation="snapshot")
cuda.reach(of="time:copy", at_most=1.3, implementation="pinned_snapshot")


class Saving:
    """A way to save. `run` is the part that the training waits for."""

    def prepare(self, folder, frozen, trained):
        self.folder, self.frozen_tensors, self.device = Path(folder), len(frozen), trained[0].device

    def finish(self):
        """Wait until the checkpoint is on disk."""

    def output(self):
        return self.words_in(checkpoint.load(self.folder))

    def words_in(self, state):
        """The judged words of a state, on the device of the state that was saved."""
        words = words_of(state[: self.frozen_tensors], state[self.frozen_tensors :])
        return [tensor.to(self.device) for tensor in words]


@both.baseline(kind="naive")
class Synchronous(Saving):
    def run(self, frozen, trained):
        checkpoint.save(self.folder, [*frozen, *trained])


@both.variant(
    adds="four files",
    why="four files are on their way to the disk at once, and so are four waits for it",
    teaches="one file keeps the disk at its rate already; four have three more waits",
)
class Sharded(Saving):
    def run(self, frozen, trained):
        state = [*frozen, *trained]
        size = -(-len(state) // SHARDS)
        with ThreadPoolExecutor(SHARDS) as threads:
            parts = threads.map(
                lambda first: checkpoint.write_part(self.folder, state[first : first + size], first),
                range(0, len(state), size),
            )
            checkpoint.commit(self.folder, list(parts))


class Behind(Saving):
    """Copies tensors to memory of the host, which is page-locked if `pinned`; a thread writes the copy."""

    pinned = False

    def make_room(self, tensors):
        """Memory for a copy, whose pages are there."""
        self.kept = [torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=self.pinned) for tensor in tensors]

    def copy(self, tensors):
        """Copy tensors, and wait for the copy: the training may change them as soon as this returns."""
        for kept, tensor in zip(self.kept, tensors, strict=True):
            kept.copy_(tensor, non_blocking=self.pinned)
        if self.pinned:
            torch.cuda.current_stream().synchronize()

    def start(self, tensors, write):
        """Copy tensors, and begin to write the copy."""
        self.copy(tensors)
        self.failure = None
        self.thread = threading.Thread(target=self.attempt, args=(write,), name="checkpoint")
        self.thread.start()

    def attempt(self, write):
        try:
            write(self.kept)
        except Exception as error:  # raised again in finish, in the thread of the training
            self.failure = error

    def finish(self):
        self.thread.join()
        if self.failure is not None:
            raise self.failure


@both.variant(
    adds="background write", why="a copy takes a fraction of the time of the disk, which works beside the steps"
)
class Snapshot(Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.make_room([*frozen, *trained])

    def run(self, frozen, trained):
        self.start([*frozen, *trained], lambda kept: checkpoint.save(self.folder, kept))


@cuda.variant(
    builds_on="snapshot",
    adds="page-locked memory",
    why="the GPU's DMA copy engine writes into page-locked memory directly, without a staging buffer of the driver",
)
class PinnedSnapshot(Snapshot):
    pinned = True


@both.variant(
    adds="changed tensors only",
    why="only tensors that changed since the last checkpoint are written",
    predict="at most 4x: a quarter of the bytes, and as many waits for the disk",
)
class Incremental(Saving):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.base = checkpoint.write_part(self.folder, frozen, 0)

    def save_trained(self, tensors):
        checkpoint.commit(self.folder, [self.base, checkpoint.write_part(self.folder, tensors, self.frozen_tensors)])

    def run(self, trained):
        self.save_trained(trained)


@both.variant(
    builds_on="incremental",
    adds="background write",
    why="only tensors that changed are copied, and the disk works beside the steps",
)
class IncrementalSnapshot(Incremental, Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.make_room(trained)

    def run(self, trained):
        self.start(trained, self.save_trained)


@cuda.variant(
    builds_on="incremental_snapshot",
    adds="page-locked memory",
    why="only tensors that changed are copied, at the full rate of the bus",
)
class IncrementalPinnedSnapshot(IncrementalSnapshot):
    pinned = True


@both.yardstick(why="torch.distributed.checkpoint.async_save: a copy in the host's memory, and a thread that writes it")
class AsyncSave(Saving):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.writer = FileSystemWriter(folder, overwrite=True)
        self.stager = BlockingAsyncStager(
            cache_staged_state_dict=trained[0].is_cuda
        )  # it keeps only page-locked memory

    def run(self, frozen, trained):
        state = {f"{place:06d}": tensor for place, tensor in enumerate([*frozen, *trained])}
        self.shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
        self.saved: Any = async_save(state, storage_writer=self.writer, async_stager=self.stager, no_dist=True)

    def finish(self):
        self.saved.result()

    def output(self):
        state = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in self.shapes.items()}
        load(state, storage_reader=FileSystemReader(self.folder), no_dist=True)
        return self.words_in(list(state.values()))


@both.yardstick(why="a copy of all tensors in memory of the host, the least that a snapshot stands still for")
class Copy(Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.pinned = self.device.type == "cuda"
        self.make_room([*frozen, *trained])

    def run(self, frozen, trained):
        self.copy([*frozen, *trained])

    def finish(self):
        """Nothing continues after the call."""

    def output(self):
        return self.words_in(self.kept)

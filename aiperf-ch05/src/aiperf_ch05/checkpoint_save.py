"""Checkpoints: the training stands still for a copy, not for the disk.

Workload   The state of a model that is tuned, float32 tensors that are trained beside int8 ones that stay as they are,
           is saved so that a crash at any moment leaves a whole checkpoint: the new one or the one before. What is
           timed is how long the training stands still. The checkpoint counts when it is on disk; it is read back then,
           and words that are made of all its bits are compared.
Baseline   All tensors are written to a file, the disk is waited for (fsync), and the file takes the place of the old
           one.
Variants   `sharded`: four files, written at once.  `snapshot`: all tensors are copied, and a thread writes the copy
           while the training goes on.  `incremental`: the tensors that do not change were written once; the others are.
           `incremental_snapshot`: a copy of those that change, which a thread writes.
Breaks     Where saves follow each other faster than the disk writes, each waits for the one before. A snapshot takes as
           much memory again, and what the thread takes of processor and disk is missing elsewhere. Where temporary
           files lie in memory, fsync is free. What is on its way when the power fails is lost, the checkpoint before
           not.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import torch

from aiperf_ch05 import checkpoint
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError

bench = Benchmark(goal="latency", clock="wall", folder=True, deferred=True)

SHARDS = 4


@bench.workload(
    smoke={"tensors": 7, "trained_tensors": 3, "elements": 1021},
    cpu={"tensors": 400, "trained_tensors": 100, "elements": 160_000},
)
def inputs(tensors, trained_tensors, elements, device, generator):
    if not 0 < trained_tensors < tensors:
        raise BenchmarkError(
            f"trained_tensors={trained_tensors} of tensors={tensors}; accepted are from 1 to all but one of them"
        )
    return {"trained": list(torch.randn(trained_tensors, elements, device=device, generator=generator))}


@bench.static
def given(tensors, trained_tensors, elements, device, generator):
    size = (tensors - trained_tensors, 4 * elements)  # as many bytes in a tensor as of those that are trained
    return {"frozen": list(torch.randint(-128, 128, size, dtype=torch.int8, device=device, generator=generator))}


@bench.reference(tolerance=exact)
def reference(frozen, trained):
    return words_of(frozen, trained)


def words_of(frozen, trained):
    """Integers that are others as soon as a bit of a state is, or two of its tensors are exchanged."""
    mixed = torch.zeros_like(trained[0], dtype=torch.int32)
    for place, one in enumerate(frozen):
        mixed += (2 * place + 1) * one.view(torch.int32)
    return [mixed + one.view(torch.int32) for one in trained]


@bench.cost
def cost(trained_tensors, elements):
    # At least a copy of what changes: what does not may have been saved before. The disk is no part of the least cost:
    # a call may end before the checkpoint is on it.
    changed = 4 * trained_tensors * elements
    return Cost(bytes_read=changed, bytes_written=changed)


class Saving:
    """A way to save. `run` is what the training waits for."""

    def prepare(self, folder, frozen, trained):
        self.folder, self.frozen_tensors = Path(folder), len(frozen)

    def finish(self):
        """Wait until the checkpoint is on disk."""

    def output(self):
        return self.words_in(checkpoint.load(self.folder))

    def words_in(self, state):
        """What is judged of a state."""
        return words_of(state[: self.frozen_tensors], state[self.frozen_tensors :])


@bench.baseline(device="cpu", kind="naive")
class Synchronous(Saving):
    def run(self, frozen, trained):
        checkpoint.save(self.folder, [*frozen, *trained])


@bench.variant(device="cpu", why="four files are on their way to the disk at once, and so are four waits for it")
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
    """Copies what is to be saved, and lets a thread write the copy."""

    kept: list[torch.Tensor]

    def copy_of(self, tensors):
        """Memory for a copy, whose pages are there."""
        return [torch.zeros_like(one) for one in tensors]

    def start(self, tensors, write):
        """Copy tensors, and begin to write the copy."""
        for kept, one in zip(self.kept, tensors, strict=True):
            kept.copy_(one)
        self.failure = None
        self.thread = threading.Thread(target=self.attempt, args=(write,), name="checkpoint")
        self.thread.start()

    def attempt(self, write):
        try:
            write(self.kept)
        except Exception as error:  # it is the training's to know
            self.failure = error

    def finish(self):
        self.thread.join()
        if self.failure is not None:
            raise self.failure


@bench.variant(
    device="cpu", why="memory takes a copy in a fraction of the time that a disk needs, which goes by beside"
)
class Snapshot(Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.kept = self.copy_of([*frozen, *trained])

    def run(self, frozen, trained):
        self.start([*frozen, *trained], lambda kept: checkpoint.save(self.folder, kept))


@bench.variant(device="cpu", why="only what changed since the last checkpoint is written: the rest is there already")
class Incremental(Saving):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.base = checkpoint.write_part(self.folder, frozen, 0)

    def save_trained(self, tensors):
        checkpoint.commit(self.folder, [self.base, checkpoint.write_part(self.folder, tensors, self.frozen_tensors)])

    def run(self, trained):
        self.save_trained(trained)


@bench.variant(
    device="cpu",
    builds_on="incremental",
    why="only what changed is copied too, and the disk is waited for beside the steps",
)
class IncrementalSnapshot(Incremental, Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.kept = self.copy_of(trained)

    def run(self, trained):
        self.start(trained, self.save_trained)


@bench.yardstick(device="cpu", why="numpy.savez of the same tensors, and fsync")
class Savez(Saving):
    def run(self, frozen, trained):
        waiting = self.folder / "state.new"
        with waiting.open("wb") as file:
            numpy.savez(file, *(one.numpy() for one in [*frozen, *trained]))
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(self.folder / "state.npz")

    def output(self):
        with numpy.load(self.folder / "state.npz") as saved:
            return self.words_in([torch.from_numpy(saved[name]) for name in saved.files])


@bench.yardstick(
    device="cpu", why="a copy of all tensors in memory, which is what a snapshot stands still for; nothing is saved"
)
class Copy(Behind):
    def prepare(self, folder, frozen, trained):
        super().prepare(folder, frozen, trained)
        self.kept = self.copy_of([*frozen, *trained])

    def run(self, frozen, trained):
        for kept, one in zip(self.kept, [*frozen, *trained], strict=True):
            kept.copy_(one)

    def finish(self):
        """Nothing goes on."""

    def output(self):
        return self.words_in(self.kept)

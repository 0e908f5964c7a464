"""An input that is a file, a folder of the implementation's own, and work that goes on after the call."""

import mmap
import os
import signal
import threading
import time
from pathlib import Path

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.devices import disk

bench = Benchmark(goal="latency", clock="wall", folder="evicted", deferred=True)
LATE_S = 0.02


@bench.workload(files="data", smoke={"n": 10_007})
def inputs(n, device, generator):
    return {"data": torch.randint(256, (n,), dtype=torch.uint8, device=device, generator=generator), "one": 1}


@bench.reference(tolerance=exact)
def reference(data, one):
    return data + one


@bench.cost
def cost(n):
    return Cost(bytes_read=n, bytes_written=n)


class Saved:
    def prepare(self, folder):
        self.saved = Path(folder) / "saved"

    def run(self, data, one):
        self.save(bytearray(Path(data).read_bytes()), one)

    def save(self, data, one):
        self.saved.write_bytes(bytes((torch.frombuffer(data, dtype=torch.uint8) + one).tolist()))

    def finish(self):
        pass

    def output(self):
        return torch.frombuffer(bytearray(self.saved.read_bytes()), dtype=torch.uint8)


@bench.baseline(device="cpu", kind="naive")
class AtOnce(Saved):
    pass


@bench.variant(device="cpu", why="a thread saves")
class Later(Saved):
    def run(self, data, one):
        self.thread = threading.Thread(target=self.late, args=(bytearray(Path(data).read_bytes()), one))
        self.thread.start()

    def late(self, data, one):
        time.sleep(LATE_S)
        self.save(data, one)

    def finish(self):
        self.thread.join()


@bench.variant(device="cpu", why="nobody waits for the thread")
class NeverJoined(Later):
    def finish(self):
        pass


@bench.variant(device="cpu", why="writes over its input")
class Spoils(Saved):
    def run(self, data, one):
        super().run(data, one)
        with open(data, "r+b") as file:
            file.write(b"spoilt")


@bench.variant(device="cpu", why="is killed in the middle of a save")
class Killed(Saved):
    def run(self, data, one):
        self.saved.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


@bench.variant(device="cpu", why="looks where its input was when the call began")
class FindsItCold(Saved):
    def prepare(self, folder, data):
        from aiperf_core.devices import input_file

        super().prepare(folder)
        self.look = input_file.InputFile()
        self.look._file.close()
        self.look._file = open(data, "rb", buffering=0)  # noqa: SIM115

    def run(self, data, one):
        assert self.look.resident_pages() == 0, "its pages are in memory"
        super().run(data, one)


@bench.variant(device="cpu", why="looks where its own file was when the call began")
class FindsItsFolderCold(Saved):
    def prepare(self, folder):
        super().prepare(folder)
        self.saved.write_bytes(bytes(1 << 20))

    def run(self, data, one):
        with open(self.saved, "rb", buffering=0) as file:
            assert disk.resident_pages(file.fileno()) == 0, "its pages are in memory"
        super().run(data, one)


@bench.variant(device="cpu", why="keeps its own file mapped")
class KeepsItMapped(Saved):
    def run(self, data, one):
        super().run(data, one)
        with open(self.saved, "rb") as file:
            self.kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert self.kept[0] >= 0

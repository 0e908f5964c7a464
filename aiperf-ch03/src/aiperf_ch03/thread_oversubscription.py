"""Thread oversubscription: a thread without a core keeps all those waiting that wait for it.

Question    Several processes each start a thread for every core, as libraries do by default. What do too many threads
            cost a program that waits for its slowest thread again and again?
Numbers     2 processes with 1000 rounds over 2^14 words in the cache each. On 2 cores a round is 2^14 multiply-adds,
            some 5 us, and a wait for the last of its threads. Four threads share 2 cores by slices of the scheduler, of
            a millisecond or more, in which a thread that waits for another spins.
Prediction  A round that waits for a thread without a core lasts a slice and not 5 us; with as many threads as cores no
            round does. At least 2x, by five slices of a millisecond in 1000 rounds of 5 us.
Limits      Work that ends within a slice, up to 500 rounds here: the processes then take turns by themselves. A process
            without others: its runtime sees that its threads are more than the cores, and lets none of them spin.
            Threads that never wait for each other: they only share the time.
"""

import os

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("thread_oversubscription.c")


@bench.workload(smoke={"n": 1021, "rounds": 5, "world_size": 2}, cpu={"n": 1 << 14, "rounds": 1000, "world_size": 2})
def inputs(n, device, generator):
    return {"x": torch.randint(-(1 << 62), 1 << 62, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, rounds):
    return [after(words, rounds) for words in x]


def after(words, rounds):
    """The words of a process after its rounds."""
    for _ in range(rounds):
        words = 5 * words + words.roll(-1)
    return words


@bench.cost
def cost(n, rounds):
    return Cost(bytes_read=8 * n, bytes_written=8 * n, flops=2 * n * rounds, precision="fp64")


# A word, which is its own neighbour; fewer words than threads; a prime; an even and an odd number of rounds.
sizes = ((1, 1, 2), (3, 2, 1), (4099, 7, 3), (32771, 20, 2))
bench.awkward(*({"n": n, "rounds": rounds, "world_size": processes} for n, rounds, processes in sizes))
# The bar of the prediction: 5 ms of slices beside 5 ms of rounds.
cpu.reach(of="speedup", at_least=2.0, implementation="shared_cores")


@cpu.baseline(kind="naive")
class EveryCore:
    team = "spinning"

    def prepare(self, n, rounds, world_size):
        if host_code.threads is None:
            raise SkipError("needs a C compiler with OpenMP")
        self.play, self.sizes = host_code.function(self.team), (n, rounds, self.threads(world_size))
        self.halves = torch.zeros(2, n, dtype=torch.int64)
        self.out = self.halves[rounds % 2]

    def threads(self, processes):
        """The threads of each process."""
        return len(os.sched_getaffinity(0))

    def run(self, x):
        self.halves[0].copy_(x)
        self.play(self.halves, *self.sizes)
        return self.out


@cpu.variant(
    adds="sleeping waits",
    why="a thread that waits sleeps at once, and a thread that is waited for has its core (OMP_WAIT_POLICY=passive)",
    predict="at least 1.3x: no slice is spun away, 5 ms in all, for 1000 wake-ups of some 3 us beside 5 ms of rounds",
)
class SleepingWaits(EveryCore):
    team = "sleeping"


@cpu.variant(
    adds="thread limit",
    why="the processes together have as many threads as there are cores, so a thread that is waited for runs",
    predict="at least 2x: no round waits for a slice, 5 ms in all, beside 5 ms of rounds",
)
class SharedCores(EveryCore):
    def threads(self, processes):
        return max(1, super().threads(processes) // processes)


@cpu.variant(
    builds_on="shared_cores",
    adds="sleeping waits",
    why="a thread that waits leaves its core to others, where there are any",
    teaches="with a core for each thread a wait is shorter than a wake-up: spinning is right there",
)
class SharedSleeping(SharedCores):
    team = "sleeping"

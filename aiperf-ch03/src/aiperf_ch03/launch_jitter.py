"""Jitter: a neighbour on the core is in the tail of the latencies long before it is in their median.

Question    Short steps must start when they are asked for, as launches of a decoder do. What does a busy program on the
            same core cost their 99th percentile, and what keeps it away?
Numbers     1000 requests, one in each 75 us, for a chain of 8192 multiply-adds, some 10 us; to take one and to answer
            it is some 40 us of Python. The scheduler shares a core by slices of a millisecond or more: a request that
            comes in the neighbour's slice waits for its end, and the requests behind it too.
Prediction  A slice of 3 ms holds up 40 requests: one slice in 1000 requests is in the 99th percentile, three are in the
            90th. Half a core is 100 us a request, more than the 75 until the next: the call lasts at least 1.2x as
            long. A core of its own has no slices, nor a core whose neighbour only gets what is left over.
Limits      Fewer requests (`--set every_us=250`): the server catches up, the time is that of the arrivals, and only the
            tail shows the neighbour: compare `latency p99` (`-v`). A core of its own is idle between the steps. A quota
            stops all threads of a container, whatever core they are on.
"""

import os
from contextlib import contextmanager
from pathlib import Path

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.devices.sysfs import numbers, text
from aiperf_core.errors import BenchmarkError, SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="latency", clock="wall", cache="warm")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("launch_jitter.c", options=("-pthread",))

TOPOLOGY = Path("/sys/devices/system/cpu")
MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407


@bench.workload(
    served=("seed",),
    smoke={"requests": 23, "turns": 64, "every_us": 200, "deadline_s": 0.001},
    cpu={"requests": 1000, "turns": 8192, "every_us": 75, "deadline_s": 0.001},
)
def inputs(requests, every_us, device, generator):
    places = torch.arange(requests, dtype=torch.float64, device=device)
    places += torch.rand(requests, dtype=torch.float64, device=device, generator=generator)
    return {
        "seed": torch.randint(-(1 << 62), 1 << 62, (requests,), device=device, generator=generator),
        "arrival_s": places * (every_us / 1e6),
    }


@bench.reference(tolerance=exact)
def reference(seed, turns):
    for _ in range(turns):
        seed = seed * MULTIPLIER + INCREMENT
    return {"state": seed}


@bench.cost
def cost(requests, turns):
    return Cost(flops=2 * requests * turns, precision="fp64", tokens=requests)


bench.awkward({"requests": 1}, {"requests": 7, "turns": 1, "every_us": 1}, {"requests": 11, "turns": 4099})
# A request takes two thirds of the time until the next, so the call ends with its arrivals, as without a neighbour.
cpu.reach(of="time:quiet", at_most=1.05, implementation="own_core")
cpu.reach(of="time:quiet", at_most=1.05, implementation="idle_neighbour")


def siblings(processor):
    """The processors of the same core, itself among them."""
    return numbers(text(TOPOLOGY / f"cpu{processor}/topology/thread_siblings_list")) or [processor]


@cpu.baseline(kind="naive")
class SharedCore:
    idle = False  # whether the neighbour has only what others leave

    def prepare(self):
        self.usable = os.sched_getaffinity(0)
        self.here, self.there = self.processors(sorted(self.usable))
        self.step = host_code.function("step")

    def processors(self, usable):
        """The processor of the steps, and that of the neighbour; None for no neighbour."""
        return usable[-1], usable[-1]

    @contextmanager
    def beside(self):
        """The neighbour, and this thread on its processor, for the length of a block."""
        os.sched_setaffinity(0, {self.here})
        try:
            if self.there is not None and (error := host_code.call("arrive", self.there, self.idle)):
                raise BenchmarkError(f"the neighbour could not be started: {os.strerror(error)}")
            try:
                yield
            finally:
                if self.there is not None:
                    host_code.call("leave")
        finally:
            os.sched_setaffinity(0, self.usable)

    def run(self, desk, turns):
        with self.beside():
            while desk.is_open:
                for request in desk.wait():
                    desk.answer([request], state=torch.tensor([self.step(request["seed"], turns)]))


@cpu.variant(
    adds="core of its own",
    why="the neighbour runs on another core, and the core of the steps is free when one is asked for",
    predict="at least 1.2x: half a core takes 100 us for a request, and one comes every 75",
)
class OwnCore(SharedCore):
    def processors(self, usable):
        others = [processor for processor in usable if processor not in siblings(usable[-1])]
        if not others:
            raise SkipError(f"needs 2 cores ({len(usable)} processors of 1 core are usable here)")
        return usable[-1], others[-1]


@cpu.variant(
    adds="sibling",
    why="the neighbour is the other hardware thread of the core: no slice is waited for, and the units are shared",
)
class BusySibling(SharedCore):
    def processors(self, usable):
        others = [processor for processor in usable[:-1] if processor in siblings(usable[-1])]
        if not others:
            raise SkipError(f"needs a core of two hardware threads; processor {usable[-1]} has no usable sibling")
        return usable[-1], others[-1]


@cpu.variant(
    adds="idle class",
    why="a neighbour of the scheduler's idle class leaves the core at once when a step is asked for (SCHED_IDLE)",
    predict="at least 1.2x: half a core takes 100 us for a request, and one comes every 75",
)
class IdleNeighbour(SharedCore):
    idle = True


@cpu.variant(
    builds_on="own_core",
    adds="isolated core",
    why="the scheduler puts nobody on an isolated core, and few interrupts come there",
    teaches="two pinned threads keep apart without it; isolation keeps away what nobody pins",
)
class IsolatedCore(SharedCore):
    def processors(self, usable):
        isolated = [processor for processor in numbers(text(TOPOLOGY / "isolated")) if processor in usable]
        others = [processor for processor in usable if processor not in isolated]
        if not isolated or not others:
            raise SkipError(
                "needs an isolated processor, which isolcpus=LIST makes at boot, and another one; "
                f"{TOPOLOGY}/isolated says {text(TOPOLOGY / 'isolated') or 'none'!r}, of which "
                f"{len(isolated)} are usable here"
            )
        return isolated[-1], others[-1]


@cpu.yardstick(why="the steps without a neighbour: the latency of the server itself")
class Quiet(SharedCore):
    def processors(self, usable):
        return usable[-1], None

"""Passes of blocks: all functions take turns on the same arguments, in an order that is drawn anew for each pass."""

import gc
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field, frozen

from aiperf_core import pytree
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.inline.subject import Arguments, Call, end_a_child_of
from aiperf_core.stats.intervals import MIN_PASSES

# A sample of the wall clock lasts at least this long, so that reading the clock takes less than 0.1 % of it.
_SAMPLE_S = 2e-4
# Passes that a budget is divided into, and the most samples of a function in one.
_PASSES, _MOST_IN_BLOCK = 40, 64
# Part of the budget that warming up takes.
_WARM_UP = 0.15
# The most time for the passes without which nothing can be said, in budgets.
_OVERTIME = 10


@frozen
class Sample:
    """A timed sample: its side, its pass, and the time of one call in seconds."""

    side: str
    number: int
    time_s: float


@define
class Sampler:
    """Samples of functions on one device.

    sides: the functions by name.
    make: makes the arguments of each pass.
    mutates: the functions write to their arguments, so that each call gets a copy.
    single: a sample has one call, however short.
    before: is called before each sample.
    calls: the number of calls in a sample, by side.
    took_s: the seconds of sampling.
    """

    sides: Mapping[str, Callable[..., Any]]
    make: Callable[..., Any] | None
    kind: DeviceKind
    budget_s: float
    mutates: bool = False
    single: bool = False
    before: Call | None = None
    calls: dict[str, int] = field(factory=dict)
    passes: int = 0
    took_s: float = 0.0
    _device: TimingDevice = field(init=False)
    _pid: int = field(init=False, factory=os.getpid)

    def run(self) -> list[Sample]:
        """Warm up, then sample until the budget is spent and an interval can be made."""
        try:
            return self._run()
        finally:
            if self.kind.on_host:  # the caller's process goes on, with an allocator that keeps nothing
                from aiperf_core.devices.cpu import give_back_freed_memory

                give_back_freed_memory()

    def _run(self) -> list[Sample]:
        arguments = Arguments.drawn(self.make)
        size = sum(tensor.numel() * tensor.element_size() for tensor in pytree.tensors(arguments.values))
        self._device = self.kind.open(size, all_streams=True)
        durations = dict[str, float]()
        for side, function in self.sides.items():  # a function that stands twice has one number of calls
            twin = next((other for other in durations if self.sides[other] is function), None)
            durations[side] = durations[twin] if twin else self._warm_up(side, arguments)
        self.calls = {side: self._calls_of(duration) for side, duration in durations.items()}
        pass_s = sum(self.calls[side] * duration for side, duration in durations.items())
        each = max(1, min(_MOST_IN_BLOCK, int(self.budget_s / _PASSES / max(pass_s, 1e-9))))
        generator, samples, started = random.Random(), list[Sample](), time.monotonic()
        while (spent := time.monotonic() - started) < self.budget_s or self.passes < MIN_PASSES:
            if spent > _OVERTIME * self.budget_s:
                break
            arguments = Arguments.drawn(self.make)
            order = list(self.sides)
            generator.shuffle(order)
            for side in order:
                with _undisturbed():
                    samples += self._block(side, arguments, each)
            self.passes += 1
        self.took_s = time.monotonic() - started
        return samples

    def _warm_up(self, side: str, arguments: Arguments) -> float:
        """The shortest time of a call, in seconds, once calls are warm."""
        end, shortest, calls = time.monotonic() + _WARM_UP * self.budget_s / len(self.sides), float("inf"), 0
        while calls < 2 or time.monotonic() < end:
            shortest, calls = min(shortest, self._sample(self._call(side, arguments), 1)), calls + 1
        return shortest

    def _calls_of(self, duration_s: float) -> int:
        """The number of calls in a sample: one where the device has a clock, or calls change what they are given."""
        if self.kind.clock or self.mutates or self.single:
            return 1
        return max(1, round(_SAMPLE_S / max(duration_s, 1e-9)))

    def _block(self, side: str, arguments: Arguments, samples: int) -> Iterator[Sample]:
        call, calls = self._call(side, arguments), self.calls[side]
        self._sample(call, 1)  # the last function displaced what this one uses
        for _ in range(samples):
            if self.mutates:
                call = self._call(side, arguments)
            yield Sample(side, self.passes, self._sample(call, calls) / calls)

    def _call(self, side: str, arguments: Arguments) -> Call:
        return (arguments.copied() if self.mutates else arguments).bound_to(self.sides[side])

    def _sample(self, call: Call, calls: int) -> float:
        """The time of a sample in seconds, by the device's own clock where it has one; its caches are cold then."""
        if self.before:
            self.before()
        if self.kind.clock:
            self._device.flush()
            self._device.make_ready()
        timed = self._device.time(call, "device" if self.kind.clock else "wall", calls)
        end_a_child_of(self._pid)
        time_s = timed.wall_s if timed.device_s is None else timed.device_s
        assert time_s is not None
        return time_s


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage is collected meanwhile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

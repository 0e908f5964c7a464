"""Samples of functions of this process, which take turns on the same arguments."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import define, field

from aiperf_core import pytree
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.inline.subject import Arguments, Call, end_a_child_of
from aiperf_core.inline.turns import Sample, Turns

# A sample of the wall clock lasts at least this long, so that reading the clock takes less than 0.1 % of it.
_SAMPLE_S = 2e-4


@define
class Sampler:
    """Samples of functions on one device.

    sides: the functions by name.
    make: makes the arguments of each pass.
    mutates: the functions write to their arguments, so that each call gets a copy.
    calls: the number of calls in a sample, by side.
    """

    sides: Mapping[str, Callable[..., Any]]
    make: Callable[..., Any] | None
    kind: DeviceKind
    budget_s: float
    mutates: bool = False
    calls: dict[str, int] = field(factory=dict)
    turns: Turns = field(init=False)
    _arguments: Arguments = field(init=False)
    _device: TimingDevice = field(init=False)
    _pid: int = field(init=False, factory=os.getpid)

    @turns.default
    def _of_sides(self) -> Turns:
        return Turns(list(self.sides), self.budget_s)

    def run(self) -> list[Sample]:
        """Warm up, then sample until the budget is spent and an interval can be made."""
        try:
            return self._run()
        finally:
            self._arguments = Arguments()
            if self.kind.on_host:  # the caller's process goes on, with an allocator that keeps nothing
                from aiperf_core.devices.cpu import give_back_freed_memory

                give_back_freed_memory()

    def _run(self) -> list[Sample]:
        self._draw()
        size = sum(tensor.numel() * tensor.element_size() for tensor in pytree.tensors(self._arguments.values))
        self._device = self.kind.open(size, all_streams=True)
        durations = dict[str, float]()
        for side, function in self.sides.items():  # a function that stands twice has one number of calls
            twin = next((other for other in durations if self.sides[other] is function), None)
            durations[side] = durations[twin] if twin else self.turns.warmed(partial(self._once, side))
        self.calls = {side: self._calls_of(duration) for side, duration in durations.items()}
        pass_s = sum(self.calls[side] * duration for side, duration in durations.items())
        return self.turns.take(pass_s, self._block, self._draw)

    def _draw(self) -> None:
        self._arguments = Arguments.drawn(self.make)

    def _once(self, side: str) -> float:
        """The time of a sample of one call."""
        return self._sample(self._call(side), 1)

    def _calls_of(self, duration_s: float) -> int:
        """The number of calls in a sample: one where the device has a clock, or calls change what they are given."""
        if self.kind.clock or self.mutates:
            return 1
        return max(1, round(_SAMPLE_S / max(duration_s, 1e-9)))

    def _block(self, side: str, samples: int) -> Iterator[Sample]:
        call, calls = self._call(side), self.calls[side]
        self._sample(call, 1)  # the last function displaced what this one uses
        for _ in range(samples):
            if self.mutates:
                call = self._call(side)
            yield Sample(side, self.turns.passes, self._sample(call, calls) / calls)

    def _call(self, side: str) -> Call:
        return (self._arguments.copied() if self.mutates else self._arguments).bound_to(self.sides[side])

    def _sample(self, call: Call, calls: int) -> float:
        """The time of a sample in seconds, by the device's own clock where it has one; its caches are cold then."""
        if self.kind.clock:
            self._device.flush()
            self._device.make_ready()
        timed = self._device.time(call, "device" if self.kind.clock else "wall", calls)
        end_a_child_of(self._pid)
        time_s = timed.wall_s if timed.device_s is None else timed.device_s
        assert time_s is not None
        return time_s

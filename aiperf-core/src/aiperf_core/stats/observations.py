"""Times and answers from the observations of an implementation."""

from collections.abc import Mapping

import numpy as np
from attrs import field, frozen

from aiperf_core.measurements import Answer, Bracketed, Ceilings, Samples
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.intervals import Blocks


@frozen
class Clocks:
    """The cost of each clock in a sample, and its step, in seconds by the clock's name.

    exact: as of `Blocks`.
    """

    cost_s: Mapping[str, float] = field(factory=dict)
    step_s: Mapping[str, float] = field(factory=dict)
    exact: bool = True

    def per_call(self, clock: str, sample_s: float, calls: int) -> float:
        """The time of one call in a sample of several, without the clock's own cost."""
        return (sample_s - self.cost_s.get(clock, 0.0)) / calls

    def times(self, samples: Samples, clock: str) -> list[float]:
        """The times of a call by one clock, in seconds, without the clock's own cost."""
        pairs = zip(samples.by(clock), samples.calls, strict=True)
        return [self.per_call(clock, time, calls) for time, calls in pairs if time is not None]

    def median(self, samples: Samples, clock: str) -> float | None:
        """The median time of a call by a clock, in seconds; None without a sample."""
        times = self.times(samples, clock)
        return float(np.median(times)) if times else None

    def blocks(self, samples: Samples, clock: str, length: int) -> Blocks:
        """The times of a call by one clock, each with its pass; `length` is the number of implementations in a pass."""
        kept = [index for index, time in enumerate(samples.by(clock)) if time is not None]
        return Blocks.of(
            self.times(samples, clock),
            [samples.block[index] // length for index in kept],
            [samples.round[index] for index in kept],
            self.step_s.get(clock, 0.0) / max(calls_of(samples), 1),
            exact=self.exact,
        )


def clocks_of(result: TargetResult, ceilings: Ceilings | None) -> Clocks:
    """The clocks of a target's result. `ceilings` are of its device."""
    step = ceilings.event_step_s if ceilings else None
    cost = {} if result.clock_overhead_s is None else {result.clock: result.clock_overhead_s}
    return Clocks(cost, {"device": step} if step else {}, result.judging.exact_quantiles)


def blocks(result: TargetResult, row: Row, ceilings: Ceilings | None) -> Blocks:
    """A row's times of a call by the target's clock, with their passes and rounds."""
    return clocks_of(result, ceilings).blocks(row.samples, result.clock, len(result.rows))


def host_share(row: Row) -> float | None:
    """The part of the caller's time in which the device does not work for the call; None without both times."""
    device, wall = row.time_s if row.clock == "device" else row.device_s, row.wall_s
    if device is None or wall is None or device.value > wall.value:
        return None
    return 1 - device.value / wall.value


def calls_of(samples: Samples) -> int:
    """The calls in a sample; 0 without a sample."""
    return samples.calls[-1] if samples.calls else 0


def is_untrusted(samples: Samples) -> bool:
    """Whether they are of a run of untrusted code: other processes are stopped meanwhile, so `replied_s` is known."""
    return any(replied is not None for replied in samples.replied_s)


def is_observed(samples: Samples) -> bool:
    """Whether an observer outside of the process timed the samples."""
    return any(own is not None for own in samples.own_s)


def harness_s(baseline: Samples) -> float | None:
    """The least time that the harness itself took in a sample that an observer timed; None without such a sample.

    The observer's time covers the process's own, and the baseline's process is believed. A busy machine adds to some
    samples, and the least leaves all times of the baseline positive.
    """
    both = zip(baseline.wall_s, baseline.own_s, strict=True)
    return min((wall - own for wall, own in both if wall is not None and own is not None), default=None)


def answers_of(samples: Samples) -> list[Answer]:
    """How the answer to each sample came. Samples whose answer was not timed are left out."""
    return [
        Answer(
            held_s(samples.wall_s[index], samples.device_s[index], samples.bracket_s[index], samples.done_s[index]),
            samples.begun_s[index],
            answered,
        )
        for index, answered in enumerate(samples.answered_s)
        if answered is not None
    ]


def brackets_of(samples: Samples) -> list[Bracketed]:
    """The samples by the worker's wall clock and by the supervisor's bracket."""
    both = zip(samples.wall_s, samples.bracket_s, strict=True)
    return [Bracketed(wall, bracket) for wall, bracket in both if wall is not None]


def held_s(wall_s: float | None, device_s: float | None, bracket_s: float, done_s: float | None = None) -> float:
    """The time of a sample on its clock, by the supervisor, in seconds.

    The caller's clock is believed here: what it leaves out shows as time beside the call. Of deferred work, the work
    after the call is declared, and has its own figure, `done_s`. The GPU's clock leaves out launches, which the bracket
    counts. The bracket is too short where the supervisor reads both notices late; then the clock's figure is closer.
    """
    if done_s is not None:
        return done_s
    return wall_s if wall_s is not None else max(bracket_s, device_s or 0.0)

"""The events that observers receive. They hold plain values only, so an observer cannot change the run."""

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class RunStarted:
    """A run begins. `bundle` is the folder of its results."""

    targets: tuple[str, ...]
    device: str
    bundle: str


@frozen(kw_only=True)
class TargetStarted:
    """A target is measured next: number `index` of `total`, counted from 1."""

    name: str
    index: int
    total: int


@frozen(kw_only=True)
class Progress:
    """The state of the run. A field that does not apply, or is not known yet, is None.

    phase: `setup`, `warm-up`, `sampling` or `verification`, with a step of it, as in `setup: prepare`.
    samples: those of `implementation` so far.
    seconds_left: of the target, an estimate.
    share: the part of the target's run that is done, by the same estimate.
    undecided: an implementation whose interval is not narrow enough yet.
    interval: low and high of the speedup of `undecided` so far.
    wanted: the half width, as a part of the speedup, at which an interval is narrow enough.
    round, rounds: the round of fresh processes, from 1, and their number.
    block: blocks of each implementation that were taken, in all rounds.
    clock_hz: of the device at the last block.
    temperature_c: of the device, at one of the last eight blocks.
    throttled: what held the clocks down at the last block.
    """

    target: str
    phase: str
    implementation: str | None = None
    samples: int | None = None
    seconds_left: float | None = None
    share: float | None = None
    undecided: str | None = None
    interval: tuple[float, float] | None = None
    wanted: float | None = None
    round: int | None = None
    rounds: int | None = None
    block: int | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    throttled: tuple[str, ...] | None = None


@frozen(kw_only=True)
class TargetFinished:
    """A target is done.

    verdicts: the verdict of each implementation; empty if the target could not be started.
    path: the target's file. If the target could not be started, the run's folder, whose manifest has the reason.
    """

    name: str
    verdicts: Mapping[str, str]
    path: str


@frozen(kw_only=True)
class RunFinished:
    """The run is over, and its folder `path` is final. `exit_code` is that of the command."""

    path: str
    exit_code: int

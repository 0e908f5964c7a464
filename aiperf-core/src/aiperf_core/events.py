"""What observers are told of a run's course. Plain values only: an observer cannot reach into the run through them."""

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class RunStarted:
    """A run begins. `bundle` is the folder that its results will be in."""

    targets: tuple[str, ...]
    device: str
    bundle: str


@frozen(kw_only=True)
class TargetStarted:
    """A target's turn has come: number `index` of `total`, counted from 1."""

    name: str
    index: int
    total: int


@frozen(kw_only=True)
class Progress:
    """Where the run is. What does not apply to a phase, or is not known yet, is None.

    `block` counts from 1 to `blocks`, the number planned so far: sampling goes on until the answer is known, so `blocks`
    may grow. `seconds_left` is an estimate.
    """

    target: str
    phase: str
    implementation: str | None = None
    block: int | None = None
    blocks: int | None = None
    seconds_left: float | None = None


@frozen(kw_only=True)
class TargetFinished:
    """A target is done and its file is on disk at `path`. `verdicts` maps each implementation to its verdict.

    A target that could not be started has no verdicts and no file; `path` is then the run's folder, whose manifest says
    why.
    """

    name: str
    verdicts: Mapping[str, str]
    path: str


@frozen(kw_only=True)
class RunFinished:
    """The run is over and its folder `path` will not change any more. `exit_code` is what the command will return."""

    path: str
    exit_code: int

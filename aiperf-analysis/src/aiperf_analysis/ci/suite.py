"""The suite of continuous benchmarking: a TOML or JSON file that names targets, limits of the machine, and gates.

A suite names no commands, except the one of `notify`. Its JSON Schema: `aiperf schema ci-suite`.
"""

from fnmatch import fnmatchcase
from pathlib import Path

from attrs import field, frozen

from aiperf_core import suite
from aiperf_core.report.metrics import STORED
from aiperf_core.suite import SuiteFormat


@frozen
class Gate:
    """A figure that must not change.

    metric: `time`, `speedup`, `memory` or `energy`.
    floor: the smallest relative change that matters; null takes the target's.
    direction: the change that stops, `up`, `down` or `both`; null takes the one that is worse.
    confirm: the further runs that must agree with a suspect.
    targets: patterns of the targets that it is for.
    rows: the implementations that it is for; none stands for all.
    """

    metric: str
    floor: float | None = None
    direction: str | None = None
    confirm: int = 1
    targets: list[str] = field(factory=lambda: ["*"])
    rows: list[str] = field(factory=list)

    @property
    def stops(self) -> str:
        """The change that stops: `up`, `down` or `both`."""
        return self.direction or ("up" if STORED[self.metric].better == "down" else "down")

    def is_for(self, target: str, row: str) -> bool:
        """Whether a row is held to this gate."""
        named = any(fnmatchcase(target, pattern) for pattern in self.targets)
        return named and (not self.rows or row in self.rows)


@frozen
class Suite(suite.Suite):
    """A suite. Its runs also have the labels `branch` and `commit`.

    min_samples: the least number of samples of each implementation.
    run_timeout_s: limit for a whole run; null is no limit.
    machine: a pattern of the kind of machine that is demanded, such as `nvidia-h200-x1`.
    repeats: the number of runs of an invocation.
    retries: how often a run that failed is repeated.
    base: the branch whose runs a run is held to; null takes the branch of the run.
    folder: where bundles and reports are kept, in a folder of the suite's name.
    gates: what must not change.
    notify: a command and its arguments, started without a shell; the report is its standard input, as JSON.
    """

    min_samples: int = 0
    run_timeout_s: float | None = None
    machine: str | None = None
    repeats: int = 1
    retries: int = 1
    base: str | None = None
    folder: str = "artifacts/ci"
    gates: list[Gate] = field(factory=lambda: [Gate("time")])
    notify: list[str] = field(factory=list)

    @property
    def home(self) -> Path:
        """The folder of the suite."""
        return Path(self.folder) / self.name

    @property
    def runs(self) -> Path:
        """The folder of its bundles."""
        return self.home / "runs"


FORMAT = SuiteFormat(
    Suite,
    "urn:aiperf:schema:suite:1",
    {
        (Suite, "min_samples"): {"minimum": 0},
        (Suite, "repeats"): {"minimum": 1, "maximum": 100},
        (Suite, "retries"): {"minimum": 0, "maximum": 10},
        (Gate, "metric"): {"enum": list(STORED)},
        (Gate, "floor"): {"minimum": 0, "maximum": 1},
        (Gate, "direction"): {"enum": ["up", "down", "both", None]},
        (Gate, "confirm"): {"minimum": 1, "maximum": 3},
    },
    "aiperf ci init",
    "aiperf schema ci-suite",
    runs=("notify",),
)

"""The declarations of a benchmark as plain records, from the process that imported it."""

from typing import Any

from attrs import field, frozen

from aiperf_core.goal import Goal
from aiperf_core.simulated import Simulated


@frozen
class TargetRef:
    """A target's name and the module that holds it."""

    name: str
    module: str


@frozen
class DescribedImplementation:
    """An implementation's declarations.

    where: file, line and name of its code.
    lossy: `metric` and `budget`.
    mechanisms: the mechanisms that a variant combines.
    predict, teaches: as of `Benchmark.variant`.
    """

    name: str
    role: str
    device: str
    where: str
    why: str = ""
    kind: str | None = None
    requires: list[str] = field(factory=list)
    builds_on: str | None = None
    lossy: dict[str, Any] | None = None
    mechanisms: list[str] = field(factory=list)
    predict: str = ""
    teaches: str = ""


@frozen
class Described:
    """A target's declarations, its module and the SHA-256 of the module's file.

    tolerances: by preset of sizes.
    awkward: the sizes that conformance tests; null where the author gives none.
    floor: the sizes of the host floor; empty where the author gives none.
    simulated: of a target that measures virtual time.
    subject: what the lesson is about: `device` or `host`.
    limits: the section `Limits` of the file's docstring.
    accepted: notes of `aiperf lint` that are right, with the reason.
    file: the path of the benchmark's file.
    """

    goal: str
    clock: str
    cache: str
    threads: int | None
    presets: dict[str, dict[str, Any]]
    tolerances: dict[str, str]
    module: str
    sha256: str
    implementations: list[DescribedImplementation]
    folder: bool = False
    files: list[str] = field(factory=list)
    deferred: bool = False
    prepare_timeout_s: float = 0.0
    served: list[str] = field(factory=list)
    no_gain_on: dict[str, str] = field(factory=dict)
    goals: list[Goal] = field(factory=list)
    awkward: list[dict[str, Any]] | None = None
    floor: dict[str, Any] = field(factory=dict)
    simulated: Simulated | None = None
    subject: str = "device"
    limits: str = ""
    accepted: dict[str, str] = field(factory=dict)
    file: str = ""

    def sizes_of(self, goal: Goal) -> dict[str, float]:
        """The sizes that a goal is about."""
        return {**self.presets[goal.preset], **goal.params}

    def on(self, device: str) -> list[DescribedImplementation]:
        """The implementations for a device: baseline, variants, yardsticks."""
        return [one for one in self.implementations if one.device == device]

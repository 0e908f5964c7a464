"""The suite of a fleet: a TOML or JSON file that names targets, machine classes and limits.

Its JSON Schema: `aiperf schema fleet-suite`.
"""

import json

from attrs import field, frozen

from aiperf_core import suite
from aiperf_core.results.jsontext import JsonError
from aiperf_core.suite import SuiteFormat

ANY = "any"
# A class in the words of an engine.
_CLASS = {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_-]*$", "$comment": "a name of letters, digits, _ and -"}


@frozen
class Suite(suite.Suite):
    """A suite. Its bundles also have the labels `fleet`, `machine` and `task`.

    classes: the machine classes on which each target runs, in the words of the engine; `any` stands for all machines.
    kinds: for a class, a pattern of the kind of hardware that a machine must have, such as `nvidia-h200-*`.
    machines: `any` runs a target on one machine of each class, `each` on every machine of it.
    repeats: the number of runs of each target, for each class or machine.
    time_limit_s: limit for a task, in seconds, after which the engine ends it.
    patience_s: how long tasks wait, in seconds, while no machine takes any, and finished ones while the folder is full.
    attempts: how often a task is started whose machine was lost.
    hand_backs: how often machines that are not fit may hand a task back.
    rest_s: how long a machine that handed a task back gets none, in seconds.
    """

    classes: list[str] = field(factory=lambda: [ANY])
    kinds: dict[str, str] = field(factory=dict)
    machines: str = "any"
    repeats: int = 1
    time_limit_s: float = 3600.0
    patience_s: float = 600.0
    attempts: int = 2
    hand_backs: int = 5
    rest_s: float = 30.0


def _check(given: Suite) -> None:
    named = [one for one in given.classes if one != ANY]
    for name in given.kinds:
        if name not in named:
            raise JsonError("kinds", json.dumps(name), ", ".join(named) or "a class of 'classes' other than any")


FORMAT = SuiteFormat(
    Suite,
    "urn:aiperf:schema:fleet-suite:1",
    {
        (Suite, "classes"): {"minItems": 1, "items": _CLASS},
        (Suite, "machines"): {"enum": ["any", "each"]},
        (Suite, "repeats"): {"minimum": 1, "maximum": 1000},
        (Suite, "time_limit_s"): {"minimum": 0.001, "maximum": 1e6},
        (Suite, "patience_s"): {"minimum": 0, "maximum": 1e6},
        (Suite, "attempts"): {"minimum": 1, "maximum": 10},
        (Suite, "hand_backs"): {"minimum": 0, "maximum": 1000},
        (Suite, "rest_s"): {"minimum": 0, "maximum": 1e6},
    },
    "aiperf fleet init",
    "aiperf schema fleet-suite",
    check=_check,
)

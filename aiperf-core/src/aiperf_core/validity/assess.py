"""After the samples were taken: every check looks at the evidence of one implementation."""

import importlib
from collections.abc import Collection, Iterable
from functools import cache

from attrs import field, frozen

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

_MODULES = (
    "global_state",
    "process_census",
    "aliasing",
    "both_clocks",
    "repeat_against_fresh",
    "cupti_ledger",
    "ranks",
    "seeds",
    "versions",
    "machine",
    "self_check",
)


@frozen
class Assessment:
    """What the checks say: what they saw, which could not look and why, and which failed and how."""

    seen: list[Seen] = field(factory=list)
    not_observed: dict[str, str] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)


@cache
def built_in() -> tuple[Check, ...]:
    """The checks that come with aiperf."""
    return tuple(importlib.import_module(f"aiperf_core.validity.checks.{name}").CHECK for name in _MODULES)


def assess(evidence: Evidence, checks: Iterable[Check], off: Collection[str] = ()) -> Assessment:
    """Let every check look whose guard is not switched off. What a check raises is its own failure, and no pass."""
    assessment = Assessment()
    for check in checks:
        if check.guard in off:
            continue
        try:
            told = check.look(evidence)
            if isinstance(told, NotObserved):
                assessment.not_observed[check.guard] = told.reason
            else:
                assessment.seen.extend(told)
        except Exception as error:
            assessment.failed[check.guard] = f"{type(error).__name__}: {error}"
    return assessment

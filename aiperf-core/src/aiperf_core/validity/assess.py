"""Runs every check on the evidence of one implementation, after the samples were taken."""

import importlib
import pkgutil
from collections.abc import Collection, Iterable
from functools import cache

from attrs import field, frozen

from aiperf_core.validity import checks as folder
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.registry import guards


@frozen
class Assessment:
    """The results of the checks.

    seen: the issues that were seen.
    not_observed: why a check could not look, by guard.
    failed: the error of a check that raised, by guard.
    """

    seen: list[Seen] = field(factory=list)
    not_observed: dict[str, str] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)


@cache
def built_in() -> tuple[Check, ...]:
    """The checks of the modules in `checks/`, in the registry's order of their guards."""
    order = [guard.name for guard in guards()]
    modules = (
        importlib.import_module(f"{folder.__name__}.{module.name}") for module in pkgutil.iter_modules(folder.__path__)
    )
    return tuple(sorted((module.CHECK for module in modules), key=lambda check: order.index(check.guard)))


def assess(evidence: Evidence, checks: Iterable[Check], off: Collection[str] = ()) -> Assessment:
    """Run every check whose guard is not switched off. A check that raises has failed, and has not passed."""
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

"""The contents page of the attack corpus."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.validity.cases import Case, Recorded
from aiperf_redteam import catalogue


@hookimpl
def aiperf_attacks() -> Iterable[Case]:
    """Contribute the attacks and honest look-alikes, category by category."""
    return catalogue.cases()


@hookimpl
def aiperf_recordings() -> Iterable[Recorded]:
    """Contribute evidence of issues that not every machine can commit."""
    return catalogue.recorded()

"""What a finding does to a row: the severity that the registry gives an issue, under the policy of a run."""

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from aiperf_core.validity.issues import HARD, Issue, Severity
from aiperf_core.validity.registry import ISSUES


def _severities(issues: Iterable[Issue]) -> dict[str, Severity]:
    return {one.id: one.severity for one in issues}


@frozen
class Policy:
    """A policy by its name, `strict`, `standard` or `lenient`, over known issues: the registry's, and those of plugins."""

    name: str = "standard"
    severities: Mapping[str, Severity] = field(factory=lambda: _severities(ISSUES))

    def effect(self, issue: str) -> str:
        """`invalid`, `warning` or `ignored`. An issue that nobody registered is taken seriously."""
        return str(getattr(self.severities.get(issue, HARD), self.name))

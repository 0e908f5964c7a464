"""The effect of a finding on a row: the severity of the issue under the policy of the run."""

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from aiperf_core.validity.issues import HARD, Issue, Severity
from aiperf_core.validity.registry import ISSUES


def _severities(issues: Iterable[Issue]) -> dict[str, Severity]:
    return {one.id: one.severity for one in issues}


@frozen
class Policy:
    """A policy.

    name: `strict`, `standard` or `lenient`.
    severities: of the issues of the registry and of plugins, by id.
    """

    name: str = "standard"
    severities: Mapping[str, Severity] = field(factory=lambda: _severities(ISSUES))

    def effect(self, issue: str) -> str:
        """`invalid`, `warning` or `ignored`. An issue that is not registered is HARD."""
        return str(getattr(self.severities.get(issue, HARD), self.name))

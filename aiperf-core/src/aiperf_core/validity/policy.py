"""The effect of a finding on a row: the severity of the issue under the policy of the run."""

from collections.abc import Mapping

from attrs import field, frozen

from aiperf_core.validity.issues import HARD, POLICIES, Severity
from aiperf_core.validity.registry import issues


@frozen
class Policy:
    """A policy.

    name: `strict`, `standard` or `lenient`.
    severities: of the issues of the registry and of plugins, by id.
    """

    name: str = "standard"
    severities: Mapping[str, Severity] = field(factory=lambda: {issue.id: issue.severity for issue in issues()})

    def effect(self, issue: str) -> str:
        """`invalid`, `warning` or `ignored`. An issue that is not registered is HARD."""
        return str(getattr(self.severities.get(issue, HARD), self.name))

    def effects_of_plugin(self, issue: str) -> dict[str, str] | None:
        """The effect of an issue under each policy; None for an issue of the core, which its registry decides."""
        if any(known.id == issue for known in issues()):
            return None
        return {name: str(getattr(self.severities.get(issue, HARD), name)) for name in POLICIES}


def always(effect: str) -> dict[str, str]:
    """The same effect under every policy."""
    return dict.fromkeys(POLICIES, effect)

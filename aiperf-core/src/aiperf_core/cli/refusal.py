"""Whether a run failed for a mistake in the user's reference file."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiperf_core.candidate_format import reference_of
from aiperf_core.targets import InstalledTarget

if TYPE_CHECKING:
    from aiperf_core.results.models import SkippedTarget, TargetResult


def refused(target: InstalledTarget, results: "Sequence[TargetResult | SkippedTarget]") -> bool:
    """Whether a reference was refused: a mistake in the user's file, which the reason names first."""
    reference = reference_of(target.module)
    reasons = (getattr(result, "reason", "") for result in results)
    return reference is not None and any(reason.startswith(f"{reference.path}: ") for reason in reasons)

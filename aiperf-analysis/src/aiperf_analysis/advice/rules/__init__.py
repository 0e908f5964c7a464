"""The rules of `aiperf explain`, in the order in which they are shown: trust first, then limits, then counters."""

from aiperf_analysis.advice.rules import counters, figures, memory, ranks, timelines, trust
from aiperf_analysis.advice.rules.rule import Evidence, Rule, Subject

__all__ = ["RULES", "Evidence", "Rule", "Subject"]

RULES: tuple[Rule, ...] = (
    *trust.RULES,
    *figures.RULES,
    *memory.RULES,
    *ranks.RULES,
    *timelines.RULES,
    *counters.RULES,
)

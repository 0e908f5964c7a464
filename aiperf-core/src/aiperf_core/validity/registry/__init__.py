"""The registry: every issue that aiperf guards against, one file a category.

A check reports what it saw and not what was meant: code that returns zeros is found as `output.wrong_values`, whatever
made it do so. The registry names the ways; the checks name the finding.
"""

from collections.abc import Mapping
from types import MappingProxyType

from aiperf_core.validity.issues import Issue, UnknownIssueError
from aiperf_core.validity.registry import compile as compiling
from aiperf_core.validity.registry import (
    cuda,
    distributed,
    environment,
    evaluation,
    leak,
    location,
    memory,
    output,
    policy,
    replay,
    statistical,
    tamper,
    timing,
    workload,
)
from aiperf_core.validity.registry.guards import GUARDS

__all__ = ["CATEGORIES", "GUARDS", "ISSUES", "issue"]

# What the issues of a category have in common, in the order in which they are listed.
CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "timing": "the time is not that of the work",
        "output": "the answer is wrong, or looks like one",
        "workload": "less work is done, or other work",
        "location": "the work is done somewhere or sometime else",
        "memory": "memory does the work, or disturbs it",
        "cuda": "what CUDA makes easy to miss",
        "compile": "compilers keep, change or hide something",
        "distributed": "not all ranks do, wait or send what they should",
        "environment": "the machine is another one for the two sides",
        "statistical": "the figures do not carry the conclusion",
        "evaluation": "the exam itself is at fault",
        "replay": "an earlier answer is handed out again",
        "leak": "the answer is taken from the judge",
        "tamper": "the harness is changed by what it measures",
        "policy": "the answer is right, but not by the means claimed",
    }
)

ISSUES: tuple[Issue, ...] = (
    *timing.ISSUES,
    *output.ISSUES,
    *workload.ISSUES,
    *location.ISSUES,
    *memory.ISSUES,
    *cuda.ISSUES,
    *compiling.ISSUES,
    *distributed.ISSUES,
    *environment.ISSUES,
    *statistical.ISSUES,
    *evaluation.ISSUES,
    *replay.ISSUES,
    *leak.ISSUES,
    *tamper.ISSUES,
    *policy.ISSUES,
)


def issue(name: str) -> Issue:
    """Return the issue of this id. Raises `UnknownIssueError`, which names the nearest, where there is none."""
    for one in ISSUES:
        if one.id == name:
            return one
    raise UnknownIssueError(name, ISSUES)

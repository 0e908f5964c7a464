"""Analysis: something that is computed from stored results, such as a Pareto front.

A plugin contributes `Analysis` records with the hook `aiperf_analyses`. The package `aiperf-analysis` finds them there,
and offers each as `aiperf analyze NAME`.
"""

import re
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from aiperf_core.contributed import class_path, named, one_line, resolve

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class Analysis:
    """An analysis. A field that breaks a rule below raises `ValueError`, and its plugin is skipped.

    name: as in `aiperf analyze NAME`.
    summary: one line.
    load: its function, `"package.module:function"`, with the parameters `selection` (`aiperf_analysis.selection`) and
        `options` (by its annotation a class as in `aiperf_core.analysis_options`). It returns an
        `aiperf_core.report.result.Result`.
    """

    name: str = field(
        validator=named("analysis", _is_name, "lower-case letters, digits and hyphens can, such as 'pareto'")
    )
    summary: str = field(validator=one_line("analysis"))
    load: str = field(validator=class_path("analysis"))

    def resolve(self) -> Callable[..., Any]:
        """Import the function. Raises what the import raises."""
        found: Callable[..., Any] = resolve(self.load)
        return found

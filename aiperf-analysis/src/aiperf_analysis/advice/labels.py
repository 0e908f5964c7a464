"""Precision of the rules: the share of their findings that people labelled as true.

A labelled folder holds bundles and `labels.toml`:

    [[label]]
    bundle = "20261121-142530-ch06.bank_conflicts"
    target = "ch06.bank_conflicts"
    implementation = "square_tile"
    true = ["ncu.bank_conflicts"]
    false = ["ncu.scattered_loads"]
    reason = "written with conflicts, coalesced on both sides"

`true` names the rules whose fact holds for the row, `false` those whose fact does not hold. A finding of a rule that
the label does not name is not counted.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from aiperf_analysis.advice.rules import RULES, Rule
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.report.result import Figure
from aiperf_core.stats.distributions import share_interval
from aiperf_core.targets import nearest
from aiperf_core.text_file import text_of

FILE = "labels.toml"
LEAST = 0.80
NOT_MEASURED = "precision not measured"


@frozen
class Label:
    """What people know of a row: rules whose fact holds, and rules whose fact does not."""

    bundle: str
    target: str
    implementation: str
    true: frozenset[str]
    false: frozenset[str]


@frozen
class Precision:
    """The labelled findings of a rule: how many there were, and how many were true."""

    found: int
    true: int

    @property
    def value(self) -> float:
        """The share of true findings."""
        return self.true / self.found

    @property
    def enough(self) -> bool:
        """Whether the rule may be shown."""
        return self.value >= LEAST

    def figure(self) -> Figure:
        """The precision in percent with its 95 % interval."""
        low, high = share_interval(self.value, self.found)
        return Figure(value=100 * self.value, low=100 * low, high=100 * high, unit="%")


def read(folder: Path) -> list[Label]:
    """The labels of a folder. Raises UsageError where the file is missing or a label has a mistake."""
    path = folder / FILE
    try:
        page = tomllib.loads(text_of(path, path.read_bytes()))
    except OSError as error:
        raise UsageError(
            f"cannot read '{path}': {error.strerror or error}. A labelled folder holds bundles and {FILE}; its form is "
            "in docs/analysis-advice.md."
        ) from None
    except ValueError as error:
        raise UsageError(f"'{path}' is not TOML: {words(str(error))}.") from None
    found = page.get("label")
    if not isinstance(found, list) or not found:
        raise UsageError(f"'{path}' has no [[label]]; its form is in docs/analysis-advice.md.")
    return [_label(path, number, one) for number, one in enumerate(found, 1)]


def _label(path: Path, number: int, one: object) -> Label:
    texts = ("bundle", "target", "implementation")
    if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in texts):
        raise UsageError(f"'{path}': label {number} needs the texts {', '.join(texts)}.")
    known = [rule.name for rule in RULES]
    lists: dict[str, frozenset[str]] = {}
    for name in ("true", "false"):
        named = one.get(name, [])
        for rule in named if isinstance(named, list) else [named]:
            if rule not in known:
                near = nearest(str(rule), known)
                raise UsageError(
                    f"'{path}': label {number} names '{words(str(rule))}', which is no rule.{near} All rules: "
                    "aiperf explain --rules"
                )
        lists[name] = frozenset(named)
    return Label(one["bundle"], one["target"], one["implementation"], lists["true"], lists["false"])


def precision(found: Sequence[tuple[Label, Sequence[Rule]]]) -> dict[str, Precision]:
    """The precision of each rule that applied to a labelled row and is named by its label.

    found: the labelled rows, each with the rules that applied.
    """
    counts: dict[str, list[bool]] = {}
    for label, rules in found:
        for rule in rules:
            if rule.name in label.true or rule.name in label.false:
                counts.setdefault(rule.name, []).append(rule.name in label.true)
    return {name: Precision(len(true), sum(true)) for name, true in counts.items()}


def shown(name: str, measured: Mapping[str, Precision]) -> Figure:
    """The precision of a rule for a table."""
    return measured[name].figure() if name in measured else Figure(value=None, unit="%", reason=NOT_MEASURED)

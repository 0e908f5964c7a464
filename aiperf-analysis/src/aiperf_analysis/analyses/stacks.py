"""The combinations of mechanisms of a target, for stacking."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from attrs import field, frozen

from aiperf_analysis.models import factorial
from aiperf_analysis.models.factorial import Combination, Design, Weights
from aiperf_analysis.selection import Entry, Selection
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Figure, Origin, figure
from aiperf_core.results.models import Row
from aiperf_core.stats.intervals import Blocks, log_contrast

NOT_MEASURED = "NOT MEASURED"
NO_SAMPLES = "the samples are gone, and stored intervals cannot be combined; name the bundle's folder"
TOO_FEW_PASSES = "the combinations have too few passes in common for an interval; run longer: --budget, --tier"


@frozen(eq=False)
class Stack:
    """The combinations of mechanisms of one target in one bundle.

    entries: by combination the row that stands for it. others: further rows of a combination, which are not used.
    ended: combinations whose rows are not believed.
    """

    name: str
    entries: dict[Combination, Entry]
    others: dict[Combination, list[str]] = field(factory=dict)
    ended: dict[Combination, Row] = field(factory=dict)

    @property
    def any(self) -> Entry:
        """One of its entries, for what all have in common."""
        return next(iter(self.entries.values()))

    @property
    def floor(self) -> float:
        """The smallest relative difference that matters."""
        return self.any.result.floor

    @cached_property
    def designs(self) -> list[Design]:
        """The full factorials."""
        return factorial.designs(self.entries)

    @cached_property
    def blocks(self) -> dict[Combination, Blocks]:
        """The samples of the combinations that have some."""
        found = ((cell, one.blocks()) for cell, one in self.entries.items())
        return {cell: blocks for cell, blocks in found if blocks is not None}

    def contrast(self, weights: Weights) -> Estimate | None:
        """The contrast of these combinations on shared draws; None without samples, or with too few."""
        if not weights.keys() <= self.blocks.keys():
            return None
        return log_contrast([self.blocks[cell] for cell in weights], list(weights.values()))

    def shown(self, weights: Weights) -> Figure:
        """The figure of a contrast."""
        reason = TOO_FEW_PASSES if weights.keys() <= self.blocks.keys() else NO_SAMPLES
        return figure(self.contrast(weights), reason=reason)

    def origins(self, cells: Iterable[Combination]) -> list[Origin]:
        """The rows of these combinations."""
        return [self.entries[cell].origin for cell in cells if cell in self.entries]


def stacks_of(selection: Selection) -> list[Stack]:
    """The combinations of each target, in the order of the names."""
    rows: dict[tuple[str, str], list[Entry]] = {}
    for one in selection.every:
        if one.row.role == "baseline" or (one.row.role == "variant" and one.row.mechanisms):
            rows.setdefault((one.run.id, one.result.target), []).append(one)
    found = [_stack(entries) for entries in rows.values()]
    return sorted((one for one in found if one.entries), key=lambda one: one.name)


def _stack(entries: Sequence[Entry]) -> Stack:
    stack = Stack(entries[0].result.target, {})
    for one in entries:
        cell = frozenset(one.row.mechanisms)
        if not one.believed:
            stack.ended.setdefault(cell, one.row)
        elif cell in stack.entries:
            stack.others.setdefault(cell, []).append(one.row.name)
        else:
            stack.entries[cell] = one
    for cell in stack.entries:
        stack.ended.pop(cell, None)
    return stack


def alternatives(stacks: Sequence[Stack]) -> list[str]:
    """Sentences about rows that are not used, since another row has the same mechanisms."""
    return [
        f"{one.name}: '{one.entries[cell].row.name}' stands for {said(cell)}; {', '.join(names)} "
        f"{'has' if len(names) == 1 else 'have'} the same mechanisms and {'is' if len(names) == 1 else 'are'} not used"
        for one in stacks
        for cell, names in one.others.items()
        if any(cell in design.cells for design in one.designs)
    ]


def said(cell: Combination) -> str:
    """A combination in words."""
    return " + ".join(sorted(cell)) or "no mechanism"

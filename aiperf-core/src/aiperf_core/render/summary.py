"""Many targets at a glance: a line for each target, and the count of each verdict."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render.grid import Column, Line, fold, table, total
from aiperf_core.render.look import VERDICT_STYLES, Look
from aiperf_core.render.row_columns import less_memory
from aiperf_core.report.verdict_text import price
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.stats.best import best_variant

Finished = TargetResult | SkippedTarget
FOLDS = (60, 40, 30, 22, 16)  # longest line of a name, tried in this order


def chosen(result: TargetResult) -> Row | None:
    """The variant that stands for a target: the best, or else the first in the order of `Verdict`."""
    others = [row for row in result.rows if row.role == "variant" and not row.is_believed]
    return best_variant(result) or min(others, key=lambda row: [*Verdict].index(row.verdict), default=None)


def others_distrusted(result: TargetResult, row: Row | None) -> Counter[Verdict]:
    """The counts of verdicts of other rows that are not trusted."""
    return Counter(other.verdict for other in result.rows if other is not row and other.verdict.is_distrusted)


def headline(result: Finished, look: Look) -> Text:
    """The line of a finished target: `ch07.memory_access  wide 8.67x FASTER`."""
    line = Text(words(result.target), "bold")
    if isinstance(result, SkippedTarget):
        # The reason stands once, in the results.
        return line.append("  ").append_text(look.verdict(result.verdict))
    row = chosen(result)
    if row is None:
        return line.append("  no variant ran", "dim")
    line.append(f"  {words(row.name)} ")
    gain = _gain(row)
    line.append(f"{gain} " if gain else "")
    line.append_text(_verdict(result, row, look))
    for verdict, count in others_distrusted(result, row).items():
        line.append(f", {count} ").append_text(look.verdict(verdict))
    return line


def changes(before: TargetResult, after: TargetResult, look: Look) -> Text:
    """The variants that changed between two results: `one_loop 1.88x FASTER -> INVALID`; empty where none did."""
    earlier = {row.name: row for row in before.rows}
    parts = [
        Text.assemble(
            f"{words(row.name)} ", _short(before, earlier[row.name], look), f" {look.arrow} ", _short(after, row, look)
        )
        for row in after.rows
        if row.role == "variant" and row.name in earlier and _differs(earlier[row.name], row)
    ]
    return Text(", ").join(parts)


def course(results: Sequence[Finished], implementation: str, look: Look) -> Text:
    """An implementation from result to result: `one_loop 1.88x -> INVALID -> 2.00x FASTER`; of a baseline its times.

    A result without a row of the implementation is left out; one of a target that was skipped has its verdict.
    """
    steps: list[Text] = []
    for left, result in enumerate(results, 1 - len(results)):
        row = None if isinstance(result, SkippedTarget) else _row(result, implementation)
        if isinstance(result, SkippedTarget):
            steps.append(look.verdict(result.verdict))
        elif row is not None and row.is_believed and (gain := _gain(row)):
            steps.append(Text(gain))
            if row.role != "baseline" and left == 0:
                steps[-1].append(" ").append_text(_verdict(result, row, look))
        elif row is not None:
            steps.append(_verdict(result, row, look))
    return Text.assemble(f"{words(implementation)} ", Text(f" {look.arrow} ").join(steps))


def _row(result: TargetResult, implementation: str) -> Row | None:
    return next((row for row in result.rows if row.name == implementation), None)


def _gain(row: Row) -> str:
    """The gain of a row; of a baseline its time."""
    if row.role == "baseline":
        return units.time_estimate(row.time_s).value if row.time_s else ""
    return less_memory(row) or (units.ratio_estimate(row.speedup).value if row.speedup else "")


def _differs(before: Row, after: Row) -> bool:
    """Whether a row has another verdict, or a speedup beyond its interval of before."""
    one, other = before.speedup, after.speedup
    apart = one is not None and other is not None and (one.high < other.low or other.high < one.low)
    return before.verdict is not after.verdict or apart


def _short(result: TargetResult, row: Row, look: Look) -> Text:
    """The gain of a believed row with its verdict, or the verdict alone."""
    gain = _gain(row)
    shown = f"{gain} " if gain and row.is_believed else ""
    return Text(shown).append_text(_verdict(result, row, look))


def render_summary(results: Sequence[Finished], look: Look, width: int) -> RenderableType:
    """A line for each target, and below it the count of verdicts over all variants."""
    columns = [
        Column(("target",)),
        Column(("variant",)),
        Column(("speedup",), right=True),
        Column(("95 % interval",)),
        Column(("verdict",)),
    ]
    for limit in FOLDS:
        lines = [_cells(result, look, limit) for result in results]
        if total(columns, lines) <= width:
            break
    else:
        return Group(*(headline(result, look) for result in results), Text(), *skipped_lines(results), counted(results))
    return Group(*table(columns, lines, look), Text(), *skipped_lines(results), counted(results))


def skipped_lines(results: Iterable[Finished]) -> list[Text]:
    """The targets that were skipped, each with the reason."""
    return [
        Text.assemble(words(one.target), ": ", words(one.reason)) for one in results if isinstance(one, SkippedTarget)
    ]


def _cells(result: Finished, look: Look, limit: int) -> Line:
    target = [*map(Text, fold(words(result.target), limit))]
    if isinstance(result, SkippedTarget):
        return [target, [], [], [], [look.verdict(result.verdict)]]
    row = chosen(result)
    if row is None:
        return [target, [Text("none", "dim")], [], [], []]
    memory = less_memory(row)
    shown = units.Shown(memory, "memory") if memory else units.speedup(row.speedup)
    name = [*map(Text, fold(words(row.name), limit))]
    return [target, name, [Text(shown.value)], [Text(shown.interval, "dim")], [_verdict(result, row, look)]]


def _verdict(result: TargetResult, row: Row, look: Look) -> Text:
    return look.text(", ".join(filter(None, (row.verdict.value, price(result, row)))), VERDICT_STYLES[row.verdict])


def verdicts(results: Iterable[Finished]) -> Iterator[Verdict]:
    """The verdicts of all variants, and of targets that were skipped."""
    for result in results:
        if isinstance(result, SkippedTarget):
            yield result.verdict
        else:
            yield from (row.verdict for row in result.rows if row.role == "variant")


def counts(found: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """The count of each verdict that was reached, in the order of `Verdict`."""
    counted = Counter(found)
    return [(verdict, counted[verdict]) for verdict in Verdict if counted[verdict]]


def counted(results: Iterable[Finished]) -> Text:
    """The count of each verdict over all variants."""
    parts = [Text(f"{count} {verdict.value}", VERDICT_STYLES[verdict]) for verdict, count in counts(verdicts(results))]
    return Text(", ").join(parts) if parts else Text("nothing was measured")

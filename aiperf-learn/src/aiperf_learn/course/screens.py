"""Screens of a lesson, as rich renderables: the question before its run; the grade, and the reasons, after it."""

import ast
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.described import DescribedImplementation
from aiperf_core.docstring import section
from aiperf_core.harness.run.bundle_run import Preview
from aiperf_core.names import words
from aiperf_core.render.grid import labelled
from aiperf_core.render.look import LABEL, Look
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.best import best_variant
from aiperf_core.stats.claims import NO_GAIN, gain_of, predictions
from aiperf_core.stats.expectations import source_of
from aiperf_core.targets import InstalledTarget
from aiperf_learn.course.answers import UNDECIDED, Answer
from aiperf_learn.course.grading import Truth

# The sections of a docstring that ask; those of the former form after them. The others answer.
_ASKING = ("Question", "Numbers", "Workload", "Baseline")
# The budget that is proposed where a run decided nothing.
LONGER_S = 30


def question(
    target: InstalledTarget, preview: Preview, choices: Sequence[DescribedImplementation], look: Look
) -> RenderableType:
    """The question of a lesson: what it asks, its sizes here, and the numbered implementations."""
    asked, docstring = labelled(LABEL), _docstring(target)
    for label in _ASKING:
        if text := section(docstring, label):
            asked.add_row(Text(label, "bold"), words(text))
    asked.add_row(Text("here", "bold"), f"{preview.device}, {words(units.parameters(preview.params))}")
    asked.add_row(Text("time", "bold"), _time(preview))
    for name, lack in preview.skipped.items():
        asked.add_row(Text("not here", "bold"), f"{words(name)}: {words(lack)}")
    head = Text.assemble((target.name, "bold"), f" {look.dot} {words(target.summary)}")
    return Group(head, Text(), asked, Text(), _numbered(choices), Text())


def _time(preview: Preview) -> str:
    """The estimate of the run."""
    return f"about {units.span(preview.seconds)}" + ("" if preview.known else ", plus setup and checks")


def _numbered(choices: Sequence[DescribedImplementation]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right")
    grid.add_column(overflow="fold", max_width=40)
    grid.add_column(overflow="fold")
    combined = {choice.name: len(choice.mechanisms) for choice in choices}
    for number, choice in enumerate(choices, 1):
        grid.add_row(
            str(number), Text(words(choice.name), "bold"), _about(choice, combined.get(choice.builds_on or "", 0))
        )
    return grid


def _about(choice: DescribedImplementation, below: int) -> str:
    """The role of an implementation, or its own mechanism and the variant that it builds on; never the reason.

    below: the number of mechanisms of that variant, which come first in its own.
    """
    if choice.role == "baseline":
        return f"{choice.kind} baseline"
    added = ", ".join(choice.mechanisms[below:]) or "variant"
    return words(f"{added}, on {choice.builds_on}" if choice.builds_on else added)


def grade(result: TargetResult, answer: Answer, truth: Truth, kept: Answer, look: Look) -> RenderableType:
    """The prediction beside the measured truth, and whether it counts."""
    grid = labelled(LABEL)
    factor = "" if answer.factor is None else f", {answer.factor:g}x over {result.rows[0].name}"
    grid.add_row(Text("predicted", "bold"), words(f"{answer.implementation}{factor}"))
    if not truth.best:
        reason = words(truth.reason)
        grid.add_row(Text("best", "bold"), look.text(f"not decided on this machine: {reason}", "yellow"))
    else:
        is_right = answer.implementation in truth.best
        both = f"{' and '.join(truth.best)} cannot be told apart; each counts"
        shown = words(both if len(truth.best) > 1 else truth.best[0])
        grid.add_row(Text("best", "bold"), Text.assemble(_mark("right" if is_right else "wrong"), f": {shown}"))
    if answer.factor is not None and truth.gain is None:
        grid.add_row(Text("factor", "bold"), look.text("not decided on this machine", "yellow"))
    elif truth.gain is not None:
        measured = units.ratio_estimate(truth.gain)
        grid.add_row(
            Text("factor", "bold"),
            Text.assemble(_mark(answer.grade), f": measured {measured.value} {measured.interval}"),
        )
    counted = answer.outcome
    if kept is not answer:
        counted = f"{kept.outcome}, of {units.moment(kept.date)}: the first answer counts"
    grid.add_row(Text("score", "bold"), _mark(counted))
    return Group(grid, Text())


def _mark(word: str) -> Text:
    """A grade in its colour."""
    good, bad = ("right", "inside", "within 1.5x"), ("wrong", "off")
    return Text(word, "bold green" if word in good else "bold red" if word in bad else "bold yellow")


def reasons(target: InstalledTarget, result: TargetResult) -> RenderableType:
    """The mechanism of each step with its gain, and the prediction of the author."""
    shown: list[RenderableType] = [
        _step(result, row) for row in result.rows if row.role == "variant" and not row.is_skipped
    ]
    expected = labelled(LABEL)
    if text := section(_docstring(target), "Prediction"):
        expected.add_row(Text("Prediction", "bold"), words(text))
    for predicted in predictions(result):
        if predicted.row.verdict is Verdict.INCONCLUSIVE:
            continue
        over = words(predicted.row.builds_on or result.rows[0].name)
        said = f"{words(predicted.row.name)}: {predicted.prediction} over {over}, {predicted.outcome}"
        expected.add_row(Text("author", "bold"), said)
    return Group(*shown, Text(), expected)


def _step(result: TargetResult, row: Row) -> Text:
    line, gain, sentence = Text(words(row.name), "bold"), gain_of(result, row), row.why or ""
    if row.verdict is Verdict.INCONCLUSIVE or not row.is_believed:
        line.append(f" {row.verdict.value}", "dim")
    elif gain is not None:
        line.append(f" {units.ratio_estimate(gain).value} over {words(row.builds_on or result.rows[0].name)}", "dim")
        if row.teaches and gain.high <= NO_GAIN:
            sentence = row.teaches
    return line.append(f": {words(sentence)}", "not bold")


def next_steps(target: InstalledTarget, result: TargetResult, answer: Answer, following: str | None) -> Table:
    """Commands to type next, each with its purpose. `following` is the name of the next lesson."""
    grid, best = labelled(LABEL), best_variant(result)
    if answer.outcome == UNDECIDED:
        grid.add_row("longer run", f"aiperf learn {target.name} --budget {LONGER_S}")
    grid.add_row("edit it", f"aiperf watch {target.name}{f':{best.name}' if best else ''}")
    if following:
        grid.add_row("next lesson", f"aiperf learn {following}")
    grid.add_row("score", "aiperf learn --score")
    return grid


def _docstring(target: InstalledTarget) -> str:
    """The docstring of a target's file. It is parsed: the process of the command runs no code of a benchmark."""
    source = source_of(target)
    return (source and ast.get_docstring(ast.parse(source.file.read_bytes()))) or ""

"""`aiperf learn`: predict the result of a lesson, measure it, and compare."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from attrs import frozen

from aiperf_core.cli.color import color_option
from aiperf_core.cli.list import EMPTY, devices_here
from aiperf_core.cli.measuring import (
    quiet_option,
    run_option,
    server_ahead,
    together,
    warn_of_contradiction,
    warn_of_skipped,
)
from aiperf_core.cli.result_file import result_file_option, show_result, write_result
from aiperf_core.cli.tables import print_text
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results.run_options import declarations
from aiperf_core.targets import InstalledTarget, Selection, nearest

if TYPE_CHECKING:
    from aiperf_core.cli.run_view import RunView
    from aiperf_core.cli.screen import Screen
    from aiperf_core.described import DescribedImplementation
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.from_python import WarmRuns
    from aiperf_core.harness.run.options import Options
    from aiperf_learn.course.answers import AnswerFile

TRIES = 3
INTERRUPTED = 130
_FORM = "NAME:FACTOR, such as wide:3.5, or the name of the baseline alone"
_Read = TypeVar("_Read")

_RUN_OPTIONS = together(
    *(
        run_option(option, scope=" of a lesson", budget="3")
        for option in declarations()
        if option.key in ("device", "size", "budget_s")
    )
)


@click.command("learn")
@click.argument("lesson", required=False, metavar="[TARGET]")
@click.option("--predict", metavar="NAME:FACTOR", help="Answer without a prompt: the best, and its gain.")
@click.option("--score", "scored", is_flag=True, help="Show the predictions so far.")
@click.option("--all", "whole", is_flag=True, help="List all lessons, those that do not run here included.")
@_RUN_OPTIONS
@result_file_option
@quiet_option
@color_option
@click.pass_obj
def learn(
    plugins: Plugins,
    lesson: str | None,
    predict: str | None,
    scored: bool,
    whole: bool,
    device: str | None,
    size: str | None,
    budget_s: float | None,
    out: Path | None,
    quiet: bool,
) -> int:
    """Learn why code is fast: predict the result of a lesson, measure it, and compare.

    Without a TARGET, list the next lessons that this machine can show. With one (ch07.transpose), show its question,
    ask which implementation is best and by what factor, measure all of them as 'aiperf run' does, and grade the
    prediction by the measured intervals. Rows that are not believed, and INCONCLUSIVE ones, grade nothing.

    A group (ch07) takes its lessons one after the other, without those that have an answer. Ctrl-C ends it, and keeps
    the finished ones. The first answer of each lesson counts.

    \b
    Examples:
      aiperf learn
      aiperf learn ch07.transpose
      aiperf learn ch07.transpose --predict blocked:4
      aiperf learn --score
    """
    warn_of_skipped(plugins)
    if lesson is not None and (scored or whole or out is not None):
        raise UsageError("--score, --all and --out are for all lessons; leave them out, or the target.")
    if lesson is None and predict is not None:
        raise UsageError("--predict answers one lesson; name it: aiperf learn ch07.transpose --predict NAME:FACTOR")
    from aiperf_learn.course.answers import AnswerFile

    answers = AnswerFile.of_user(lambda text: click.echo(f"aiperf: {text}", err=True))
    if scored:
        from aiperf_learn.course.score import score

        return show_result(score(answers.read()), out)
    if lesson is None:
        return _list(plugins, answers, whole, out)
    selections = plugins.select((lesson,))
    if any(selection.implementations for selection in selections):
        raise UsageError(f"A lesson has all its implementations; give {lesson.partition(':')[0]!r}, not {lesson!r}.")
    if predict is not None and len(selections) > 1:
        raise UsageError(
            f"--predict answers one lesson; {lesson!r} is {len(selections)}. See them: aiperf list {lesson}"
        )
    server = server_ahead()
    from aiperf_core.harness.run.from_python import WarmRuns
    from aiperf_core.harness.run.options import Options

    options = Options(device=device, size=size, budget_s=budget_s)
    with WarmRuns(server, plugins) as warm:
        course = _Course(plugins, answers, warm, options, quiet)
        try:
            if len(selections) == 1:
                code = course.lesson(selections[0], predict)
                return ExitCode.FAILED if code is None else code
            return course.lessons(lesson, selections)
        except KeyboardInterrupt:
            click.echo(f"\nStopped; finished lessons are kept. To continue: aiperf learn {lesson}", err=True)
            return INTERRUPTED


def _list(plugins: Plugins, answers: "AnswerFile", whole: bool, out: Path | None) -> int:
    """Print the lessons, and what to type next."""
    from aiperf_core.cli.result_screen import print_records
    from aiperf_core.devices.probe import nvidia
    from aiperf_learn.course.lessons import Machine, listed

    if not plugins.targets:
        click.echo(EMPTY)
        return ExitCode.OK
    machine = Machine(devices_here(plugins, plugins.targets), len(nvidia().gpus))
    result = listed(plugins.targets, machine, answers.read(), whole=whole)
    write_result(result, out)
    (table,) = result.tables
    print_text(result.summary[0])
    if table.records:
        print_records(table)
    if not whole:
        first = next((f"Begin: aiperf learn {record.cells['lesson']}. " for record in table.records), "")
        print_text(f"{first or 'Every lesson that runs here is answered. '}All lessons: aiperf learn --all")
    return ExitCode.OK


@frozen
class _Course:
    """Lessons that are taken one after the other, with processes that stay."""

    plugins: Plugins
    answers: "AnswerFile"
    warm: "WarmRuns"
    options: "Options"
    quiet: bool

    def lessons(self, pattern: str, selections: Sequence[Selection]) -> int:
        """Take the lessons that have no answer yet; return the highest exit code of their runs."""
        from aiperf_learn.course.lessons import in_order

        kept = self.answers.read()
        by_name = {selection.target.name: selection for selection in selections}
        names = [target.name for target in in_order([selection.target for selection in selections])]
        left = [name for name in names if name not in kept]
        click.echo(f"{pattern}: {len(names) - len(left)} of {len(names)} lessons are answered.")
        codes: list[int] = []
        asks = False  # not after a lesson that could not run
        for name in left:
            if asks and not _goes_on(f"\nEnter for the next lesson, {name}; Ctrl-C to stop: "):
                break
            code = self.lesson(by_name[name], None)
            asks = code is not None
            codes += [] if code is None else [code]
        return max(codes, default=ExitCode.OK)

    def lesson(self, selection: Selection, predict: str | None) -> int | None:
        """Ask, measure and grade a lesson; return the exit code of its run, None where it could not run."""
        from aiperf_core.cli.run_view import RunView, consoles
        from aiperf_learn.course import screens

        target = selection.target
        screen, err = consoles()
        view = RunView(err, quiet=self.quiet)
        run = self.warm.run(selection, self.options, view, None)
        previews, skipped = run.preview()
        if skipped:
            print_text(f"{target.name} cannot run here: {words(skipped[0].reason)}. Others: aiperf learn")
            return None
        (preview,) = previews
        described = preview.described
        warn_of_contradiction(target, described.goal, {one.device for one in described.implementations})
        choices = [
            implementation
            for implementation in described.on(preview.device)
            if implementation.role in ("baseline", "variant") and implementation.name in preview.implementations
        ]
        if len(choices) < 2 or choices[0].role != "baseline":
            lacks = "; ".join(f"{words(name)} {words(lack)}" for name, lack in preview.skipped.items())
            print_text(f"{target.name} has nothing to compare here: {lacks}. Others: aiperf learn")
            return None
        guess = _given(predict, choices) if predict is not None else None
        screen.print(screens.question(target, preview, choices, screen.look))
        return self._measured(target, run, view, guess or _asked(choices, target.goal), screen)

    def _measured(
        self, target: InstalledTarget, run: "BundleRun", view: "RunView", guess: "_Guess", screen: "Screen"
    ) -> int:
        """Measure a lesson, keep the answer, and print its grade and what explains it."""
        from aiperf_core.cli.resuming import execute
        from aiperf_core.results.models import TargetResult
        from aiperf_learn.course import screens
        from aiperf_learn.course.answers import Answer
        from aiperf_learn.course.grading import truth

        code = execute(run, view, screen, as_json=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        result = run.results[-1] if run.results else None
        if not isinstance(result, TargetResult) or run.bundle is None:
            return code
        truth_here = truth(result, guess.implementation)
        answer = Answer(
            implementation=guess.implementation,
            factor=guess.factor,
            best=truth_here.best,
            gain=truth_here.gain,
            device=result.device,
            bundle=run.bundle.path.name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        kept = self.answers.add(target.name, answer)
        click.echo()
        screen.print(screens.grade(result, answer, truth_here, kept, screen.look))
        screen.print(screens.reasons(target, result))
        screen.print(screens.next_steps(target, result, answer, self._following(target)))
        return code

    def _following(self, target: InstalledTarget) -> str | None:
        """The next lesson without an answer that shares a device with this one; None after the last."""
        from aiperf_learn.course.lessons import in_order

        names = [one.name for one in in_order(self.plugins.targets) if {*one.devices} & {*target.devices}]
        kept = self.answers.read()
        return next((name for name in names[names.index(target.name) + 1 :] if name not in kept), None)


@frozen
class _Guess:
    """A predicted best implementation, and its gain over the baseline; None for the baseline."""

    implementation: str
    factor: float | None


def _given(predict: str, choices: "Sequence[DescribedImplementation]") -> _Guess:
    """The prediction of `--predict`. Raises `UsageError`."""
    name, colon, factor = predict.rpartition(":") if ":" in predict else (predict, "", "")
    chosen = _chosen(name, choices)
    if (chosen.role == "baseline") == bool(colon):
        raise UsageError(f"--predict takes {_FORM}; got {predict!r}.")
    return _Guess(chosen.name, _factor(factor) if colon else None)


def _asked(choices: "Sequence[DescribedImplementation]", goal: str) -> _Guess:
    """The prediction that the user types."""
    memory = goal == "memory"
    best = "Which needs the least memory" if memory else "Which is the fastest"
    chosen = _answer(f"{best}? A number or a name: ", lambda text: _chosen(text, choices))
    if chosen.role == "baseline":
        return _Guess(chosen.name, None)
    by = f"By what factor {'less than' if memory else 'faster than'} {choices[0].name}? A number: "
    return _Guess(chosen.name, _answer(by, _factor))


def _answer(prompt: str, read: Callable[[str], _Read]) -> _Read:
    """An answer that can be read, of at most `TRIES`. Raises `UsageError` for the last of them, and without input."""
    for left in reversed(range(TRIES)):
        try:
            return read(input(prompt))
        except EOFError:
            click.echo()
            raise UsageError(f"No answer was typed. Without a terminal: --predict {_FORM}.") from None
        except UsageError as error:
            if not left:
                raise
            print_text(str(error))
    raise AssertionError


def _goes_on(prompt: str) -> bool:
    try:
        input(prompt)
    except EOFError:
        click.echo()
        return False
    return True


def _chosen(text: str, choices: "Sequence[DescribedImplementation]") -> "DescribedImplementation":
    """The implementation of a number or a name. Raises `UsageError`."""
    text = text.strip()
    if text.isdecimal() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1]
    by_name = {choice.name: choice for choice in choices}
    if text not in by_name:
        hint = nearest(text, by_name) or f" There are: {', '.join(by_name)}, or a number from 1 to {len(choices)}."
        raise UsageError(f"{text!r} is no implementation here.{hint}")
    return by_name[text]


def _factor(text: str) -> float:
    """A gain such as `2.5` or `2.5x`. Raises `UsageError`."""
    try:
        factor = float(text.strip().removesuffix("x"))
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise UsageError(f"{text.strip()!r} is no factor; a number above 0 is, such as 2.5.")
    return factor

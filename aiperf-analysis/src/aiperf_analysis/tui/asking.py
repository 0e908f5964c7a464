"""An analysis by the words of its command line, so that a terminal's user writes the same options everywhere."""

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click
from attrs import evolve

from aiperf_analysis.cli.analyze import command_of, labels_of, options_from
from aiperf_analysis.selection import Selection
from aiperf_analysis.sizes import analyzed
from aiperf_analysis.tui.source import Source
from aiperf_core.analysis import Analysis
from aiperf_core.analysis_options import of_files
from aiperf_core.contributions import Installed
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.result import Result

Found = TypeVar("Found")
# Options of the command that say where a result goes, or where rows come from: a screen decides that itself.
REFUSED = {"out": "--out", "as_json": "--json", "db": "--db", "bundles": "bundles"}


def ask(installed: Installed[Analysis], text: str, read: Callable[[], Selection]) -> Result:
    """The result of an analysis with the options of `text`, such as `--objective time,memory --target 'ch07.*'`.

    read: gives the rows; it is not called for an analysis of files.

    Raises UsageError for options that are wrong, AiperfError where nothing can be computed. An error of a foreign
    analysis that is none of these is told with its package.
    """
    record = installed.record
    function = _own(installed, record.resolve)
    values = parsed(record, text)
    options = options_from(function, values)
    if of_files(function):
        of_named: Result = _own(installed, lambda: function(list(values["files"]), options))
        return of_named
    selection = _narrowed(read(), values)
    return _own(installed, lambda: analyzed(function, selection, options))


def _own(installed: Installed[Analysis], call: Callable[[], Found]) -> Found:
    """Call; an error in a package of others is told, and leaves the screens open."""
    try:
        return call()
    except AiperfError:
        raise
    except Exception as error:
        if installed.distribution == "aiperf-analysis":
            raise
        owner = f"{installed.distribution} {installed.version}"
        raise AiperfError(
            f"the analysis '{installed.record.name}' of {owner} failed: {type(error).__name__}: {error}. Tell its "
            "authors."
        ) from error


def parsed(record: Analysis, text: str) -> dict[str, Any]:
    """The parameters of the command of an analysis. Raises UsageError."""
    try:
        words_ = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the options {words(text)!r} cannot be read: {error}. Close every quotation mark.") from None
    try:
        with command_of(record).make_context(record.name, words_, help_option_names=[]) as context:
            values = context.params
    except click.ClickException as error:
        raise UsageError(f"{error.format_message()} The options: aiperf analyze {record.name} --help") from None
    context_default = {"db": None, "bundles": (), "out": None, "as_json": False}
    for name, shown in REFUSED.items():
        if name in values and values[name] != context_default[name]:
            raise UsageError(
                f"{shown} cannot be given here: the rows are those that aiperf tui was started with, and the result is "
                f"shown on the screen. In a shell: aiperf analyze {record.name} {words(text)}"
            )
    return values


def _narrowed(selection: Selection, values: dict[str, Any]) -> Selection:
    """The rows that the filters of the command leave."""
    labels = labels_of(values.get("labels") or ())
    if labels:
        runs = [run for run in selection.runs if labels.items() <= run.manifest.labels.items()]
        kept = {id(run) for run in runs}
        selection = evolve(selection, runs=runs, every=[one for one in selection.every if id(one.run) in kept])
    return selection.matching(
        targets=values.get("targets") or (), hardware=values.get("hardware"), device=values.get("device")
    )


def command_line(record: Analysis, text: str, source: Source, *, files: bool = False) -> str:
    """The command that gives the same result in a shell."""
    where = () if files else source.arguments
    return words(" ".join(filter(None, ["aiperf analyze", record.name, shlex.join(where), text])))

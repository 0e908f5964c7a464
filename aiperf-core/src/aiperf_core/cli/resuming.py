"""How a command executes a run, and how `aiperf run --resume` continues one."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli import output
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.names import printable
from aiperf_core.plugins import Plugins
from aiperf_core.results.run_options import declarations
from aiperf_core.sweep import MOST_VALUES, axes_of, base_name, fixed, points
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.cli.run_view import RunView
    from aiperf_core.cli.screen import Screen
    from aiperf_core.harness.run.bundle_run import BundleRun, Finished
    from aiperf_core.harness.run.request import ResolvedRequest
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import RunRequest

INTERRUPTED = 130


def execute(
    run: "BundleRun",
    view: "RunView",
    screen: "Screen",
    *,
    as_json: bool,
    rows: "View | None" = None,
    picture: Path | None = None,
) -> int:
    """Execute a run, print its results and how to resume it, and return its exit code.

    rows: for the tables. With it, a sweep has the tables of its points.
    picture: the file for the picture of a sweep.
    """
    from aiperf_core.cli.run_view import print_json, print_result
    from aiperf_core.results.models import SkippedTarget

    def show(result: "Finished") -> None:
        if run.total > 1 and isinstance(result, SkippedTarget):
            return  # the summary gives the reason
        print_result(screen, result, view=rows)

    swept = any(selection.point for selection in run.request.selections)
    # The points of a sweep have one table, at the end.
    at_end = as_json or (swept and rows is None) or (rows is not None and rows.compact)
    with view:
        code = run_to_end(run, None if at_end else show)
    path = run.bundle.path if run.bundle else None
    if swept:
        from aiperf_core.cli.sweep import show_sweeps

        show_sweeps(None if as_json or rows is not None else screen, run.results, path, picture)
    if as_json:
        print_json(screen, run.results, path)
    elif run.results and (not swept or rows is not None):
        print_end(screen, run.results, rows, path)
    print_resume_hint(run)
    if path is not None and output.failure():
        click.echo(f"The results are in '{path}'. Print them: aiperf show BUNDLE", err=True)
    return code


def print_end(screen: "Screen", results: "Sequence[Finished]", rows: "View | None", path: Path | None = None) -> None:
    """Print what is said once for all targets: the notes on the machine, the summary, and the path of the bundle."""
    from aiperf_core.cli.run_view import print_compact, print_machine_notes, print_summary, print_where

    if rows is not None and rows.compact:
        print_compact(screen, results, rows)
    verbose = rows is not None and rows.filled
    print_machine_notes(screen, results, lasting=verbose)
    if len(results) > 1 and not (rows is not None and rows.compact):
        print_summary(screen, results)
    print_where(screen, path, details=not verbose)


def run_to_end(run: "BundleRun", on_result: Callable[["Finished"], None] | None) -> int:
    """Execute a run and return its exit code. An error of a run that can be resumed says how."""
    try:
        return run.execute(on_result)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BundleError as error:
        if run.resumable:
            raise BundleError(f"{error} Then {_hint(run)}") from error
        raise


def print_resume_hint(run: "BundleRun") -> None:
    """Print how to resume an interrupted run."""
    if run.resumable:
        click.echo(_hint(run), err=True)


def _hint(run: "BundleRun") -> str:
    assert run.bundle is not None
    from shlex import quote

    return f"resume with: aiperf run --resume {quote(printable(str(run.bundle.path)))}"


def resolved(context: click.Context, plugins: Plugins, bundle: "Bundle") -> "ResolvedRequest | None":
    """The request of the bundle's run; None if the run is complete. Raises `UsageError` where given options differ."""
    from aiperf_core.harness.run import request
    from aiperf_core.results import resuming

    manifest = bundle.manifest
    if manifest.complete:
        return None
    record = resuming.request_of(bundle, manifest)
    for what, given, recorded in _given(context, plugins, record, manifest.labels, bundle.path):
        if given != recorded:
            raise UsageError(
                f"{what} differs from the run in '{bundle.path}': given {_text(given)}, recorded {_text(recorded)}. "
                "--resume uses the recorded options: omit this option, or start a new run."
            )
    return request.resolve(record, plugins)


def _given(
    context: click.Context, plugins: Plugins, record: "RunRequest", labels: dict[str, str], path: Path
) -> Iterator[tuple[str, object, object]]:
    """The options of the command line, each with the recorded value."""
    params = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    targets, names = record.targets, list(dict.fromkeys(base_name(one.target) for one in record.targets))
    if {"patterns", "keyword", "exclude", "variants"} & params.keys():
        only = TargetFilter(params.get("keyword", ""), params.get("exclude", ()))
        chosen = plugins.select(params.get("patterns") or names, only)
        variants = {*params.get("variants", ())}
        what = "--variant" if not {"patterns", "keyword", "exclude"} & params.keys() else "PATTERN"
        given = {one.target.name: sorted(one.implementations | variants) for one in chosen}
        yield what, given, {base_name(one.target): one.implementations for one in targets}
    for option in declarations("target"):
        if option.key in params:
            yield option.flags[-1], {params[option.key]}, {getattr(one, option.key) for one in targets}
    if "sizes" in params:
        axes = axes_of(params["sizes"])
        sizes = [{**fixed(axes), **dict(point)} for point in points(axes, MOST_VALUES) or [()]]
        yield "--set", sizes * len(names), [one.params for one in targets]
    for option in declarations("run"):
        if option.key in params:
            yield option.flags[-1], params[option.key], getattr(record, option.key)
    if "labels" in params:
        yield "--label", _pairs(params["labels"]), _pairs(labels)
    if "out" in params:
        yield "--out", str(params["out"].resolve()), str(path.resolve())


def _pairs(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "none"


def _text(value: object) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, dict):
        return " ".join(":".join([name, ",".join(rest)]) if rest else name for name, rest in value.items()) or "none"
    if isinstance(value, set):
        return ", ".join(sorted(_text(one) for one in value))
    if isinstance(value, list):
        sizes = [" ".join(f"{name}={number:g}" for name, number in one.items()) or "none" for one in value]
        return ", ".join(dict.fromkeys(sizes))
    if isinstance(value, float):
        return f"{value:g}"
    return "the default" if value is None else str(value)

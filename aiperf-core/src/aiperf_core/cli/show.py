"""`aiperf show`: show the results in a bundle, or what a target declares."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import PATTERN_OR_ADDRESS, verified
from aiperf_core.cli.measuring import json_option, targets_option, warn_of_contradiction
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.row_options import row_options
from aiperf_core.errors import BundleError, ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter, only_by_word

if TYPE_CHECKING:
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.address import Address


@click.command("show")
@click.argument("what", type=PATTERN_OR_ADDRESS, metavar="TARGET_OR_BUNDLE[:TARGET]")
@click.argument("patterns", nargs=-1, metavar="[TARGET]...")
@targets_option
@row_options
@json_option("a JSON object, with every sample")
@result_file_option
@verified("what", samples=lambda given: given["as_json"], figures=True)
@click.pass_obj
def show(
    plugins: Plugins,
    what: "Address | str",
    patterns: tuple[str, ...],
    only: TargetFilter,
    as_json: bool,
    out: Path | None,
    view: "View | None",
) -> ExitCode:
    """Show the results of a run, or what a target declares.

    For a bundle, or BUNDLE:TARGET, show its results, with -v all figures and notes. More TARGETs and -k keep some of
    its targets. For a target (ch07.memory_access) or a pattern, show sizes, costs, tolerances and implementations. A
    BUNDLE is a path, a name or the start of it, latest, or latest~1 (the one before).

    \b
    Examples:
      aiperf show latest -v
      aiperf show latest ch07.transpose
      aiperf show latest:ch07.memory_access --columns median,p95,samples
      aiperf show ch07.memory_access
    """
    if not isinstance(what, str):
        return show_bundle(plugins, what, as_json, view, out, _kept(what, patterns, only))
    if view is not None or out is not None:
        raise UsageError(
            "--compact, --columns, -v, --sort and --out are for results; name a bundle, or leave them out."
        )
    _show_targets(plugins, (what, *patterns), only, as_json)
    return ExitCode.OK


def show_bundle(
    plugins: Plugins,
    address: "Address",
    as_json: bool,
    view: "View | None" = None,
    file: Path | None = None,
    kept: Sequence[str] | None = None,
) -> ExitCode:
    """Print the manifest, the results, and an error for each result that cannot be read.

    file: written with all metrics of the results, whatever the columns shown.
    kept: the names of the targets that are shown; None stands for all.
    """
    from aiperf_core.cli.documents import documents_of, print_document
    from aiperf_core.cli.resuming import print_end
    from aiperf_core.cli.run_view import Finished, consoles, print_result
    from aiperf_core.render.manifest import render_manifest
    from aiperf_core.results.models import SkippedTarget

    bundle, path = address.bundle, address.bundle.path
    manifest = bundle.manifest
    results: list[Finished] = []
    whole_run = address.target is None and kept is None
    broken: list[BundleError] = []
    whole = as_json or (view is not None and view.needs_samples)
    compact, verbose = (view is not None and view.compact), (view is not None and view.filled)
    for name in address.targets if kept is None else kept:
        try:
            results.append(address.narrowed(bundle.target(name) if whole else bundle.outline(name)))
        except BundleError as error:
            broken.append(error)
    documents = documents_of(bundle, broken) if whole_run else []
    if file is not None:
        from aiperf_core.report import views
        from aiperf_core.report.result import Source

        source = Source(str(path), str(path), manifest.created, "")
        skipped = manifest.skipped if whole_run else []
        write_result(views.rows(source, manifest, [*results, *skipped]), file)
    out, _ = consoles()
    if as_json:
        out.write(_as_json(path, manifest, results, documents))
    else:
        if not compact:
            out.print(render_manifest(manifest, path, out.look, verbose=verbose))
        results += manifest.skipped if whole_run else []
        for result in results if not compact else ():
            if len(results) == 1 or not isinstance(result, SkippedTarget):  # the summary gives the reason
                print_result(out, result, view=view)
        if results or not documents:
            print_end(out, results, view)
        for document in documents:
            print_document(plugins, document, broken)
    for problem in broken:
        click.echo(f"aiperf: {problem}", err=True)
    return ExitCode.FAILED if broken else ExitCode.OK


def _as_json(path: Path, manifest: Any, results: list[Any], documents: list[Any]) -> str:
    from aiperf_core.results import jsontext, structure

    targets = [structure.document(one) for one in results]
    found = {"bundle": str(path), "manifest": structure.document(manifest), "targets": targets}
    # A run of targets has none, and its output keeps its keys.
    return jsontext.dumps({**found, **({"documents": list(map(structure.document, documents))} if documents else {})})


def _kept(address: "Address", patterns: Sequence[str], only: TargetFilter) -> list[str] | None:
    """The targets of a bundle that fit; None where none were asked for. Raises UsageError where none fit."""
    from fnmatch import fnmatchcase

    from aiperf_core.sweep import base_name
    from aiperf_core.targets import NO_FILTER, nearest

    if not patterns and only == NO_FILTER:
        return None
    names = address.targets
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in names):
            hint = nearest(pattern, names) or f" There are: {', '.join(names)}"
            raise UsageError(f"'{address.bundle.path}' has no result of '{pattern}'.{hint}")
    kept = [
        name
        for name in names
        if (not patterns or any(_fits(name, pattern) for pattern in patterns))
        and only.keyword.lower() in name.lower()
        and not any(fnmatchcase(base_name(name), pattern) for pattern in only.exclude)
    ]
    if not kept:
        raise UsageError(f"{only} leaves none of the {len(names)} targets of '{address.bundle.path}'.")
    return kept


def _fits(name: str, pattern: str) -> bool:
    """Whether the name of a result is that of a target, of a group, or fits a glob."""
    from fnmatch import fnmatchcase

    from aiperf_core.sweep import base_name

    base = base_name(name)
    return pattern in (name, base, base.partition(".")[0]) or fnmatchcase(base, pattern)


def _show_targets(plugins: Plugins, patterns: Sequence[str], only: TargetFilter, as_json: bool) -> None:
    selections = plugins.select(patterns, only)
    for pattern in patterns:
        if by_word := only_by_word(pattern, [one.target for one in plugins.select((pattern,))]):
            raise UsageError(
                f"{pattern!r} is not a target; the word is in the summary of: {', '.join(by_word)}. Show one of them: "
                f"aiperf show {by_word[0]}"
            )
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.cli.target_view import chosen, describe, render_target
    from aiperf_core.loading import load_benchmark
    from aiperf_core.results import jsontext

    out, _ = consoles()
    described = []
    for selection in selections:
        benchmark = load_benchmark(selection.target)
        warn_of_contradiction(selection.target, benchmark.goal, benchmark.devices)
        implementations = chosen(selection.target, benchmark, selection.implementations)
        if as_json:
            described.append(describe(selection.target, benchmark, implementations))
        else:
            out.print(render_target(selection.target, benchmark, implementations, out.look))
    if as_json:
        out.write(jsontext.dumps({"targets": described}))

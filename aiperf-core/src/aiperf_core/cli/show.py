"""`aiperf show`: show the results in a bundle, or what a target declares."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import PATTERN_OR_ADDRESS, verified
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.row_options import row_options
from aiperf_core.errors import BundleError, ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.address import Address


@click.command("show")
@click.argument("what", type=PATTERN_OR_ADDRESS, metavar="TARGET_OR_BUNDLE[:TARGET]")
@row_options
@json_option("a JSON object, with every sample")
@result_file_option
@verified("what", samples=lambda given: given["as_json"], figures=True)
@click.pass_obj
def show(plugins: Plugins, what: "Address | str", as_json: bool, out: Path | None, view: "View | None") -> ExitCode:
    """Show the results of a run, or what a target declares.

    For a bundle, or BUNDLE:TARGET, show its results. For a target (ch07.memory_access) or a pattern, show sizes, costs,
    tolerances and implementations. A BUNDLE is a path, a name or the start of it, latest, or latest~1 (the one before).

    \b
    Examples:
      aiperf show latest --compact
      aiperf show latest:ch07.memory_access --columns median,p95,samples
      aiperf show ch07.memory_access
    """
    if not isinstance(what, str):
        return show_bundle(plugins, what, as_json, view, out)
    if view is not None or out is not None:
        raise UsageError(
            "--compact, --columns, -v, --sort and --out are for results; name a bundle, or leave them out."
        )
    _show_targets(plugins, what, as_json)
    return ExitCode.OK


def show_bundle(
    plugins: Plugins, address: "Address", as_json: bool, view: "View | None" = None, file: Path | None = None
) -> ExitCode:
    """Print the manifest, the results, and an error for each result that cannot be read.

    file: written with all metrics of the results, whatever the columns shown.
    """
    from aiperf_core.cli.documents import documents_of, print_document
    from aiperf_core.cli.resuming import print_end
    from aiperf_core.cli.run_view import Finished, consoles, print_result
    from aiperf_core.render.manifest import render_manifest
    from aiperf_core.results.models import SkippedTarget

    bundle, path = address.bundle, address.bundle.path
    manifest = bundle.manifest
    results: list[Finished] = []
    broken: list[BundleError] = []
    whole = as_json or (view is not None and view.needs_samples)
    compact = view is not None and view.compact
    for name in address.targets:
        try:
            results.append(address.narrowed(bundle.target(name) if whole else bundle.outline(name)))
        except BundleError as error:
            broken.append(error)
    documents = documents_of(bundle, broken) if address.target is None else []
    if file is not None:
        from aiperf_core.report import views
        from aiperf_core.report.result import Source

        source = Source(str(path), str(path), manifest.created, "")
        skipped = manifest.skipped if address.target is None else []
        write_result(views.rows(source, manifest, [*results, *skipped]), file)
    out, _ = consoles()
    if as_json:
        out.write(_as_json(path, manifest, results, documents))
    else:
        if not compact:
            out.print(render_manifest(manifest, path, out.look))
        results += manifest.skipped if address.target is None else []
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


def _show_targets(plugins: Plugins, pattern: str, as_json: bool) -> None:
    selections = plugins.select((pattern,))
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.cli.target_view import chosen, describe, render_target
    from aiperf_core.loading import load_benchmark
    from aiperf_core.results import jsontext

    out, _ = consoles()
    described = []
    for selection in selections:
        benchmark = load_benchmark(selection.target)
        implementations = chosen(selection.target, benchmark, selection.implementations)
        if as_json:
            described.append(describe(selection.target, benchmark, implementations))
        else:
            out.print(render_target(selection.target, benchmark, implementations, out.look))
    if as_json:
        out.write(jsontext.dumps({"targets": described}))

"""`aiperf results`: the bundles of earlier runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, BUNDLE, IN, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.row_options import row_options
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.address import Address
    from aiperf_core.results.listing import Run, Unreadable


@click.group("results")
def results() -> None:
    """List, show, sign and remove the bundles of earlier runs."""


@results.command("list")
@color_option
@IN
@json_option("a JSON array")
@result_file_option
def list_results(folder: Path, as_json: bool, out: Path | None) -> None:
    """List the bundles, newest first."""
    from aiperf_core.cli.result_screen import print_records
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.names import words
    from aiperf_core.report import views
    from aiperf_core.results import jsontext
    from aiperf_core.results.listing import bundles

    found = bundles(folder)
    result = views.runs(found)
    write_result(result, out)
    screen, _ = consoles()
    if as_json:
        screen.write(jsontext.dumps([_record(one) for one in found]))
    elif found:
        print_records(result.tables[0])
    else:
        click.echo(f"'{words(str(folder))}' holds no bundles. Make one: aiperf run PATTERN")


def _record(one: "Run | Unreadable") -> dict[str, object]:
    from aiperf_core.report.views import machine_name
    from aiperf_core.results.listing import Run

    if not isinstance(one, Run):
        return {"path": str(one.path), "targets": 0, "problem": one.problem}
    known = {name: getattr(one.manifest, name) for name in ("created", "complete", "exit_code", "command", "labels")}
    return {
        "path": str(one.path),
        "targets": len(one.targets),
        "problem": None,
        **known,
        "device": machine_name(one.manifest),
        "documents": list(one.documents),
    }


@results.command("show")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@IN
@row_options
@json_option("a JSON object, with every sample")
@result_file_option
@verified("what", samples=lambda given: given["as_json"], figures=True)
@click.pass_obj
def show_results(
    plugins: Plugins, what: "Address", folder: Path, as_json: bool, out: Path | None, view: "View | None"
) -> ExitCode:
    """Show a bundle, or one target of it."""
    from aiperf_core.cli.show import show_bundle

    return show_bundle(plugins, what, as_json, view, out)


@results.command("rm")
@click.argument("bundles", type=BUNDLE, nargs=-1, required=True, metavar="BUNDLE...")
@IN
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove_results(bundles: "tuple[Address, ...]", folder: Path, yes: bool) -> None:
    """Remove bundles. A folder with other files than those of a run is not removed."""
    from aiperf_core.names import words
    from aiperf_core.results.listing import removable, remove

    paths = [removable(path) for path in dict.fromkeys(one.bundle.path for one in bundles)]
    if not yes:
        for path in paths:
            click.echo(words(str(path)))
        click.confirm(f"Remove {'this bundle' if len(paths) == 1 else f'these {len(paths)} bundles'}?", abort=True)
    for path in paths:
        remove(path)
        click.echo(f"removed {words(str(path))}")


@results.command("sign")
@click.argument("bundle", type=BUNDLE, metavar="BUNDLE")
@click.option("--key", type=click.Path(path_type=Path), required=True, metavar="FILE", help="SSH key to sign with.")
def sign_results(bundle: "Address", key: Path) -> None:
    """Sign a bundle with an SSH key. Others verify its author: aiperf recheck BUNDLE --signers FILE."""
    from aiperf_core.names import words
    from aiperf_core.results.signing import sign

    click.echo(f"signed {words(str(sign(bundle.bundle, key)))}")

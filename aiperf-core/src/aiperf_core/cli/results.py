"""`aiperf results`: the bundles of earlier runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, BUNDLE, IN, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.row_options import row_options
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.address import Address
    from aiperf_core.results.listing import Run, Unreadable
    from aiperf_core.results.models import Manifest


@click.group("results")
def results() -> None:
    """List, show, sign and remove the bundles of earlier runs."""


@results.command("list")
@color_option
@IN
@json_option("a JSON array")
def list_results(folder: Path, as_json: bool) -> None:
    """List the bundles, newest first."""
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.cli.tables import print_table
    from aiperf_core.names import words
    from aiperf_core.results import jsontext
    from aiperf_core.results.listing import bundles

    found = bundles(folder)
    out, _ = consoles()
    if as_json:
        out.write(jsontext.dumps([_record(one) for one in found]))
    elif found:
        rows = [(words(one.name), *_facts(one)) for one in found]
        print_table(("bundle", "targets", "started", "ended", "device", "command"), rows)
    else:
        click.echo(f"'{words(str(folder))}' holds no bundles. Make one: aiperf run PATTERN")


def _facts(one: "Run | Unreadable") -> tuple[str | int, ...]:
    """Number of targets, time, ending, device and command of a run; for an unreadable bundle, the reason."""
    from aiperf_core import units
    from aiperf_core.names import words
    from aiperf_core.results.listing import Run

    if not isinstance(one, Run):
        return 0, "", "unreadable", "", words(one.problem)
    manifest = one.manifest
    return (
        len(one.targets),
        words(units.moment(manifest.created)),
        _ended(manifest),
        words(_device(manifest)),
        words(" ".join(manifest.command)),
    )


def _device(manifest: "Manifest") -> str:
    names = [str(gpu.get("name")) for gpu in manifest.machine.gpus if gpu.get("name")]
    return f"{len(names)} x {names[0]}" if len(names) > 1 else names[0] if names else manifest.machine.cpu


def _ended(manifest: "Manifest") -> str:
    if manifest.exit_code is None:
        return "still running or killed"
    ended = "complete" if manifest.complete else "interrupted"
    return f"{ended}, exit {manifest.exit_code}" if manifest.exit_code else ended


def _record(one: "Run | Unreadable") -> dict[str, object]:
    from aiperf_core.results.listing import Run

    if not isinstance(one, Run):
        return {"path": str(one.path), "targets": 0, "problem": one.problem}
    known = {name: getattr(one.manifest, name) for name in ("created", "complete", "exit_code", "command", "labels")}
    return {
        "path": str(one.path),
        "targets": len(one.targets),
        "problem": None,
        **known,
        "device": _device(one.manifest),
        "documents": list(one.documents),
    }


@results.command("show")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@IN
@row_options
@json_option("a JSON object, with every sample")
@verified("what", samples=lambda given: given["as_json"], figures=True)
@click.pass_obj
def show_results(plugins: Plugins, what: "Address", folder: Path, as_json: bool, view: "View | None") -> ExitCode:
    """Show a bundle, or one target of it."""
    from aiperf_core.cli.show import show_bundle

    return show_bundle(plugins, what, as_json, view)


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

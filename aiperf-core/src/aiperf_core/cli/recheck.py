"""`aiperf recheck`: recompute a bundle's verdicts from its samples."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import BUNDLE
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.units import plural

if TYPE_CHECKING:
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.signing import Signed
    from aiperf_core.stats.recheck import Recheck


def _seal(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise UsageError("--seal takes the 64 hexadecimal digits that 'aiperf recheck' printed for the bundle.")
    return value


@click.command("recheck")
@click.argument("what", type=BUNDLE, metavar="BUNDLE")
@click.option("--seal-only", is_flag=True, help="Only check whether files changed.")
@click.option("--seal", callback=_seal, metavar="SHA256", help="Seal that an earlier recheck printed.")
@click.option(
    "--signers", type=click.Path(path_type=Path), metavar="FILE", help="Allowed signers, in the format of OpenSSH."
)
@click.option("--identity", metavar="NAME", help="The allowed signer that is required.")
@json_option()
@click.pass_obj
def recheck(
    plugins: Plugins,
    what: "Address",
    seal_only: bool,
    seal: str | None,
    signers: Path | None,
    identity: str | None,
    as_json: bool,
) -> ExitCode:
    """Recompute the intervals, speedups and verdicts of a run from its samples, and check that no file changed.

    Fields that contradict each other are found too. Needs neither the measured packages nor a GPU nor a network. Exit
    code 3: a file or a value differs.

    \b
    Examples:
      aiperf recheck latest
      aiperf recheck results/monday --signers allowed_signers
    """
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.devices.host import usable_cpus
    from aiperf_core.results import jsontext
    from aiperf_core.stats.recheck import document
    from aiperf_core.stats.recheck import recheck as check

    bundle = what.bundle
    signed = _verified(bundle, signers, identity)
    found = check(
        bundle,
        figures=not seal_only,
        expected_seal=seal,
        processes=usable_cpus(),
        documents=plugins.known_documents,
    )
    out, _ = consoles()
    if as_json:
        out.write(jsontext.dumps({**document(found), "signed_by": signed.identity if signed else None}))
    else:
        if signed:
            click.echo(f"sign  {signed.told}")
        _print(found, seal_only)
    return ExitCode.OK if found.holds else ExitCode.INVALID


def _verified(bundle: "Bundle", signers: Path | None, identity: str | None) -> "Signed | None":
    """The signer of the bundle, if the options ask for it."""
    if signers is None:
        if identity is not None:
            raise UsageError("--identity names an allowed signer and needs their file: --signers FILE")
        return None
    from aiperf_core.results.signing import verify

    return verify(bundle, signers, identity)


def _print(found: "Recheck", seal_only: bool) -> None:
    if found.differences:
        rows = [tuple(map(words, (one.where, one.what, one.recorded, one.found))) for one in found.differences]
        print_table(("where", "what", "recorded", "found"), rows)
        click.echo("")
    for note in found.notes:
        click.echo(f"note  {words(note)}")
    if found.seal:
        click.echo(f"seal  {words(found.seal)}")
    checked = plural("target", found.targets)
    if not seal_only:
        checked += f", {plural('row', found.rows)}, {plural('sample', found.samples)}"
    if found.differences:
        click.echo(f"does not hold: {plural('difference', len(found.differences))} in {checked}")
    else:
        click.echo(f"holds: {checked}")

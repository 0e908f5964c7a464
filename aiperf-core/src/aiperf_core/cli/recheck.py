"""`aiperf recheck`: recompute a bundle's verdicts from its samples."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import BUNDLE
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.signing import Signed


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
@result_file_option
@click.pass_obj
def recheck(
    plugins: Plugins,
    what: "Address",
    seal_only: bool,
    seal: str | None,
    signers: Path | None,
    identity: str | None,
    as_json: bool,
    out: Path | None,
) -> ExitCode:
    """Recompute the intervals, speedups and verdicts of a run from its samples, and check that no file changed.

    Fields that contradict each other are found too. Needs neither the measured packages nor a GPU nor a network. Exit
    code 3: a file or a value differs.

    \b
    Examples:
      aiperf recheck latest
      aiperf recheck results/monday --signers allowed_signers
    """
    from aiperf_core.cli import result_screen
    from aiperf_core.cli.screen import consoles
    from aiperf_core.devices.host import usable_cpus
    from aiperf_core.report.recheck import view
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
    result = view(str(what), found, seal_only=seal_only, signer=signed.told if signed else None)
    write_result(result, out)
    if as_json:
        screen, _ = consoles()
        screen.write(jsontext.dumps({**document(found), "signed_by": signed.identity if signed else None}))
    else:
        result_screen.show(result)
    return result.exit_code


def _verified(bundle: "Bundle", signers: Path | None, identity: str | None) -> "Signed | None":
    """The signer of the bundle, if the options ask for it."""
    if signers is None:
        if identity is not None:
            raise UsageError("--identity names an allowed signer and needs their file: --signers FILE")
        return None
    from aiperf_core.results.signing import verify

    return verify(bundle, signers, identity)

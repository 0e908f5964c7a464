"""`aiperf recheck`: whether a bundle says what its samples say."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.signing import Signed
    from aiperf_core.stats.recheck import Recheck


def _seal(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise UsageError("--seal takes the 64 hexadecimal digits that 'aiperf recheck' printed for the bundle.")
    return value


@click.command("recheck")
@click.argument("what", metavar="BUNDLE")
@click.option("--seal-only", is_flag=True, help="Only look whether files changed; compute nothing.")
@click.option("--seal", callback=_seal, metavar="SHA256", help="The seal that was noted when the bundle was made.")
@click.option(
    "--signers", type=click.Path(path_type=Path), metavar="FILE", help="Allowed signers, as OpenSSH has them."
)
@click.option("--identity", metavar="NAME", help="Who of them must have signed.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def recheck(
    what: str, seal_only: bool, seal: str | None, signers: Path | None, identity: str | None, as_json: bool
) -> ExitCode:
    """Compute a run's intervals, speedups and verdicts again from its samples, and look whether its files changed.

    Needs neither the packages that were measured nor a GPU nor a network. Exit code 3: the bundle does not hold.
    """
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.devices.host import usable_cpus
    from aiperf_core.results import jsontext
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.stats.recheck import document
    from aiperf_core.stats.recheck import recheck as look

    bundle = Bundle.open(Path(what))
    signed = _verified(bundle, signers, identity)
    found = look(bundle, figures=not seal_only, expected_seal=seal, processes=usable_cpus())
    out, _ = consoles()
    if as_json:
        out.write(jsontext.dumps({**document(found), "signed_by": signed.identity if signed else None}))
    else:
        if signed:
            click.echo(f"sign  {signed.told}")
        _print(found, seal_only)
    return ExitCode.OK if found.holds else ExitCode.INVALID


def _verified(bundle: "Bundle", signers: Path | None, identity: str | None) -> "Signed | None":
    """Who signed the bundle, if that is asked for."""
    if signers is None:
        if identity is not None:
            raise UsageError("--identity names one of the allowed signers; give their file too: --signers FILE")
        return None
    from aiperf_core.results.signing import verify

    return verify(bundle, signers, identity)


def _print(found: "Recheck", seal_only: bool) -> None:
    from aiperf_core.cli.tables import print_table
    from aiperf_core.names import words

    if found.differences:
        rows = [tuple(map(words, (one.where, one.what, one.recorded, one.found))) for one in found.differences]
        print_table(("where", "what", "recorded", "found"), rows)
        click.echo("")
    for note in found.notes:
        click.echo(f"note  {words(note)}")
    if found.seal:
        click.echo(f"seal  {words(found.seal)}")
    looked = f"{found.targets} {_plural('target', found.targets)}"
    if not seal_only:
        looked += f", {found.rows} {_plural('row', found.rows)}, {found.samples:,} {_plural('sample', found.samples)}"
    if found.differences:
        click.echo(
            f"does not hold: {len(found.differences)} {_plural('difference', len(found.differences))} in {looked}"
        )
    else:
        click.echo(f"holds: {looked}")


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"

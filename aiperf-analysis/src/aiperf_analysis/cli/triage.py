"""`aiperf triage`: an archive about this machine and its last runs, for support."""

from pathlib import Path

import click

from aiperf_core.cli.measuring import echo_json, json_option
from aiperf_core.errors import ExitCode


@click.command("triage")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="Write to this new file: .tar, .tar.gz or .tgz.",
)
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("artifacts/runs"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the bundles.",
)
@click.option(
    "--runs", type=click.IntRange(0), default=3, show_default=True, metavar="COUNT", help="How many of the newest runs."
)
@click.option("--keep-names", is_flag=True, help="Keep names of machines, users, home folders and GPUs.")
@json_option("what was written and removed, as one JSON document")
def triage(out: Path, folder: Path, runs: int, keep_names: bool, as_json: bool) -> ExitCode:
    """Collect the facts about a problem in one archive, to be sent to support.

    It has the output of aiperf doctor, the machine and its settings, the environment variables that decide results,
    the answers of the checklist's probes, and the documents of the newest runs, without samples and logs. Secrets are
    removed. Names of machines, users, home folders and GPUs are removed too, unless --keep-names is given. A run whose
    files were changed after it ended is packed, and named as such.

    An existing file is not overwritten (exit code 2).

    \b
    Examples:
      aiperf triage --out triage.tar.gz
    """
    from attrs import asdict

    from aiperf_analysis.advice.triage import pack
    from aiperf_core import units

    packed = pack(out, folder, runs=runs, keep_names=keep_names)
    if as_json:
        echo_json({"file": str(out), **asdict(packed)})
        return ExitCode.OK
    removed = ", ".join(f"{count} {what}" for what, count in sorted(packed.removed.items()) if count) or "nothing"
    click.echo(f"{out}: {units.plural('file', len(packed.files))}, {units.size(out.stat().st_size)}")
    click.echo(f"removed: {removed}")
    for name, reason in packed.left_out.items():
        click.echo(f"left out: {name}: {reason}")
    for name in packed.changed:
        click.echo(f"changed after its run: {name}: its figures are no evidence; see what differs with: aiperf recheck")
    click.echo(f"Read it before you send it: tar -xOf {out} | less")
    return ExitCode.OK

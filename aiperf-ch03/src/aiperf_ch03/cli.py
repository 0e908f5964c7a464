"""`aiperf ch03`: audits of the host, lint of manifests, and a launcher that binds a command to CPUs and memory."""

import json
from pathlib import Path

import click

from aiperf_core.cli.audit_view import print_audit
from aiperf_core.errors import ExitCode
from aiperf_core.units import plural

JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


@click.group("ch03", context_settings={"help_option_names": ["-h", "--help"]})
def ch03() -> None:
    """Audit the system, lint manifests, bind commands to CPUs."""


@ch03.command("host-audit")
@JSON
def host_audit(as_json: bool) -> None:
    """Show slow settings of the operating system. Changes nothing."""
    from aiperf_ch03.host_audit import audit

    print_audit(audit(), as_json)


@ch03.command("numa-audit")
@JSON
def numa_audit(as_json: bool) -> None:
    """Show the NUMA nodes and their devices, with advice.

    Also shows the nodes that this process may use. Changes nothing.
    """
    from aiperf_ch03.numa_audit import audit

    print_audit(audit(), as_json)


@ch03.command("container-audit")
@JSON
def container_audit(as_json: bool) -> None:
    """Show the limits of this process's container, with advice. Changes nothing."""
    from aiperf_ch03.container_audit import audit

    print_audit(audit(), as_json)


@ch03.command("lint")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@JSON
def lint(files: tuple[Path, ...], as_json: bool) -> ExitCode:
    """Lint Dockerfiles, Slurm scripts and Kubernetes manifests. Changes nothing.

    Finds settings that cost performance or do nothing, each with its line, the reason, and what to write. Exits with
    code 3 if there are findings.
    """
    from attrs import asdict

    from aiperf_ch03.manifests.linter import lint

    findings = lint(files)
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.path}:{finding.line}: {finding.rule}\n  {finding.text}\n  {finding.reason}")
            click.echo(f"  Write: {finding.write}\n")
        click.echo(f"{plural('finding', len(findings))} in {plural('file', len(files))}")
    return ExitCode.INVALID if findings else ExitCode.OK


@ch03.command("bind", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--node", type=click.IntRange(min=0), metavar="NUMBER", help="Run on the CPUs of this NUMA node, with its memory."
)
@click.option("--cpus", metavar="LIST", help="Run on these CPUs, such as 0-3,8.")
@click.option(
    "--memory",
    type=click.Choice(("preferred", "bind", "interleave", "local")),
    help="Where memory comes from: the node if it has room, only the node, all nodes in turn, or the node of the CPU. "
    "[default: bind with --node, else local]",
)
@click.option("--dry-run", is_flag=True, help="Print the placement, and run nothing.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def bind(node: int | None, cpus: str | None, memory: str | None, dry_run: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND on chosen CPUs and memory nodes.

    The command replaces this process, so its exit code is that of COMMAND.
    """
    from aiperf_ch03.bind import placement, run

    where = placement(node, cpus, memory)
    if dry_run:
        click.echo(str(where))
        return
    run(command, where)

"""`aiperf list`: list the installed benchmarks."""

from collections.abc import Sequence
from pathlib import Path

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import echo_json, installed, json_option, targets_option, warn_of_skipped
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.result_screen import print_records
from aiperf_core.plugins import Plugins
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.targets import InstalledTarget, TargetFilter, from_a_clone
from aiperf_core.units import plural

EMPTY = f"No benchmarks are installed. Get some, {from_a_clone('ch07')}"
NONE_HERE = "None of the chosen benchmarks ({}) can run here. What is missing: aiperf doctor"


@click.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@click.option("--runnable", is_flag=True, help="Only benchmarks that can run on a device of this machine.")
@color_option
@json_option("a JSON array, with all details of each benchmark")
@result_file_option
@click.pass_obj
def list_targets(
    plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, runnable: bool, as_json: bool, out: Path | None
) -> None:
    """List the installed benchmarks.

    A PATTERN is a group (ch07), a target (ch07.memory_access), a tag (tag:memory; see 'aiperf tags'), a glob
    (ch0*.*access), or a word in the name, the tags or the summary of targets (transpose). [default: all] The
    meaning of a term: 'aiperf explain TERM'.

    \b
    Examples:
      aiperf list ch07
      aiperf list tag:memory --runnable
    """
    warn_of_skipped(plugins)
    wanted = installed(plugins, patterns, only)
    here = devices_here(plugins, wanted) if runnable else None
    targets = [target for target in wanted if here is None or here.intersection(target.devices)]
    result = view(targets)
    write_result(result, out)
    if as_json:
        from attrs import asdict

        echo_json([asdict(target) for target in targets])
    elif targets:
        print_records(result.tables[0])
    else:
        click.echo(NONE_HERE.format(len(wanted)) if wanted else EMPTY)


def view(targets: Sequence[InstalledTarget]) -> Result:
    """Targets as a result."""
    records = [
        Record(
            {
                "name": target.name,
                "goal": target.goal,
                "devices": ", ".join(target.devices),
                "summary": target.summary,
            }
        )
        for target in targets
    ]
    columns = [Column(name, name) for name in ("name", "goal", "devices", "summary")]
    return Result(
        analysis="list",
        title="Benchmarks",
        summary=[plural("benchmark", len(records))],
        tables=[Table("benchmarks", "Benchmarks", columns, records)],
    )


def devices_here(plugins: Plugins, targets: Sequence[InstalledTarget]) -> set[str]:
    """The devices of this machine. A plugin's device is probed only if one of the targets names it."""
    from aiperf_core.devices.discovery import of_plugins
    from aiperf_core.devices.probe import has_cuda_device

    named = {name for target in targets for name in target.devices}
    found = of_plugins({name: one for name, one in plugins.known_devices.items() if name in named})
    usable = {name for name, one in found.items() if not isinstance(one, str)}
    return {"cpu", *(("cuda",) if has_cuda_device() else ()), *usable}

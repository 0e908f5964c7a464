"""`aiperf probe`: this machine and its peak rates as one document."""

from contextlib import ExitStack
from pathlib import Path

import click

from aiperf_core.cli.measuring import device_option, json_option
from aiperf_core.errors import ExitCode
from aiperf_core.names import printable
from aiperf_core.plugins import Plugins


@click.command("probe")
@device_option("Only this device", "the processor, and the GPU where there is one")
@click.option("--refresh", is_flag=True, help="Measure the peak rates again.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.json", help="Write to a file."
)
@json_option("the document, for aiperf analyze whatif --machine FILE")
@click.pass_obj
def probe(plugins: Plugins, device: str | None, refresh: bool, out: Path | None, as_json: bool) -> ExitCode:
    """Describe this machine: processor, GPUs, and the peak rates of both beside their data sheets.

    The rates are those of aiperf ceilings: measured once and stored. A machine without a GPU is described by its
    processor alone, which the document says.

    \b
    Examples:
      aiperf probe --out machine.json
    """
    from aiperf_analysis import machine
    from aiperf_core import atomic
    from aiperf_core.errors import AiperfError, UsageError
    from aiperf_core.results import jsontext

    if out is not None and (out.suffix.lower() != ".json" or not out.parent.is_dir()):
        raise UsageError(f"'{out}' is no place for the document; --out takes FILE.json in a folder that exists.")
    with ExitStack() as stack:
        found = machine.probe(plugins, device, refresh=refresh, stack=stack)
    text = jsontext.dumps(found)
    if out is not None:
        try:
            atomic.write(out, text.encode())
        except OSError as error:
            raise AiperfError(f"cannot write '{out}': {error.strerror or error}. Choose another --out.") from error
        click.echo(f"written: {printable(str(out))}", err=True)
    if as_json:
        click.echo(text, nl=False)
    elif out is None:
        from aiperf_core.cli import result_screen

        result_screen.show(machine.shown(found))
    return ExitCode.OK

"""`aiperf ceilings`: measure the peak rates of this machine."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import device_option, json_option, scratch_planner
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from rich.live import Live

    from aiperf_core.cli.screen import Screen


@click.command("ceilings")
@device_option("Device to measure", "the GPU, if there is one")
@click.option("--refresh", is_flag=True, help="Measure again and replace the stored values.")
@json_option("a JSON object, with all details of each value")
@result_file_option
@click.pass_obj
def ceilings(plugins: Plugins, device: str | None, refresh: bool, as_json: bool, out: Path | None) -> None:
    """Show the peak rates of this machine: memory, arithmetic, launches and links.

    The values are measured once and stored. They are measured again when the driver, torch, clocks or power limit
    change. Results are compared with them: a result above the speed of light is INVALID.
    """
    from rich.text import Text

    from aiperf_core.cli import result_screen
    from aiperf_core.cli.screen import consoles
    from aiperf_core.devices.ceiling_figures import of_datasheet
    from aiperf_core.harness.run.options import Known, Options
    from aiperf_core.report.ceilings import view
    from aiperf_core.results import jsontext, structure

    screen, err = consoles()
    options = Options(device=device, known=Known(devices=plugins.known_devices))
    with ExitStack() as stack, scratch_planner(options) as planner:
        found, kept = planner.all_ceilings(device, refresh, _progress(err, stack))
    result = view(found)
    write_result(result, out)
    if as_json:
        screen.write(
            jsontext.dumps({"kept": kept, "ceilings": structure.document(found), "of_datasheet": of_datasheet(found)})
        )
        return
    result_screen.show(result)
    if kept:
        err.print_line(Text("These values were stored earlier. To measure again: aiperf ceilings --refresh", "dim"))


def _progress(err: "Screen", stack: ExitStack) -> Callable[[str], None]:
    """A function that shows what is measured now: in a terminal one line that changes, elsewhere one message."""
    from rich.text import Text

    @cache
    def line() -> "Live | None":
        if err.terminal:
            return stack.enter_context(err.live())
        err.print_line(Text("measuring the peak rates of this machine ..."))
        return None

    def tell(what: str) -> None:
        if live := line():
            live.update(Text.assemble("measuring  ", (what, "cyan")), refresh=True)

    return tell

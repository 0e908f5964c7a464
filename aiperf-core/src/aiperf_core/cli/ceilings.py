"""`aiperf ceilings`: measure the peak rates of this machine."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from aiperf_core.cli.measuring import device_option, json_option, scratch_planner
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from rich.live import Live

    from aiperf_core.cli.screen import Screen
    from aiperf_core.measurements import Ceilings


@click.command("ceilings")
@device_option("Device to measure. [default: the GPU, if there is one]")
@click.option("--refresh", is_flag=True, help="Measure again and replace the stored values.")
@json_option("a JSON object, with all details of each value")
@click.pass_obj
def ceilings(plugins: Plugins, device: str | None, refresh: bool, as_json: bool) -> None:
    """Show the peak rates of this machine: memory, arithmetic, launches and links.

    The values are measured once and stored. They are measured again when the driver, torch, clocks or power limit
    change. Results are compared with them: a result above the speed of light is INVALID.
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.harness.run.options import Options

    out, err = consoles()
    options = Options(device=device, devices=plugins.known_devices)
    with _Course(err) as course, scratch_planner(options) as planner:
        found, kept = planner.all_ceilings(device, refresh, course.tell)
    _print(out, err, found, kept, as_json)


def _print(out: "Screen", err: "Screen", found: "Ceilings", kept: bool, as_json: bool) -> None:
    from rich.text import Text

    from aiperf_core.devices.ceiling_figures import of_datasheet
    from aiperf_core.render.ceilings_page import render
    from aiperf_core.results import jsontext, structure

    if as_json:
        out.write(
            jsontext.dumps({"kept": kept, "ceilings": structure.document(found), "of_datasheet": of_datasheet(found)})
        )
        return
    out.print(render(found, out.look, out.console.width))
    if kept:
        err.print_line(Text("These values were stored earlier. To measure again: aiperf ceilings --refresh", "dim"))


class _Course:
    """Progress on standard error: in a terminal one line that changes, elsewhere one message."""

    def __init__(self, err: "Screen") -> None:
        self._err = err
        self._live: Live | None = None
        self._told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def tell(self, what: str) -> None:
        """Show what is measured now."""
        from rich.live import Live
        from rich.text import Text

        if not self._err.terminal:
            if not self._told:
                self._err.print_line(Text("measuring the peak rates of this machine ..."))
            self._told = True
            return
        if self._live is None:
            # No automatic refresh: its thread would take processor time from the measurement.
            self._live = Live(console=self._err.console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text.assemble("measuring  ", (what, "cyan")), refresh=True)

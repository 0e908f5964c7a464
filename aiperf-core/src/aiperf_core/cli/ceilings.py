"""`aiperf ceilings`: what this machine reaches at its best."""

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from aiperf_core.cli.measuring import device_option
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from rich.live import Live

    from aiperf_core.cli.screen import Screen
    from aiperf_core.measurements import Ceilings


@click.command("ceilings")
@device_option("What to measure. [default: the GPU, if there is one]")
@click.option("--refresh", is_flag=True, help="Measure anew, and forget what was measured before.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, with everything known of each figure.")
@click.pass_obj
def ceilings(plugins: Plugins, device: str | None, refresh: bool, as_json: bool) -> None:
    """Show what this machine reaches at its best: memory, arithmetic, launches and links.

    Measured once and kept, for as long as driver, torch, clocks and power limit stay the same. Results are held against
    these figures: one that is faster than light is invalid.
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.harness.run.options import Options
    from aiperf_core.harness.run.planner import Planner

    out, err = consoles()
    scratch = Path(tempfile.mkdtemp(prefix="aiperf-"))
    try:
        options = Options(device=device, devices=plugins.known_devices)
        with _Course(err) as course, Planner(options, scratch) as planner:
            found, kept = planner.all_ceilings(device, refresh, course.tell)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
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
        err.print_line(Text("These figures were kept. To measure anew: aiperf ceilings --refresh", "dim"))


class _Course:
    """Tells on standard error what is measured: in a terminal on one line that changes, elsewhere once."""

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
        """Something else is measured now."""
        from rich.live import Live
        from rich.text import Text

        if not self._err.terminal:
            if not self._told:
                self._err.print_line(Text("measuring what this machine reaches ..."))
            self._told = True
            return
        if self._live is None:
            # Drawn when told only: a thread that redraws would take processor time from what is measured.
            self._live = Live(console=self._err.console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text.assemble("measuring  ", (what, "cyan")), refresh=True)

"""A run in a terminal: its progress (standard error), and then its results (standard output)."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from aiperf_core import units
from aiperf_core.cli.screen import Screen, consoles
from aiperf_core.names import words
from aiperf_core.render.compact import render_compact
from aiperf_core.render.machine_notes import machine_notes_of
from aiperf_core.render.notes import where_of
from aiperf_core.render.row_columns import DEFAULT, View
from aiperf_core.render.summary import Finished, headline, render_summary
from aiperf_core.render.table import render, render_skipped
from aiperf_core.results import jsontext, structure
from aiperf_core.results.models import SkippedTarget, TargetResult

__all__ = [
    "Finished",
    "RunView",
    "Screen",
    "consoles",
    "print_compact",
    "print_json",
    "print_machine_notes",
    "print_result",
    "print_summary",
    "print_where",
]

BAR = 10


class RunView:
    """Shows the progress of a run. A context manager: an interrupted run leaves the terminal as it was.

    In a terminal a single line changes. It is drawn only when the run reports something, because a thread that redraws
    would take CPU time from the measurement. Elsewhere each change of phase is a line. Other output may be printed
    between `target_finished` and the next `target_started`.
    """

    def __init__(self, err: Screen, quiet: bool = False) -> None:
        self._err = err
        self._quiet = quiet
        self._live: Live | None = None
        self._head = ""
        self._phase = ""
        self._implementation: str | None = None
        self._told = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def target_started(self, name: str, index: int, total: int) -> None:
        """A target starts: number `index` of `total`, counted from 1."""
        self._head = f"[{index}/{total}] {words(name)}"
        self._phase, self._implementation, self._told = "start", None, ""
        if self._quiet:
            return
        if self._err.terminal:
            # Not redirected: rich would send standard output to standard error.
            self._live = Live(
                console=self._err.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._show()

    def phase(self, text: str, implementation: str | None = None) -> None:
        """The target enters a phase (`compile`, `warm up`, `sample`), of one implementation or of all."""
        self._phase, self._implementation = words(text), implementation
        self._show()

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """A block is done: number `block` of `blocks` that are planned so far, with an estimate of the time left."""
        if self._live:
            self._draw(block, blocks, seconds_left)

    def target_finished(self, result: Finished) -> None:
        """The target is done: its line stays."""
        self._stop()
        if not self._quiet:
            self._err.print_line(Text(f"{self._head.partition(' ')[0]} ").append_text(headline(result, self._err.look)))

    def _show(self) -> None:
        if self._live:
            self._draw(None, None, None)
        elif not self._quiet and self._phase != self._told:
            # A line for each phase shows where a run in CI hangs; lines for implementations or blocks would hide it.
            self._told = self._phase
            self._err.print_line(Text(f"{self._head}: {self._phase}"))

    def _draw(self, block: int | None, blocks: int | None, seconds_left: float | None) -> None:
        assert self._live
        line = Text(self._head)
        line.append(f"  {self._phase}", "cyan")
        if self._implementation:
            line.append(f" {words(self._implementation)}")
        if block is not None:
            bar = self._bar(block, blocks) if blocks else Text("block")
            line.append("  ").append_text(bar).append(f" {block}" + (f"/{blocks}" if blocks else ""))
        if seconds_left is not None:
            line.append(f"  {units.span(seconds_left)} left", "dim")
        self._live.update(line, refresh=True)

    def _bar(self, block: int, blocks: int) -> Text:
        done = min(BAR, round(BAR * block / blocks))
        full, empty = ("#", "-") if self._err.look.plain else ("━", "─")
        return Text.assemble((full * done, "green"), (empty * (BAR - done), "dim"))

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None


def print_result(out: Screen, result: Finished, where: Path | None = None, view: View | None = None) -> None:
    """Print the table of a target. `where` is the path of the bundle."""
    if isinstance(result, TargetResult):
        out.print(render(result, out.look, out.console.width, _shown(where), view or DEFAULT), Text())
    else:
        out.print(render_skipped(result, out.look), Text())


def print_compact(out: Screen, results: Sequence[Finished], view: View) -> None:
    """Print a whole run as one table."""
    out.print_wide(render_compact(results, out.look, out.room, view))


def print_machine_notes(out: Screen, results: Sequence[Finished]) -> None:
    """Print the notes that hold for the machine, once for all targets."""
    notes = machine_notes_of([one for one in results if isinstance(one, TargetResult)], out.look)
    if notes.row_count:
        out.print(notes, Text())


def print_summary(out: Screen, results: Sequence[Finished], where: Path | None = None) -> None:
    """Print a line for each target, the count of verdicts and the path of the bundle."""
    out.print(render_summary(results, out.look, out.console.width))
    print_where(out, where)


def print_where(out: Screen, where: Path | None) -> None:
    """Print the path of the bundle, if there is one."""
    if where:
        out.print(where_of(_shown(where) or "", out.look, out.console.width))


def print_json(out: Screen, results: Sequence[Finished], where: Path | None = None) -> None:
    """Print the records as on disk, as a single JSON document."""
    done = [structure.document(one) for one in results if isinstance(one, TargetResult)]
    skipped = [structure.document(one) for one in results if isinstance(one, SkippedTarget)]
    out.write(jsontext.dumps({"bundle": str(where) if where else None, "targets": done, "skipped": skipped}))


def _shown(path: Path | None) -> str | None:
    """A path, relative to the current folder where it lies below it."""
    if path is None:
        return None
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else str(path)

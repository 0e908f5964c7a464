"""A run in a terminal: its progress (standard error), and then its results (standard output)."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from aiperf_core import units
from aiperf_core.cli.screen import Screen, consoles
from aiperf_core.events import Progress
from aiperf_core.names import printable, words
from aiperf_core.render.compact import render_compact
from aiperf_core.render.notes import details_of, grid_of, where_of
from aiperf_core.render.row_columns import DEFAULT, View
from aiperf_core.render.summary import Finished, headline, render_summary
from aiperf_core.render.table import render, render_skipped
from aiperf_core.report.machine_notes import machine_notes
from aiperf_core.results import jsontext, structure
from aiperf_core.results.bundle import DEFAULT_PARENT
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
# Drawing takes a part of a millisecond of processor time.
DRAW_EVERY_S = 1.0
# A shorter estimate says only that the run is finishing.
SHORTEST_LEFT_S = 1.0

# Parts of the line that a narrow terminal does not show.
_BAR, _SAMPLES, _INTERVAL, _IN_ALL = "bar", "samples", "interval", "in all"


class RunView:
    """Shows the progress of a run. A context manager: an interrupted run leaves the terminal as it was.

    In a terminal a single line changes. It is drawn only when the run reports something, at most once a second within
    a phase, because a thread that redraws would take CPU time from the measurement. Elsewhere the start and the result
    of each target are a line. Other output may be printed between `target_finished` and the next `target_started`.
    """

    def __init__(self, err: Screen, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._err = err
        self._quiet = quiet
        self._clock = clock
        self._live: Live | None = None
        self._drawn = -math.inf
        self._changed = False
        self._place = self._head = ""
        self._phase = ""
        self._implementation: str | None = None
        self._state: Progress | None = None
        self._later_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def run_started(self, targets: int, seconds: float, unknown: int) -> None:
        """A run of some targets starts, with an estimate of its time. Of `unknown` targets it counts only sampling."""
        if not self._quiet and targets:
            self._err.print_line(Text(f"{units.plural('target', targets)}: {estimate(seconds, targets, unknown)}"))

    def target_started(self, name: str, index: int, total: int, later_s: float = 0.0) -> None:
        """A target starts: number `index` of `total`, from 1. `later_s` is the estimate for the targets after it."""
        self._place = f"[{index}/{total}] " if total > 1 else ""
        self._head = f"{self._place}{words(name)}"
        self._phase, self._implementation, self._state, self._later_s = "setup", None, None, later_s
        if self._quiet:
            return
        if self._err.terminal:
            self._live = self._err.live()
            self._draw()
        else:
            # Shows where a run in CI hangs.
            self._err.print_line(Text(f"{self._head}: started"))

    def phase(self, text: str, implementation: str | None = None) -> None:
        """The target enters a phase (`warm-up`, `sampling`), or a step of a phase (`setup: prepare`)."""
        changed = words(text) != self._phase
        self._phase, self._implementation = words(text), implementation
        if changed:
            self._changed = True
            self._draw()

    def progress(self, state: Progress) -> None:
        """How far the target is, with an estimate of the time left."""
        self._state = state
        if self._changed or self._clock() - self._drawn >= DRAW_EVERY_S:
            self._changed = False
            self._draw()

    def target_finished(self, result: Finished) -> None:
        """The target is done: its line stays."""
        self._stop()
        if not self._quiet:
            self._err.print_line(Text(self._place).append_text(headline(result, self._err.look)))

    def _draw(self) -> None:
        if not self._live:
            return
        self._drawn = self._clock()
        parts = self._parts()
        # What does not fit is left out, the least important part first: a line that breaks moves the terminal.
        for dropped in (_INTERVAL, _SAMPLES, _BAR, _IN_ALL):
            if len(Text("  ").join(parts.values())) >= self._err.console.width:
                parts.pop(dropped, None)
        line = Text("  ").join(parts.values())
        line.no_wrap, line.overflow = True, "crop"
        self._live.update(line, refresh=True)

    def _parts(self) -> dict[str, Text]:
        """The parts of the line, by name, from left to right."""
        state, parts = self._state, {"head": Text(self._head)}
        if state:
            parts[_BAR] = self._bar(state.share or 0.0)
        parts["phase"] = Text(self._phase, "cyan")
        if self._implementation:
            parts["implementation"] = Text(words(self._implementation))
        if not state:
            return parts
        if state.samples:
            parts[_SAMPLES] = Text(f"{state.samples:,} samples")
        if state.undecided and state.interval:
            low, high = state.interval
            parts[_INTERVAL] = Text(f"{words(state.undecided)} [{low:.3g}, {high:.3g}]x so far")
        own = state.seconds_left or 0.0
        left = f"about {units.span(own)} left" if own >= SHORTEST_LEFT_S else "finishing"
        parts["left"] = Text(left, "dim")
        if self._later_s:
            parts[_IN_ALL] = Text(f"{units.span(own + self._later_s)} in all", "dim")
        return parts

    def _bar(self, share: float) -> Text:
        # Not full before the target is done.
        done = min(BAR - 1, int(BAR * share))
        full, empty = ("#", "-") if self._err.look.plain else ("━", "─")
        return Text.assemble((full * done, "green"), (empty * (BAR - done), "dim"))

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None


def estimate(seconds: float, targets: int, unknown: int) -> str:
    """An estimate of the time of a run. It is a lower bound where it counts only the sampling of some targets."""
    if not unknown:
        return f"about {units.span(seconds)}"
    of = f"of {unknown} " if unknown < targets else ""
    return f"at least {units.span(seconds)}, plus setup, warm-up and checks {of}(not measured here before)"


def print_result(out: Screen, result: Finished, where: Path | None = None, view: View | None = None) -> None:
    """Print the table of a target. `where` is the path of the bundle."""
    if isinstance(result, TargetResult):
        out.print(render(result, out.look, out.console.width, _shown(where), view or DEFAULT), Text())
    else:
        out.print(render_skipped(result, out.look), Text())


def print_compact(out: Screen, results: Sequence[Finished], view: View) -> None:
    """Print a whole run as one table."""
    out.print_wide(render_compact(results, out.look, out.room, view))


def print_machine_notes(out: Screen, results: Sequence[Finished], *, lasting: bool) -> None:
    """Print the notes that hold for the machine, once for all targets. `lasting`: as of `machine_notes`."""
    measured = [one for one in results if isinstance(one, TargetResult)]
    notes = grid_of(machine_notes(measured, lasting=lasting), out.look)
    if notes.row_count:
        out.print(notes, Text())


def print_summary(out: Screen, results: Sequence[Finished]) -> None:
    """Print a line for each target, and the count of verdicts."""
    out.print(render_summary(results, out.look, out.console.width))


def print_where(out: Screen, where: Path | None, *, details: bool = False) -> None:
    """Print the path of the bundle, if there is one, and the command for all details."""
    if where is None:
        return
    path = _shown(where) or ""
    out.print(where_of(path, out.look, out.console.width))
    if details:
        out.print(details_of("latest" if Path(path).parent == DEFAULT_PARENT else quote(path), out.console.width))


def print_json(out: Screen, results: Sequence[Finished], where: Path | None = None) -> None:
    """Print the records as on disk, as a single JSON document."""
    done = [structure.document(one) for one in results if isinstance(one, TargetResult)]
    skipped = [structure.document(one) for one in results if isinstance(one, SkippedTarget)]
    out.write(jsontext.dumps({"bundle": str(where) if where else None, "targets": done, "skipped": skipped}))


def _shown(path: Path | None) -> str | None:
    """A path, relative to the current folder where it lies below it."""
    if path is None:
        return None
    below = path.is_absolute() and path.is_relative_to(Path.cwd())
    return printable(str(path.relative_to(Path.cwd()) if below else path))

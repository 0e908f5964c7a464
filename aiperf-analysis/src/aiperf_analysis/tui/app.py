"""The application: screens on one selection, keys that work everywhere, an end that restores the terminal."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider

from aiperf_analysis.tui import places
from aiperf_analysis.tui.screen import AppScreen, ResultScreen, TextScreen
from aiperf_analysis.tui.source import Source
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.report.result import Origin

if TYPE_CHECKING:
    from aiperf_analysis.selection import Selection

DARK, LIGHT = "textual-dark", "textual-light"
# Signals that end the application in order, so that the terminal is restored.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HELP = [
    "aiperf tui shows results. It starts no run and changes no file.",
    "",
    "1 runs  2 rows  3 analyses  4 machines  5 live run  6 checklist  p Pareto",
    "",
    "arrows, page up, page down, home, end: move",
    "left, right   show further columns",
    "enter         open: a run, a row with its samples, an analysis",
    "escape        back; closes the filter first",
    "/             filter while you type; enter keeps the filter",
    "s             sort by the next column: upward, then downward",
    "tab           next table of the result",
    "d             pictures of the result",
    "n             notes: the same in a shell, assumptions, what was left out",
    "o             options of an analysis, as on its command line",
    "h             history of the target under the cursor",
    "space, c      in runs: mark two runs, then compare them",
    "r             read the results again",
    "t             light or dark",
    "ctrl+p        every screen and every analysis by name",
    "q, ctrl+c     quit",
    "",
    "A star before a name is a mark. A dash stands for a figure without a value;",
    "the lines below the table say why.",
]


class Places(Provider):
    """The command palette: every screen and every analysis."""

    @property
    def _all(self) -> list[tuple[str, str, Callable[[], None]]]:
        app = self.app
        assert isinstance(app, ResultsApp)
        return [
            *((f"{key} {name}", "", lambda key=key: app.action_place(key)) for key, name in NAMES.items()),
            *(
                (f"analyze {name}", words(one.record.summary), lambda name=name: app.open_analysis(name))
                for name, one in sorted(app.plugins.analyses.items())
            ),
        ]

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for name, about, call in self._all:
            yield DiscoveryHit(escape(name), call, text=name, help=escape(about))

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, about, call in self._all:
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), call, text=name, help=escape(about))


NAMES = {"1": "runs", "2": "rows", "3": "analyses", "4": "machines", "5": "live", "6": "checklist"}
SCREENS: dict[str, Callable[[], AppScreen]] = {
    "1": places.RunsScreen,
    "2": places.RowsScreen,
    "3": places.AnalysesScreen,
    "4": places.MachinesScreen,
    "5": places.LiveScreen,
    "6": places.ChecklistScreen,
}


class ResultsApp(App[None]):
    """Results in a terminal."""

    CSS = """
    #title { height: 1; background: $primary; color: $text; text-style: bold; }
    Screen { layout: vertical; }
    """
    TITLE = "aiperf"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Places}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pareto", "Pareto", show=False),
        Binding("t", "theme", "Light or dark", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        *(Binding(key, f"place('{key}')", name.capitalize()) for key, name in NAMES.items()),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, plugins: Plugins, source: Source) -> None:
        super().__init__()
        self.plugins, self.source = plugins, source
        self.plain = "utf" not in (sys.stdout.encoding or "").lower()
        self._selection: Selection | None = None
        self._lock = threading.Lock()
        self.ended_by: int | None = None

    # --- rows

    def selection(self) -> "Selection":
        """The rows, read once until `forget`. Called in threads. Raises AiperfError."""
        with self._lock:
            if self._selection is None:
                self._selection = self.source.read()
            return self._selection

    def forget(self) -> None:
        """Read again when rows are needed next."""
        self._selection = None

    # --- screens

    def on_mount(self) -> None:
        """Show the runs, and end in order on signals."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for one in ENDING:
                loop.add_signal_handler(one, self._end, one)
        self.push_screen(places.RunsScreen())

    def _end(self, number: int) -> None:
        self.ended_by = number
        self.exit(return_code=128 + number)

    def action_place(self, key: str) -> None:
        """Go to a screen by its key; the way back ends there."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(SCREENS[key]())

    def action_leave(self) -> None:
        """Close an input, or else the screen. From the last screen, go to the runs."""
        screen = self.screen
        if isinstance(screen, ResultScreen) and screen.close_input():
            return
        if len(self.screen_stack) > 2:
            self.pop_screen()
        elif not isinstance(screen, places.RunsScreen):
            self.action_place("1")

    def action_pareto(self) -> None:
        """Show the Pareto front."""
        self.open_analysis("pareto")

    def open_analysis(self, name: str, options: str = "") -> None:
        """Show an analysis."""
        if name not in self.plugins.analyses:
            self.notify(f"The analysis {name} is not installed.", markup=False)
            return
        self.push_screen(places.AnalysisScreen(self.plugins.analyses[name], options))

    def open_origin(self, origin: Origin) -> None:
        """Show the row, or the run, that a figure comes from."""
        if origin.row is None:
            self.push_screen(places.RunScreen(origin.bundle))
            return

        def lines(width: int) -> list[str]:
            from aiperf_analysis.tui import samples

            entry = samples.entry_of(self.selection(), origin)
            if entry is None:
                return ["this row is no longer there; read the results again (r)"]
            return places.row_lines(entry, width, plain=self.plain)

        self.push_screen(TextScreen(f"{origin.target}:{origin.row}", lines))

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = LIGHT if self.theme == DARK else DARK

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(TextScreen("Help", lambda _: HELP))

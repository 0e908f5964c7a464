"""The screens: runs, rows, a run, a comparison, machines, analyses, the checklist.

What reads and computes is imported in the threads that call it, so that the first screen need not wait for numpy.
"""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from aiperf_analysis import sizes
from aiperf_analysis.tui.grid import Grid
from aiperf_analysis.tui.records import record_lines
from aiperf_analysis.tui.screen import ResultScreen
from aiperf_core.analysis import Analysis
from aiperf_core.contributions import Installed
from aiperf_core.names import words
from aiperf_core.report.result import Record, Result

if TYPE_CHECKING:
    from aiperf_analysis.selection import Entry, Selection

LIVE_S = 1.0  # between two looks at the runs that are going on
Reader = Callable[[], "Selection"]


class RunsScreen(ResultScreen):
    """The runs. Two of them that are marked can be compared."""

    title_of = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark"),
        Binding("c", "compare", "Compare"),
    ]

    def make(self, selection: Reader) -> Result:
        """The runs."""
        from aiperf_analysis.tui import pages

        return pages.runs(selection())

    def chosen(self, record: Record) -> None:
        """Open a run."""
        self.app.push_screen(RunScreen(record.origins[0].bundle))

    def action_mark(self) -> None:
        """Mark a run for a comparison."""
        self.query_one(Grid).mark()

    def action_compare(self) -> None:
        """Compare the two marked runs, the older one on the left."""
        marks = self.query_one(Grid).marks
        if len(marks) != 2:
            self.notify(f"Mark two runs with the space bar; {len(marks)} are marked.", markup=False)
            return
        newer, older = (one.origins[0].bundle for one in marks)
        self.app.push_screen(CompareScreen(older, newer))


class _OfRows(ResultScreen):
    """A screen whose records are rows of runs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("h", "history", "History")]

    def more(self, record: Record, width: int) -> list[str]:
        """The samples of the row."""
        from aiperf_analysis.tui import samples

        entry = samples.entry_of(self.results.selection(), record.origins[0]) if record.origins else None
        if entry is None:
            return []
        return [f"{words(entry.name)}", *samples.lines(entry, width, plain=self.results.plain)]

    def action_history(self) -> None:
        """Show the history of the row's target."""
        record = self.query_one(Grid).record
        origin = record.origins[0] if record and record.origins else None
        options = f"--target {shlex.quote(origin.target)}" if origin and origin.target else ""
        self.results.open_analysis("history", options)


class RowsScreen(_OfRows):
    """The rows of all runs."""

    title_of = "Rows"

    def make(self, selection: Reader) -> Result:
        """The rows."""
        from aiperf_analysis.tui import pages

        return pages.rows(selection())


class RunScreen(_OfRows):
    """A run."""

    title_of = "Run"

    def __init__(self, bundle: str) -> None:
        super().__init__()
        self._bundle = bundle

    def make(self, selection: Reader) -> Result:
        """The run."""
        from aiperf_analysis.tui import pages

        return pages.run(selection(), self._bundle)

    def command(self) -> str:
        """The command of the same run."""
        from aiperf_analysis.tui.source import run_of

        run = run_of(self.results.selection(), self._bundle)
        return f"aiperf show {words(shlex.quote(run.path))}"


class CompareScreen(_OfRows):
    """Two runs against each other."""

    title_of = "Comparison"

    def __init__(self, left: str, right: str) -> None:
        super().__init__()
        self._sides = left, right

    def make(self, selection: Reader) -> Result:
        """The comparison."""
        from aiperf_analysis.tui import pages

        return pages.comparison(selection(), *self._sides)

    def command(self) -> str:
        """The command of the same comparison."""
        from aiperf_analysis.tui.source import run_of

        paths = [run_of(self.results.selection(), one).path for one in self._sides]
        return f"aiperf compare {words(shlex.join(paths))}"


class MachinesScreen(ResultScreen):
    """The machines of the runs."""

    title_of = "Machines"

    def make(self, selection: Reader) -> Result:
        """The machines."""
        from aiperf_analysis.tui import pages

        return pages.machines(selection())


class ChecklistScreen(ResultScreen):
    """Recommendations, and which of them the runs have proven."""

    title_of = "Checklist"

    def make(self, selection: Reader) -> Result:
        """The checklist."""
        from aiperf_analysis.tui import pages

        return pages.checklist(selection())

    def command(self) -> str:
        """The command of the same list."""
        return "aiperf checklist"


class LiveScreen(ResultScreen):
    """The runs that are going on, read once a second."""

    title_of = "Live runs"

    def on_mount(self) -> None:
        """Read now, and then once a second."""
        super().on_mount()
        self.set_interval(LIVE_S, self.read)

    def make(self, selection: Reader) -> Result:
        """The runs."""
        from aiperf_analysis.live.shown import every

        return every()


class AnalysesScreen(ResultScreen):
    """The analyses that are installed."""

    title_of = "Analyses"

    def make(self, selection: Reader) -> Result:
        """The names and summaries."""
        from aiperf_analysis.tui import pages

        return pages.analyses(self.results.plugins)

    def chosen(self, record: Record) -> None:
        """Open an analysis."""
        self.results.open_analysis(str(record.cells["name"]))


class AnalysisScreen(ResultScreen):
    """An analysis, with options as on the command line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "options", "Options")]
    DEFAULT_CSS = "AnalysisScreen #options { background: $surface-lighten-1; }"

    def __init__(self, installed: Installed[Analysis], options: str = "") -> None:
        self.title_of = f"Analysis {installed.record.name}"  # type: ignore[misc]  # of this screen alone
        super().__init__()
        self._installed, self._options = installed, options

    def compose(self) -> ComposeResult:
        """The parts, with a line for options."""
        parts = list(super().compose())
        at = next(number for number, one in enumerate(parts) if one.id == "filter")
        field = Input(self._options, placeholder=f"options of aiperf analyze {self._installed.record.name}",
                      id="options", compact=True, select_on_focus=False)  # fmt: skip
        yield from [*parts[:at], field, *parts[at:]]

    def make(self, selection: Reader) -> Result:
        """The result of the analysis."""
        from aiperf_analysis.tui.asking import ask

        return ask(self._installed, self._options, selection)

    def action_options(self) -> None:
        """Change the options."""
        self.open_input("options")

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Analyze again with new options."""
        if message.input.id == "options":
            self._options = message.value
            message.input.display = False
            self.set_focus(self.query_one(Grid))
            self.read()

    def command(self) -> str:
        """The command of the same result."""
        from aiperf_analysis.tui.asking import command_line
        from aiperf_core.analysis_options import of_files

        files = of_files(self._installed.record.resolve())
        return command_line(self._installed.record, self._options, self.results.source, files=files)


def row_lines(entry: "Entry", width: int, *, plain: bool) -> list[str]:
    """A row of a run with its samples, findings and where it lies."""
    from aiperf_analysis.tui import samples
    from aiperf_core.report.views import figures

    table = figures(entry.result, entry.row)
    told = [f"verdict: {entry.row.verdict.value}{f' ({words(entry.row.reason)})' if entry.row.reason else ''}"]
    told += [words(entry.result.summary), words(entry.row.why or "")]
    told += [f"sizes: {words(sizes.size_of(entry) or 'none')}; clock {entry.result.clock}, cache {entry.result.cache}"]
    told += [f"run: {words(entry.run.path)}", ""]
    told += record_lines(table.columns, table.records[0])
    told += ["", *samples.lines(entry, width, plain=plain), ""]
    told += [f"{one.severity} {words(one.issue)}: {words(one.message)}" for one in entry.row.findings]
    return [one for number, one in enumerate(told) if one or number > 5]

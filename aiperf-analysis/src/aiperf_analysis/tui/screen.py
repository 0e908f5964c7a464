"""A screen that shows a result: its conclusion, one of its tables, and details of the record under the cursor."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from aiperf_analysis.tui.grid import Grid
from aiperf_analysis.tui.keys import Keys
from aiperf_analysis.tui.records import record_lines
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.report.result import Record, Result
from aiperf_core.report.verdict_counts import causes

if TYPE_CHECKING:
    from aiperf_analysis.selection import Selection
    from aiperf_analysis.tui.app import ResultsApp

LONGEST = 2000  # characters of a foreign text in the details
LEAST_HEIGHT, MOST_HEIGHT = 8, 20  # lines of a picture


class AppScreen(Screen[None]):
    """A screen of this application: a title, a content and the keys."""

    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.leave", "Back")]

    @property
    def results(self) -> "ResultsApp":
        """The application."""
        return cast("ResultsApp", self.app)

    def headline(self, text: str) -> str:
        """The first line: what is shown, and of which source."""
        return f" {words(text)[:LONGEST]} - {self.results.source.name}"


class TextScreen(AppScreen):
    """Lines to read: notes, a picture, a row with its samples. `make` gets the width, and may read files."""

    DEFAULT_CSS = """
    TextScreen #lines { height: 1fr; }
    TextScreen #text { padding: 0 1; }
    """

    class Made(Message):
        """The lines."""

        def __init__(self, lines: list[str]) -> None:
            self.lines = lines
            super().__init__()

    def __init__(self, name: str, make: Callable[[int], list[str]]) -> None:
        super().__init__()
        self._head, self._make = name, make

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Static(self.headline(self._head), id="title", markup=False)
        with VerticalScroll(id="lines"):
            yield Static("reading ...", id="text", markup=False)
        yield Keys()

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one("#lines").focus()

    def on_resize(self) -> None:
        """Make the lines for the width."""
        width = max(20, self.size.width - 4)
        self.run_worker(lambda: self._work(width), thread=True, exclusive=True, group="make")

    def _work(self, width: int) -> None:
        try:
            lines = self._make(width)
        except AiperfError as error:
            lines = [str(error)]
        if not get_current_worker().is_cancelled:
            self.post_message(self.Made(lines))

    def on_text_screen_made(self, message: Made) -> None:
        """Show the lines."""
        self.query_one("#text", Static).update("\n".join(message.lines))


class ResultScreen(AppScreen):
    """A result. Subclasses make it; `chosen` is what Enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort", show=False),
        Binding("right_square_bracket,tab", "table(1)", "Next table", show=False),
        Binding("left_square_bracket,shift+tab", "table(-1)", "Last table", show=False),
        Binding("d", "picture", "Picture"),
        Binding("n", "notes", "Notes"),
        Binding("r", "again", "Read again", show=False),
    ]
    DEFAULT_CSS = """
    ResultScreen #summary { height: auto; max-height: 4; padding: 0 1; }
    ResultScreen #summary.problem { color: $text-error; text-style: bold; max-height: 100%; }
    ResultScreen #about { height: 1; padding: 0 1; color: $text-muted; }
    ResultScreen #detail { height: auto; max-height: 9; padding: 0 1; border-top: solid $primary; }
    ResultScreen Input { padding: 0 1; background: $surface-lighten-1; }
    ResultScreen Grid { padding: 0 0 0 1; }
    """
    title_of: ClassVar[str] = ""

    class Made(Message):
        """The result, or why there is none."""

        def __init__(self, result: Result | None, problem: str = "") -> None:
            self.result, self.problem = result, problem
            super().__init__()

    class Detailed(Message):
        """Details that were read for a record."""

        def __init__(self, record: Record, lines: list[str]) -> None:
            self.record, self.lines = record, lines
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self.result: Result | None = None
        self._table = 0

    # --- for subclasses

    @abstractmethod
    def make(self, selection: "Callable[[], Selection]") -> Result:
        """The result; called in a thread. Raises AiperfError. `selection` reads the rows."""

    def chosen(self, record: Record) -> None:
        """Open a record: by default the row or the run that it comes from."""
        if record.origins:
            self.results.open_origin(record.origins[0])
        else:
            self.app.push_screen(TextScreen("record", lambda _: self.told(record)))

    def more(self, record: Record, width: int) -> list[str]:
        """Details of a record instead of its cells; called in a thread, may read files. Empty for none."""
        return []

    # --- parts

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Static(self.headline(self.title_of), id="title", markup=False)
        yield Static("reading ...", id="summary", markup=False)
        yield Static("", id="about", markup=False)
        yield Input(placeholder="words that a record contains", id="filter", compact=True, select_on_focus=False)
        yield Grid()
        yield Static("", id="detail", markup=False)
        yield Keys()

    def on_mount(self) -> None:
        """Read."""
        for field in self.query(Input):
            field.display = False
        self.set_focus(self.query_one(Grid))
        self.query_one("#detail").display = False
        self.read()

    def read(self) -> None:
        """Make the result in a thread."""
        self.run_worker(self._work, thread=True, exclusive=True, group="read")

    def _work(self) -> None:
        try:
            made = self.Made(self.make(self.results.selection))
        except AiperfError as error:
            made = self.Made(None, str(error))
        if not get_current_worker().is_cancelled:
            self.post_message(made)

    def on_result_screen_made(self, message: Made) -> None:
        """Show the result, or the problem."""
        summary = self.query_one("#summary", Static)
        summary.set_class(message.result is None, "problem")
        self.query_one(Grid).display = message.result is not None
        self.result = message.result
        if message.result is None:
            summary.update(words(message.problem))
            self.query_one("#about", Static).update("")
            self.query_one("#detail").display = False
            return
        self.query_one("#title", Static).update(self.headline(message.result.title))
        self._table = min(self._table, max(0, len(message.result.tables) - 1))
        summary.update("\n".join(words(one)[:LONGEST] for one in [*self._headlines(), *message.result.summary]))
        self._show_table()

    def _headlines(self) -> list[str]:
        """Lines before the summary: what was left out belongs beside every figure."""
        counts = causes(self.result.left_out if self.result else [], others="left out")
        return [f"{counts}; the reasons are in the notes (n)."] if counts else []

    def _show_table(self) -> None:
        if self.result is None or not self.result.tables:
            self.query_one(Grid).display = False
            text = self.result.text if self.result else ""
            self.query_one("#summary", Static).update("\n".join(words(one) for one in text.splitlines()))
            return
        self.query_one(Grid).show_table(self.result.tables[self._table])
        self._about()

    def _about(self) -> None:
        if self.result is None or not self.result.tables:
            return
        grid, table = self.query_one(Grid), self.result.tables[self._table]
        shown = f"{grid.count:,} of {grid.total:,}" if grid.count != grid.total else f"{grid.total:,}"
        several = f"table {self._table + 1} of {len(self.result.tables)} (tab): " if len(self.result.tables) > 1 else ""
        order = f", sorted by {grid.order}" if grid.order else ""
        note = f". {table.note}" if table.note else ""
        self.query_one("#about", Static).update(words(f"{several}{table.title} ({shown}{order}){note}"))

    # --- details of the record under the cursor

    def on_grid_highlighted(self, message: Grid.Highlighted) -> None:
        """Tell which records are shown, and read the details."""
        self._about()
        self._read_details(message.record)

    def on_resize(self) -> None:
        """Read the details for the new width."""
        self._read_details(self.query_one(Grid).record)

    def _read_details(self, record: Record | None) -> None:
        """Make the details in a thread. Those that are shown stay until then, so that the table keeps its height."""
        if record is None or self.result is None:
            self.query_one("#detail").display = False
            return
        told, width = self.told(record), max(20, self.size.width - 4)
        self.run_worker(lambda: self._detail(record, told, width), thread=True, exclusive=True, group="detail")

    def told(self, record: Record) -> list[str]:
        """A record as lines: each cell with its title, its interval and why it has no value."""
        columns = self.result.tables[self._table].columns if self.result and self.result.tables else []
        return record_lines(columns, record)

    def _detail(self, record: Record, told: list[str], width: int) -> None:
        lines = self.more(record, width) or ["; ".join(told)]
        if not get_current_worker().is_cancelled:
            self.post_message(self.Detailed(record, lines))

    def on_result_screen_detailed(self, message: Detailed) -> None:
        """Show them, if the cursor is still there."""
        if self.query_one(Grid).record is message.record:
            detail = self.query_one("#detail", Static)
            detail.display = True
            detail.update("\n".join(message.lines))

    def on_grid_chosen(self, message: Grid.Chosen) -> None:
        """Open a record."""
        self.chosen(message.record)

    # --- keys

    def on_key(self, event: Key) -> None:
        """Give keys that were typed ahead, before an input had the focus, to the input.

        An input stops the printable keys that reach it; the others come here in the order of typing.
        """
        if isinstance(self.focused, Input):
            if event.is_printable:
                event.stop()
                self.focused.post_message(event)
        elif event.key == "slash":
            event.stop()
            self.action_filter()

    def action_filter(self) -> None:
        """Open the filter."""
        self.open_input("filter")

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while the user types."""
        if message.input.id == "filter":
            self.query_one(Grid).narrow(message.value)
            self._about()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Back to the table; the filter stays."""
        if message.input.id == "filter":
            message.input.display = bool(message.value)
            self.set_focus(self.query_one(Grid))

    def open_input(self, name: str) -> None:
        """Open an input at once: the next key already belongs to it."""
        field = self.query_one(f"#{name}", Input)
        field.display = True
        self.set_focus(field)

    def close_input(self) -> bool:
        """Close an open input and drop its text; false where none was open."""
        for field in self.query(Input):
            if field.display:
                field.value = "" if field.id == "filter" else field.value
                field.display = False
                self.set_focus(self.query_one(Grid))
                return True
        return False

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.query_one(Grid).sort_next()
        self._about()

    def action_table(self, by: int) -> None:
        """Show the next table."""
        if self.result and self.result.tables:
            self._table = (self._table + by) % len(self.result.tables)
            self._show_table()

    def action_picture(self) -> None:
        """Show the pictures of the result."""
        from aiperf_analysis.tui.pictures import drawn

        result = self.result
        if result is None or not result.drawings:
            self.notify("This result has no picture.", markup=False)
            return
        plain = self.results.plain

        def lines(width: int) -> list[str]:
            pictures = (
                drawn(one, width, min(MOST_HEIGHT, max(LEAST_HEIGHT, width // 8)), plain=plain)
                for one in result.drawings
            )
            return [line for picture in pictures for line in [*picture, ""]]

        self.app.push_screen(TextScreen(f"{result.title}: pictures", lines))

    def action_notes(self) -> None:
        """Show assumptions, what was left out and the sources."""
        if self.result is not None:
            result, command = self.result, self.command()
            self.app.push_screen(TextScreen(f"{result.title}: notes", lambda _: notes(result, command)))

    def command(self) -> str:
        """The command that gives the same in a shell; empty for none."""
        return ""

    def action_again(self) -> None:
        """Read the rows again."""
        self.results.forget()
        self.read()


def notes(result: Result, command: str = "") -> list[str]:
    """What a result rests on, and what did not enter it."""
    found = [words(one) for one in result.summary]
    if command:
        found += ["", "the same in a shell:", f"  {command}"]
    if result.assumptions:
        found += ["", "assumptions:", *(f"- {words(one)}" for one in result.assumptions)]
    found += ["", f"left out: {len(result.left_out)}"]
    found += [f"- {words(f'{one.what} {one.verdict}')[:LONGEST]}: {words(one.reason)}" for one in result.left_out]
    found += ["", f"sources: {len(result.sources)}"]
    found += [f"- {words(one.path)[:LONGEST]}, {words(one.created[:19])} {words(one.hardware)}".rstrip()
              for one in result.sources]  # fmt: skip
    return found

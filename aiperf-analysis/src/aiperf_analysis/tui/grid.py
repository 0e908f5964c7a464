"""The table of the screens: a cursor, a filter and an order, quick with many thousands of rows.

Only the lines on the screen are made. Figures become texts when they are shown; the width of a column of figures is
that of its first records.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from aiperf_core.cli.tables import BAD, COLORS, GOOD, OPEN
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Cell, Column, Figure, Record, Table

GAP = 2
WIDEST, NARROWEST = 48, 16  # of a column of texts; wider where the screen has room
LONG = 200  # characters of either end of a text that are looked at
MEASURED = 200  # records that decide the width of a column of figures
HEAD = "grid--head"
STYLES = {GOOD: "grid--good", BAD: "grid--bad", OPEN: "grid--open"}


class Grid(ScrollView, can_focus=True):
    """A table. Posts `Highlighted` when the cursor moves, `Chosen` for Enter or a click on the cursor's line."""

    DEFAULT_CSS = """
    Grid { height: 1fr; min-height: 3; scrollbar-gutter: stable; scrollbar-size-vertical: 1; }
    Grid > .grid--head { text-style: bold; color: $text-muted; }
    Grid > .grid--cursor { background: $surface-lighten-2; text-style: bold; }
    Grid:focus > .grid--cursor { background: $primary; color: $text; text-style: bold; }
    Grid > .grid--good { color: $text-success; text-style: bold; }
    Grid > .grid--bad { color: $text-error; text-style: bold; }
    Grid > .grid--open { color: $text-warning; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--head", "grid--cursor", "grid--good", "grid--bad", "grid--open",
    }  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "end(-1)", "First", show=False),
        Binding("end,G", "end(1)", "Last", show=False),
        Binding("left", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
        Binding("enter", "choose", "Open"),
    ]

    class Highlighted(Message):
        """The cursor is on another record; None in an empty table."""

        def __init__(self, record: Record | None) -> None:
            self.record = record
            super().__init__()

    class Chosen(Message):
        """A record was opened."""

        def __init__(self, record: Record) -> None:
            self.record = record
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self._table = Table("", "", [], [])
        self._texts: list[str] = []
        self._shown: list[int] = []
        self._widths: list[int] = []
        self._cursor = 0
        self._order: tuple[str, bool] | None = None
        self._filter = ""
        self.marked: set[int] = set()

    # --- what is shown

    @property
    def total(self) -> int:
        """The number of records, filtered or not."""
        return len(self._table.records)

    @property
    def count(self) -> int:
        """The number of records that the filter leaves."""
        return len(self._shown)

    @property
    def record(self) -> Record | None:
        """The record under the cursor."""
        return self._table.records[self._shown[self._cursor]] if self._shown else None

    @property
    def marks(self) -> list[Record]:
        """The marked records, in the table's order."""
        return [self._table.records[one] for one in sorted(self.marked)]

    @property
    def order(self) -> str:
        """The title of the column that decides the order, with its direction; empty for the table's own order."""
        if self._order is None:
            return ""
        title = next(column.title for column in self._table.columns if column.key == self._order[0])
        return f"{title} {'down' if self._order[1] else 'up'}"

    def show_table(self, table: Table) -> None:
        """Show another table. A table of the same name keeps the cursor, the order and the filter."""
        same = table.name == self._table.name
        before = self.record if same else None
        self._table, self.marked = table, set()
        self._order = self._order if same else None
        self._texts = [_text_of(one, table.columns) for one in table.records]
        self._arrange()
        place = next(
            (at for at, one in enumerate(self._shown) if before and _same(table, table.records[one], before)), 0
        )
        self._lay_out()
        self._go(place)

    def narrow(self, text: str) -> None:
        """Show only records that contain all words of a text, in any case."""
        before = self._shown[self._cursor] if self._shown else None
        longer = bool(self._filter) and text.startswith(self._filter)
        self._filter = text
        if longer:  # what is shown keeps its order
            self._shown = self._matching(self._shown)
        else:
            self._arrange()
        self.virtual_size = Size(self._width, len(self._shown) + 1)
        self._go(self._shown.index(before) if before in self._shown else 0)

    def mark(self) -> None:
        """Mark the record under the cursor, or take its mark away."""
        if self._shown:
            self.marked ^= {self._shown[self._cursor]}
            self.refresh()

    def sort_next(self) -> None:
        """Sort by the next column: upward, downward, then the next; after the last in the table's own order."""
        keys = [(column.key, down) for column in self._table.columns for down in (False, True)]
        place = keys.index(self._order) + 1 if self._order in keys else 0
        self._order = keys[place] if place < len(keys) else None
        self._arrange()
        self._go(0)

    def _arrange(self) -> None:
        shown = self._matching(range(self.total))
        if self._order is not None:
            key, down = self._order
            cells = {at: _sortable(self._table.records[at].cells.get(key)) for at in shown}
            with_value = [at for at in shown if cells[at] is not None]
            without = [at for at in shown if cells[at] is None]
            with_value.sort(key=lambda at: cells[at] or (0, 0.0, ""), reverse=down)
            shown = with_value + without
        self._shown = shown

    def _matching(self, places: Sequence[int]) -> list[int]:
        parts = self._filter.lower().split()
        for part in parts:
            places = [at for at in places if part in self._texts[at]]
        return list(places)

    # --- layout

    @property
    def _room(self) -> Size:
        """The size without scroll bars; `size` has them."""
        return self.scrollable_content_region.size

    def on_resize(self) -> None:
        """Fit the columns to the new width, and keep the cursor in sight."""
        self._lay_out()
        self._reveal()

    def _lay_out(self) -> None:
        wanted = [self._natural(one) for one in self._table.columns]
        natural = [min(WIDEST, one) for one in wanted]
        over = sum(natural) + GAP * (len(natural) - 1) - max(1, self._room.width)
        texts = [at for at, column in enumerate(self._table.columns) if column.form == "text"]
        while over > 0 and (wide := [at for at in texts if natural[at] > NARROWEST]):
            longest = max(wide, key=lambda at: natural[at])
            natural[longest] -= 1
            over -= 1
        for at in texts:  # what is left over goes to texts that would be cut off
            more = max(0, min(wanted[at] - natural[at], -over))
            natural[at] += more
            over += more
        self._widths = natural
        self.virtual_size = Size(self._width, len(self._shown) + 1)
        self.refresh()

    def _natural(self, column: Column) -> int:
        cells = [one.cells.get(column.key) for one in self._table.records]
        if column.form == "text":
            longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
            others = max(
                (len(cell_text.whole(cell)) for cell in cells[:MEASURED] if not isinstance(cell, str)), default=0
            )
            return max(cell_len(words(column.title)), longest, others)
        longest = max((cell_len(cell_text.whole(cell)) for cell in cells[:MEASURED]), default=0)
        return max(cell_len(words(column.title)), longest)

    @property
    def _width(self) -> int:
        return sum(self._widths) + GAP * (len(self._widths) - 1)

    # --- drawing

    def render_line(self, y: int) -> Strip:
        """The head, or the line of a record. The first column stays when the others are moved sideways."""
        width = self._room.width
        if not self._table.columns:
            return Strip.blank(width, self.rich_style)
        if y == 0:
            return self._line([words(one.title) for one in self._table.columns], HEAD, width)
        at = self.scroll_offset.y + y - 1
        if at >= len(self._shown):
            told = "nothing matches the filter" if self._filter else "none"
            text = told if not self._shown and y == 1 else ""
            return Strip([Segment(text, self.rich_style)]).adjust_cell_length(width, self.rich_style)
        number = self._shown[at]
        record = self._table.records[number]
        cells = [self._cell(record.cells.get(one.key)) for one in self._table.columns]
        if number in self.marked:
            cells[0] = f"* {cells[0]}"
        return self._line(cells, "grid--cursor" if at == self._cursor else None, width)

    def _cell(self, cell: Cell) -> str:
        # A foreign name may be thousands of characters long: no more is looked at than may be shown.
        if isinstance(cell, str) and len(cell) > LONG:
            cell = f"{cell[:LONG]} {cell[-LONG:]}"
        return cell_text.whole(cell)

    def _line(self, cells: Sequence[str], style_name: str | None, width: int) -> Strip:
        base = self.rich_style
        style = base + self.get_component_rich_style(style_name) if style_name else base
        segments: list[Segment] = []
        begin = self._widths[0] + GAP  # of the columns that move
        at = 0
        for column, text, wide in zip(self._table.columns, cells, self._widths, strict=True):
            place = max(at, begin) if segments else 0
            room = min(at + wide, width) - place
            if room > 0:
                is_cut = at < place or room < wide
                if is_cut and (at < place or column.form == "figure"):
                    text = "…"  # a part of a figure would read as another
                is_name = not segments and style_name != HEAD
                shown = _fitted(text, room, right=column.form == "figure" and not is_cut, name=is_name)
                color = COLORS.get(text.split(" ", 1)[0]) if column.form == "verdict" and style_name is None else None
                own: Style = base + self.get_component_rich_style(STYLES[color]) if color else style
                segments += [Segment(shown, own), Segment(" " * GAP, style)]
            at += wide + GAP
            if at == begin:
                at -= self.scroll_offset.x
        return Strip(segments).adjust_cell_length(width, style)

    # --- moving

    def _go(self, place: int) -> None:
        self._cursor = min(max(0, place), max(0, len(self._shown) - 1))
        self._reveal()
        self.refresh()
        self.post_message(self.Highlighted(self.record))

    def _reveal(self) -> None:
        """Scroll as far as the cursor needs."""
        top, room = self.scroll_offset.y, max(1, self._room.height - 1)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, force=True, immediate=True)
        elif self._cursor >= top + room:
            self.scroll_to(y=self._cursor - room + 1, animate=False, force=True, immediate=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by lines."""
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self._go(self._cursor + by * max(1, self._room.height - 2))

    def action_end(self, which: int) -> None:
        """Move the cursor to the first or the last record."""
        self._go(0 if which < 0 else len(self._shown) - 1)

    def action_sideways(self, by: int) -> None:
        """Show further columns: the next, or the one before, becomes the first beside the names."""
        begins = [sum(self._widths[1:at]) + GAP * (at - 1) for at in range(1, len(self._widths))]
        here = self.scroll_offset.x
        beyond = [one for one in begins if one > here] if by > 0 else [one for one in reversed(begins) if one < here]
        if beyond:
            self.scroll_to(x=beyond[0], animate=False, force=True, immediate=True)
            self.refresh()

    def action_choose(self) -> None:
        """Open the record under the cursor."""
        if (record := self.record) is not None:
            self.post_message(self.Chosen(record))

    def on_click(self, event: Click) -> None:
        """Move the cursor to a line; open the record of the line that it is already on."""
        at = self.scroll_offset.y + event.y - 1
        if event.y < 1 or at >= len(self._shown):
            return
        if at == self._cursor:
            self.action_choose()
        else:
            self._go(at)


def _fitted(text: str, width: int, *, right: bool, name: bool) -> str:
    """A text in exactly this many cells. Of a long name the end is kept, which tells it from its neighbours."""
    long = cell_len(text)
    if long > width:
        if name and text.isascii():
            head = width // 3
            return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"
        return f"{set_cell_size(text, width - 1)}…"
    return " " * (width - long) + text if right else text + " " * (width - long)


def _text_of(record: Record, columns: Sequence[Column]) -> str:
    """What the filter looks at: the texts of a record that are shown, not its figures."""
    cells = [record.cells.get(one.key) for one in columns]
    return "\n".join(cell for cell in cells if isinstance(cell, str)).lower()


def _same(table: Table, one: Record, other: Record) -> bool:
    return one.origins == other.origins and _text_of(one, table.columns) == _text_of(other, table.columns)


def _sortable(cell: Cell) -> tuple[int, float, str] | None:
    value = cell.value if isinstance(cell, Figure) else cell
    if isinstance(value, str):
        return (1, 0.0, value.lower()) if value else None
    return None if value is None or not math.isfinite(value) else (0, float(value), "")

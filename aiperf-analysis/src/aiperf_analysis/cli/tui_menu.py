"""The numbered menu of `aiperf tui --simple`: plain lines, for dumb terminals, pipes and screen readers."""

import shlex
import sys
from collections.abc import Callable, Sequence

import click

from aiperf_analysis.selection import Entry, Measured, Selection
from aiperf_analysis.tui import pages, samples
from aiperf_analysis.tui.asking import ask, command_line
from aiperf_analysis.tui.records import record_lines
from aiperf_analysis.tui.source import Source, name_of
from aiperf_core.cli import result_screen
from aiperf_core.cli.tables import print_text, room
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.report.result import Result

WIDTH = 76  # of the samples in a pipe
MOST_LISTED = 40  # runs or rows in a list to choose from; a part of a name finds the others


class _Ended(Exception):
    """The input ended, or the user quits."""


class Menu:
    """The menu. An error of a choice is printed, and the menu goes on; the end of the input ends it."""

    def __init__(self, plugins: Plugins, source: Source) -> None:
        self.plugins, self.source = plugins, source
        self._selection: Selection | None = None
        self.choices: Sequence[tuple[str, Callable[[], None]]] = (
            ("runs", lambda: result_screen.show(pages.runs(self.rows()))),
            ("a run", self.run),
            ("rows of all runs", lambda: result_screen.show(pages.rows(self.rows()))),
            ("a row and its samples", self.row),
            ("compare two runs", self.compare),
            ("history of a target", self.history),
            ("Pareto front", lambda: self.analysis("pareto", "")),
            ("any analysis", self.any_analysis),
            ("machines", lambda: result_screen.show(pages.machines(self.rows()))),
            ("live run", self.live),
            ("checklist", lambda: result_screen.show(pages.checklist(self.rows()))),
            ("read the results again", self.again),
        )

    def serve(self) -> ExitCode:
        """Ask for choices until the input ends or the user quits."""
        click.echo(f"results of {self.source.name}")
        try:
            self.show()
            while True:
                self.choose(self.asked("choice (0 quits, ? shows the menu)"))
        except _Ended:
            return ExitCode.OK

    def show(self) -> None:
        """Print the menu."""
        for number, (name, _) in enumerate(self.choices, 1):
            click.echo(f"{number:3} {name}")
        click.echo("  0 quit")

    def choose(self, text: str) -> None:
        """Do what a number of the menu says."""
        if text in ("0", "q", "quit"):
            raise _Ended
        if text in ("", "?"):
            self.show()
            return
        if not text.isdecimal() or not 1 <= int(text) <= len(self.choices):
            print_text(f"{words(text)[:80]!r} is no choice. Type a number from 0 to {len(self.choices)}.")
            return
        try:
            self.choices[int(text) - 1][1]()
        except AiperfError as error:
            print_text(words(str(error)))

    def asked(self, question: str) -> str:
        """A line of the user, without blanks around it. Raises _Ended at the end of the input."""
        click.echo(f"{question}: ", nl=False)
        line = sys.stdin.readline()
        if not line:
            click.echo("")
            raise _Ended
        return line.strip()

    def rows(self) -> Selection:
        """The rows, read once."""
        if self._selection is None:
            self._selection = self.source.read()
        return self._selection

    def again(self) -> None:
        """Read the rows again."""
        self._selection = None
        click.echo(f"read: {len(self.rows().runs)} runs")

    # --- choosing by a number or a part of a name

    def chosen(self, what: str, names: Sequence[str]) -> int | None:
        """The place of a name that the user chooses by its number or a part of it; None for an empty line."""
        for number, name in enumerate(names[:MOST_LISTED], 1):
            click.echo(f"{number:3} {words(name)[:200]}")
        if len(names) > MOST_LISTED:
            click.echo(f"and {len(names) - MOST_LISTED} more, by a part of the name")
        text = self.asked(f"{what} (a number or a part of the name; empty goes back)")
        if not text:
            return None
        if text.isdecimal() and 1 <= int(text) <= len(names):
            return int(text) - 1
        found = [at for at, name in enumerate(names) if text in name]
        exact = [at for at in found if names[at] == text]
        if len(exact or found) != 1:
            raise UsageError(
                f"{words(text)!r} is in {len(found)} names; a number or a part of a single name is needed."
            )
        return (exact or found)[0]

    def chosen_run(self, what: str) -> Measured | None:
        """A run that the user chooses."""
        runs = self.rows().runs
        at = self.chosen(what, [name_of(one) for one in runs])
        return None if at is None else runs[at]

    def chosen_row(self, run: Measured) -> Entry | None:
        """A row of a run that the user chooses."""
        entries = [one for one in self.rows().every if one.run is run]
        at = self.chosen("row", [one.name for one in entries])
        return None if at is None else entries[at]

    # --- choices

    def run(self) -> None:
        """Show a run."""
        if (run := self.chosen_run("run")) is not None:
            result_screen.show(pages.run(self.rows(), run.id))

    def row(self) -> None:
        """Show a row and its samples."""
        run = self.chosen_run("run")
        entry = self.chosen_row(run) if run is not None else None
        if entry is not None:
            lines = [*record_lines(pages.ROW_COLUMNS, pages.row_record(entry)), ""]
            lines += samples.lines(entry, min(room() or WIDTH, WIDTH), plain=True)
            click.echo("\n".join(lines))

    def compare(self) -> None:
        """Compare two runs."""
        left = self.chosen_run("left run")
        right = self.chosen_run("right run") if left is not None else None
        if left is not None and right is not None:
            result_screen.show(pages.comparison(self.rows(), left.id, right.id))

    def history(self) -> None:
        """Show the history of a target."""
        names = sorted({one.result.target for one in self.rows().every})
        if (at := self.chosen("target", names)) is not None:
            self.analysis("history", f"--target {shlex.quote(names[at])}")

    def any_analysis(self) -> None:
        """Show an analysis with options."""
        names = sorted(self.plugins.analyses)
        at = self.chosen("analysis", [f"{one}: {self.plugins.analyses[one].record.summary}" for one in names])
        if at is not None:
            self.analysis(names[at], self.asked(f"options, as of aiperf analyze {names[at]} (empty for none)"))

    def analysis(self, name: str, options: str) -> None:
        """Show an analysis, the messages of its pictures, and the command that gives the same."""
        installed = self.plugins.analyses.get(name)
        if installed is None:
            raise AiperfError(
                f"the analysis '{name}' is not installed. Install it, in a clone of aiperf: pip install -e "
                "./aiperf-analysis"
            )
        result: Result = ask(installed, options, self.rows)
        result_screen.show(result)
        for one in result.drawings:
            print_text(f"picture {words(one.title)}: {words(one.message)}")
        print_text(f"the same in a shell: {command_line(installed.record, options, self.source)}")

    def live(self) -> None:
        """Show the runs that are going on."""
        from aiperf_analysis.live.shown import every

        result_screen.show(every())

"""The loop of `aiperf watch` and `aiperf judge --watch`: measure, wait for a saved file, measure again."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from attrs import define, field, frozen
from rich.text import Text

from aiperf_core.cli import output
from aiperf_core.cli.edited import Edits
from aiperf_core.cli.resuming import INTERRUPTED, print_resume_hint, run_to_end
from aiperf_core.cli.run_view import RunView, print_compact, print_result, print_where
from aiperf_core.cli.screen import Screen
from aiperf_core.declared_code import CODE
from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.folders import cache_folder
from aiperf_core.harness.run.bundle_run import BundleRun
from aiperf_core.names import words
from aiperf_core.render.look import Look
from aiperf_core.render.notes import reasons_of
from aiperf_core.render.row_columns import DEFAULT
from aiperf_core.render.summary import Finished, changes, course, headline
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult

LOOK_EVERY_S = 0.02
# An editor writes a file in parts: it must stay unchanged for this long.
SETTLED_S = 0.04
# Verdicts that stay on the screen.
SHOWN = 5
_SUFFIXES = (".py", ".cu", ".cuh", ".c", ".h", ".json", ".jsonl", ".toml")


@frozen
class Files:
    """The files whose change starts a measurement.

    roots: files, and folders with the files of a benchmark.
    """

    roots: Sequence[Path]

    def texts(self) -> dict[Path, str]:
        """The text of each file with code."""
        found = {}
        for path in self._paths():
            if path.suffix in CODE:
                with contextlib.suppress(OSError, UnicodeDecodeError):  # an editor replaces it
                    found[path] = path.read_text("utf-8")
        return found

    def state(self) -> Mapping[Path, tuple[int, int]]:
        """Time and size of each file that is there."""
        found = {}
        for path in self._paths():
            try:
                stat = path.stat()
            except OSError:  # an editor replaces it
                continue
            found[path] = (stat.st_mtime_ns, stat.st_size)
        return found

    def _paths(self) -> Iterator[Path]:
        for root in self.roots:
            if not root.is_dir():
                yield root
                continue
            for folder, folders, names in os.walk(root):
                folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
                yield from (Path(folder, name) for name in names if name.endswith(_SUFFIXES))

    def wait(self, before: Mapping[Path, tuple[int, int]]) -> list[Path]:
        """Wait until a file differs from `before` and stays as it is; the changed files."""
        while (now := self.state()) == before:
            time.sleep(LOOK_EVERY_S)
        while True:
            time.sleep(SETTLED_S)
            settled, now = now, self.state()
            if settled == now:
                return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))


@define(eq=False)
class Watch:
    """Measures whenever a file is saved, until Ctrl-C.

    files: what is watched.
    measure: the run of the present files, which writes its bundle to a folder. Raises `AiperfError` for files that
        cannot be measured.
    note: told of each run that has results.
    between: called after each verdict, while a save is waited for.
    edits: tells which implementations were edited; None where all files belong to one.
    out: where the bundle of the last verdict is moved at the end; None for a new folder in `artifacts/runs`.
    """

    name: str
    files: Files
    measure: Callable[[RunView, Path], BundleRun]
    screen: Screen
    err: Screen
    out: Path | None
    quiet: bool
    note: Callable[[BundleRun], None] = lambda _: None
    between: Callable[[], None] = lambda: None
    edits: Edits | None = None
    _seen: deque[Text] = field(factory=lambda: deque(maxlen=SHOWN), init=False)
    _history: dict[str, deque[Finished]] = field(factory=dict, init=False)
    _last: BundleRun | None = field(default=None, init=False)
    _folder: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="aiperf-watch-")), init=False)
    _count: int = field(default=0, init=False)

    def until_interrupted(self) -> int:
        """Measure until Ctrl-C; the exit code of the last verdict."""
        try:
            while True:
                before = self.files.state()
                self._once()
                output.check()
                self._say(Text(f"watching {words(self.name)}; Ctrl-C ends", "dim"))
                self.between()
                changed = self.files.wait(before)
                if not self.screen.terminal:
                    self._say(Text(f"saved: {', '.join(words(path.name) for path in changed[:3])}"))
        except KeyboardInterrupt:
            return self._end()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _once(self) -> None:
        """Measure the files as they are, and show the result or what is wrong with them."""
        self._count += 1
        began, view = time.monotonic(), RunView(self.err, quiet=self.quiet or not self.err.terminal)
        edited = self.edits(self.files.texts()) if self.edits else []
        try:
            with _turn(self._say):
                run = self.measure(view, self._folder / str(self._count))
                with view:
                    code = run_to_end(run, None)
        except AiperfError as error:
            self._show(None, _at_present().append(words(str(error)), "red"))
            return
        before = self._last
        if run.results:
            self._last = run
            self.note(run)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        line = _at_present()
        if run.results:
            result = run.results[-1]
            line.append_text(self._courses(edited, result) or _told(before, result, self.screen.look))
        self._show(run, line.append(f"  ({time.monotonic() - began:.1f} s)", "dim"))

    def _courses(self, edited: Sequence[str], result: Finished) -> Text:
        """The verdicts so far of the edited implementations; empty for the first result."""
        look, parts = self.screen.look, []
        if not self._history and isinstance(result, TargetResult):
            self._history = {row.name: deque([result], SHOWN) for row in result.rows}
            return Text()
        for name in edited:
            if isinstance(result, TargetResult) and name not in {row.name for row in result.rows}:
                parts.append(Text(f"{words(name)} is not measured on {result.device}"))
                continue
            history = self._history.setdefault(name, deque(maxlen=SHOWN))
            history.append(result)
            parts.append(course([*history], name, look))
        return Text(", ").join(parts)

    def _show(self, run: BundleRun | None, line: Text) -> None:
        """Show a result in place of the last one, below it the last verdicts; without a terminal, below each other."""
        if self.screen.terminal:
            self.screen.console.clear()
        if run is not None and run.results:
            result = run.results[-1]
            if self.screen.terminal and isinstance(result, TargetResult):
                print_compact(self.screen, run.results, DEFAULT)
                self._print_reasons(result)
            else:
                print_result(self.screen, result)
        for earlier in self._seen if self.screen.terminal else ():
            self.screen.print_line(earlier)
        self.screen.print_line(line)
        self._seen.append(line)

    def _print_reasons(self, result: TargetResult) -> None:
        """Why rows are not believed, or were not compared."""
        reasons = reasons_of(result, self.screen.look)
        if reasons.row_count:
            self.screen.print(reasons)

    def _say(self, line: Text) -> None:
        if not self.quiet:
            self.err.print_line(line)

    def _end(self) -> int:
        """Keep the bundle of the last run, and say where it lies."""
        run = self._last
        if run is None or run.bundle is None:
            click.echo("interrupted before the first verdict; no results are kept", err=True)
            return ExitCode.FAILED
        kept = Bundle.create_at(self.out) if self.out else Bundle.create(name=self.name)
        shutil.copytree(run.bundle.path, kept.path, dirs_exist_ok=True)
        print_where(self.screen, kept.path)
        run.bundle = kept
        print_resume_hint(run)
        return ExitCode.OK


def _told(before: BundleRun | None, result: Finished, look: Look) -> Text:
    """The variants that changed since the result before; without any, the headline."""
    earlier = before.results[-1] if before is not None else None
    if isinstance(earlier, TargetResult) and isinstance(result, TargetResult) and earlier.target == result.target:
        return changes(earlier, result, look) or headline(result, look)
    return headline(result, look)


def _at_present() -> Text:
    """The beginning of the line of a verdict, or of an error in its place."""
    return Text(time.strftime("%H:%M:%S "))


@contextlib.contextmanager
def _turn(say: Callable[[Text], None]) -> Iterator[None]:
    """Wait until no other watcher on this machine measures: two at once would disturb each other."""
    path = cache_folder() / "watch.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a")
    except OSError as error:
        raise AiperfError(
            f"'{path}' cannot be opened: {error.strerror}. Set AIPERF_CACHE_DIR to a writable folder."
        ) from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(Text("another watcher measures on this machine; waiting for its end", "dim"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""Where the results come from: a folder of bundles, or a store. Both have the interface of `Source`.

An id names a run: the seal of its bundle, or of a bundle without a seal a hash of its place. Ids are looked up among
the bundles that there are; no path is ever made from one.
"""

import hashlib
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from attrs import frozen

from aiperf_analysis import lines
from aiperf_analysis.filters import Filters
from aiperf_analysis.lines import Lines, Newest, RowLine, RunLine, run_id
from aiperf_analysis.selection import Measured, Read, Selection, gathered, read_bundle
from aiperf_analysis.sources import courses
from aiperf_analysis.sources.courses import RunCourse
from aiperf_analysis.sources.errors import GoneError, NotFoundError
from aiperf_core.names import words
from aiperf_core.report.result import LeftOut
from aiperf_core.results.filenames import MANIFEST, TARGETS
from aiperf_core.results.listing import Run, Unreadable, bundles, listed
from aiperf_core.results.models import Document

if TYPE_CHECKING:
    from aiperf_analysis.store.database import Database

Answer = TypeVar("Answer")
_LOG = logging.getLogger("aiperf.dashboard")
# A folder is looked at again after this time; requests in between see the same.
LOOK_S = 0.5
SELECTIONS = 8  # that are kept
MOST_RESULTS = 5_000  # of a store that are read at once, the newest; lists are made by SQL, and have all
MOST_POINTS = 200_000  # of a series of a store

_SEAL_BEGIN = re.compile("[0-9a-f]{8,64}")
ALL: Sequence[tuple[str | None, str | None]] = ((None, None),)


@frozen
class Reading:
    """Progress of the reading of a folder: the number of bundles that are read, of all."""

    bundles: int = 0
    total: int = 0


class Source(Protocol):
    """Where results come from.

    name: as a reader knows it, without a password.
    arguments: what names it on the command line.
    reading: the progress while `state` reads for the first time; None where nothing is read before a question.
    """

    @property
    def reading(self) -> Reading | None:
        """Progress of the first reading."""

    @property
    def name(self) -> str:
        """As a reader knows it."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What names it on the command line, such as `--in FOLDER`."""

    def state(self) -> str:
        """A text that changes whenever the results change. Raises GoneError where the source is gone."""

    def selection(self, filters: Filters = Filters()) -> Selection:  # noqa: B008  # it is frozen
        """The rows that match. Raises GoneError where the source is gone."""

    def rows(self, filters: Filters, words: Sequence[str]) -> Lines[RowLine]:
        """The rows that match and whose texts contain all words, which are in small letters."""

    def runs(self, filters: Filters) -> Lines[RunLine]:
        """The runs that match, newest first."""

    def newest(self, filters: Filters, most: int) -> Newest:
        """The newest results that match; at most `most` rows that are not trusted."""

    def contents(self) -> frozenset[str]:
        """The tiers of the results, and which of `energy`, `profiles` and the kinds of documents there are."""

    def of_run(self, asked: str) -> Selection:
        """A selection that has the run with this id, or with this begin of an id, if there is one."""

    def rows_without_folder(self, asked: str) -> Sequence[RowLine]:
        """Rows that the store knows of a run with this begin of an id, although its files cannot be read."""

    def series(self, digest: str) -> RunCourse | None:
        """The believed runs of the series with this key; None where there is none."""

    def document(self, run: Measured, kind: str, name: str) -> Document:
        """A document of another package in a run. Raises BundleError."""


def id_of(run: Measured) -> str:
    """The id of a run in addresses."""
    return run_id(run.id)


def run_of(selection: Selection, asked: str) -> Measured:
    """The run with an id, or with the only id that begins so. Raises NotFoundError."""
    found = [run for run in selection.runs if id_of(run) == asked]
    if not found and len(asked) >= 8:
        found = [run for run in selection.runs if id_of(run).startswith(asked)]
    if not selection.runs and len(selection.unreadable) == 1:
        raise NotFoundError(f"{selection.unreadable[0].what}: {selection.unreadable[0].reason}. The runs: /runs")
    if len(found) != 1:
        what = "is the start of several ids" if found else "is the id of no run here"
        raise NotFoundError(f"'{words(asked[:80])}' {what}. The runs: /runs")
    return found[0]


@frozen
class _Kept:
    fingerprint: tuple[object, ...]
    listed: Run | Unreadable
    read: Read | LeftOut


class _Selections:
    """The last selections of the present state of a source."""

    def __init__(self) -> None:
        self._state = ""
        self._kept: OrderedDict[Filters, Selection] = OrderedDict()

    def get(self, state: str, filters: Filters, make: Callable[[], Selection]) -> Selection:
        """The selection of these filters, which is made where it is not kept."""
        if state != self._state:
            self._kept.clear()
            self._state = state
        if filters not in self._kept:
            self._kept[filters] = make()
            while len(self._kept) > SELECTIONS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(filters)
        return self._kept[filters]


class FolderSource:
    """A folder of bundles, or a bundle. A bundle is read again only when a file of it changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reading: Reading | None = Reading()
        self._lock = threading.Lock()
        self._looked = -LOOK_S
        self._kept: dict[Path, _Kept] = {}
        self._order: list[Path] = []
        self._state = ""
        self._selections = _Selections()

    @property
    def name(self) -> str:
        """The folder."""
        return words(str(self.root))

    @property
    def arguments(self) -> tuple[str, ...]:
        """`--in FOLDER`."""
        return ("--in", str(self.root))

    def state(self) -> str:
        """The state after a look at the folder, if the last one is not too young."""
        with self._lock:
            self._look()
            return self._state

    def selection(self, filters: Filters = Filters()) -> Selection:  # noqa: B008
        """The rows that match."""
        with self._lock:
            self._look()
            found = [(self._kept[path].read, ALL) for path in self._order]
            return self._selections.get(self._state, filters, lambda: _filtered(found, filters))

    def rows(self, filters: Filters, words: Sequence[str]) -> Lines[RowLine]:
        """The rows that match."""
        return lines.rows_of_selection(self.selection(filters), words)

    def runs(self, filters: Filters) -> Lines[RunLine]:
        """The runs that match."""
        return lines.runs_of_selection(self.selection(filters), filters)

    def newest(self, filters: Filters, most: int) -> Newest:
        """The newest results that match."""
        return lines.newest_of_selection(self.selection(filters), most)

    def contents(self) -> frozenset[str]:
        """The contents of all results."""
        return lines.contents_of(self.selection())

    def of_run(self, asked: str) -> Selection:
        """All rows: a folder is read whole."""
        del asked
        return self.selection()

    def rows_without_folder(self, asked: str) -> Sequence[RowLine]:
        """None: a folder is all that is known."""
        del asked
        return ()

    def series(self, digest: str) -> RunCourse | None:
        """The believed runs of the series with this key."""
        return courses.of_selection(self.selection(), digest)

    def document(self, run: Measured, kind: str, name: str) -> Document:
        """A document of another package in a run. Raises BundleError."""
        assert run.bundle is not None  # only runs of a store lack it
        return run.bundle.document(kind, name)

    def forget(self) -> None:
        """Look at the folder anew with the next request."""
        with self._lock:
            self._looked = -LOOK_S

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        before, self._kept = self._kept, {}

        def read(path: Path) -> Run | Unreadable:
            found = _fingerprint(path)
            kept = before.get(path)
            if kept is None or kept.fingerprint != found:
                kept = _Kept(found, *_read(path))
            self._kept[path] = kept
            self.reading = Reading(len(self._kept), total)
            return kept.listed

        try:
            if not self.root.is_dir():
                raise FileNotFoundError(2, "it does not exist")
            total = len(os.listdir(self.root))
            listing = [read(self.root)] if (self.root / MANIFEST).exists() else bundles(self.root, read)
            self._order = [one.path for one in listing]
        except OSError as error:
            self._kept, self._order = {}, []
            raise GoneError(
                f"the folder '{words(str(self.root))}' cannot be read: {error.strerror or error}. Restore it, or start "
                "with another folder."
            ) from error
        self._looked = time.monotonic()
        text = repr([(str(path), self._kept[path].fingerprint) for path in self._order])
        self._state = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]


def _read(path: Path) -> tuple[Run | Unreadable, Read | LeftOut]:
    """A bundle's place in the order of all, and its content. Whatever its files do, the other bundles stay readable."""
    try:
        found = read_bundle(path)
        # Of a bundle that was read, the manifest is kept once.
        return Run(path, found.run.manifest, ()) if isinstance(found, Read) else listed(path), found
    except OSError as error:
        reason = f"it cannot be read: {error.strerror or error}"
    except Exception as error:
        _LOG.error("reading %r", str(path), exc_info=error)
        reason = "an error of aiperf; the server's output has the details"
    return Unreadable(path, reason), LeftOut(words(path.name), "", reason)


def _fingerprint(path: Path) -> tuple[object, ...]:
    """What changes whenever a file of a bundle does: sizes and times of its manifest and of its results."""
    # With `os` rather than `pathlib`, which takes five times as long: a thousand bundles are looked at twice a second.
    place, found = str(path), list[object]()
    try:
        found.append(_stamp(os.stat(f"{place}/{MANIFEST}")))
        for name in (TARGETS, "load", "fleet"):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{place}/{name}") as files:
                found += sorted((one.name, *_stamp(one.stat())) for one in files)
    except OSError as error:
        found.append(str(error))
    return tuple(found)


def _stamp(seen: os.stat_result) -> tuple[int, int, int]:
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _filtered(
    found: list[tuple[Read | LeftOut, Sequence[tuple[str | None, str | None]]]], filters: Filters
) -> Selection:
    return gathered(
        found, targets=filters.targets, hardware=filters.hardware, device=filters.device, labels=dict(filters.labels)
    )


class StoreSource:
    """A store of figures, read by its URL."""

    reading: Reading | None = None

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._looked = -LOOK_S
        self._state = ""
        self._selections = _Selections()

    @property
    def name(self) -> str:
        """The URL without its password."""
        from aiperf_analysis.store.database import shown

        return shown(self.url)

    @property
    def arguments(self) -> tuple[str, ...]:
        """`--db URL`, without a password."""
        return ("--db", self.name)

    def state(self) -> str:
        """The state of the store, if the last look is not too young."""
        with self._lock:
            return self._look()

    def selection(self, filters: Filters = Filters()) -> Selection:  # noqa: B008
        """The rows that match."""
        from aiperf_analysis.store.reading import select

        def read() -> Selection:
            return select(
                self.url,
                targets=filters.targets,
                hardware=filters.hardware,
                device=filters.device,
                labels=dict(filters.labels),
                most=MOST_RESULTS,
            )

        with self._lock:
            return self._selections.get(self._look(), filters, read)

    def of_run(self, asked: str) -> Selection:
        """The rows of the runs whose id begins so; no others are read."""
        from aiperf_analysis.store.reading import select

        if not _SEAL_BEGIN.fullmatch(asked):
            return Selection([], [])
        with self._lock:
            self._look()
        return select(self.url, run=asked)

    def rows(self, filters: Filters, words: Sequence[str]) -> Lines[RowLine]:
        """The rows that match."""
        from aiperf_analysis.store import figures

        found = self.ask(lambda database: figures.matches(database, filters, words))
        return Lines(
            found.rows, lambda start, stop: self.ask(lambda database: figures.rows(database, found, start, stop))
        )

    def runs(self, filters: Filters) -> Lines[RunLine]:
        """The runs that match."""
        from aiperf_analysis.store import figures, listing

        found = self.ask(lambda database: figures.bundles(database, filters))
        return Lines(
            len(found),
            lambda start, stop: self.ask(lambda database: listing.run_lines(database, found[start:stop], filters)),
        )

    def newest(self, filters: Filters, most: int) -> Newest:
        """The newest results that match."""
        from aiperf_analysis.store import summaries

        return self.ask(lambda database: summaries.newest_results(database, filters, most))

    def contents(self) -> frozenset[str]:
        """The contents of the newest results."""
        from aiperf_analysis.store import summaries

        return self.ask(summaries.contents)

    def rows_without_folder(self, asked: str) -> Sequence[RowLine]:
        """The rows of a run, from the tables."""
        from aiperf_analysis.store import figures

        if not _SEAL_BEGIN.fullmatch(asked):
            return ()
        return self.ask(lambda database: figures.rows_of_bundle(database, asked))

    def series(self, digest: str) -> RunCourse | None:
        """The newest believed runs of the series with this key, at most `MOST_POINTS`."""
        from aiperf_analysis.store import figures

        def course(database: "Database") -> RunCourse | None:
            key = figures.key_of(database, digest)
            return courses.of_points(key, figures.series(database, digest, MOST_POINTS)) if key else None

        return self.ask(course)

    def document(self, run: Measured, kind: str, name: str) -> Document:
        """A document of another package in a run, of its folder or of the store. Raises BundleError."""
        from aiperf_analysis.store import reading

        if run.bundle is not None:
            return run.bundle.document(kind, name)
        return self.ask(lambda database: reading.document(database, run, kind, name))

    def ask(self, question: "Callable[[Database], Answer]") -> Answer:
        """The answer of the store. Raises GoneError where it cannot be read."""
        from aiperf_analysis.store.database import StoreError, opened

        try:
            with opened(self.url) as database:
                return question(database)
        except StoreError as error:
            raise GoneError(str(error)) from error

    def forget(self) -> None:
        """Look at the store anew with the next request."""
        with self._lock:
            self._looked = -LOOK_S

    def _look(self) -> str:
        from aiperf_analysis.store.figures import state

        if time.monotonic() - self._looked < LOOK_S:
            return self._state
        self._state = self.ask(state)
        self._looked = time.monotonic()
        return self._state

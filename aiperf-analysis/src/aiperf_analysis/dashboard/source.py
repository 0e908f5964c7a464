"""Where the results come from: a folder of bundles, or a store. Both have the interface of `Source`.

An id names a run: the seal of its bundle, or of a bundle without a seal a hash of its place. Ids are looked up among
the bundles that there are; no path is ever made from one.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from attrs import frozen

from aiperf_analysis.dashboard.asked import GoneError, NotFoundError
from aiperf_analysis.dashboard.filters import Filters
from aiperf_analysis.result import LeftOut
from aiperf_analysis.selection import Measured, Read, Selection, gathered, read_bundle
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.results.filenames import MANIFEST, TARGETS
from aiperf_core.results.listing import Run, Unreadable, bundles, listed

# A folder is looked at again after this time; requests in between see the same.
LOOK_S = 0.5
SELECTIONS = 8  # that are kept

ALL: Sequence[tuple[str | None, str | None]] = ((None, None),)


class Source(Protocol):
    """Where results come from.

    name: as a reader knows it, without a password.
    arguments: what names it on the command line.
    """

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


def id_of(run: Measured) -> str:
    """The id of a run in addresses."""
    return run_id(run.id)


def run_id(bundle: str) -> str:
    """The id of a run, from the seal or the path that an `Origin` has."""
    return bundle if is_seal(bundle) else f"open-{hashlib.sha256(bundle.encode(errors='replace')).hexdigest()[:24]}"


def is_seal(text: str) -> bool:
    """Whether a text is a seal."""
    return len(text) == 64 and all(one in "0123456789abcdef" for one in text)


def run_of(selection: Selection, asked: str) -> Measured:
    """The run with an id, or with the only id that begins so. Raises NotFoundError."""
    found = [run for run in selection.runs if id_of(run) == asked]
    if not found and len(asked) >= 8:
        found = [run for run in selection.runs if id_of(run).startswith(asked)]
    if len(found) != 1:
        what = "is the start of several ids" if found else "is the id of no run here"
        raise NotFoundError(f"'{words(asked[:80])}' {what}. The runs: /runs")
    return found[0]


@frozen
class _Kept:
    fingerprint: tuple[object, ...]
    listed: Run | Unreadable
    read: Read | LeftOut


class FolderSource:
    """A folder of bundles. A bundle is read again only when a file of it changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._looked = -LOOK_S
        self._kept: dict[Path, _Kept] = {}
        self._order: list[Path] = []
        self._state = ""
        self._selections: OrderedDict[tuple[str, Filters], Selection] = OrderedDict()

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
            key = (self._state, filters)
            if key not in self._selections:
                found = [(self._kept[path].read, ALL) for path in self._order]
                self._selections[key] = _filtered(found, filters)
                while len(self._selections) > SELECTIONS:
                    self._selections.popitem(last=False)
            self._selections.move_to_end(key)
            return self._selections[key]

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        before, self._kept = self._kept, {}

        def read(path: Path) -> Run | Unreadable:
            found = _fingerprint(path)
            kept = before.get(path)
            if kept is None or kept.fingerprint != found:
                kept = _Kept(found, _listed(path), _read(path))
            self._kept[path] = kept
            return kept.listed

        try:
            if not self.root.is_dir():
                raise FileNotFoundError(2, "it does not exist")
            self._order = [one.path for one in bundles(self.root, read)]
        except OSError as error:
            self._kept, self._order = {}, []
            raise GoneError(
                f"the folder '{words(str(self.root))}' cannot be read: {error.strerror or error}. Restore it, or start "
                "the dashboard with another folder."
            ) from error
        self._looked = time.monotonic()
        text = repr([(str(path), self._kept[path].fingerprint) for path in self._order])
        self._state = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]
        for key in [key for key in self._selections if key[0] != self._state]:
            del self._selections[key]


def _listed(path: Path) -> Run | Unreadable:
    try:
        return listed(path)
    except (OSError, AiperfError) as error:
        return Unreadable(path, str(error))


def _read(path: Path) -> Read | LeftOut:
    try:
        return read_bundle(path)
    except OSError as error:
        return LeftOut(words(path.name), "", f"it cannot be read: {error.strerror or error}")


def _fingerprint(path: Path) -> tuple[object, ...]:
    """What changes whenever a file of a bundle does: sizes and times of its manifest and of its results."""
    found: list[object] = []
    try:
        found.append(_stamp(path / MANIFEST))
        for folder in (path / TARGETS, path / "load", path / "fleet"):
            if folder.is_dir():
                found += sorted((one.name, *_stamp(one)) for one in folder.iterdir())
    except OSError as error:
        found.append(str(error))
    return tuple(found)


def _stamp(path: Path) -> tuple[int, int, int]:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _filtered(
    found: list[tuple[Read | LeftOut, Sequence[tuple[str | None, str | None]]]], filters: Filters
) -> Selection:
    return gathered(
        found, targets=filters.targets, hardware=filters.hardware, device=filters.device, labels=dict(filters.labels)
    )


class StoreSource:
    """A store of figures, read by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._looked = -LOOK_S
        self._state = ""
        self._selections: OrderedDict[tuple[str, Filters], Selection] = OrderedDict()

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

        with self._lock:
            key = (self._look(), filters)
            if key not in self._selections:
                self._selections[key] = select(
                    self.url,
                    targets=filters.targets,
                    hardware=filters.hardware,
                    device=filters.device,
                    labels=dict(filters.labels),
                )
                while len(self._selections) > SELECTIONS:
                    self._selections.popitem(last=False)
            self._selections.move_to_end(key)
            return self._selections[key]

    def forget(self) -> None:
        """Look at the store anew with the next request."""
        with self._lock:
            self._looked = -LOOK_S

    def _look(self) -> str:
        from aiperf_analysis.store.database import StoreError, opened
        from aiperf_analysis.store.reading import state

        if time.monotonic() - self._looked < LOOK_S:
            return self._state
        try:
            with opened(self.url) as database:
                self._state = state(database)
        except StoreError as error:
            self._selections.clear()
            raise GoneError(str(error)) from error
        self._looked = time.monotonic()
        for key in [key for key in self._selections if key[0] != self._state]:
            del self._selections[key]
        return self._state

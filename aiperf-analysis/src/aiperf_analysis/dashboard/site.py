"""What all requests share: the source, the plugins, and results of analyses, kept until the source changes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from attrs import frozen

from aiperf_analysis.dashboard import api, pages
from aiperf_analysis.dashboard.registry import Endpoint, Page, analyses
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.dashboard.streams import Streams
from aiperf_analysis.filters import Filters
from aiperf_analysis.live.watch import Watch
from aiperf_analysis.sizes import analyzed
from aiperf_analysis.sources.courses import RunCourse
from aiperf_analysis.sources.errors import GoneError, NotFoundError
from aiperf_analysis.sources.source import FolderSource, Reading, Source
from aiperf_core.analysis_options import from_texts, of_files, options_of, value_of
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.report.result import Result
from aiperf_core.targets import nearest

RESULTS = 64  # that are kept
KEPT = 32  # series with their pictures, lists of runs and of rows
AT_ONCE = 2  # analyses that compute at once; others wait

Texts = Mapping[str, Sequence[str]]


Kept = TypeVar("Kept")


@frozen
class _Failed:
    error: AiperfError


class Site:
    """The source, the settings and the plugins of a server."""

    def __init__(self, source: Source, settings: Settings, plugins: Plugins) -> None:
        self.source = source
        self.settings = settings
        self.plugins = plugins
        self.streams = Streams()
        self.watch = Watch()
        self._lock = threading.Lock()
        self._computing = threading.BoundedSemaphore(AT_ONCE)
        self._kept: OrderedDict[tuple[str, ...], Future[Any]] = OrderedDict()
        self._results: OrderedDict[tuple[object, ...], Result | _Failed] = OrderedDict()

    @cached_property
    def pages(self) -> list[Page]:
        """All pages."""
        return pages.every(self.plugins)

    @cached_property
    def endpoints(self) -> list[Endpoint]:
        """All endpoints."""
        return api.every(self.plugins)

    @cached_property
    def page_of_analysis(self) -> dict[str, Page]:
        """The page of each analysis that has one."""
        return {page.analysis: page for page in self.pages if page.analysis}

    @cached_property
    def _first_look(self) -> "Future[Any]":
        return _started(self.source.state)

    def reading(self) -> Reading | None:
        """Progress of the first reading of the source; None where it is over, which is waited for with patience."""
        wait([self._first_look], self.settings.patience_s)
        return None if self._first_look.done() else self.source.reading

    def fills(self, page: Page) -> bool:
        """True where there is content for a page of the navigation, and for all where the source is gone."""
        try:
            return not page.needs or not self.kept(("contents",), self._contents).isdisjoint(page.needs)
        except GoneError:
            return True

    def _contents(self) -> frozenset[str]:
        """The source's contents, and which of `traces`, `prices` and `goals` there are."""
        from aiperf_analysis.dashboard.pages import traces
        from aiperf_calc.prices.book import default_path

        found = set(self.source.contents())
        if isinstance(self.source, FolderSource) and traces.files(self.source.root):
            found.add("traces")
        with suppress(UsageError):  # of a user without a home
            if self.settings.given.get("cost") or default_path().exists():
                found.add("prices")
        if self.settings.given.get("targets"):
            found.add("goals")
        return frozenset(found)

    def options(self, name: str) -> type[Any]:
        """The class of options of an analysis. Raises NotFoundError for an unknown name."""
        return options_of(self._function(name))

    def _function(self, name: str) -> Any:
        if name not in analyses(self.plugins):
            known = analyses(self.plugins)
            raise NotFoundError(f"{words(name[:80])!r} is no analysis.{nearest(name, known)} Known: {', '.join(known)}")
        function = self.plugins.analyses[name].record.resolve()
        if of_files(function):
            raise NotFoundError(f"{name!r} is an analysis of files; see aiperf analyze {name} --help")
        return function

    def result(self, name: str, filters: Filters, texts: Texts) -> Result:
        """The result of an analysis, computed once for each state of the source.

        texts: options by name, as of a URL; options of command lines only are refused, and come from the settings.

        Raises what the analysis raises, UsageError for an unknown option, GoneError where the source is gone.
        """
        function = self._function(name)
        given = from_texts(options_of(function), {key: list(value) for key, value in texts.items()})
        options = self._with_given(name, given)
        key = (self.source.state(), name, filters, repr(options))
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return _opened(self._results[key])
        with self._computing:
            found = self._computed(function, filters, options)
        with self._lock:
            self._results[key] = found
            while len(self._results) > RESULTS:
                self._results.popitem(last=False)
        return _opened(found)

    def series(self, digest: str) -> RunCourse:
        """The believed runs of a series; the last ones stay in memory. Raises NotFoundError for an unknown key."""
        found = self.kept(("series", digest), lambda: self.source.series(digest))
        if found is None:
            raise NotFoundError(f"'{words(digest[:80])}' is the key of no series here. The series: /api/v1/series")
        return found

    def kept(self, name: tuple[str, ...], compute: Callable[[], Kept]) -> Kept:
        """What `compute` gives, which stays in memory under this name until the source changes."""
        future, is_new = self._future(name)
        if is_new:
            self._compute(future, compute)
        found: Kept = future.result()
        return found

    def soon(self, name: tuple[str, ...], compute: Callable[[], Kept]) -> Kept | None:
        """Return what `kept` gives; None where a page has no patience to wait for it, and a thread goes on."""
        future, is_new = self._future(name)
        if is_new:
            _started(lambda: self._compute(future, compute))
        with suppress(TimeoutError):
            found: Kept = future.result(self.settings.patience_s)
            return found
        return None

    def _future(self, name: tuple[str, ...]) -> "tuple[Future[Any], bool]":
        """The place of what is kept under a name, and whether it is new: its caller must then fill it."""
        key = (self.source.state(), *name)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key], False
            while len(self._kept) >= KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = Future()
            return self._kept[key], True

    def _compute(self, future: "Future[Any]", compute: Callable[[], Any]) -> None:
        """Fill a place. One that fails is not kept."""
        try:
            future.set_result(compute())
        except BaseException as error:
            with self._lock:
                self._kept = OrderedDict((key, one) for key, one in self._kept.items() if one is not future)
            future.set_exception(error)

    def _computed(self, function: Any, filters: Filters, options: Any) -> "Result | _Failed":
        try:
            return analyzed(function, self.source.selection(filters), options)
        except AiperfError as error:
            return _Failed(error)
        except (OverflowError, MemoryError, RecursionError) as error:
            return _Failed(UsageError(f"the analysis cannot compute with these options: {words(str(error))}"))

    def _with_given(self, name: str, options: Any) -> Any:
        """The options with those of the command line that started the server."""
        import attrs

        given = self.settings.given.get(name, {})
        fields = {one.name.replace("_", "-"): one for one in attrs.fields(type(options))}
        return attrs.evolve(
            options, **{fields[key].name: value_of(type(options), fields[key], text) for key, text in given.items()}
        )


def _opened(found: "Result | _Failed") -> Result:
    if isinstance(found, _Failed):
        raise found.error
    return found


def _started(compute: Callable[[], Any]) -> "Future[Any]":
    """The result of a function that runs in a thread, which ends with the server."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(compute())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future

"""Where the rows come from: a folder of bundles, or a store."""

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from aiperf_core.errors import AiperfError
from aiperf_core.names import words

if TYPE_CHECKING:
    from aiperf_analysis.selection import Measured, Selection
    from aiperf_analysis.sources.source import FolderSource, StoreSource


@frozen
class Source:
    """A folder, or a store by its URL, which then wins. It lists and reads as the dashboard does."""

    folder: Path
    url: str | None = field(default=None, repr=False)  # it may hold a password
    _shared: list["FolderSource | StoreSource"] = field(factory=list, init=False, repr=False, eq=False)

    @property
    def name(self) -> str:
        """As a reader knows it, without a password."""
        if self.url is None:
            return words(str(self.folder))
        from aiperf_analysis.store.database import shown

        return words(shown(self.url))

    @property
    def arguments(self) -> tuple[str, str]:
        """What names it on the command line of an analysis."""
        return ("--in", str(self.folder)) if self.url is None else ("--db", self.name)

    def read(self) -> "Selection":
        """All rows; a bundle is read again only where it changed.

        Raises AiperfError where the folder or the store cannot be read, or holds nothing.
        """
        from aiperf_analysis.selection import without_bundles
        from aiperf_analysis.sources.source import FolderSource, StoreSource

        if not self._shared:
            self._shared.append(FolderSource(self.folder) if self.url is None else StoreSource(self.url))
        shared = self._shared[0]
        shared.forget()
        if self.url is None and not self.folder.exists():
            raise without_bundles(self.folder)
        found = shared.selection()
        if self.url is None and not found.runs and not found.unreadable:
            raise without_bundles(self.folder)
        return found


def run_of(selection: "Selection", bundle: str) -> "Measured":
    """The run with an id. Raises AiperfError where it is gone."""
    for run in selection.runs:
        if run.id == bundle:
            return run
    raise AiperfError(f"the run '{words(bundle)[:40]}' is no longer there. Read the runs again.")


def name_of(run: "Measured") -> str:
    """The name of a run's folder."""
    return Path(run.path).name

"""Where the rows come from: a folder of bundles, or a store."""

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from aiperf_core.errors import AiperfError
from aiperf_core.names import words

if TYPE_CHECKING:
    from aiperf_analysis.selection import Measured, Selection


@frozen
class Source:
    """A folder, or a store by its URL, which then wins."""

    folder: Path
    url: str | None = field(default=None, repr=False)  # it may hold a password

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
        """All rows. Raises AiperfError where the folder or the store cannot be read, or holds nothing."""
        if self.url is not None:
            from aiperf_analysis.store.reading import select as select_stored

            return select_stored(self.url)
        from aiperf_analysis.selection import select

        try:
            return select(folder=self.folder)
        except OSError as error:
            raise AiperfError(
                f"'{self.name}' cannot be read: {error.strerror or error}. Restore the folder, then read it again."
            ) from error


def run_of(selection: "Selection", bundle: str) -> "Measured":
    """The run with an id. Raises AiperfError where it is gone."""
    for run in selection.runs:
        if run.id == bundle:
            return run
    raise AiperfError(f"the run '{words(bundle)[:40]}' is no longer there. Read the runs again.")


def name_of(run: "Measured") -> str:
    """The name of a run's folder."""
    return Path(run.path).name

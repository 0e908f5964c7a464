"""The folder of a fleet: its file, its lock, its bundles, and what goes to machines and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.names import words
from aiperf_core.results import lock
from aiperf_fleet.records import FILE

DEFAULT = Path("artifacts/fleets")
_CANCEL = "cancel"


@frozen
class Place:
    """A fleet's folder. An engine with a shared file system needs it there."""

    folder: Path

    @property
    def runs(self) -> Path:
        """The bundles, named by their tasks."""
        return self.folder / "runs"

    @property
    def exchange(self) -> Path:
        """Folder of the engines' files: scripts, logs, and delivered files until they are read."""
        return self.folder / "exchange"

    @property
    def own_bundle(self) -> Path:
        """The bundle of the fleet itself."""
        return self.folder / "bundle"

    def bundle(self, task: str) -> Path:
        """The bundle of a task."""
        return self.runs / task

    def result(self, task: str, attempt: int) -> Path:
        """The file that an attempt delivers."""
        return self.exchange / f"{task}.{attempt}.result"

    def make(self) -> None:
        """Make the folders. Raises AiperfError."""
        try:
            for one in (self.runs, self.exchange):
                one.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AiperfError(
                f"cannot make '{words(str(self.folder))}': {error.strerror or error}. Choose another --out."
            ) from error

    def check_new(self) -> None:
        """Raise UsageError where there is a fleet already."""
        if (self.folder / FILE).exists():
            shown = words(str(self.folder))
            raise UsageError(
                f"'{shown}' has a fleet. Continue it: aiperf fleet resume {shown}. A new one needs another --out."
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the fleet. Raises AiperfError where another process runs it, or the folder cannot be written."""
        try:
            with lock.held(self.exchange, required=False):
                yield
        except lock.HeldError as error:
            raise AiperfError(
                f"another process runs the fleet '{words(str(self.folder))}'. See it: aiperf fleet status "
                f"{words(str(self.folder))}. A second fleet needs a folder of its own: --out FOLDER"
            ) from error

    @property
    def is_held(self) -> bool:
        """Whether a process runs the fleet."""
        try:
            with lock.held(self.exchange, required=False):
                return False
        except lock.HeldError:
            return True
        except BundleError:
            return False

    @property
    def cancelled(self) -> bool:
        """Whether `aiperf fleet cancel` was called."""
        return (self.exchange / _CANCEL).exists()

    def cancel(self, wanted: bool = True) -> None:
        """Ask the process that runs the fleet to cancel it, or take that back. Raises AiperfError."""
        path = self.exchange / _CANCEL
        try:
            if wanted:
                path.touch()
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise AiperfError(
                f"cannot {'write' if wanted else 'remove'} '{words(str(path))}', which asks the process that runs the "
                f"fleet to cancel it: {error.strerror or error}."
            ) from error

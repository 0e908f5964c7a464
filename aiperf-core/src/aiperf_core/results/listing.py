"""The bundles in folders: which there are, which runs match a filter, and removing a bundle with nothing else."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.results.filenames import LOGS, MANIFEST, REPORTS, TARGETS
from aiperf_core.results.models import DOCUMENT_KINDS, Manifest
from aiperf_core.results.signing import SIGNATURE

# The contents of a bundle. Hidden files are those of a write that was killed.
KNOWN = frozenset({MANIFEST, SIGNATURE, TARGETS, LOGS, "profiles", *DOCUMENT_KINDS})
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)


@frozen
class Run:
    """A bundle whose manifest can be read.

    targets: the names of the targets that it has results of.
    documents: the documents of other packages, as `load/NAME`.
    """

    path: Path
    manifest: Manifest
    targets: tuple[str, ...]
    documents: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the bundle's folder."""
        return self.path.name

    @property
    def bundle(self) -> Bundle:
        """The bundle, for reading."""
        return Bundle(self.path)

    @property
    def created(self) -> datetime:
        """When the run began; the year 1 where the manifest does not say."""
        try:
            return moment(self.manifest.created)
        except ValueError:
            return _UNKNOWN_TIME


@frozen
class Unreadable:
    """A bundle that cannot be read, and why."""

    path: Path
    problem: str

    @property
    def name(self) -> str:
        """The name of the bundle's folder."""
        return self.path.name


def moment(text: str) -> datetime:
    """A time in ISO 8601; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def bundles(folder: Path, read: "Callable[[Path], Run | Unreadable] | None" = None) -> list[Run | Unreadable]:
    """The bundles in `folder`: runs, newest first, then unreadable ones. Other folders and links are left out.

    read: `listed`, or a function in its place that remembers bundles which have not changed.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        paths = [folder / entry.name for entry in entries if _may_be_bundle(entry)]
    return sorted(map(read or listed, paths), key=_order, reverse=True)


def _order(listed: Run | Unreadable) -> tuple[bool, datetime, str]:
    readable = isinstance(listed, Run)
    return readable, listed.created if isinstance(listed, Run) else _UNKNOWN_TIME, listed.name


def _may_be_bundle(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False) and os.path.exists(os.path.join(entry.path, MANIFEST))


def listed(path: Path) -> Run | Unreadable:
    """The bundle in a folder, or why it cannot be read."""
    bundle = Bundle(path)
    try:
        documents = tuple(f"{kind}/{name}" for kind in DOCUMENT_KINDS for name in bundle.documents(kind))
        return Run(path, bundle.manifest, tuple(bundle.targets), documents)
    except BundleError as error:
        return Unreadable(path, str(error))


class Store:
    """The bundles in one or several folders. Without a folder it is that of `aiperf run`, `artifacts/runs`."""

    def __init__(self, *roots: str | Path) -> None:
        self.roots = tuple(Path(root) for root in roots) or (DEFAULT_PARENT,)

    def runs(
        self,
        *,
        target: str | None = None,
        device: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        labels: Mapping[str, str] | None = None,
        complete: bool | None = None,
    ) -> list[Run]:
        """The runs that match every filter that is given, newest first.

        target: a target's name or a pattern, such as `ch07.*`; a run matches that has a result of it.
        device: `cpu`, `cuda` or a plugin's device on which one of these targets ran.
        since, until: bounds of the time at which a run began, both included; text is ISO 8601, without a zone UTC.
        labels: labels that the run was given with `--label`.
        complete: whether the run finished.

        Raises UsageError for a time that is not one. `unreadable` has the bundles that are left out.
        """
        start, end = (_bound(name, bound) for name, bound in (("since", since), ("until", until)))

        def fits(run: Run) -> bool:
            targets = [name for name in run.targets if target is None or fnmatchcase(name, target)]
            return (
                (target is None or bool(targets))
                and (start is None or run.created >= start)
                and (end is None or run.created <= end)
                and (complete is None or run.manifest.complete == complete)
                and (labels or {}).items() <= run.manifest.labels.items()
                and (device is None or any(run.bundle.outline(name).device == device for name in targets))
            )

        found = [run for run in self._all() if isinstance(run, Run) and fits(run)]
        return sorted(found, key=_order, reverse=True)

    def unreadable(self) -> list[Unreadable]:
        """The bundles that cannot be read, each with its reason."""
        return [found for found in self._all() if isinstance(found, Unreadable)]

    def _all(self) -> Iterator[Run | Unreadable]:
        for root in self.roots:
            if not root.is_dir():
                raise BundleError(
                    f"'{root}' is not a folder; a store is made of folders of bundles, such as artifacts/runs."
                )
            yield from bundles(root)


def _bound(name: str, when: datetime | str | None) -> datetime | None:
    try:
        when = moment(when) if isinstance(when, str) else when
    except ValueError:
        raise UsageError(f"{name} takes a time in ISO 8601, such as 2026-11-21; got {when!r}.") from None
    return when.replace(tzinfo=UTC) if when is not None and when.tzinfo is None else when


def removable(path: Path) -> Path:
    """The folder of a bundle that may be removed: its manifest can be read, and it holds no foreign file.

    Raises BundleError for a link, and for a folder that may hold anything else.
    """
    if path.is_symlink():
        raise BundleError(f"'{path}' was not removed: it is a link. Remove it yourself: rm {path}")
    bundle = Bundle.open(path)
    _ = bundle.manifest  # raises for a manifest.json of something else
    foreign = sorted(
        one.name for one in path.iterdir() if one.name not in {*KNOWN, REPORTS} and not one.name.startswith(".")
    )
    if foreign:
        raise BundleError(
            f"'{path}' was not removed: beside a run's results it holds {foreign[0]!r}"
            f"{f' and {len(foreign) - 1} more' if len(foreign) > 1 else ''}. Move that away, or remove the folder "
            "yourself."
        )
    return path


def remove(path: Path) -> None:
    """Remove the folder that `removable` returned. Links in it are removed, never followed."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise BundleError(f"cannot remove '{path}': {error.strerror or error}.") from error

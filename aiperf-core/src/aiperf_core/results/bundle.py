"""The folder that a run leaves behind.

    20261121-142530-ch07.memory_access/
        manifest.json               the machine, the software, the request, and how the run ended
        targets/<target>.json       one target: its rows, and how they were measured
        targets/<target>.<hash>.npz every sample of it
        load/<name>.json            a document of another package, of one of the kinds in `models.DOCUMENT_KINDS`
        load/<name>.<hash>.npz      its samples, where it has some
        logs/<target>/<name>.log    the output of an implementation

A file is written whole or not at all, and its content is checked when it is written and when it is read. A bundle may
come from an unknown source: no path or link in it is followed out of its folder.
"""

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf_core import atomic, units
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.results.filenames import LOGS, MANIFEST, TARGETS, document_path, file_name, target_name

if TYPE_CHECKING:
    from aiperf_core.results.models import Document, Manifest, TargetResult

DEFAULT_PARENT = Path("artifacts/runs")
# No run writes a larger file: samples take 616 MiB at most, documents less.
MOST_BYTES = 1 << 30


class Bundle:
    """A run's folder. Made by `Bundle.create`, `Bundle.create_at` or `Bundle.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        try:
            manifest = self.manifest
            ended = "complete" if manifest.complete else "not complete"
            about = f"{units.plural('target', len(self.targets))}, {units.moment(manifest.created)}, {ended}"
        except (BundleError, OSError):
            about = "not readable"
        return f"<Bundle {str(self.path)!r}: {about}>"

    def _repr_html_(self) -> str:
        """The rows as a notebook shows them: the page of `aiperf show --out FILE.html` in a frame of its own."""
        return str(import_module("aiperf_core.report.html").frame(self))

    @classmethod
    def create(cls, parent: Path = DEFAULT_PARENT, name: str | None = None) -> "Bundle":
        """Make a new folder in `parent`, called after the local time and `name` (usually the target or pattern).

        Two runs that start within a second get folders of their own: the second's name ends in `-2`.
        """
        stem = datetime.now().strftime("%Y%m%d-%H%M%S") + (f"-{file_name(name)}" if name else "")
        with _explained("create a folder in", parent):
            parent.mkdir(parents=True, exist_ok=True)
            attempt = 1
            while True:
                path = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
                try:
                    path.mkdir()
                except FileExistsError:
                    attempt += 1
                else:
                    return cls._started(path)

    @classmethod
    def create_at(cls, path: Path) -> "Bundle":
        """Use exactly `path` (`--out`), which must be new or an empty folder."""
        with _explained("create", path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise BundleError(
                    f"'{path}' is not empty; results go to a new or an empty folder. "
                    f"Choose another --out, or continue that run: aiperf run --resume {path}"
                )
            return cls._started(path)

    @classmethod
    def _started(cls, path: Path) -> "Bundle":
        (path / TARGETS).mkdir()
        for folder in (path, path.parent):
            atomic.sync_folder(folder)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Bundle":
        """Return the bundle in `path`, for reading or for resuming its run. Raises BundleError where there is none."""
        if not os.path.isdir(path):
            what = "is a file" if os.path.exists(path) else "does not exist"
            raise BundleError(f"'{path}' {what}; a result bundle is a folder with a {MANIFEST} in it.")
        if not os.path.exists(path / MANIFEST):
            raise BundleError(f"'{path}' has no {MANIFEST}, so it is not a result bundle or its run never started.")
        return cls(path)

    @property
    def manifest(self) -> "Manifest":
        """The manifest, read anew each time: a run in progress rewrites it."""
        from aiperf_core.results import records

        return records.read_manifest(self._readable(self.path / MANIFEST))

    @property
    def targets(self) -> "Targets":
        """The targets by name. A file is read when its result is asked for."""
        return Targets(self)

    def target(self, name: str) -> "TargetResult":
        """Read one target's result. Raises BundleError if the bundle has none of that name."""
        from aiperf_core.results import records

        return self._target(name, lambda file: records.read_target(file, self._readable))

    def _target(self, name: str, read: Callable[[Path], "TargetResult"]) -> "TargetResult":
        file = self.target_path(name)
        if not os.path.lexists(file):
            known = ", ".join(f"'{words(one)}'" for one in self.targets) or "none"
            raise BundleError(f"'{words(name)}' has no result in '{self.path}'; results there: {known}.")
        result = read(self._readable(file))
        if result.target != name:
            raise BundleError(f"'{file}' holds the result of '{words(result.target)}'; its name says '{words(name)}'.")
        return result

    def target_path(self, name: str) -> Path:
        """Where the result of target `name` lies, or will lie."""
        return self.path / document_path(TARGETS, name)

    def log_path(self, target: str, implementation: str) -> Path:
        """The file for the output of an implementation. The folder is made, the file is not."""
        folder = self.path / LOGS / file_name(target)
        self._inside(folder)
        with _explained("create", folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{file_name(implementation)}.log"

    def outline(self, name: str) -> "TargetResult":
        """Read one target's result without its samples. Raises BundleError as `target` does."""
        from aiperf_core.results import records

        return self._target(name, records.read_outline)

    @property
    def result_files(self) -> list[str]:
        """The documents and the samples that a seal covers, by their paths in the bundle."""
        from aiperf_core.results.models import DOCUMENT_KINDS

        return sorted(f"{name}/{file}" for name in (TARGETS, *DOCUMENT_KINDS) for file in self._files(name))

    def file_bytes(self, path: str) -> bytes:
        """A file by its path in the bundle. Raises BundleError if it cannot be read or leads out of the bundle."""
        with self._file(path) as file:
            return file.read()

    def digest(self, path: str) -> str:
        """The SHA-256 of a file by its path in the bundle. Raises BundleError as `file_bytes` does."""
        with self._file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def _file(self, path: str) -> Iterator[BufferedReader]:
        """Open a file of at most `MOST_BYTES` by its path in the bundle."""
        place = self._readable(self.path / path)
        with _explained("read", place), open(place, "rb") as file:
            if (size := os.fstat(file.fileno()).st_size) > MOST_BYTES:
                raise BundleError(f"'{place}' has {size:,} bytes; a file of a bundle has at most {MOST_BYTES:,}.")
            yield file

    def write_manifest(self, manifest: "Manifest") -> Path:
        """Write or replace `manifest.json`. One with an exit code closes the bundle: it is sealed by hashes."""
        from aiperf_core.results import records, seal

        path = self.path / MANIFEST
        if manifest.exit_code is not None:
            manifest = seal.sealed(manifest, {file: self.digest(file) for file in self.result_files}, path)
        return self._write(path, records.record_bytes(manifest, path))

    def documents(self, kind: str) -> list[str]:
        """The names of the documents of a kind, in alphabetical order."""
        return sorted(target_name(file.removesuffix(".json")) for file in self._files(kind) if file.endswith(".json"))

    def document(self, kind: str, name: str) -> "Document":
        """Read a document of a kind. Raises BundleError if the bundle has none of that name."""
        from aiperf_core.results import records

        file = self.path / document_path(kind, name)
        found = records.read_document(self._readable(file))
        if (found.kind, found.name) != (kind, name):
            raise BundleError(f"'{file}' holds '{words(found.kind)}/{words(found.name)}'; its path says otherwise.")
        return found

    def write_document(self, document: "Document", samples: bytes | None = None) -> Path:
        """Write or replace a document and return its path.

        samples: the content of a `.npz` file beside it, which replaces the last one. It comes first: at any moment the
            document is whole with its samples. `document_samples` reads it by its SHA-256, which the document keeps.
        """
        from aiperf_core.results import records

        path = self.path / document_path(document.kind, document.name)
        name = ""
        if samples is not None:
            name = records.samples_name(document.name, hashlib.sha256(samples).hexdigest())
            self._write(path.with_name(name), samples)
        self._write(path, records.record_bytes(document, path))
        self._remove_samples(path, name)
        return path

    def document_samples(self, kind: str, name: str, sha256: str) -> bytes:
        """The samples beside a document. Raises BundleError where there are none with this SHA-256."""
        from aiperf_core.results import records

        path = f"{kind}/{records.samples_name(name, sha256)}"
        data = self.file_bytes(path)
        if (digest := hashlib.sha256(data).hexdigest()) != sha256:
            raise BundleError(
                f"'{self.path / path}' does not hold the samples that its document was written with: its SHA-256 is "
                f"{digest}."
            )
        return data

    def write_target(self, result: "TargetResult") -> Path:
        """Write or replace a target's files and return the path of its document.

        The samples come first, under a name of their own: at any moment the document is whole with its samples.
        """
        from aiperf_core.results import records

        path = self.target_path(result.target)
        stored = records.target_files(result, path)
        samples = path.with_name(stored.samples_name)
        replaced = samples.exists()
        self._write(samples, stored.samples)
        try:
            self._write(path, stored.document)
        except BundleError:
            if not replaced:
                samples.unlink(missing_ok=True)
            raise
        self._remove_samples(path, stored.samples_name)
        return path

    def _remove_samples(self, document: Path, but: str) -> None:
        """Remove the files of samples that belonged to a target's document, except one."""
        names = re.compile(rf"{re.escape(document.stem)}\.[0-9a-f]{{8}}\.npz")
        for file in document.parent.iterdir():
            if names.fullmatch(file.name) and file.name != but:
                with _explained("remove", file):
                    file.unlink(missing_ok=True)

    def _files(self, name: str) -> list[str]:
        """The documents and samples in a folder of the bundle. Hidden files are those of a killed write."""
        folder = self.path / name
        self._inside(folder)
        if not os.path.lexists(folder):
            return []
        with _explained("read", folder):
            return [name for name in os.listdir(folder) if name.endswith((".json", ".npz")) and name[0] != "."]

    def _write(self, path: Path, data: bytes) -> Path:
        self._inside(path.parent)
        with _explained("write", path):
            path.parent.mkdir(exist_ok=True)
            atomic.write(path, data)
        return path

    def _readable(self, path: Path) -> Path:
        self._inside(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise BundleError(f"'{path}' is not a plain file; a bundle holds plain files and folders only.")
        return path

    def _inside(self, path: Path) -> None:
        """Refuse a link that leads out of the bundle, for reading and for writing."""
        # Unlike Path.resolve, realpath also takes a link to itself, which the reading of the file then refuses.
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(os.path.realpath(self.path)):
            raise BundleError(
                f"'{path}' is a link to '{real}', outside the bundle; aiperf follows no such link. "
                "Replace it with the file itself."
            )


class Targets(Mapping[str, "TargetResult"]):
    """The results in a bundle by target name, in alphabetical order. Nothing is read before it is asked for."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def __getitem__(self, name: str) -> "TargetResult":
        if name not in list(self):
            raise KeyError(name)
        return self._bundle.target(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._bundle.documents(TARGETS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@contextmanager
def _explained(action: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a message that says what to do."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}." if action == "read" else _reason(error)
        raise BundleError(f"cannot {action} '{path}': {reason}") from error


def _reason(error: OSError) -> str:
    elsewhere = "choose another folder with --out"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full. Free some space, or {elsewhere}; files written before are whole."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"the folder is read-only for this user. Change its permissions, or {elsewhere}."
        case errno.ENOTDIR | errno.EEXIST:
            return f"a part of that path is a file, not a folder. Remove it, or {elsewhere}."
        case _:
            return f"{error.strerror or error}. Remove the cause, or {elsewhere}."

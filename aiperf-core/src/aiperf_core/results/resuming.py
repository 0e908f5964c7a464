"""The bundle of an interrupted run that is resumed: what is kept of it, and what is removed.

Complete targets are kept; an interrupted target is measured again from its start.
"""

import re
import shutil
from collections.abc import Iterator

from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import LOGS, TARGETS, document_path, file_name
from aiperf_core.results.models import Manifest, RunRequest, SkippedTarget, TargetResult

# A file that a killed process was writing; see `atomic`.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


def request_of(bundle: Bundle, manifest: Manifest) -> RunRequest:
    """The run's request. Raises BundleError for a run that cannot be resumed."""
    if manifest.request is None:
        raise BundleError(
            f"'{bundle.path}' cannot be resumed: it does not record its request, as bundles of 'aiperf judge' do not. "
            "Run its command again."
        )
    return manifest.request


def finished(bundle: Bundle, manifest: Manifest) -> list[TargetResult | SkippedTarget]:
    """The targets that are complete or were skipped."""
    skipped = {one.target for one in manifest.skipped}
    results = (bundle.target(name) for name in bundle.targets if name not in skipped)
    return [*manifest.skipped, *(one for one in results if one.complete)]


def clear(bundle: Bundle, kept: set[str]) -> None:
    """Remove temporary files of killed writes, and the files and logs of targets that are not `kept`.

    Only names that a run writes are touched; links are removed and never followed. Raises BundleError.
    """
    try:
        belonging = {path for name in kept.intersection(bundle.targets) for path in _files(bundle, name)}
        left = [path for path in bundle.result_files if path not in belonging]
        # Documents before their samples: a document never exists without its samples.
        for path in sorted(left, key=lambda path: not path.endswith(".json")):
            (bundle.path / path).unlink()
        for file in [*bundle.path.iterdir(), *(bundle.path / TARGETS).iterdir()]:
            if TEMPORARY.fullmatch(file.name):
                file.unlink()
        spelled = {file_name(one) for one in kept}
        logs = bundle.path / LOGS
        for folder in [] if logs.is_symlink() or not logs.is_dir() else list(logs.iterdir()):
            if folder.is_dir() and not folder.is_symlink() and folder.name not in spelled:
                shutil.rmtree(folder)
    except OSError as error:
        raise BundleError(f"cannot clear '{bundle.path}' for resuming: {error.strerror or error}.") from error


def _files(bundle: Bundle, name: str) -> Iterator[str]:
    """A target's files, by their paths in the bundle."""
    document = document_path(TARGETS, name)
    yield document
    samples = jsontext.loads(bundle.file_bytes(document)).get("sample_file")
    if samples is not None:
        yield f"{TARGETS}/{samples['name']}"

"""Resuming an interrupted run: what must be unchanged, what is kept, and what is removed.

Complete targets are kept; an interrupted target is measured again from its start. All rows of a bundle must come from
the same machine and the same sources, so nothing that decides a result may have changed.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

from attrs import evolve

from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import LOGS, TARGETS, file_name
from aiperf_core.results.models import Manifest, RunRequest, SkippedTarget, Stretch, TargetResult
from aiperf_core.results.seal_check import SealError
from aiperf_core.stats.compare import Difference, of_manifests
from aiperf_core.stats.recheck import recheck

# A file that a killed process was writing; see `atomic`.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
# What may differ. Each stretch has its own record of the machine's state, and the sources' hashes are stricter than a
# commit.
MAY_DIFFER = frozenset({"host", "git", "memory"})
MOST_SHOWN = 5


def request_of(bundle: Bundle, manifest: Manifest) -> RunRequest:
    """The run's request. Raises BundleError for a run that cannot be resumed."""
    if manifest.request is None:
        raise BundleError(
            f"'{bundle.path}' cannot be resumed: it does not record its request, as bundles of 'aiperf judge' do not. "
            "Run its command again."
        )
    return manifest.request


def check(bundle: Bundle, then: Manifest, now: Manifest) -> None:
    """Raise BundleError where new rows could not be compared with the old ones, or the old ones fail the recheck."""
    if then.complete:
        raise BundleError(f"'{bundle.path}' is complete: another process resumed it.")
    unlike = [one for one in of_manifests(then, now, list(bundle.targets)) if one.what not in MAY_DIFFER]
    unlike += [one for one in _modules(then, now) if one not in unlike]
    if unlike:
        raise BundleError(
            f"'{bundle.path}' cannot be resumed: {_listed(unlike)}. Rows from before and after could not be compared; "
            "start a new run."
        )
    cut_short = set(_cut_short(bundle))
    found = [one for one in recheck(bundle).differences if one.where.partition(":")[0] not in cut_short]
    if found:
        one = found[0]
        raise SealError(
            f"'{bundle.path}' cannot be resumed: its finished part does not hold ({one.where}, {one.what}: recorded "
            f"{one.recorded}, found {one.found}). See all: aiperf recheck {bundle.path}. Start a new run."
        )


def _cut_short(bundle: Bundle) -> Iterator[str]:
    """The interrupted targets, which will be measured again."""
    for name in bundle.targets:
        with contextlib.suppress(BundleError):  # `recheck` reports files that cannot be read
            if not bundle.outline(name).complete:
                yield name


def _modules(then: Manifest, now: Manifest) -> Iterator[Difference]:
    """Differences of the modules of all targets, measured or not."""
    for module in sorted(then.files.keys() | now.files.keys()):
        before, after = then.files.get(module, ""), now.files.get(module, "")
        if before != after:
            yield Difference(f"source {module}", before[:12], after[:12])


def _listed(unlike: list[Difference]) -> str:
    shown = [f"{one.what} was {one.left or 'not there'} and is {one.right or 'not there'}" for one in unlike]
    more = len(shown) - MOST_SHOWN
    return "; ".join(shown[:MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def finished(bundle: Bundle, manifest: Manifest) -> list[TargetResult | SkippedTarget]:
    """The targets that are complete or were skipped."""
    skipped = {one.target for one in manifest.skipped}
    results = (bundle.target(name) for name in bundle.targets if name not in skipped)
    return [*manifest.skipped, *(one for one in results if one.complete)]


def reopened(
    manifest: Manifest, stretch: Stretch, kept: list[TargetResult | SkippedTarget], skipped: list[SkippedTarget]
) -> Manifest:
    """The manifest of a resumed run: not complete, with another stretch.

    kept: the targets that were finished.
    skipped: the targets that could not be planned.
    """
    before = list(manifest.stretches)
    if before and before[-1].ending is None:
        noted = {name for one in before for name in one.targets}
        unnoted = [one.target for one in kept if isinstance(one, TargetResult) and one.target not in noted]
        # The process was killed between writing a target's file and the manifest.
        before[-1] = evolve(before[-1], ending="cut off", targets=before[-1].targets + unnoted)
    known = {one.target for one in manifest.skipped}
    return evolve(
        manifest,
        skipped=manifest.skipped + [one for one in skipped if one.target not in known],
        complete=False,
        exit_code=None,
        hashes={},
        stretches=[*before, stretch],
    )


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
    document = f"{TARGETS}/{file_name(name)}.json"
    yield document
    samples = jsontext.loads(bundle.file_bytes(document)).get("sample_file")
    if samples is not None:
        yield f"{TARGETS}/{samples['name']}"


def state(host: str, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """The machine's state at the begin of a stretch; `gpus` as in the manifest."""
    import os

    import psutil

    found: dict[str, Any] = {"host": host, "memory_available_bytes": psutil.virtual_memory().available}
    with contextlib.suppress(OSError):
        found["load_1min"] = os.getloadavg()[0]
    names = ("index", "uuid", "temperature_c", "sm_clock_hz", "memory_clock_hz", "power_limit_w")
    if gpus:
        found["gpus"] = [{name: one.get(name) for name in names} for one in gpus]
    return found

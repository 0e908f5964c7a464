"""A load in a bundle: the document, the columns beside it, the manifest, and the recheck of all that."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime

from attrs import evolve

from aiperf_core.errors import BundleError, ExitCode
from aiperf_core.results import read_payload, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Document, Manifest
from aiperf_core.results.seal_check import Difference, differing
from aiperf_load import figures, outcomes
from aiperf_load.outcomes import Outcomes
from aiperf_load.records import FORMAT, LoadResult, Point
from aiperf_load.sweep import knee

KIND = "load"
OURS = "aiperf-load"


def write(bundle: Bundle, name: str, result: LoadResult, samples: dict[str, Outcomes]) -> LoadResult:
    """Write a document with the columns of its points; the result with their hash."""
    data = outcomes.to_bytes(samples) if result.origin == OURS else None
    result = evolve(result, samples_sha256=hashlib.sha256(data).hexdigest() if data is not None else None)
    bundle.write_document(Document(KIND, name, now(), structure.document(result)), data)
    return result


def now() -> str:
    """The time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(document: Document) -> LoadResult:
    """The payload of a document. Raises BundleError for one that is not of this format."""
    return read_payload(document, LoadResult, FORMAT, OURS)


def samples(bundle: Bundle, name: str, result: LoadResult) -> dict[str, Outcomes]:
    """The columns of all points. Raises BundleError where they are not those of the document."""
    if result.samples_sha256 is None:
        return {}
    data = bundle.document_samples(KIND, name, result.samples_sha256)
    return outcomes.from_bytes(data, {one.name: one.requests for one in result.points}, f"{KIND}/{name}")


def exit_code(result: LoadResult, *, interrupted: bool) -> int:
    """The exit code of a load: 130 interrupted, 1 where nothing was measured, 3 for a point that is not trusted."""
    if interrupted:
        return 130
    if result.origin != OURS:
        return ExitCode.OK
    if not any(one.counted_outcomes.get("OK") for one in result.points):
        return ExitCode.FAILED
    return ExitCode.OK if all(one.trusted for one in result.points) else ExitCode.INVALID


# --- recheck


def recheck(bundle: Bundle, manifest: Manifest, document: Document) -> Iterator[Difference]:
    """Yield the differences of a document of kind `load`: its figures are computed again from its columns."""
    where = f"{KIND}/{document.name}"
    try:
        result = read(document)
        columns = samples(bundle, document.name, result)
    except BundleError as error:
        yield Difference(where, "document", "a load", str(error))
        return
    if result.origin == OURS and result.points and not columns:
        yield Difference(where, "samples", "columns of each point", "none")
        return
    for point in result.points if columns else ():
        again = figures.point(point.name, point.spec, point.started, columns[point.name], complete=point.complete)
        yield from differing(f"{where}:{point.name}", structure.document(point), structure.document(again))
    if result.origin == OURS and result.knee is not None:
        again_knee = knee(result.points, result.knee.met)
        yield from differing(f"{where}:knee", structure.document(result.knee), structure.document(again_knee))
    if result.origin != OURS and any(one.trusted for one in result.points):
        yield Difference(where, "trusted", "true", "false: a foreign result is never trusted")
    if manifest.exit_code is not None:
        code = int(exit_code(result, interrupted=not manifest.complete))
        if code != manifest.exit_code:
            yield Difference(where, "exit_code", str(manifest.exit_code), str(code))


def points(result: LoadResult) -> list[Point]:
    """The points by rising rate; those without a rate in the order of the run."""
    return sorted(result.points, key=lambda one: one.spec.arrivals.rate_per_s or 0.0)

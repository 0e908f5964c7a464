"""A fleet in a bundle of its own: the index of its bundles, the comparison of its machines, and the recheck of both."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve

from aiperf_core.errors import AiperfError, BundleError, ExitCode
from aiperf_core.manifest import new_manifest
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results import read_payload, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import Document, Manifest
from aiperf_core.results.seal_check import Difference, SealError, check, differing
from aiperf_fleet.place import Place
from aiperf_fleet.records import FORMAT, FleetFile, FleetResult, State, Task
from aiperf_fleet.slow import Measured, compare, measured

KIND = "fleet"
EXIT_CODES = {State.COMPLETE: int(ExitCode.OK), State.PARTIAL: int(ExitCode.FAILED), State.CANCELLED: 130}


def measurements(place: Place, tasks: list[Task]) -> list[Measured]:
    """Figures of the machines in the bundles that are here. Raises SealError for a bundle that was changed."""
    found: list[Measured] = []
    for task in tasks:
        if task.done is not None and task.done.machine is not None:
            bundle = Bundle.open(place.bundle(task.id))
            sealed = check(bundle, samples=False)
            if not sealed.holds:
                raise SealError(sealed.told())
            found += measured(bundle, task.done.machine)
    return found


def result(place: Place, file: FleetFile) -> FleetResult:
    """Document of a fleet that has ended, for its bundle. The URL of a store may have a password, and is left out."""
    found = measurements(place, file.tasks)
    return FleetResult(
        id=file.id,
        name=file.name,
        engine=file.engine,
        options=file.options,
        suite=evolve(file.suite, store=None),
        created=file.created,
        state=file.state,
        tasks=file.tasks,
        measurements=found,
        machines=compare(found),
    )


def keep(place: Place, file: FleetFile, plugins: Plugins) -> None:
    """Write the bundle of a fleet that has ended, whole or not at all. One with the same content stays.

    Raises AiperfError where it cannot be written, and SealError where a bundle of a task was changed.
    """
    document = Document(KIND, file.name, file.created, structure.document(result(place, file)))
    target, staging = place.own_bundle, place.folder / ".bundle.incoming"
    if _content(target, file.name) == document.payload:
        return
    manifest = new_manifest(plugins=plugins)
    # Without options: that of a store may have a password. Those of the fleet are in the document.
    command, labels = manifest.command[:3], {**file.suite.labels, "suite": file.name, "fleet": file.id}
    manifest = evolve(manifest, command=command, labels=labels, created=file.created)
    try:
        shutil.rmtree(staging, ignore_errors=True)
        bundle = Bundle.create_at(staging)
        bundle.write_document(document)
        complete = file.state is not State.CANCELLED
        bundle.write_manifest(evolve(manifest, complete=complete, exit_code=EXIT_CODES[file.state]))
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
    except (OSError, BundleError) as error:
        folder = words(str(place.folder))
        raise AiperfError(
            f"the fleet ended {file.state}, but its bundle cannot be written: {error}. The bundles of its tasks are in "
            f"'{words(str(place.runs))}'. Make space, then: aiperf fleet collect {folder}"
        ) from error


def _content(path: Path, name: str) -> object:
    """The payload of the fleet in a bundle; None where there is no such bundle."""
    try:
        return Bundle.open(path).document(KIND, name).payload
    except BundleError:
        return None


def read(document: Document) -> FleetResult:
    """The payload of a document. Raises BundleError for one that is not of this format."""
    return read_payload(document, FleetResult, FORMAT, "aiperf-fleet")


# --- recheck


def recheck(bundle: Bundle, manifest: Manifest, document: Document) -> Iterator[Difference]:
    """Yield the differences of a document of kind `fleet`.

    The machines are compared again. Where the fleet's folder has its bundles still, their seals and times are compared.
    """
    where = f"{KIND}/{document.name}"
    try:
        found = read(document)
    except BundleError as error:
        yield Difference(where, "document", "a fleet", str(error))
        return
    again = structure.document(compare(found.measurements))
    yield from differing(f"{where}:machines", structure.document(found.machines), again)
    missing = sum(task.done is None for task in found.tasks)
    if (found.state is State.COMPLETE) != (missing == 0) and found.state is not State.CANCELLED:
        yield Difference(where, "state", found.state, f"{missing} of {len(found.tasks)} bundles are missing")
    code = EXIT_CODES.get(found.state)
    if manifest.exit_code is not None and manifest.exit_code != code:
        yield Difference(where, "exit_code", str(manifest.exit_code), str(code))
    place = Place(bundle.path.parent)
    if any(place.bundle(task.id).exists() for task in found.tasks):
        yield from _of_bundles(where, place, found)


def _of_bundles(where: str, place: Place, found: FleetResult) -> Iterator[Difference]:
    wrong = False
    for task in found.tasks:
        if task.done is not None:
            try:
                seal = Bundle.open(place.bundle(task.id)).manifest.hashes.get(MANIFEST, "none")
            except BundleError as error:
                seal = str(error)
            if seal != task.done.seal:
                wrong = True
                yield Difference(f"{where}:{task.id}", "seal", str(task.done.seal), seal)
    if wrong:
        return
    try:
        again = measurements(place, found.tasks)
    except SealError as error:
        yield Difference(f"{where}:measurements", "bundles", "as when their runs ended", str(error))
        return
    recorded, computed = ([structure.document(one) for one in side] for side in (found.measurements, again))
    yield from differing(f"{where}:measurements", recorded, computed)

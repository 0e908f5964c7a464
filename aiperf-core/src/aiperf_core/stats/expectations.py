"""Expectations: what the benchmarks of a package must reach on a kind of machine.

A package keeps a file for each kind of machine beside its sources, such as `expectations/nvidia-h200-x1.json`. Each
entry is a threshold with its origin: the bundle and its seal, the date, the versions, the hash of the benchmark's
source. A threshold is the low end of the measured interval, less the floor: a repeated run lies above it.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.git import changed_sources
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.results import atomic, jsontext, structure
from aiperf_core.results.address import Address
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import DISBELIEVED, Machine, Manifest, Row, TargetResult, Verdict
from aiperf_core.stats.recheck import recheck
from aiperf_core.targets import WORLD_SIZE, InstalledTarget

FOLDER = "expectations"
FORMAT = 1
KEY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_KEY = 100
MIN_SPEEDUP = 1.05
# Verdicts of rows that give no expectation.
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.INCONCLUSIVE, Verdict.FAILED)
VERSIONS = ("torch", "triton")


@frozen(kw_only=True)
class Expectation:
    """The threshold of an implementation, and its origin.

    metric: `speedup`, or `memory` (the baseline's peak memory divided by the implementation's).
    low, high: the interval of `measured`; memory is counted, so both equal `measured`.
    """

    metric: str
    at_least: float
    measured: float
    low: float
    high: float
    sizes: dict[str, float]
    bundle: str
    seal: str
    date: str
    versions: dict[str, str]
    source: str | None
    git: str | None


@frozen
class Page:
    """An expectations file: its hardware, and the expectations by `target:implementation`."""

    hardware: str
    expected: dict[str, Expectation] = field(factory=dict)
    format: int = FORMAT


@frozen
class Checked:
    """A row compared with its expectation.

    outcome: `MET`, `BELOW`, `UNCLEAR` (the interval contains the threshold), `SKIPPED`, `NEW` (no expectation) or
        `OTHER SIZE`.
    reason: why a row without a figure is below.
    """

    name: str
    at_least: float | None
    found: Estimate | None
    outcome: str
    reason: str | None = None


@frozen
class Change:
    """The change of an entry by an update: its threshold before and after, None for no entry."""

    name: str
    before: float | None
    after: float | None
    note: str = ""


# --- hardware and places


def hardware_key(machine: Machine, device: str, params: Mapping[str, float]) -> str:
    """The kind of machine: the GPUs that a target uses and their number, or the processor and its usable CPUs.

    A target of several ranks uses as many GPUs, any other target one, whatever else is in the machine.
    """
    if device == "cuda" and machine.gpus:
        used = max(1, int(params.get(WORLD_SIZE, 1)))
        names = sorted({str(gpu.get("name") or "gpu") for gpu in machine.gpus[:used]})
        return _key(f"{' '.join(names)} x{used}")
    return _key(f"{machine.cpu} x{machine.cores}")


def _key(name: str) -> str:
    return checked_key(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_KEY].strip("-"))


def checked_key(key: str) -> str:
    """A key that can be a file's name. Raises UsageError."""
    if not KEY.fullmatch(key) or len(key) > LONGEST_KEY:
        raise UsageError(
            f"'{words(key)}' cannot name a kind of hardware: lower-case letters and digits in words joined by hyphens "
            "can, such as 'nvidia-h200-x1'."
        )
    return key


@frozen
class Source:
    """A target's package folder and the file of its module."""

    folder: Path
    module: str
    file: Path


def source_of(target: InstalledTarget) -> Source | None:
    """Where a target's source lies; None for one that is no module of an installed package."""
    try:
        spec = find_spec(target.module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.origin or "." not in target.module:
        return None
    file = Path(spec.origin)
    return Source(file.parent, target.module, file)


def place(source: Source, key: str) -> Path:
    """The expectations file in a package's folder. Raises BundleError for a link that leads out of the folder."""
    path = source.folder / FOLDER / f"{checked_key(key)}.json"
    if not path.resolve().is_relative_to(source.folder.resolve()):
        raise BundleError(
            f"'{path}' is a link to '{path.resolve()}', outside its package; aiperf follows no such link."
        )
    return path


# --- files


def read(path: Path) -> Page | None:
    """Read an expectations file; None if it does not exist. Raises BundleError for any other content."""
    try:
        page = structure.structure(jsontext.loads(path.read_bytes()), Page)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error
    except jsontext.JsonError as error:
        raise BundleError(f"'{path}' is not an expectations file of format {FORMAT}: {error}.") from error
    wrong = [
        name for name, one in page.expected.items() if one.at_least <= 0 or one.metric not in ("speedup", "memory")
    ]
    if page.format != FORMAT or wrong:
        what = f"the entry '{words(wrong[0])}'" if wrong else f"format {page.format}"
        raise BundleError(f"'{path}' is not an expectations file of format {FORMAT}: found {what}.")
    return page


def write(path: Path, page: Page) -> None:
    """Write an expectations file, whole or not at all. Raises BundleError."""
    ordered = evolve(page, expected=dict(sorted(page.expected.items())))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, jsontext.to_bytes(structure.document(ordered)))
    except OSError as error:
        raise BundleError(f"cannot write '{path}': {error.strerror or error}.") from error


# --- check


def check(result: TargetResult, page: Page, min_speedup: float | None = None) -> Iterator[Checked]:
    """Hold a target's variants to a page. No threshold is below `min_speedup`."""
    for row in result.rows:
        name = f"{result.target}:{row.name}"
        expected = page.expected.get(name)
        if row.role != "variant":
            continue
        found = figure(result, row)
        if expected is None:
            yield Checked(name, None, found, "NEW")
        elif expected.sizes != result.problem.params:
            yield Checked(name, expected.at_least, found, "OTHER SIZE")
        else:
            at_least = max(expected.at_least, min_speedup or 0.0)
            yield Checked(name, at_least, found, *_outcome(row, found, at_least))


def _outcome(row: Row, found: Estimate | None, at_least: float) -> tuple[str, str | None]:
    if row.verdict is Verdict.SKIPPED:
        return "SKIPPED", row.reason
    if row.verdict in DISBELIEVED:
        return "BELOW", f"{row.verdict.value}: {row.reason}"
    if found is None:
        return "UNCLEAR", row.reason
    if found.high < at_least:
        return "BELOW", None
    return ("MET" if found.low >= at_least else "UNCLEAR"), None


def metric_of(goal: str) -> str:
    """The metric of a target's expectations: `memory` for that goal, `speedup` for all others."""
    return "memory" if goal == "memory" else "speedup"


def figure(result: TargetResult, row: Row) -> Estimate | None:
    """The figure that is compared: the speedup, or the baseline's peak memory divided by the variant's."""
    if row.verdict in DISBELIEVED:
        return None
    if metric_of(result.goal) == "speedup":
        return row.speedup
    return None if row.memory_gain is None else Estimate(*([row.memory_gain] * 3))


# --- update


def refuse_bundle(bundle: Bundle, manifest: Manifest) -> None:
    """Raise BundleError for a bundle that is incomplete, was changed, or is of changed sources."""
    if not manifest.complete or manifest.exit_code is None:
        raise BundleError(f"'{bundle.path}' is not complete; a part of a run gives no expectations. Run it again.")
    if manifest.git and manifest.git.endswith("-dirty"):
        raise BundleError(
            f"'{bundle.path}' was measured with changed sources (git: {words(manifest.git)}), which no commit has. "
            "Commit them and run again."
        )
    if not manifest.hashes:
        raise BundleError(f"'{bundle.path}' has no seal, so changes of it would not show. Run again.")
    found = recheck(bundle)
    if not found.holds:
        one = found.differences[0]
        raise BundleError(f"'{bundle.path}' does not hold ({words(one.where)}: {words(one.what)}). See: aiperf recheck")


def refuse_rows(results: list[TargetResult]) -> None:
    """Raise BundleError if rows give no expectation, with the names of all of them."""
    refused = [
        f"{words(result.target)}:{words(row.name)} is {row.verdict.value}"
        for result in results
        for row in result.rows
        if row.verdict in REFUSED
    ]
    if refused:
        raise BundleError(
            f"expectations were not updated: {', '.join(refused)}. Run again until every row is sure, or choose "
            "others: BUNDLE:TARGET or BUNDLE:TARGET:IMPLEMENTATION"
        )


def refuse_source(source: Source, manifest: Manifest) -> None:
    """Raise BundleError where the sources are not those that were measured, or differ from what git has."""
    measured = manifest.files.get(source.module)
    if measured != hashlib.sha256(source.file.read_bytes()).hexdigest():
        raise BundleError(f"'{source.file}' is not the source that was measured. Run again with this one.")
    changed = changed_sources(source.folder)
    if changed:
        raise BundleError(
            f"the source tree of '{source.folder}' is dirty ({changed[0]}{' and others' if len(changed) > 1 else ''}). "
            "Commit or remove that first."
        )


def update(
    page: Page, address: Address, results: list[TargetResult], sources: Mapping[str, str | None], min_speedup: float
) -> tuple[Page, list[Change]]:
    """The page with the figures of a bundle's rows, and the changes. `sources` are hashes by target.

    A variant whose interval does not lie above `min_speedup` gets no entry, and loses an existing one.
    """
    manifest = address.bundle.manifest
    expected, changes = dict(page.expected), []
    for result in results:
        for row in result.rows:
            name, found = f"{result.target}:{row.name}", figure(result, row)
            if row.role != "variant" or found is None:
                continue
            before = page.expected.get(name)
            old = before.at_least if before else None
            at_least = found.low * (1 - result.floor)
            if found.low < min_speedup:
                expected.pop(name, None)
                changes.append(Change(name, old, None, f"{found.low:.4g} is below {min_speedup:g}"))
                continue
            expected[name] = _expectation(address.bundle, manifest, result, found, at_least, sources.get(result.target))
            changes.append(Change(name, old, at_least))
    return evolve(page, expected=expected), changes


def _expectation(
    bundle: Bundle, manifest: Manifest, result: TargetResult, found: Estimate, at_least: float, source: str | None
) -> Expectation:
    packages: dict[str, Any] = {name: manifest.packages[name] for name in VERSIONS if name in manifest.packages}
    driver = {"driver": manifest.machine.driver} if manifest.machine.driver else {}
    return Expectation(
        metric=metric_of(result.goal),
        at_least=at_least,
        measured=found.value,
        low=found.low,
        high=found.high,
        sizes=dict(result.problem.params),
        bundle=bundle.path.resolve().name,
        seal=manifest.hashes[MANIFEST],
        date=manifest.created,
        versions={"aiperf": manifest.aiperf, **packages, **driver},
        source=source,
        git=manifest.git,
    )


def module_hash(manifest: Manifest, target: str) -> str | None:
    """The hash of a target's source in a manifest, where a module of that name is in it once."""
    name = target.rpartition(".")[2]
    found = [digest for module, digest in manifest.files.items() if module.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None

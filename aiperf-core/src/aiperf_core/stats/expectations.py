"""Expectations: what the benchmarks of a package must reach on a kind of machine.

A package keeps a file for each kind of machine beside its sources, such as `expectations/nvidia-h200-x1.json`. The
head of the file lists the runs that were measured. Each row is a threshold with its figure, and names its run. A
threshold is the low end of the measured interval, less the floor: a repeated run lies above it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.errors import BundleError
from aiperf_core.git import changed_sources, git_commit
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.results import jsontext, structure
from aiperf_core.results.address import Address
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.hardware import checked_key, is_gpu
from aiperf_core.results.models import Manifest, Row, SpeedOfLight, TargetResult, Verdict
from aiperf_core.results.seal_check import SealError
from aiperf_core.results.sources import package_hashes
from aiperf_core.stats.observations import host_share
from aiperf_core.stats.recheck import recheck
from aiperf_core.stats.threshold import MISSED, Judgement, Threshold
from aiperf_core.targets import InstalledTarget

FOLDER = "expectations"
FORMAT = 1
# The largest high / low of an interval that gives an expectation. A wider interval says little more than that there is
# an effect, and its low end would let a regression of a third pass.
WIDEST = 1.5
# Verdicts of rows that give no expectation.
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.INCONCLUSIVE, Verdict.FAILED)
VERSIONS = ("torch", "triton")
_POSITIVE = {"schema": {"exclusiveMinimum": 0}}


@frozen(kw_only=True)
class MeasuredRun:
    """A run that rows of a file were measured in.

    bundle: the name of its folder.
    seal: the seal of the whole bundle.
    date: when it started.
    tier: `quick`, `standard` or `audit`; None where it was not recorded.
    versions: of aiperf, torch, triton and the driver.
    git: the commit.
    sources: the SHA-256 of the module of each target.
    """

    bundle: str
    seal: str
    date: str
    versions: dict[str, str]
    git: str | None
    sources: dict[str, str]
    tier: str | None = None


@frozen(kw_only=True)
class GoalFigure:
    """The figure of a declared goal: `of` as in `aiperf_core.goal`, the value, and its interval."""

    of: str
    value: float
    low: float
    high: float


@frozen(kw_only=True)
class Expectation:
    """The threshold of an implementation.

    metric: `speedup`, or `memory` (the baseline's peak memory divided by the implementation's).
    at_least: the threshold; None where the figure is not above the least speedup, so that a run is not held to it.
    measured: the figure that the threshold is of.
    low, high: the interval of `measured`; memory is counted, so both equal `measured`.
    sizes: the sizes of the workload.
    run: the position of the run in the file's `runs`.
    time_s: the median time of a call with its interval.
    sol: the speed of light: its bound, and the fraction of it that the time reaches.
    host_share: of a row by the caller's clock, the part of its time in which the device does not work for it.
    goals: the figures of the target's goals that are of this implementation.
    """

    metric: str = field(metadata={"schema": {"enum": ["speedup", "memory"]}})
    at_least: float | None = field(default=None, metadata=_POSITIVE)
    measured: float
    low: float = field(metadata=_POSITIVE)
    high: float
    sizes: dict[str, float]
    run: int = field(metadata={"schema": {"minimum": 0}})
    time_s: Estimate | None = None
    sol: SpeedOfLight | None = None
    host_share: float | None = field(default=None, metadata={"schema": {"minimum": 0, "maximum": 1}})
    goals: list[GoalFigure] = field(factory=list)


@frozen
class Page:
    """An expectations file.

    hardware: the kind of machine.
    runs: the runs that the rows were measured in.
    expected: the rows by `target:implementation`.
    """

    hardware: str
    runs: list[MeasuredRun] = field(factory=list)
    expected: dict[str, Expectation] = field(factory=dict)
    format: int = field(default=FORMAT, metadata={"schema": {"const": FORMAT}})

    def run_of(self, name: str) -> MeasuredRun:
        """The run that a row was measured in."""
        return self.runs[self.expected[name].run]

    def is_of(self, device: str) -> bool:
        """Tell whether its figures are of machines with such a device."""
        return is_gpu(self.hardware) == (device == "cuda")


@frozen
class Change:
    """The change of an entry by an update: its threshold before and after, None for none."""

    name: str
    before: float | None
    after: float | None
    note: str = ""


# --- hardware and places


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
        page = structure.structure(jsontext.loads(path.read_bytes()), Page, structure.PARTIAL)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror or error}.") from error
    except jsontext.JsonError as error:
        raise BundleError(f"'{path}' is not an expectations file of format {FORMAT}: {error}.") from error
    if (name := next((name for name, row in page.expected.items() if row.run >= len(page.runs)), None)) is not None:
        runs = f"found run {page.expected[name].run} of '{words(name)}'; expected one of the {len(page.runs)} runs"
        raise BundleError(f"'{path}' is not an expectations file of format {FORMAT}: {runs}.")
    return page


def pages_of(target: InstalledTarget) -> list[Page]:
    """The expectations files of a target's package, by kind of machine. Raises as `read`."""
    source = source_of(target)
    files = sorted((source.folder / FOLDER).glob("*.json")) if source else []
    return [page for file in files if (page := read(file)) is not None]


def write(path: Path, page: Page) -> None:
    """Write an expectations file, whole or not at all: the head, then a line for each row. Raises BundleError."""
    page = compacted(page)
    document = structure.document(page)
    rows = [f"    {json.dumps(name)}: {_line(row)}" for name, row in document.pop("expected").items()]
    fields = [f'  "{name}": {_indented(value)}' for name, value in document.items()]
    fields.append('  "expected": {' + "".join(("\n", ",\n".join(rows), "\n  ") if rows else ()) + "}")
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, text.encode())
    except OSError as error:
        raise BundleError(f"cannot write '{path}': {error.strerror or error}.") from error


def _indented(value: Any) -> str:
    return jsontext.dumps(value).rstrip().replace("\n", "\n  ")


def _line(row: dict[str, Any]) -> str:
    """A row on one line, without the fields that it has no value for."""
    return json.dumps({name: value for name, value in row.items() if value not in (None, [])}, allow_nan=False)


def compacted(page: Page) -> Page:
    """The page in the order of names, with only the runs, and in them the sources, that rows refer to."""
    expected = dict(sorted(page.expected.items()))
    used = sorted({row.run for row in expected.values()})
    targets: dict[int, set[str]] = {run: set() for run in used}
    for name, row in expected.items():
        targets[row.run].add(name.rpartition(":")[0])
    runs = [
        evolve(
            page.runs[run],
            sources={name: digest for name, digest in sorted(page.runs[run].sources.items()) if name in targets[run]},
        )
        for run in used
    ]
    place_of = {run: place for place, run in enumerate(used)}
    return evolve(
        page, runs=runs, expected={name: evolve(row, run=place_of[row.run]) for name, row in expected.items()}
    )


# --- check


def check(result: TargetResult, page: Page, min_speedup: float | None = None) -> Iterator[Judgement]:
    """Judge a target's variants by a page. No threshold is below `min_speedup`.

    Beside the outcomes of a threshold there are `SKIPPED`, `NEW` (no expectation), `NO THRESHOLD` (stored without a
    threshold) and `OTHER SIZE`. A row that is not believed has missed its threshold.
    """
    for row in result.rows:
        if row.role != "variant":
            continue
        name, found = f"{result.target}:{row.name}", figure(result, row)
        expected = page.expected.get(name)
        if expected is None:
            yield Judgement(name, None, found, "NEW")
        elif expected.at_least is None:
            yield Judgement(name, None, found, "NO THRESHOLD")
        else:
            bound = expected.at_least
            other = expected.sizes != result.problem.params
            if not other:
                bound = max(bound, min_speedup or 0.0)
            run = page.runs[expected.run].bundle
            threshold = Threshold(result.target, row.name, expected.metric, bound, hardware=page.hardware, source=run)
            if other:
                yield Judgement(name, threshold, found, "OTHER SIZE")
            else:
                yield _judged(name, threshold, row, found, expected)


def _judged(name: str, threshold: Threshold, row: Row, found: Estimate | None, expected: Expectation) -> Judgement:
    if row.is_skipped:
        return Judgement(name, threshold, found, "SKIPPED", row.reason)
    if not row.is_believed:
        return Judgement(name, threshold, found, MISSED, f"{row.verdict.value}: {row.reason}")
    reason = too_wide(found.low, found.high) if found else row.reason
    if reason is None and (stored := too_wide(expected.low, expected.high)):
        reason = f"the expectation: {stored}"
    return Judgement(name, threshold, found, threshold.judge(found), reason)


def too_wide(low: float, high: float) -> str | None:
    """The reason why an interval is too wide for an expectation; None for an interval that is narrow enough."""
    ratio = high / low
    return f"too wide an interval: high / low is {ratio:.3g}, at most {WIDEST:g}" if ratio > WIDEST else None


def metric_of(goal: str) -> str:
    """The metric of a target's expectations: `memory` for that goal, `speedup` for all others."""
    return "memory" if goal == "memory" else "speedup"


def figure(result: TargetResult, row: Row) -> Estimate | None:
    """The figure that is compared: the speedup, or the baseline's peak memory divided by the variant's."""
    if not row.is_believed:
        return None
    if metric_of(result.goal) == "speedup":
        return row.speedup
    return None if row.memory_gain is None else Estimate(*([row.memory_gain] * 3))


# --- update


def refuse_bundle(bundle: Bundle, manifest: Manifest) -> None:
    """Raise BundleError for a bundle that did not end, was changed, or is of changed sources."""
    if manifest.exit_code is None:
        raise BundleError(f"'{bundle.path}' is not complete; a part of a run gives no expectations. Run it again.")
    if manifest.git and commit_of(manifest) is None:
        raise BundleError(
            f"'{bundle.path}' was measured with changed sources (git: {words(manifest.git)}), which no commit has. "
            "Commit them and run again, or check out the commit that has them."
        )
    if not manifest.hashes:
        raise BundleError(f"'{bundle.path}' has no seal, so changes of it would not show. Run again.")
    found = recheck(bundle)
    if not found.holds:
        one = found.differences[0]
        raise SealError(f"'{bundle.path}' does not hold ({words(one.where)}: {words(one.what)}). See: aiperf recheck")


def refuse_parts(bundle: Bundle, results: Iterable[TargetResult]) -> None:
    """Raise BundleError for targets whose measuring was interrupted. Others of an interrupted run are whole."""
    parts = [result.target for result in results if not result.complete]
    if parts:
        raise BundleError(
            f"'{bundle.path}' is not complete: {words(parts[0])} was interrupted, and a part gives no expectations. "
            "Name other targets as BUNDLE:TARGET, or run it again."
        )


def commit_of(manifest: Manifest) -> str | None:
    """The commit that a run was measured with; None for changed sources.

    A copy of a checkout on another machine may have another commit's name, and all files changed. Its commit is that
    of this checkout where harness, packages and kernels of both are equal, byte for byte.
    """
    if not (manifest.git or "").endswith("-dirty"):
        return manifest.git
    harness = Path(__file__).parents[1]
    here = git_commit(harness)
    if here is None or here.endswith("-dirty"):
        return None
    packages = [name for name in manifest.sources if "/" not in name]
    equal = package_hashes(f"{package}.any" for package in packages) == manifest.sources
    return here if equal and packages else None


def refusal(result: TargetResult, row: Row, min_speedup: float) -> str | None:
    """Why a row is too uncertain for an expectation. None where it is not, or its interval is below `min_speedup`."""
    found = figure(result, row)
    if found is not None and found.high < min_speedup:
        return None
    if row.verdict in REFUSED:
        why = row.reason or (f"the interval is {found.low:.4g} to {found.high:.4g}" if found is not None else "")
        return f"{row.verdict.value}: {why}" if why else row.verdict.value
    return too_wide(found.low, found.high) if found is not None and row.role == "variant" else None


def can_narrow(result: TargetResult, row: Row, min_speedup: float) -> bool:
    """Whether more samples may make a variant sure: its verdict is believed, but its interval is too wide."""
    believed = row.role == "variant" and row.is_believed
    return believed and refusal(result, row, min_speedup) is not None


def refuse_rows(results: list[TargetResult], min_speedup: float) -> None:
    """Raise BundleError if rows give no expectation, with a line for each of them."""
    refused = [
        f"{words(result.target)}:{words(row.name)}: {words(reason)}"
        for result in results
        for row in result.rows
        if (reason := refusal(result, row, min_speedup)) is not None
    ]
    if refused:
        raise BundleError(
            "expectations were not written. These rows give none:\n"
            + "\n".join(refused)
            + "\nMeasure them longer with: aiperf expectations write PATTERN. Or name other rows: BUNDLE:TARGET or "
            "BUNDLE:TARGET:IMPLEMENTATION"
        )


def refuse_source(source: Source, manifest: Manifest) -> None:
    """Raise BundleError where the sources are not those that were measured, or differ from what git has."""
    measured = manifest.files.get(source.module)
    if measured != hashlib.sha256(source.file.read_bytes()).hexdigest():
        raise BundleError(f"'{source.file}' is not the source that was measured. Run again with this one.")
    refuse_changes(source)


def refuse_changes(source: Source) -> None:
    """Raise BundleError where the sources of a package differ from what git has."""
    changed = changed_sources(source.folder)
    if changed:
        raise BundleError(
            f"the source tree of '{source.folder}' is dirty ({changed[0]}{' and others' if len(changed) > 1 else ''}). "
            "Commit or remove that first."
        )


def update(
    page: Page,
    address: Address,
    results: list[TargetResult],
    sources: Mapping[str, str | None],
    min_speedup: float,
    goals: Mapping[str, list[GoalFigure]],
) -> tuple[Page, list[Change]]:
    """The page with the figures of a bundle's rows, and the changes.

    sources: hashes by target.
    goals: the figures of goals by `target:implementation`.

    A variant whose interval does not lie above `min_speedup` gets an entry without a threshold. A variant that
    gives no expectation for another reason keeps an existing entry; the change says why.
    """
    expected, runs, changes = dict(page.expected), list(page.runs), []
    for result in results:
        run = _run_in(runs, measured_run(address.bundle, result.tier), result.target, sources.get(result.target))
        for row in result.rows:
            if row.role != "variant" or row.is_skipped:
                continue
            name, found = f"{result.target}:{row.name}", figure(result, row)
            before = page.expected.get(name)
            old = before.at_least if before else None
            reason = refusal(result, row, min_speedup)
            if reason is not None or found is None:
                changes.append(Change(name, old, old, reason or row.reason or "no figure"))
            else:
                at_least = None if found.low < min_speedup else found.low * (1 - result.floor)
                expected[name] = expectation_of(result, row, found, at_least, run, goals.get(name, []))
                why = "" if at_least else f"{found.low:.4g} is below {min_speedup:g}"
                changes.append(Change(name, old, at_least, why))
    return evolve(page, runs=runs, expected=expected), changes


def expectation_of(
    result: TargetResult, row: Row, found: Estimate, at_least: float | None, run: int, goals: list[GoalFigure]
) -> Expectation:
    """The figures of a row. `found` is that which is compared, `run` the position of its run in a file."""
    return Expectation(
        metric=metric_of(result.goal),
        at_least=at_least,
        measured=found.value,
        low=found.low,
        high=found.high,
        sizes=dict(result.problem.params),
        run=run,
        time_s=row.time_s,
        sol=row.speed_of_light,
        host_share=host_share(row) if row.clock == "wall" else None,
        goals=goals,
    )


def measured_run(bundle: Bundle, tier: str) -> MeasuredRun:
    """The run of a bundle, without the hashes of sources; the seal is empty where the bundle has none yet."""
    manifest = bundle.manifest
    packages: dict[str, Any] = {name: manifest.packages[name] for name in VERSIONS if name in manifest.packages}
    driver = {"driver": manifest.machine.driver} if manifest.machine.driver else {}
    return MeasuredRun(
        bundle=bundle.path.resolve().name,
        seal=manifest.hashes.get(MANIFEST, ""),
        date=manifest.created,
        tier=tier,
        versions={"aiperf": manifest.aiperf, **packages, **driver},
        git=commit_of(manifest),
        sources={},
    )


def _run_in(runs: list[MeasuredRun], run: MeasuredRun, target: str, source: str | None) -> int:
    """The position of a run among those of a file, where it is added if need be, with the hash of a target's source."""
    found = next((place for place, known in enumerate(runs) if known.seal == run.seal), len(runs))
    if found == len(runs):
        runs.append(run)
    if source is not None:
        runs[found] = evolve(runs[found], sources={**runs[found].sources, target: source})
    return found


def module_hash(manifest: Manifest, target: str) -> str | None:
    """The hash of a target's source in a manifest, where a module of that name is in it once."""
    name = target.rpartition(".")[2]
    found = [digest for module, digest in manifest.files.items() if module.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None

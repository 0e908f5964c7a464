"""The rows that an analysis reads: of bundles in folders, or of a store.

Rows that are not believed never enter a figure: they are `left_out`. Rows are pooled only if they have the same
`SeriesKey`. An entry is read without samples; `Entry.blocks` reads them when they are needed.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.report.marks import colours
from aiperf_core.report.metrics import METRICS, of_goal
from aiperf_core.report.result import ChangedBundle, Figure, LeftOut, Origin, Source
from aiperf_core.results.address import find
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.listing import bundles
from aiperf_core.results.models import Manifest, Row, TargetResult
from aiperf_core.results.seal_check import SealError, check

if TYPE_CHECKING:
    from aiperf_core.stats.intervals import Blocks

# The name of the picture of a series is this and the digest of its key.
HISTORY_PICTURE = "history-"


@frozen
class SeriesKey:
    """What rows must have in common to be pooled, or to stand in one series.

    hardware: the kind of machine, such as `nvidia-h200-x1`.
    params: the sizes of the workload, as sorted pairs.
    """

    target: str
    implementation: str
    device: str
    hardware: str
    params: tuple[tuple[str, float], ...]
    clock: str
    cache: str
    precision: str

    @property
    def digest(self) -> str:
        """A short name of the key, for addresses and databases."""
        text = json.dumps([self.target, self.implementation, self.device, self.hardware, self.params, self.clock,
                           self.cache, self.precision])  # fmt: skip
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@frozen(eq=False)
class Measured:
    """A bundle as an analysis sees it.

    id: its seal; of a bundle without a seal, its path.
    path: where it lies, or lay when it was stored.
    bundle: for reading samples; None where its folder is gone.
    """

    id: str
    path: str
    manifest: Manifest
    bundle: Bundle | None = None

    @property
    def created(self) -> str:
        """When the run began, in ISO 8601."""
        return self.manifest.created


@frozen(eq=False)
class Entry:
    """A row of a target of a bundle. The row and the result hold no samples; `blocks` has them."""

    run: Measured
    result: TargetResult
    row: Row

    @property
    def origin(self) -> Origin:
        """Where its figures come from."""
        return Origin(self.run.id, self.result.target, self.row.name)

    @property
    def name(self) -> str:
        """`target:implementation`."""
        return f"{self.result.target}:{self.row.name}"

    @property
    def base_target(self) -> str:
        """The name of its target, without the point of a sweep."""
        return self.result.target.partition("@")[0]

    @property
    def hardware(self) -> str:
        """The kind of machine."""
        return hardware_key(self.run.manifest.machine, self.result.device, self.result.problem.params)

    @property
    def params(self) -> tuple[tuple[str, float], ...]:
        """The sizes of the workload, as sorted pairs."""
        return tuple(sorted(self.result.problem.params.items()))

    def figure(self, key: str) -> Figure:
        """A metric of the row."""
        return METRICS[key].of(self.result, self.row)

    @property
    def gain(self) -> Figure:
        """The speedup, or the memory gain where that is the goal."""
        return of_goal(self.result).of(self.result, self.row)

    @property
    def ceilings(self) -> Ceilings | None:
        """What the device of the target was measured to reach."""
        return self.run.manifest.ceilings.get(self.result.device)

    @property
    def key(self) -> SeriesKey:
        """What a row must share to be pooled with this one."""
        result = self.result
        return SeriesKey(
            target=result.target,
            implementation=self.row.name,
            device=result.device,
            hardware=self.hardware,
            params=self.params,
            clock=result.clock,
            cache=result.cache,
            precision=result.problem.precision,
        )

    @property
    def colour(self) -> str:
        """The class of the colour of its implementation in pictures."""
        return colours((row.name, row.role) for row in self.result.rows)[self.row.name]

    @property
    def believed(self) -> bool:
        """Whether its figures may be used."""
        return self.row.is_believed

    @property
    def baseline(self) -> Row | None:
        """The baseline of its target."""
        return next((row for row in self.result.rows if row.role == "baseline"), None)

    def blocks(self, row: str | None = None) -> "Blocks | None":
        """The times of a row of this target with their passes; None where the samples are gone or were never taken.

        row: the name of another row of the same target, for contrasts on shared draws; None stands for this one.
        """
        if self.run.bundle is None:
            return None
        result = _with_samples(self.run.bundle, self.result.target)
        found = next((one for one in result.rows if one.name == (row or self.row.name)), None)
        if found is None or not found.samples.block:
            return None
        from aiperf_core.stats.observations import blocks

        return blocks(result, found, self.ceilings)


@frozen(eq=False)
class Read:
    """A bundle that was read: the run, and its results without samples."""

    run: Measured
    results: Sequence[TargetResult]


_READ: dict[tuple[str, int], TargetResult] = {}
_LOCK = threading.Lock()
_KEPT = 4  # targets whose samples stay in memory


def _with_samples(bundle: Bundle, target: str) -> TargetResult:
    """A target with its samples. A few are kept, since analyses ask for the rows of a target one after the other.

    The time of its document is a part of the key: a server reads bundles that are written meanwhile.
    """
    with _LOCK:
        path = bundle.target_path(target)
        key = (str(path), path.stat().st_mtime_ns if path.exists() else 0)
        found = _READ.get(key)
        if found is None:
            found = _READ[key] = bundle.target(target)
            while len(_READ) > _KEPT:
                _READ.pop(next(iter(_READ)))
        return found


@frozen(eq=False)
class Selection:
    """What an analysis reads.

    runs: the bundles, newest first.
    every: the rows of these bundles, believed or not. Controls are among them.
    unreadable: bundles that were left out, with the reason.
    patterns: the patterns of targets that were asked for; empty for all.
    """

    runs: Sequence[Measured]
    every: Sequence[Entry]
    unreadable: Sequence[LeftOut] = field(factory=tuple)
    patterns: Sequence[str] = ()

    @cached_property
    def entries(self) -> list[Entry]:
        """The believed rows: baselines, variants and yardsticks."""
        return [one for one in self.every if one.believed and one.row.role != "control"]

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """The rows that are not believed, skipped targets that were asked for, and unreadable bundles."""
        rows = [
            LeftOut(one.name, one.row.verdict.value, one.row.reason or "no reason was recorded", one.origin)
            for one in self.every
            if not one.believed
        ]
        skipped = [
            LeftOut(one.target, one.verdict.value, one.reason, Origin(run.id, one.target))
            for run in self.runs
            for one in run.manifest.skipped
            if fits(one.target, self.patterns)
        ]
        return [*rows, *skipped, *self.unreadable]

    @property
    def changed(self) -> list[ChangedBundle]:
        """The bundles that were left out because they were changed after their run."""
        return [one for one in self.unreadable if isinstance(one, ChangedBundle)]

    @cached_property
    def sources(self) -> list[Source]:
        """The bundles, for a result."""
        hardware = {number: one.hardware for number, one in {id(one.run): one for one in self.every}.items()}
        return [Source(run.id, run.path, run.created, hardware.get(id(run), "")) for run in self.runs]

    def targets(self) -> dict[tuple[str, str], list[Entry]]:
        """The believed rows of each target of each bundle, by the bundle's id and the target's name."""
        found: dict[tuple[str, str], list[Entry]] = {}
        for one in self.entries:
            found.setdefault((one.run.id, one.result.target), []).append(one)
        return found

    @cached_property
    def _series(self) -> dict[SeriesKey, list[Entry]]:
        found: dict[SeriesKey, list[Entry]] = {}
        for one in sorted(self.entries, key=lambda one: one.run.created):
            found.setdefault(one.key, []).append(one)
        return found

    def series(self) -> Mapping[SeriesKey, Sequence[Entry]]:
        """The believed rows by what they have in common, each in the order of time."""
        return self._series

    @cached_property
    def _latest(self) -> "Selection":
        results = {id(one.result): one for one in self.every}
        keys = {at: (one.result.target, one.result.device, one.hardware, one.params) for at, one in results.items()}
        newest: dict[tuple[object, ...], Measured] = {}
        for at, one in results.items():
            held = newest.get(keys[at])
            if held is None or one.run.created > held.created:
                newest[keys[at]] = one.run
        kept = [one for one in self.every if newest[keys[id(one.result)]] is one.run]
        runs = {id(one.run) for one in kept}
        return evolve(self, runs=[run for run in self.runs if id(run) in runs], every=kept)

    def latest(self) -> "Selection":
        """The newest bundle of each target, device, kind of machine and size: not the best of all runs."""
        return self._latest

    def only(self, keep: Callable[[Entry], bool]) -> "Selection":
        """The rows that `keep` accepts."""
        return evolve(self, every=[one for one in self.every if keep(one)])

    def matching(
        self, targets: Sequence[str] = (), hardware: str | None = None, device: str | None = None
    ) -> "Selection":
        """The rows that the filters of `select` accept."""
        kept = self.only(
            lambda one: (
                fits(one.result.target, targets)
                and (device is None or one.result.device == device)
                and (hardware is None or fnmatchcase(one.hardware, hardware))
            )
        )
        return evolve(kept, patterns=tuple(targets))


def fits(target: str, patterns: Collection[str]) -> bool:
    """Whether the name of a target fits one of these patterns, or there are none.

    A pattern without `@` also takes the sizes of a sweep: `practice.softmax` takes `practice.softmax@rows=64`.
    """
    names = {target, target.partition("@")[0]}
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def select(
    texts: Iterable[str] = (),
    *,
    folder: Path = DEFAULT_PARENT,
    targets: Sequence[str] = (),
    hardware: str | None = None,
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Selection:
    """Read rows from bundles. Their seals are checked, samples excluded.

    texts: bundles and their parts, named as in every command, and folders of bundles; none stands for all bundles of
        `folder`.
    targets: patterns such as `ch07.*`; none stands for all.
    hardware: a pattern of kinds of machine.
    labels: labels that a run must have.

    A bundle that is named twice, or that has a copy, is read as one. Raises UsageError for a text that names nothing.
    Damaged bundles are left out with the reason.
    """
    asked: dict[Path, tuple[Path, list[tuple[str | None, str | None]]]] = {}
    for path, target, row in _addressed(texts, folder):
        asked.setdefault(path.resolve(), (path, []))[1].append((target, row))
    found = [(read_bundle(path), parts) for path, parts in asked.values()]
    return gathered(found, targets=targets, hardware=hardware, device=device, labels=labels)


def gathered(
    found: Iterable[tuple[Read | LeftOut, Sequence[tuple[str | None, str | None]]]],
    *,
    targets: Sequence[str] = (),
    hardware: str | None = None,
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Selection:
    """The rows of bundles that were read, with the filters of `select`.

    found: each bundle with the targets and rows that are wanted of it; None stands for all.
    """
    # By the bundle's id: a copy of a bundle is no second run.
    runs: dict[str, Measured] = {}
    every: dict[tuple[str, str, str], Entry] = {}
    unreadable: list[LeftOut] = []
    for read, parts in found:
        if isinstance(read, LeftOut):
            unreadable.append(read)
            continue
        if labels and not labels.items() <= read.run.manifest.labels.items():
            continue
        skipped = [one for one in read.run.manifest.skipped if any(target in (None, one.target) for target, _ in parts)]
        kept = evolve(read.run, manifest=evolve(read.run.manifest, skipped=skipped))
        run = runs.setdefault(read.run.id, kept)
        for result in read.results:
            if not fits(result.target, targets):
                continue
            if device is not None and result.device != device:
                continue
            for row_of in result.rows:
                wanted = any(target in (None, result.target) and row in (None, row_of.name) for target, row in parts)
                one = Entry(run, result, row_of)
                if wanted and (hardware is None or fnmatchcase(one.hardware, hardware)):
                    every.setdefault((run.id, result.target, row_of.name), one)
    newest = sorted(runs.values(), key=lambda run: run.created, reverse=True)
    return Selection(newest, list(every.values()), unreadable, tuple(targets))


def _addressed(texts: Iterable[str], folder: Path) -> Iterator[tuple[Path, str | None, str | None]]:
    """The bundle, the target and the row of each text."""
    texts = list(texts)
    for text in texts or [str(folder)]:
        path = Path(text)
        if path.is_dir() and not (path / MANIFEST).exists():
            listed = bundles(path)
            if not listed:
                raise without_bundles(path)
            yield from ((one.path, None, None) for one in listed)
            continue
        if not texts and not path.exists():
            raise without_bundles(path)
        address = find(text, folder)
        names = address.targets if address.target is not None else [None]
        yield from ((address.bundle.path, name, address.implementation) for name in names)


def without_bundles(folder: Path) -> UsageError:
    """The error of a folder that holds no bundles, or does not exist."""
    if not folder.exists():
        return UsageError(
            f"'{words(str(folder))}' does not exist, so there are no results yet. Make some: aiperf run PATTERN"
        )
    return UsageError(
        f"'{words(str(folder))}' holds no bundles. Name a bundle or a folder of bundles, or make one: "
        "aiperf run PATTERN"
    )


def read_bundle(path: Path, accept: Callable[[str], bool] = lambda _: True) -> Read | LeftOut:
    """A bundle and its results without samples; why it is left out where it is damaged or was changed.

    accept: whether a target is read.
    """
    try:
        bundle = Bundle.open(path)
        sealed = check(bundle, None, samples=False)
        if not sealed.holds:
            raise SealError(sealed.told())
        manifest = bundle.manifest
        run = Measured(manifest.hashes.get(MANIFEST) or str(path), str(path), manifest, bundle)
        return Read(run, [bundle.outline(name) for name in bundle.targets if accept(name)])
    except BundleError as error:
        return not_read(path.name, error)


def not_read(name: str, error: BundleError) -> LeftOut:
    """A bundle that is left out for an error."""
    return (ChangedBundle if isinstance(error, SealError) else LeftOut)(words(name), "", str(error))


def required(entries: Sequence[Entry], selection: Selection, what: str = "a believed row") -> None:
    """Raise where nothing is left to compute from: the error says why each row was left out."""
    if entries:
        return
    reasons: dict[str, int] = {}
    for one in selection.left_out:
        text = f"{one.verdict}: {one.reason}" if one.verdict else one.reason
        reasons[text] = reasons.get(text, 0) + 1
    told = "; ".join(
        f"{f'{count} x ' if count > 1 else ''}{words(text).rstrip('.')}" for text, count in list(reasons.items())[:5]
    )
    if told and not selection.runs:
        raise AiperfError(f"no bundle can be read: {told}.")
    raise AiperfError(
        f"there is no {what.removeprefix('a ')} in {units.plural('bundle', len(selection.runs))}"
        f"{f'. Left out: {told}' if told else ''}. Run more targets: aiperf run PATTERN"
    )

"""Standings: what every goal of the installed targets has reached, by stored runs and expectations files.

The latest run that has a goal's figure decides. Without such a run the latest row of an expectations file of the
target's package does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from aiperf_core.described import Described
from aiperf_core.errors import BundleError
from aiperf_core.goal import Goal
from aiperf_core.measurements import Estimate
from aiperf_core.results.listing import Run
from aiperf_core.results.models import Manifest, TargetResult
from aiperf_core.stats import expectations
from aiperf_core.stats.expectations import Page
from aiperf_core.stats.goals import NoFigureError, Reached, figure_of
from aiperf_core.stats.threshold import Threshold
from aiperf_core.targets import InstalledTarget


@frozen
class Origin:
    """The run that a figure is from.

    bundle: the name of its folder.
    machine: the device's name, or the key of an expectations file.
    date: when it started.
    tier: `quick`, `standard` or `audit`; None where an expectations file does not have it.
    file: the expectations file that has the figure; None for a figure from a bundle.
    """

    bundle: str
    machine: str
    date: str
    tier: str | None = None
    file: str | None = None


@frozen
class JudgedGoal:
    """A goal, with its figure and where that is from; without a figure `reason` says why."""

    target: str
    goal: Goal
    reached: Reached | None = None
    origin: Origin | None = None
    reason: str = ""

    @property
    def threshold(self) -> Threshold:
        """The bar of the goal."""
        goal = self.goal
        row = goal.implementation or ""
        return Threshold(self.target, row, goal.of, goal.bar, goal.at_most, goal.device, source="bench.reach")

    @property
    def state(self) -> str:
        """`MET`, `MISSED`, `UNCLEAR` or `NOT MEASURED`."""
        return self.threshold.judge(self.reached and self.reached.figure)


@frozen
class Standings:
    """The standings of all goals.

    without: targets without any goal, with their files.
    never_on_gpu: targets for GPUs of which no run on a GPU is stored, and no expectation.
    unreadable: results that could not be read, with the reason.
    """

    rows: list[JudgedGoal] = field(factory=list)
    without: dict[str, str] = field(factory=dict)
    never_on_gpu: list[str] = field(factory=list)
    unreadable: list[str] = field(factory=list)


def standings(targets: Iterable[tuple[InstalledTarget, Described]], runs: Sequence[Run]) -> Standings:
    """The standings of the goals of these targets. `runs` are sorted, newest first."""
    found = Standings()
    for target, described in targets:
        source = expectations.source_of(target)
        if not described.goals:
            found.without[target.name] = str(source.file) if source else target.module
        pages = list(_pages(source.folder, found.unreadable)) if source else []
        results = list(_results(target.name, runs, found.unreadable))
        found.rows.extend(_standing(target.name, goal, described, results, pages) for goal in described.goals)
        if described.on("cuda") and not _was_on_gpu(target.name, results, pages):
            found.never_on_gpu.append(target.name)
    return found


@frozen
class _Measured:
    """A result of a target in a run: its outline, and how to read it whole."""

    run: Run
    outline: TargetResult
    whole: Callable[[], TargetResult]


def _results(name: str, runs: Sequence[Run], unreadable: list[str]) -> Iterator[_Measured]:
    for run in runs:
        if name in run.targets:
            bundle = run.bundle
            try:
                yield _Measured(run, bundle.outline(name), lambda bundle=bundle: bundle.target(name))  # type: ignore[misc]
            except BundleError as error:
                unreadable.append(str(error))


def _pages(folder: Path, unreadable: list[str]) -> Iterator[tuple[Path, Page]]:
    """The expectations files of a package."""
    for path in sorted((folder / expectations.FOLDER).glob("*.json")):
        try:
            page = expectations.read(path)
        except BundleError as error:
            unreadable.append(str(error))
            continue
        if page is not None:
            yield path, page


def _was_on_gpu(name: str, results: Sequence[_Measured], pages: Sequence[tuple[Path, Page]]) -> bool:
    kept = (row for _, page in pages if page.is_of("cuda") for row in page.expected)
    return any(one.outline.device == "cuda" for one in results) or any(row.partition(":")[0] == name for row in kept)


def _standing(
    name: str, goal: Goal, described: Described, results: Sequence[_Measured], pages: Sequence[tuple[Path, Page]]
) -> JudgedGoal:
    sizes, reason = described.sizes_of(goal), ""
    for one in results:
        manifest = one.run.manifest
        ceilings = manifest.ceilings.get(goal.device)
        try:
            # Refuses most results without reading their samples.
            figure_of(goal, sizes, one.outline, ceilings)
            reached = figure_of(goal, sizes, one.whole(), ceilings)
        except (NoFigureError, BundleError) as error:
            reason = reason or f"{one.run.name}: {error}"
            continue
        origin = Origin(one.run.name, _machine(manifest, goal.device), one.outline.started, one.outline.tier)
        return JudgedGoal(name, goal, reached, origin)
    # Of the rows of one run the best counts: a goal on `speedup` has a figure in each of them.
    sign = -1 if goal.at_most else 1
    kept = sorted(_kept(name, goal, sizes, pages), key=lambda pair: (pair[1].date, sign * pair[0].figure.value))
    return JudgedGoal(name, goal, *kept[-1]) if kept else JudgedGoal(name, goal, reason=reason)


def _machine(manifest: Manifest, device: str) -> str:
    ceilings = manifest.ceilings.get(device)
    return ceilings.device if ceilings else manifest.machine.cpu


def _kept(
    name: str, goal: Goal, sizes: Mapping[str, float], pages: Sequence[tuple[Path, Page]]
) -> Iterator[tuple[Reached, Origin]]:
    """The figures of a goal in expectations files."""
    for path, page in pages:
        if not page.is_of(goal.device):
            continue
        for key, row in page.expected.items():
            target, _, implementation = key.partition(":")
            if target != name or goal.implementation not in (None, implementation) or row.sizes != sizes:
                continue
            run = page.run_of(key)
            origin = Origin(run.bundle, page.hardware, run.date, run.tier, file=path.name)
            if goal.of == row.metric:  # the row's own figure is that of a goal on `speedup`
                yield Reached(implementation, Estimate(row.measured, row.low, row.high)), origin
            for one in row.goals:
                if one.of == goal.of:
                    yield Reached(implementation, Estimate(one.value, one.low, one.high)), origin

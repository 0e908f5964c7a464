"""Series of runs: figures that may be compared, in the order of their commits, and where the machine changed."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from attrs import evolve, frozen

from aiperf_analysis.selection import Entry, Selection, SeriesKey
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import Metric
from aiperf_core.results.listing import moment
from aiperf_core.results.models import Manifest


@frozen
class Run:
    """A run of a series: the entry, its figure, and when its commit was made, or else when the run began."""

    entry: Entry
    figure: Estimate
    when: datetime

    @property
    def commit(self) -> str | None:
        """The commit, shortened; None outside of a repository."""
        return short_commit(self.entry.run.manifest)


@frozen
class Border:
    """A change of the software or of the machine between the runs `at - 1` and `at` of a series."""

    at: int
    what: str
    before: str
    after: str

    @property
    def told(self) -> str:
        """The change as a text."""
        return f"{self.what} {self.before or 'none'} -> {self.after or 'none'}"


@frozen
class RunSeries:
    """Runs that may be compared, in order, and the borders between them."""

    key: SeriesKey
    metric: Metric
    runs: list[Run]
    floor: float
    borders: list[Border]

    @property
    def name(self) -> str:
        """`target:implementation`."""
        return f"{self.key.target}:{self.key.implementation}"

    @property
    def estimates(self) -> list[Estimate]:
        """The figures, in order."""
        return [one.figure for one in self.runs]

    def near(self, first: int, last: int) -> list[Border]:
        """The borders within a range of runs."""
        return [one for one in self.borders if first <= one.at <= last]


def series_of(
    selection: Selection, metric: Metric, floor: float | None = None, order: str = "commit"
) -> list[RunSeries]:
    """The series of a metric, by name. Baselines have no speedup, and yardsticks and baselines have times.

    floor: the smallest relative difference that matters; None takes that of the newest run's target.
    order: `commit` orders by the time of the commit, `created` by that of the run.
    """
    found: list[RunSeries] = []
    for key, entries in selection.series().items():
        runs = [
            Run(one, figure, _when(one, order))
            for one in entries
            if (figure := metric.estimate(one.result, one.row)) is not None and figure.low > 0
        ]
        runs.sort(key=lambda one: (one.when, one.entry.run.created))
        if runs:
            least = runs[-1].entry.result.floor if floor is None else floor
            found.append(RunSeries(key, metric, runs, least, list(borders([one.entry.run.manifest for one in runs]))))
    return sorted(found, key=lambda one: (one.name, one.key.hardware, one.key.params, one.key.digest))


def extended(series: RunSeries, runs: int) -> RunSeries:
    """The first runs of a series."""
    return evolve(series, runs=series.runs[:runs], borders=[one for one in series.borders if one.at < runs])


def _when(entry: Entry, order: str) -> datetime:
    manifest = entry.run.manifest
    for text in (manifest.commit_time if order == "commit" else None, manifest.created):
        try:
            return moment(text or "")
        except ValueError:
            continue
    return moment("0001-01-01")


def short_commit(manifest: Manifest) -> str | None:
    """The commit of a run, shortened; with `-dirty` where files were changed."""
    commit, dash, dirty = (manifest.git or "").partition("-")
    return f"{commit[:12]}{dash}{dirty}" or None


def borders(manifests: Sequence[Manifest]) -> Iterable[Border]:
    """The changes between neighbouring runs."""
    for at in range(1, len(manifests)):
        before, after = _surroundings(manifests[at - 1]), _surroundings(manifests[at])
        yield from (Border(at, what, before[what], after[what]) for what in before if before[what] != after[what])


def _surroundings(manifest: Manifest) -> dict[str, str]:
    machine = manifest.machine
    return {
        "driver": machine.driver or "",
        "torch": manifest.packages.get("torch", ""),
        "triton": manifest.packages.get("triton", ""),
        "aiperf": manifest.aiperf,
        "python": machine.python,
        "system": machine.system,
        "processor": machine.cpu,
        "GPUs": ", ".join(str(gpu.get("name") or "unnamed") for gpu in machine.gpus),
    }

"""The runs of one series as columns, from bundles or from a store."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from aiperf_analysis.selection import Entry, Selection, SeriesKey
from aiperf_analysis.sizes import text_of
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import STORED, SUMMARY

if TYPE_CHECKING:
    from aiperf_analysis.store.figures import Points


@frozen(kw_only=True)
class RunCourse:
    """The believed runs of a series in the order of time, as columns of one length.

    bundle: the seal of each run, or the path of its folder.
    created: when the run began, in ISO 8601.
    git: the commit of the run; None outside of a repository.
    floor: the smallest relative change that matters, by the newest run.
    figures: of each metric, by its name in options; None where a run has none.
    """

    key: SeriesKey
    bundle: Sequence[str]
    created: Sequence[str]
    git: Sequence[str | None]
    verdict: Sequence[str]
    floor: float
    figures: Mapping[str, Sequence[Estimate | None]]

    def __len__(self) -> int:
        return len(self.bundle)

    @property
    def title(self) -> str:
        """What it is a series of: `target:implementation on nvidia-h200-x1, n=64`."""
        of = [f"{self.key.target}:{self.key.implementation} on {self.key.hardware}", text_of(dict(self.key.params))]
        return ", ".join(filter(None, of))


def of_selection(selection: Selection, digest: str) -> RunCourse | None:
    """The series with this key; None where there is none."""
    return next((_of_entries(key, some) for key, some in selection.series().items() if key.digest == digest), None)


def _of_entries(key: SeriesKey, entries: Sequence[Entry]) -> RunCourse:
    return RunCourse(
        key=key,
        bundle=[one.run.id for one in entries],
        created=[one.run.created for one in entries],
        git=[one.run.manifest.git for one in entries],
        verdict=[one.row.verdict.value for one in entries],
        floor=entries[-1].result.floor,
        figures={name: [metric.estimate(one.result, one.row) for one in entries] for name, metric in STORED.items()},
    )


def of_points(key: SeriesKey, points: "Points") -> RunCourse:
    """The series as a store has it, with the metrics of summaries."""
    return RunCourse(
        key=key,
        bundle=points.bundle,
        created=points.created,
        git=points.git,
        verdict=points.verdict,
        floor=points.floor,
        figures={one.name: points.figures[one.key] for one in SUMMARY},
    )

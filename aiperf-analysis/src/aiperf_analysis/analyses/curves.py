"""The points of a target over a parameter, in curves that pool only what is alike."""

import math
import re
from collections.abc import Sequence

from attrs import field, frozen

from aiperf_analysis.models.curve import Curve
from aiperf_analysis.models.draws import sample_draws
from aiperf_analysis.selection import Entry, Selection
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.results.hardware import is_gpu
from aiperf_core.results.models import TargetResult
from aiperf_core.stats.draws import Floats
from aiperf_core.sweep import base_name
from aiperf_core.targets import WORLD_SIZE, nearest
from aiperf_core.units import parameter

STRONG, WEAK, SIZE = "strong", "weak", "size"
MISFIT = "MISFIT"  # of a curve that a point contradicts
# Parameters that count processors or what runs on them.
PROCESSORS = (WORLD_SIZE, "threads", "workers", "processes", "ranks", "nodes")


@frozen
class GroupKey:
    """What the points of a curve have in common."""

    target: str
    implementation: str
    device: str
    hardware: str
    executor: str
    clock: str
    cache: str
    precision: str
    params: tuple[tuple[str, float], ...]


@frozen(eq=False)
class Group:
    """The points of an implementation in ascending order.

    at: their places. kind: `strong`, `weak` or `size`. curves: by the number of draws, once they are made.
    """

    key: GroupKey
    over: str
    kind: str
    at: list[float]
    entries: list[Entry]
    curves: dict[int, Curve] = field(factory=dict)

    @property
    def name(self) -> str:
        """The target and the implementation."""
        return f"{self.key.target}:{self.key.implementation}"

    @property
    def times(self) -> list[Estimate]:
        """The times of the points."""
        return [one.row.time_s for one in self.entries if one.row.time_s is not None]

    @property
    def floor(self) -> float:
        """The smallest relative difference that matters."""
        return max(one.result.floor for one in self.entries)

    def curve(self, draws: int) -> Curve:
        """The points with draws, from samples where there are some."""
        if draws not in self.curves:
            rounds = [one.result.rounds for one in self.entries]
            sampled = [_drawn(one, draws, seed) for seed, one in enumerate(self.entries)]
            self.curves[draws] = Curve.of(self.at, self.times, self.floor, sampled, draws, rounds)
        return self.curves[draws]


def _drawn(entry: Entry, draws: int, seed: int) -> Floats | None:
    blocks = entry.blocks()
    return sample_draws(blocks, draws, seed) if blocks is not None else None


def _place(result: TargetResult, over: str) -> float | None:
    params = result.problem.params
    if over == WORLD_SIZE:
        return float(params.get(over, result.problem.world_size))
    return params.get(over)


def points_over(selection: Selection, over: str) -> dict[GroupKey, dict[float, Entry]]:
    """The timed rows by what they have in common but for a parameter, and by its value. The newest of each counts."""
    points: dict[GroupKey, dict[float, Entry]] = {}
    for one in sorted(selection.entries, key=lambda entry: entry.run.created):
        at = _place(one.result, over)
        if at is not None and at > 0 and one.row.time_s is not None and one.row.time_s.low > 0:
            points.setdefault(_key(one, over), {})[at] = one
    return points


def parameters(selection: Selection) -> list[str]:
    """The parameters that have several values within a target."""
    values: dict[tuple[str, str], set[float]] = {}
    for one in selection.entries:
        for name, value in one.result.problem.params.items():
            values.setdefault((base_name(one.result.target), name), set()).add(value)
    return sorted({name for (_, name), seen in values.items() if len(seen) > 1})


def groups_of(selection: Selection, over: str, kind: str) -> list[Group]:
    """The curves with at least two points. Raises where there are none."""
    points = points_over(selection, over)
    if not points:
        known = sorted({name for one in selection.entries for name in one.result.problem.params})
        raise UsageError(
            f"no selected target has a parameter {words(over)!r} with a positive value.{nearest(over, known)} "
            f"Parameters here: {', '.join(map(words, known)) or 'none'}."
        )
    several = {key: found for key, found in points.items() if len(found) > 1}
    if not several:
        name, found = next((key.target, found) for key, found in points.items())
        raise AiperfError(
            f"no target was measured at two values of '{words(over)}': {words(name)} has {len(found)} "
            f"({', '.join(map(parameter, sorted(found)))}). Run a sweep: aiperf run {words(name)} --set {words(over)}="
            "VALUE,VALUE,VALUE"
        )
    made = []
    for key, found in sorted(several.items(), key=lambda pair: (pair[0].target, pair[0].implementation)):
        places = sorted(found)
        entries = [found[place] for place in places]
        made.append(Group(key, over, _kind(entries, places, over) if kind == "auto" else kind, places, entries))
    return made


def _key(entry: Entry, over: str) -> GroupKey:
    result, hardware = entry.result, entry.hardware
    if over == WORLD_SIZE and is_gpu(hardware):
        # The number of GPUs is what varies.
        hardware = re.sub(r"-x\d+$", "", hardware)
    params = tuple(sorted((name, value) for name, value in result.problem.params.items() if name != over))
    return GroupKey(
        base_name(result.target),
        entry.row.name,
        result.device,
        hardware,
        result.executor,
        result.clock,
        result.cache,
        result.problem.precision,
        params,
    )


def _kind(entries: Sequence[Entry], at: Sequence[float], over: str) -> str:
    """Whether the problem is fixed, the work a rank is, or the axis is a size: by the declared work."""
    if over not in PROCESSORS:
        return SIZE
    work = [one.result.problem.flops or one.result.problem.bytes_read + one.result.problem.bytes_written
            for one in entries]  # fmt: skip
    if min(work) <= 0:
        return STRONG
    slope = math.log(work[-1] / work[0]) / math.log(at[-1] / at[0])
    # The cost of a distributed workload is that of a rank, any other cost that of the whole.
    whole = slope + 1 if over == WORLD_SIZE else slope
    return WEAK if whole > 0.5 else STRONG

"""Compare two runs, or two implementations.

Two implementations of a target in one run took turns: their ratio is paired, pass by pass, like the speedups of the
run. Two runs are not paired: their errors are independent and add as squares on the logarithmic scale of the intervals.

A ratio is the left time divided by the right time; above 1 the right is faster. For targets whose goal is memory it is
the left peak divided by the right peak. Peaks are counted, not sampled, and have no interval.
"""

import functools
import math
from collections.abc import Callable, Iterator

from attrs import frozen

from aiperf_core import units
from aiperf_core.cost import WORK
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.results.address import Address
from aiperf_core.results.models import Manifest, Row, TargetResult, Verdict
from aiperf_core.stats.intervals import ratio_interval, verdict
from aiperf_core.stats.observations import blocks
from aiperf_core.stats.verdicts import memory_gain, verdict_on_memory
from aiperf_core.sweep import base_name, point_name, split_point

SHORT = 12  # characters that name a commit or a source
Ratio = tuple[Estimate | None, str | None]
Results = dict[str, TargetResult]


@frozen
class Difference:
    """A fact that differs between the sides; an empty text stands for a missing one."""

    what: str
    left: str
    right: str


@frozen
class Compared:
    """A row on both sides, with a `ratio` and a `verdict`, or with a `reason` why it was not compared.

    metric: of the ratio: `time`, or `memory` where that is the goal.
    """

    target: str
    implementation: str
    left: Row | None
    right: Row | None
    metric: str
    ratio: Estimate | None = None
    verdict: Verdict | None = None
    reason: str | None = None


@frozen
class Comparison:
    """Two sides: the differences between the runs, and the rows. `floor` is None if each target's own floor counted."""

    differences: list[Difference]
    rows: list[Compared]
    paired: bool
    floor: float | None

    @property
    def regressions(self) -> list[Compared]:
        """The rows that are slower on the right beyond the floor, or larger where memory is the goal."""
        return [row for row in self.rows if row.verdict in (Verdict.SLOWER, Verdict.LARGER)]

    @property
    def distrusted(self) -> list[Compared]:
        """The rows that are believed on the left, and INVALID or UNTRUSTED on the right."""
        refused = (Verdict.INVALID, Verdict.UNTRUSTED)
        return [
            row for row in self.rows if row.left and row.right and row.right.verdict in refused and row.left.is_believed
        ]


def compare(left: Address, right: Address, floor: float | None = None) -> Comparison:
    """Compare two addresses. `floor` is the smallest relative difference that matters; None takes the larger of theirs.

    Raises UsageError where nothing can be compared by name, and BundleError for files that cannot be read.
    """
    if (left.implementation is None) != (right.implementation is None):
        raise UsageError(
            "one side names an implementation and the other does not; name one on both sides, "
            "as in BUNDLE:TARGET:IMPLEMENTATION, or on none."
        )
    manifests = left.bundle.manifest, right.bundle.manifest
    if left.implementation is not None:
        return _implementations(left, right, manifests, floor)
    ours, theirs = _matched(left.outlines(), right.outlines())
    common = [name for name in ours if name in theirs]
    if not common:
        raise UsageError(
            f"'{left.bundle.path}' and '{right.bundle.path}' have no target in common, so there is nothing to compare."
        )
    differences = [*of_manifests(*manifests, common), *_of_completeness(*manifests)]
    rows: list[Compared] = []
    for name in ours | theirs:
        differences += _of_results(ours[name], theirs[name]) if name in common else []
        rows += _target(name, ours.get(name), theirs.get(name), floor)
    return Comparison(differences, rows, paired=False, floor=floor)


def _matched(left: list[TargetResult], right: list[TargetResult]) -> tuple[Results, Results]:
    """The results of both sides by name. A result on the right that has a partner on the left has the partner's name.

    Targets are partners by name, and the points of sweeps by all their sizes: the other side may sweep other
    parameters, or have measured the target once.
    """
    swept = {base_name(one.target) for one in (*left, *right) if split_point(one.target)[1]}

    def work(one: TargetResult) -> str:
        base = base_name(one.target)
        return point_name(base, one.problem.params) if base in swept else one.target

    partners = {work(one): one.target for one in left}
    return {one.target: one for one in left}, {partners.get(work(one), one.target): one for one in right}


def _implementations(
    left: Address, right: Address, manifests: tuple[Manifest, Manifest], floor: float | None
) -> Comparison:
    """One implementation on each side; paired where both are of one target in one bundle."""
    same = left.bundle.path.resolve() == right.bundle.path.resolve() and left.single == right.single
    # The samples are needed for pairs only.
    ours, theirs = (one.bundle.target(one.single) if same else one.bundle.outline(one.single) for one in (left, right))
    row, other = left.row(ours), right.row(theirs)
    ceilings = manifests[0].ceilings.get(ours.device)
    differences = [
        *of_manifests(*manifests, [ours.target, theirs.target]),
        *_of_completeness(*manifests),
        *_of_results(ours, theirs),
    ]
    target = ours.target if ours.target == theirs.target else f"{ours.target} -> {theirs.target}"
    name = row.name if row.name == other.name else f"{row.name} -> {other.name}"
    ratio, reason = _ratio(
        ours, theirs, row, other, lambda: _paired(ours, row, other, ceilings) if same else _unpaired(row, other)
    )
    found = Compared(target, name, row, other, metric_of(ours), ratio, _say(ratio, ours, theirs, floor), reason)
    return Comparison(differences, [found], paired=same, floor=floor)


def _ratio(ours: TargetResult, theirs: TargetResult, row: Row, other: Row, of_times: Callable[[], Ratio]) -> Ratio:
    """The ratio of two rows, or the reason why there is none."""
    if reason := _why_not(ours, theirs, row, other):
        return None, reason
    return _of_peaks(row, other) if metric_of(ours) == "memory" else of_times()


def _target(name: str, ours: TargetResult | None, theirs: TargetResult | None, floor: float | None) -> list[Compared]:
    left = {row.name: row for row in ours.rows if row.role != "control"} if ours else {}
    right = {row.name: row for row in theirs.rows if row.role != "control"} if theirs else {}
    metric = metric_of(next(result for result in (ours, theirs) if result))
    found = []
    for implementation in left | right:
        row, other = left.get(implementation), right.get(implementation)
        found_ratio: Ratio = None, "only in the right run" if row is None else "only in the left run"
        if ours and theirs and row and other:
            found_ratio = _ratio(ours, theirs, row, other, functools.partial(_unpaired, row, other))
        ratio, reason = found_ratio
        said = _say(ratio, ours, theirs, floor) if ours and theirs else None
        found.append(Compared(name, implementation, row, other, metric, ratio, said, reason))
    return found


def _why_not(ours: TargetResult, theirs: TargetResult, row: Row, other: Row) -> str | None:
    """Why two rows cannot be compared: one is not believed, or work, clock or cache differ."""
    refused = [f"{side}: {one.verdict.value}" for side, one in (("left", row), ("right", other)) if not one.is_believed]
    if refused:
        return ", ".join(refused)
    unlike = [f"{what} {one} and {two}" for what, one, two in _work(ours, theirs) if one != two]
    return f"not the same work: {'; '.join(unlike)}" if unlike else None


def _work(ours: TargetResult, theirs: TargetResult) -> Iterator[tuple[str, object, object]]:
    yield "goal", metric_of(ours), metric_of(theirs)
    yield "device", ours.device, theirs.device
    yield "clock", ours.clock, theirs.clock
    yield "cache", ours.cache, theirs.cache
    yield "sizes", _sizes(ours), _sizes(theirs)
    for name in (*WORK, "precision", "input_bytes", "output_bytes"):
        yield name, getattr(ours.problem, name), getattr(theirs.problem, name)


def _sizes(result: TargetResult) -> str:
    return units.parameters(dict(sorted(result.problem.params.items()))) or "none"


def _paired(result: TargetResult, row: Row, other: Row, ceilings: Ceilings | None) -> Ratio:
    try:
        ratio = ratio_interval(blocks(result, row, ceilings), blocks(result, other, ceilings))
    except (ArithmeticError, ValueError, IndexError) as error:
        return None, f"the samples allow no ratio ({error})"
    return ratio, None if ratio else "too few passes for an interval"


def metric_of(result: TargetResult) -> str:
    """Kind of figure whose ratio is compared: `memory` where that is the goal, else `time`."""
    return "memory" if result.goal == "memory" else "time"


def _of_peaks(row: Row, other: Row) -> Ratio:
    ratio = memory_gain(*(one.memory.most_bytes if one.memory else None for one in (row, other)))
    return (None, "the peak memory was not measured") if ratio is None else (Estimate(ratio, ratio, ratio), None)


def _unpaired(row: Row, other: Row) -> Ratio:
    if row.time_s is None or other.time_s is None:
        return None, "too few passes for an interval"
    ratio = independent_ratio(row.time_s, other.time_s)
    return ratio, None if ratio else "an interval has no finite bound"


def independent_ratio(top: Estimate, bottom: Estimate) -> Estimate | None:
    """`top / bottom` of two independent estimates. None unless the interval is positive and finite."""
    if top.low <= 0 or bottom.low <= 0:
        return None
    down = math.hypot(_log_ratio(top.value, top.low), _log_ratio(bottom.high, bottom.value))
    up = math.hypot(_log_ratio(top.high, top.value), _log_ratio(bottom.value, bottom.low))
    middle = math.log(top.value) - math.log(bottom.value)
    try:
        found = Estimate(*(math.exp(one) for one in (middle, middle - down, middle + up)))
    except OverflowError:
        return None
    return found if found.low > 0 else None


def _log_ratio(more: float, less: float) -> float:
    """The difference of logarithms, at least 0: medians are discrete, so an interval may exclude its value."""
    return max(0.0, math.log(more) - math.log(less))


def _say(ratio: Estimate | None, ours: TargetResult, theirs: TargetResult, floor: float | None) -> Verdict | None:
    """The verdict on the right side. A difference within the spread of a baseline against itself is INCONCLUSIVE."""
    if ratio is None:
        return None
    floor = max(ours.floor, theirs.floor) if floor is None else floor
    if metric_of(ours) == "memory":
        return verdict_on_memory(ratio.value, floor)
    said = verdict(ratio, floor)
    spread = max(_spread(ours), _spread(theirs))
    if said in (Verdict.FASTER, Verdict.SLOWER) and abs(ratio.value - 1) <= spread:
        return Verdict.INCONCLUSIVE
    return said


def _spread(result: TargetResult) -> float:
    """How far the ratio of a baseline to itself may be from 1, at the ends of its interval; 0 without a control."""
    ratios = [row.speedup for row in result.rows if row.role == "control" and row.speedup]
    return max((max(abs(one.low - 1), abs(one.high - 1)) for one in ratios), default=0.0)


# --- what differs beforehand


def of_manifests(left: Manifest, right: Manifest, targets: list[str]) -> list[Difference]:
    """Machines, software, and the sources of the targets that are compared."""
    one, two = _facts(left), _facts(right)
    found = _unlike(one, two)
    found += [Difference(f"package {it.what}", it.left, it.right) for it in _unlike(left.packages, right.packages)]
    plugins = _unlike(_plugins(left), _plugins(right))
    found += [Difference(f"plugin {it.what}", it.left, it.right) for it in plugins]
    sources = _unlike(_sources(left, targets), _sources(right, targets))
    sources += _unlike(*_packages_sources(left, right))
    return found + [Difference(f"source {it.what}", it.left, it.right) for it in sources]


def _facts(manifest: Manifest) -> dict[str, str]:
    machine = manifest.machine
    commit, dash, dirty = (manifest.git or "").partition("-")
    return {
        "GPU": ", ".join(str(gpu.get("name") or "unnamed") for gpu in machine.gpus),
        "driver": machine.driver or "",
        "processor": f"{machine.cpu}, {machine.cores} logical CPUs",
        "memory": units.size(machine.memory_bytes),
        "hypervisor": machine.hypervisor or "",
        "system": machine.system,
        "host": machine.hostname,
        "python": machine.python,
        "aiperf": manifest.aiperf,
        "git": commit[:SHORT] + dash + dirty,
    }


def _sources(manifest: Manifest, targets: list[str]) -> dict[str, str]:
    """The sources by module: those whose names end like a target's, or all where there is none."""
    names = {base_name(target).rpartition(".")[2] for target in targets}
    chosen = {module: digest for module, digest in manifest.files.items() if module.rpartition(".")[2] in names}
    return {module: digest[:SHORT] for module, digest in (chosen or manifest.files).items()}


def _plugins(manifest: Manifest) -> dict[str, str]:
    """The plugins whose version no package tells, and those that were set aside."""
    return {
        one["distribution"]: "set aside" if "set_aside" in one else one["version"]
        for one in manifest.plugins
        if "set_aside" in one or one["distribution"] not in manifest.packages
    }


def _packages_sources(left: Manifest, right: Manifest) -> tuple[dict[str, str], dict[str, str]]:
    """The sources of packages and their kernels, for packages that both runs used."""
    common = left.sources.keys() & right.sources.keys()
    first, second = (
        {name: digest[:SHORT] for name, digest in one.sources.items() if name.partition("/")[0] in common}
        for one in (left, right)
    )
    return first, second


def _unlike(left: dict[str, str], right: dict[str, str]) -> list[Difference]:
    names = list(left | right)
    return [
        Difference(name, left.get(name, ""), right.get(name, ""))
        for name in names
        if left.get(name, "") != right.get(name, "")
    ]


def _of_completeness(left: Manifest, right: Manifest) -> list[Difference]:
    return _unlike(*({"run": "complete" if one.complete else "not complete"} for one in (left, right)))


def _of_results(ours: TargetResult, theirs: TargetResult) -> list[Difference]:
    """The options that a target was run with."""
    left, right = (
        {
            "tier": f"{one.tier}, {units.plural('round', one.rounds)}",
            "floor": f"{one.floor:g}",
            "tolerance": one.problem.tolerance,
            "size": f"{one.problem.size}: {_sizes(one)}",
            "device": one.device,
        }
        for one in (ours, theirs)
    )
    return [Difference(f"{theirs.target} {one.what}", one.left, one.right) for one in _unlike(left, right)]

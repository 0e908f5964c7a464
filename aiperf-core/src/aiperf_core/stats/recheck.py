"""Check a bundle against its seal and its samples.

The *seal* shows any change of a file after the bundle was closed, unless the bundle was sealed again. The *figures*
(intervals, speedups, verdicts, findings, rates, fractions of the speed of light) are computed again from the stored
observations, by the function that judged them in the run (`stats.judge`). This finds figures that the observations do
not support, whatever the seal says. A recheck needs no GPU, no network, no torch and none of the packages that were
measured.

Samples cannot prove what a check saw or what the machine was. A recheck takes these observations as recorded, unless
they contradict other fields of the record (`stats.contradictions`).
"""

import functools
import math
import multiprocessing
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, field, fields, frozen

from aiperf_core import units
from aiperf_core.document_kind import DocumentKind
from aiperf_core.errors import AiperfError, BundleError
from aiperf_core.measurements import Estimate, Samples
from aiperf_core.results import seal_check, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.exit_codes import exit_code
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import (
    DOCUMENT_KINDS,
    Document,
    Manifest,
    Observations,
    Row,
    SkippedTarget,
    SpeedOfLight,
    TargetResult,
)
from aiperf_core.results.schema import ADDED
from aiperf_core.results.seal_check import Difference
from aiperf_core.stats.contradictions import contradictions
from aiperf_core.stats.judge import judge
from aiperf_core.stats.standing import rules_of

# Sums in a different order differ in the last digits.
EXACT = 1e-9
# A different release of numpy may draw different random numbers; ends of an interval then move by a part of its width.
OTHER_DRAWS = 0.15
# Ceilings may be measured again during a run, and are then slightly higher than when a row was compared with them.
OTHER_CEILINGS = 0.1
# Targets a process: for fewer, starting it takes longer than it saves.
FEW = 8
# What `judge` computes for a row: estimates, and numbers without an interval.
_JUDGED = [column for column in fields(Row) if column not in fields(Observations)]
ESTIMATES = tuple(column.name for column in _JUDGED if column.type == Estimate | None)
NUMBERS = tuple(column.name for column in _JUDGED if column.type == float | None)


@frozen
class Recheck:
    """Scope of a recheck, and the differences that it found.

    seal: the seal of the manifest as it is now; None without one.
    notes: what could not be checked, and why.
    """

    targets: int
    rows: int
    samples: int
    seal: str | None
    differences: list[Difference] = field(factory=list)
    notes: list[str] = field(factory=list)

    @property
    def holds(self) -> bool:
        """Whether there is no difference."""
        return not self.differences


def recheck(
    bundle: Bundle,
    *,
    figures: bool = True,
    expected_seal: str | None = None,
    processes: int = 1,
    documents: Mapping[str, DocumentKind] = MappingProxyType({}),
) -> Recheck:
    """Check a bundle's seal, and its figures unless `figures` is false. `expected_seal` was noted when it was closed.

    documents: what checks the figures of the documents of other packages, by their kinds.

    The figures of many targets are computed in `processes` processes, which import the main module of the program
    again. Raises BundleError for a manifest that cannot be read. Any other file that cannot be read is a difference.
    """
    manifest = bundle.manifest
    sealed = seal_check.check(bundle)
    found = list(sealed.differences)
    notes = [] if sealed.sealed else ["no seal: the bundle was never closed; only its figures can be checked"]
    now = manifest.hashes.get(MANIFEST)
    if expected_seal is not None and now != expected_seal:
        found.append(Difference(MANIFEST, "seal", f"{expected_seal} (given)", now or "none"))
    read = list(_documents(bundle))
    found += [one for one in read if isinstance(one, Difference)]
    if not figures:
        return Recheck(len(bundle.targets), 0, 0, now, found, notes)
    for one in read:
        if isinstance(one, Document) and one.kind in documents:
            found += documents[one.kind].resolve().recheck(bundle, manifest, one)
        elif isinstance(one, Document):
            notes.append(f"'{one.kind}/{one.name}': only its seal was checked; no installed package reads its kind")
    if not _same_draws(manifest):
        made = manifest.packages.get("numpy", "an unknown release")
        notes.append(
            f"intervals were made with numpy {made} and are made again with {np.__version__}: ends may differ a little"
        )
    looks = list(_looks(bundle, manifest, processes))
    for look in looks:
        found += look.differences
    results = [look.outline for look in looks if look.outline is not None]
    # Where there are documents alone, the exit code follows from these.
    if len(results) == len(looks) and (results or manifest.skipped or not read):
        found += _of_end(results, manifest)
    rows = sum(len(one.rows) for one in results)
    return Recheck(len(results), rows, sum(look.samples for look in looks), now, found, notes)


def of_targets(bundle: Bundle, names: Iterable[str]) -> list[Difference]:
    """The differences in the figures of some targets, without those that cannot be read."""
    looks = (_look(bundle, bundle.manifest, name) for name in sorted(names))
    return [difference for look in looks if look.outline is not None for difference in look.differences]


def _documents(bundle: Bundle) -> Iterator[Document | Difference]:
    """The documents of other packages; a difference for each that cannot be read."""
    for kind in DOCUMENT_KINDS:
        for name in bundle.documents(kind):
            try:
                yield bundle.document(kind, name)
            except BundleError as error:
                yield Difference(f"{kind}/{name}", "file", "a document", str(error))


@frozen
class _Look:
    """The recheck of one target. `outline` is its result without samples, None where it cannot be read."""

    outline: TargetResult | None
    samples: int
    differences: list[Difference]


def _looks(bundle: Bundle, manifest: Manifest, processes: int) -> Iterator[_Look]:
    """Recheck each target, in several processes where there are enough targets."""
    look = functools.partial(_look, bundle, manifest)
    names = list(bundle.targets)
    processes = min(processes, len(names) // FEW)
    if processes < 2:
        yield from map(look, names)
        return
    # A process that starts afresh shares neither threads nor locks with this one.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_leave_interrupts) as pool:
        try:
            yield from pool.map(look, names, chunksize=4)
        except BrokenProcessPool:
            raise AiperfError(
                f"'{bundle.path}' was not rechecked: a process that computed its figures was killed, perhaps for lack "
                "of memory. Free memory and try again."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the command, which then ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _look(bundle: Bundle, manifest: Manifest, name: str) -> _Look:
    try:
        result = bundle.target(name)
    except BundleError as error:
        return _Look(None, 0, [Difference(name, "file", "a result", str(error))])
    samples = sum(len(row.samples.block) for row in result.rows)
    differences = list(_of_target(result, manifest))
    return _Look(evolve(result, rows=[evolve(row, samples=Samples()) for row in result.rows]), samples, differences)


# --- the figures


def _of_target(result: TargetResult, manifest: Manifest) -> Iterator[Difference]:
    """The differences in one target's result."""
    rows = result.rows
    if not rows or rows[0].role != "baseline":
        yield Difference(result.target, "rows", rows[0].role if rows else "none", "the baseline belongs first")
        return
    try:
        again = computed(result, manifest)
    except (ArithmeticError, ValueError, IndexError, MemoryError) as error:
        yield Difference(result.target, "samples", "figures", f"nothing can be computed from them ({error})")
        return
    same_draws = _same_draws(manifest)
    for row, new in zip(rows, again, strict=True):
        where = f"{result.target}:{row.name}"
        yield from _of_row(where, row, new, same_draws=same_draws)
        yield from _of_light(where, row.speed_of_light, new.speed_of_light)
    yield from contradictions(result, manifest)


def computed(result: TargetResult, manifest: Manifest) -> list[Row]:
    """The rows that the run's own function makes of the stored observations."""
    for row in result.rows:
        _check_order(row)
    rules = rules_of(result, manifest.ceilings.get(result.device))
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return judge(result.rows, rules)
        except Warning as error:
            raise ValueError(str(error)) from error


def _check_order(row: Row) -> None:
    """Refuse rounds and blocks that do not grow: their samples were moved."""
    for name in ("round", "block"):
        column = getattr(row.samples, name)
        if any(one > two for one, two in pairwise(column)):
            raise ValueError(f"{row.name}: the numbers of its {name}s do not grow")


def _of_row(where: str, row: Row, new: Row, *, same_draws: bool) -> Iterator[Difference]:
    if row.verdict is not new.verdict:
        yield Difference(where, "verdict", row.verdict.value, new.verdict.value)
    elif _spelled(row.reason) != _spelled(new.reason) and same_draws:
        yield Difference(where, "reason", row.reason or "none", new.reason or "none")
    yield from _of_findings(where, row, new)
    for name in ESTIMATES:
        recorded, found = getattr(row, name), getattr(new, name)
        if recorded is None and name in ADDED[Row]:
            continue  # a figure that older bundles lack
        if not _alike(recorded, found, same_draws=same_draws):
            yield Difference(where, name, _shown(recorded), _shown(found))
    for name in NUMBERS:
        recorded, found = getattr(row, name), getattr(new, name)
        if not _near(recorded, found):
            yield Difference(where, name, str(recorded), str(found))


def _spelled(reason: str | None) -> str | None:
    """A reason in one spelling: stored bundles have both `3.1%` and `3.1 %`."""
    return reason and reason.replace(" %", "%")


def _of_findings(where: str, row: Row, new: Row) -> Iterator[Difference]:
    """Findings that were removed from a row, and those that nothing observed supports."""
    recorded, found = ({(one.issue, one.severity): one.message for one in side.findings} for side in (row, new))
    for key in sorted(found.keys() - recorded.keys()):
        yield Difference(where, "finding", "none", f"{key[0]}: {found[key]}")
    for key in sorted(recorded.keys() - found.keys()):
        yield Difference(where, "finding", f"{key[0]}: {recorded[key]}", "none")


def _of_light(where: str, recorded: SpeedOfLight | None, found: SpeedOfLight | None) -> Iterator[Difference]:
    """The bound and the fraction follow from the cost, the ceilings and the median."""
    if recorded is None or found is None:
        holds = recorded is found
    else:
        median_s = found.time_s / found.fraction
        holds = (
            recorded.bound == found.bound
            and math.isclose(recorded.time_s, found.time_s, rel_tol=OTHER_CEILINGS)
            and _near(recorded.fraction, recorded.time_s / median_s)
        )
    if not holds:
        yield Difference(where, "speed_of_light", _lit(recorded), _lit(found))


def _lit(light: SpeedOfLight | None) -> str:
    return "none" if light is None else f"{units.percent(light.fraction)} of {light.bound} ({light.time_s:.6g} s)"


def _alike(recorded: Estimate | None, found: Estimate | None, *, same_draws: bool) -> bool:
    if recorded is None or found is None:
        return recorded is found
    if not _near(recorded.value, found.value):
        return False
    slack = 0.0 if same_draws else OTHER_DRAWS * abs(found.high - found.low)
    return all(
        math.isclose(one, two, rel_tol=EXACT, abs_tol=slack)
        for one, two in ((recorded.low, found.low), (recorded.high, found.high))
    )


def _near(recorded: float | None, found: float | None) -> bool:
    if recorded is None or found is None:
        return recorded is found
    return math.isclose(recorded, found, rel_tol=EXACT)


def _shown(estimate: Estimate | None) -> str:
    return "none" if estimate is None else f"{estimate.value:.9g} [{estimate.low:.9g}, {estimate.high:.9g}]"


def _same_draws(manifest: Manifest) -> bool:
    """Whether this numpy draws the same random numbers as the run's: within a minor release it does."""
    made = manifest.packages.get("numpy", "")
    return made.split(".")[:2] == np.__version__.split(".")[:2]


# --- the whole


def _of_end(results: list[TargetResult], manifest: Manifest) -> Iterator[Difference]:
    """Compare `complete` and the exit code with what follows from the results."""
    if manifest.exit_code is None:
        return
    if manifest.complete and not all(one.complete for one in results):
        yield Difference(MANIFEST, "complete", "a whole run", "a target that was cut short")
    finished: list[TargetResult | SkippedTarget] = [*results, *manifest.skipped]
    code = int(exit_code(finished, interrupted=not manifest.complete))
    if code != manifest.exit_code:
        yield Difference(MANIFEST, "exit_code", str(manifest.exit_code), str(code))


def document(found: Recheck) -> dict[str, Any]:
    """A recheck as plain data."""
    return {**structure.document(found), "holds": found.holds}

"""Ranks: whether each of several did its share, sent its data and had its place.

A rank's figures are compared with the other ranks and with the same rank of the baseline.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

from aiperf_core.measurements import Rank
from aiperf_core.validity.check import Check, NotObserved, Seen, listed
from aiperf_core.validity.evidence import Evidence

# A rank that works less than this part of the median, or of its share in the baseline, did not do its work.
_IDLE = 0.02
# The least part of the baseline's traffic: fewer bits per number and fused messages spare the rest. A lossy variant may
# spare more; the judge measures what that costs in quality.
_LEAST_WIRE = 0.1
# The least part of the declared need, where the baseline moves far more than that. A tensor is counted where it is
# handed over, and travels at most twice from there: an all-reduce sends parts of it and parts of the sum. So at least
# half of the need is handed over, and numbers may have fewer bits.
_LEAST_NEEDED = 0.3
# Operations between two ranks, of which ranks may have different numbers.
_POINT_TO_POINT = ("send", "recv", "p2p")
# In these, each rank sends and receives.
_BOTH_WAYS = ("all", "reduce_scatter")


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Check the ranks' records."""
    if not evidence.ranks:
        return NotObserved("one process, no ranks" if evidence.world_size <= 1 else "the ranks recorded no work")
    looks: tuple[Callable[[Evidence, list[Rank], list[Rank]], Seen | None], ...] = (
        _skipped,
        _silent,
        _place,
        _buckets,
    )
    ranks = sorted(evidence.ranks, key=lambda one: one.rank)
    baseline = sorted((evidence.baseline and evidence.baseline.ranks) or (), key=lambda one: one.rank)
    return [seen for one in looks if (seen := one(evidence, ranks, baseline)) is not None]


def _skipped(evidence: Evidence, ranks: list[Rank], baseline: list[Rank]) -> Seen | None:
    missing = sorted(set(range(evidence.world_size)) - {one.rank for one in ranks})
    usual, theirs = median(one.work_s for one in ranks), {one.rank: one.work_s for one in baseline}
    their_usual = median(theirs.values()) if theirs else 0.0
    idle = []
    for one in ranks:
        # A rank that has little to do by design has as little to do in the baseline.
        share = theirs[one.rank] / their_usual if their_usual > 0 and one.rank in theirs else 1.0
        if usual > 0 and one.work_s < _IDLE * min(1.0, share) * usual:
            idle.append(one.rank)
    if not missing and not idle:
        return None
    said = [f"no record came from rank {listed(missing)}"] if missing else []
    said += [f"rank {listed(idle)} did almost no work"] if idle else []
    figures = {"missing": missing, "idle": idle, "work_s": [one.work_s for one in ranks]}
    return Seen("distributed.rank_skipping", f"of {evidence.world_size} ranks, {' and '.join(said)}", figures)


def _silent(evidence: Evidence, ranks: list[Rank], baseline: list[Rank]) -> Seen | None:
    """Find missing communication: none, fewer on some ranks, without bytes, or with too few bytes."""
    if evidence.world_size < 2:
        return None
    counts, theirs = [_collective(one) for one in ranks], [_collective(one) for one in baseline]
    sent, theirs_sent = (sum(one.wire_bytes for one in side) for side in (ranks, baseline))
    # Declared for each rank, and compared for all of them together: ranks may differ in what they send.
    needed = evidence.wire_bytes * evidence.world_size
    least = _LEAST_WIRE * theirs_sent
    if needed:
        least = min(least, _LEAST_NEEDED * needed)
    entered = sum(sum(one.collectives.values()) for one in ranks)
    quiet = [one.rank for one in ranks if _sends(one) and one.wire_bytes <= 0]
    if not entered and any(one.collectives for one in baseline):
        message = "no rank entered a collective; the ranks of the baseline did"
    elif counts.count(counts[0]) != len(counts) and all(one == theirs[0] for one in theirs):
        message = f"the ranks entered different collectives: {'; '.join(map(_told, counts))}"
    elif quiet:
        message = f"rank {listed(quiet)} entered collectives and moved no byte, with {evidence.world_size} ranks"
    elif not evidence.lossy and sent < least:
        declared = f" where the work needs {needed:.4g}" if needed else ""
        message = f"the ranks moved {sent:.4g} bytes{declared}, and those of the baseline {theirs_sent:.4g}"
    else:
        return None
    figures = {"collectives": [dict(one.collectives) for one in ranks], "wire_bytes": [one.wire_bytes for one in ranks]}
    limits = {"baseline_wire_bytes": theirs_sent, "needed_wire_bytes": needed}
    return Seen("distributed.collective_short_circuit", message, {**figures, **limits})


def _collective(rank: Rank) -> Counter[str]:
    """How often a rank entered what all ranks enter."""
    among_all = {name: count for name, count in rank.collectives.items() if not _is_point_to_point(name)}
    return +Counter(among_all)


def _sends(rank: Rank) -> bool:
    return any(count and any(word in name.lower() for word in _BOTH_WAYS) for name, count in rank.collectives.items())


def _is_point_to_point(name: str) -> bool:
    return any(word in name.lower() for word in _POINT_TO_POINT)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _place(_: Evidence, ranks: list[Rank], baseline: list[Rank]) -> Seen | None:
    """Compare where each rank's process may run, and on which GPUs it is, with the same rank of the baseline.

    The supervisor asks the kernel and the driver. Nothing is known of a rank on another machine.
    """
    taken = Counter(gpu for one in ranks for gpu in one.gpus or ())
    shared = sorted(gpu for gpu, count in taken.items() if count > 1)
    theirs = sorted(gpu for one in baseline for gpu in one.gpus or ())
    figures: dict[str, object] = {}
    said = []
    # Processors are known of this machine's ranks alone, which the driver lists if it lists any of them.
    nowhere = [one.rank for one in ranks if taken and one.processors and not one.gpus]
    if nowhere:
        said.append(f"the driver lists rank {listed(nowhere)} on no GPU")
    elif shared:
        said.append(f"several ranks are on {listed(shared)}")
    elif theirs and taken and theirs != sorted(taken.elements()):
        said.append(f"the ranks are on {listed(sorted(taken))}, and those of the baseline on {listed(theirs)}")
    if said:
        figures |= {"gpus": [one.gpus for one in ranks], "baseline_gpus": [one.gpus for one in baseline]}
    usual = {one.rank: one.processors for one in baseline}
    moved = [one for one in ranks if one.processors and usual.get(one.rank) and one.processors != usual[one.rank]]
    if moved:
        said += [
            f"rank {one.rank} may run on processors {listed(one.processors or ())}, and that of the baseline on "
            f"{listed(usual[one.rank] or ())}"
            for one in moved
        ]
        figures |= {"processors": [one.processors for one in ranks], "baseline_processors": list(usual.values())}
    return Seen("distributed.topology_mismatch", "; ".join(said), figures) if said else None


def _buckets(_: Evidence, ranks: list[Rank], baseline: list[Rank]) -> Seen | None:
    """Compare how the bytes of reductions are grouped with the baseline. Their order is free, and so is their width."""
    ours, theirs = ({one.rank: sorted(one.buckets) for one in side} for side in (ranks, baseline))
    differing = [number for number in ours if ours[number] and theirs.get(number)]
    differing = [number for number in differing if _shares(ours[number]) != _shares(theirs[number])]
    if not differing:
        return None
    first = differing[0]
    message = (
        f"rank {listed(differing)} reduces in buckets of {_counted(ours[first])} bytes, and that of the baseline in "
        f"buckets of {_counted(theirs[first])} bytes"
    )
    figures = {"buckets": list(ours.values()), "baseline_buckets": list(theirs.values())}
    return Seen("distributed.gradient_bucketing_mismatch", message, figures)


def _counted(buckets: list[int]) -> str:
    """Sizes in a message, each with how often it occurs: `4096, 64 x 8192`."""
    return ", ".join(f"{often} x {size}" if often > 1 else str(size) for size, often in Counter(buckets).items())


def _shares(buckets: list[int]) -> list[float]:
    """Each bucket's part of all bytes, in percent."""
    whole = sum(buckets) or 1
    return [round(100 * one / whole) for one in buckets]


CHECK = Check("ranks", look)

"""Seeds: whether the judged values were secret, and were new to the implementation."""

from collections.abc import Iterable
from itertools import pairwise

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

# Of seeds with 62 bits, one in 2^38 has so few; the largest of several has almost never just the second number.
_FEW_BITS, _FEW_BITS_OF_ALL, _SEVERAL = 24, 48, 4


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Check the seeds of a run."""
    record = evidence.self_check
    if record is None or not record.seeds:
        return NotObserved("the seeds of this run were not kept")
    return [seen for seen in (_guessable(record.seeds), _not_new(evidence)) if seen is not None]


def _guessable(seeds: list[int]) -> Seen | None:
    steps = {after - before for before, after in pairwise(seeds)}
    small = [seed for seed in seeds if seed.bit_length() <= _FEW_BITS]
    narrow = len(seeds) >= _SEVERAL and max(seeds).bit_length() <= _FEW_BITS_OF_ALL
    counted = len(seeds) >= _SEVERAL and len(steps) == 1 and steps != {0}
    if not (small or narrow or counted):
        return None
    how = f"follow each other in steps of {steps.pop()}" if counted else "are small numbers"
    message = f"the seeds {how}: code can predict the seeds, and with them the values"
    return Seen("replay.known_seed", message, {"seeds": seeds[:8], "bits": max(seeds).bit_length()})


def _not_new(evidence: Evidence) -> Seen | None:
    """Find samples that were judged on values of an earlier sample of the same implementation."""
    samples = evidence.samples
    met: set[tuple[int, bool]] = set()
    repeated = 0
    for step, device, judged in zip(samples.step, samples.device_s, samples.judged, strict=False):
        # The sample by the second clock has the number of the block's first step.
        place = step, device is None
        repeated += judged and place in met
        met.add(place)
    if not repeated:
        return None
    message = f"samples that were judged on values of an earlier sample: {repeated}"
    return Seen("workload.train_test_overlap", message, {"samples": repeated})


CHECK = Check("seeds", look)

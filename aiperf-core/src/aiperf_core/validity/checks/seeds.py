"""Seeds: that what was judged came from values that nobody could know, and never from the same ones twice.

`SelfCheck.seeds` holds the seeds of the timed samples' values, in the order in which they were drawn.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence, SelfCheck

# Of seeds with 62 bits, one in 2^38 has so few, and as good as never the largest of several has no more than the second.
_FEW_BITS, _FEW_BITS_OF_ALL, _SEVERAL = 24, 48, 4
# No harness's sample is further from a judged one; see `harness.sampling`.
_LONGEST_UNJUDGED = 12
# How whole numbers stand in a text, and all runs of digits that could be one.
_DECIMAL, _HEXADECIMAL = re.compile(r"(?<!\w)\d{7,20}(?!\w)"), re.compile(r"\b0x[0-9a-fA-F]{7,16}\b")
_DIGITS, _HEXADECIMAL_DIGITS = re.compile(r"\d{7,20}"), re.compile(r"0x([0-9a-fA-F]{7,16})")
# Below this share of new values, it pays to keep a table of all that there are.
_TABLE = 0.5


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """What the seeds of a run show."""
    record = evidence.self_check
    if record is None or not record.seeds:
        return NotObserved("the seeds of this run's values were not kept")
    looks: tuple[Callable[[Evidence, SelfCheck], Seen | None], ...] = (
        _guessable,
        _told,
        _again,
        _not_new,
        _nothing_held_back,
    )
    return [seen for one in looks if (seen := one(evidence, record)) is not None]


def _guessable(_: Evidence, record: SelfCheck) -> Seen | None:
    seeds = record.seeds
    steps = {after - before for before, after in pairwise(seeds)}
    small = [seed for seed in seeds if seed.bit_length() <= _FEW_BITS]
    narrow = len(seeds) >= _SEVERAL and max(seeds).bit_length() <= _FEW_BITS_OF_ALL
    counted = len(seeds) >= _SEVERAL and len(steps) == 1 and steps != {0}
    if not (small or narrow or counted):
        return None
    how = f"follow each other in steps of {steps.pop()}" if counted else "are small numbers"
    message = f"the seeds {how}, and whoever tries the likely ones has the values before the call"
    return Seen("replay.known_seed", message, {"seeds": seeds[:8], "bits": max(seeds).bit_length()})


def _told(evidence: Evidence, record: SelfCheck) -> Seen | None:
    """Whether a seed of this run is in what the worker's process says of itself."""
    secret = {seed for seed in record.seeds if seed.bit_length() > _FEW_BITS}
    for when, state in (("before", evidence.state_before), ("after", evidence.state_after)):
        if secret.isdisjoint(_digits(state)):
            continue
        for place, number in _numbers(state, ""):
            if number in secret:
                message = f"the worker's process knows a seed of the judge: it stands in its {place!r} {when} the calls"
                return Seen("leak.seed", message, {"place": place, "when": when})
    return None


def _digits(state: Any) -> Iterator[int]:
    """More than all numbers that `_numbers` finds, in a small part of the time: a state has tens of thousands of texts."""
    text = json.dumps(state, ensure_ascii=False)
    yield from map(int, _DIGITS.findall(text))
    yield from (int(digits, 16) for digits in _HEXADECIMAL_DIGITS.findall(text))


def _numbers(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """All whole numbers in plain data, those written as text too, with where they stand."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _numbers(one, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one, place)
    elif isinstance(value, int):
        yield place, value
    elif isinstance(value, str):
        yield from ((place, int(digits)) for digits in _DECIMAL.findall(value))
        yield from ((place, int(digits, 16)) for digits in _HEXADECIMAL.findall(value))


def _again(_: Evidence, record: SelfCheck) -> Seen | None:
    """Whether seeds were used more than once: some of them, or so often that a table of all values is small."""
    new, drawn = len(set(record.seeds)), len(record.seeds)
    if new == drawn:
        return None
    figures = {"drawn": drawn, "different": new}
    if new <= _TABLE * drawn:
        message = f"{drawn} seeds were used and only {new} different ones: a table of all answers has {new} entries"
        return Seen("evaluation.benchmark_memorization", message, figures)
    message = f"of {drawn} seeds only {new} are different: what the others give was known when it was judged"
    return Seen("evaluation.test_data_leakage", message, figures)


def _not_new(evidence: Evidence, _: SelfCheck) -> Seen | None:
    """Whether a sample was judged on values that the same implementation had been given in an earlier sample."""
    samples = evidence.samples
    met: set[tuple[int, bool]] = set()
    repeated = 0
    for step, device, judged in zip(samples.step, samples.device_s, samples.judged, strict=False):
        # By the second clock of a block, one more sample is taken under the number of the block's first step.
        place = step, device is None
        repeated += judged and place in met
        met.add(place)
    if not repeated:
        return None
    message = f"judged samples with values that the implementation had already been given: {repeated}"
    return Seen("workload.train_test_overlap", message, {"samples": repeated})


def _nothing_held_back(evidence: Evidence, record: SelfCheck) -> Seen | None:
    taken = len(evidence.samples.block)
    if record.judged or any(evidence.samples.judged) or taken <= _LONGEST_UNJUDGED:
        return None
    message = f"none of {taken} timed samples was judged: values that anybody could know are all that was looked at"
    return Seen("evaluation.missing_holdout_sets", message, {"samples": taken})


CHECK = Check("seeds", look)

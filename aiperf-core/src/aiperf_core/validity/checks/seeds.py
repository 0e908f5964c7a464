"""Seeds: whether the judged values were secret, and were never used twice."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence, SelfCheck

# Of seeds with 62 bits, one in 2^38 has no more than the first; the largest of several has almost never just the
# second.
_FEW_BITS, _FEW_BITS_OF_ALL, _SEVERAL = 24, 48, 4
# A sample is judged at the latest after so many; see `harness.run.sampler`.
_LONGEST_UNJUDGED = 12
# Whole numbers in a text, and all runs of digits that can be part of one.
_DECIMAL, _HEXADECIMAL = re.compile(r"(?<!\w)\d{7,20}(?!\w)"), re.compile(r"\b0x[0-9a-fA-F]{7,16}\b")
_DIGITS, _HEXADECIMAL_DIGITS = re.compile(r"\d{7,20}"), re.compile(r"0x([0-9a-fA-F]{7,16})")
# Below this share of new values, a table of all answers pays.
_TABLE = 0.5


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Check the seeds of a run."""
    record = evidence.self_check
    if record is None or not record.seeds:
        return NotObserved("the seeds of this run were not kept")
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
    message = f"the seeds {how}: code that tries the likely ones knows the values before the call"
    return Seen("replay.known_seed", message, {"seeds": seeds[:8], "bits": max(seeds).bit_length()})


def _told(evidence: Evidence, record: SelfCheck) -> Seen | None:
    """Find a seed of this run in the worker's snapshots of its process."""
    secret = {seed for seed in record.seeds if seed.bit_length() > _FEW_BITS}
    for when, state in (("before", evidence.state_before), ("after", evidence.state_after)):
        if secret.isdisjoint(_digits(state)):
            continue
        for place, number in _numbers(state, ""):
            if number in secret:
                message = f"the worker's process knows a seed of the judge: it is in its {place!r} {when} the calls"
                return Seen("leak.seed", message, {"place": place, "when": when})
    return None


def _digits(state: Any) -> Iterator[int]:
    """All numbers that `_numbers` finds, and more, in a fraction of the time: a state has thousands of texts."""
    text = json.dumps(state, ensure_ascii=False)
    yield from map(int, _DIGITS.findall(text))
    yield from (int(digits, 16) for digits in _HEXADECIMAL_DIGITS.findall(text))


def _numbers(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """All whole numbers in plain data, also those in texts, each with its place."""
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
    """Find seeds that were used more than once: some, or so many that a table of all answers is small."""
    new, drawn = len(set(record.seeds)), len(record.seeds)
    if new == drawn:
        return None
    figures = {"drawn": drawn, "different": new}
    if new <= _TABLE * drawn:
        message = f"{drawn} seeds were used, of which {new} differ: a table of all answers has {new} entries"
        return Seen("evaluation.benchmark_memorization", message, figures)
    message = f"{drawn} seeds were used, of which {new} differ: the values of the others were known"
    return Seen("evaluation.test_data_leakage", message, figures)


def _not_new(evidence: Evidence, _: SelfCheck) -> Seen | None:
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


def _nothing_held_back(evidence: Evidence, record: SelfCheck) -> Seen | None:
    taken = len(evidence.samples.block)
    if record.judged or any(evidence.samples.judged) or taken <= _LONGEST_UNJUDGED:
        return None
    message = f"none of {taken} timed samples was judged on secret values"
    return Seen("evaluation.missing_holdout_sets", message, {"samples": taken})


CHECK = Check("seeds", look)

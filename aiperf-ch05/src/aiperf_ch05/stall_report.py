"""How long a training step waits for its data: a loader is consumed by steps, and both are timed."""

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.errors import AiperfError, UsageError

# The share of its time that a consumer may wait for data.
MOST_WAITING = 0.05


@frozen
class Stalls:
    """The waits of a consumer, without the first batch, which pays for the start of the loader.

    steps: the number of steps that were timed.
    first_s: the wait for the first batch.
    waiting: the share of the time in which the consumer waits.
    wait_median_s, wait_p99_s, wait_most_s: of the waits for a batch.
    step_median_s: of the steps.
    stalled_steps: steps that waited longer than `MOST_WAITING` of the median step.
    speedup: how much faster the consumer would be without any wait.
    advice: what to do; empty where the loader is fast enough.
    """

    steps: int
    first_s: float
    waiting: float
    wait_median_s: float
    wait_p99_s: float
    wait_most_s: float
    step_median_s: float
    stalled_steps: int
    speedup: float
    advice: str


def measure(
    loader: Iterable[Any],
    step: Callable[[Any], object],
    steps: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Stalls:
    """Take batches from a loader and pass each to a step, and time both.

    `step` must return when its work is done: a step on a GPU ends with a synchronisation. Raises `AiperfError` where
    the loader ends before two batches came.
    """
    batches, waits, works = iter(loader), [], []
    for _ in range(steps + 1):
        start = clock()
        try:
            batch = next(batches)
        except StopIteration:
            break
        ready = clock()
        step(batch)
        waits.append(ready - start)
        works.append(clock() - ready)
    if len(waits) < 2:
        raise AiperfError(f"the loader ended after {len(waits)} of {steps + 1} batches; at least 2 are needed")
    first_s, waits, works = waits[0], waits[1:], works[1:]
    waited, worked = sum(waits), sum(works)
    waiting = waited / (waited + worked) if waited + worked else 0.0
    step_s = _percentile(works, 50)
    stalled = sum(wait > MOST_WAITING * step_s for wait in waits)
    return Stalls(
        steps=len(waits),
        first_s=first_s,
        waiting=waiting,
        wait_median_s=_percentile(waits, 50),
        wait_p99_s=_percentile(waits, 99),
        wait_most_s=max(waits),
        step_median_s=step_s,
        stalled_steps=stalled,
        speedup=(waited + worked) / worked if worked else math.inf,
        advice=_advice(waiting, stalled / len(waits)),
    )


def _advice(waiting: float, stalled: float) -> str:
    if waiting <= MOST_WAITING:
        return ""
    if stalled > 0.5:
        return "most steps wait: the loader is slower than the step. Give it more workers, or less work for each sample"
    return "few steps wait long: the loader is fast on average. Let it prefetch more batches, or find the slow samples"


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[-(-percent * len(values) // 100) - 1]


def sleeping(step_s: float) -> Callable[[Any], None]:
    """A step that takes a fixed time and no processor, as a GPU's does for its host."""
    return lambda _: time.sleep(step_s)


def found(reference: str) -> Callable[..., Any]:
    """The function that `module:function` names; modules are also found in the current folder.

    Raises `UsageError` where there is none.
    """
    module, _, name = reference.partition(":")
    if not (module and name):
        raise UsageError(f"{reference!r} names no function; accepted is a form such as 'acme.data:batches'")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"'{reference}' cannot be imported: {error}") from None
    if not callable(function):
        raise UsageError(f"'{reference}' is a {type(function).__name__}; a function is needed")
    return function  # type: ignore[no-any-return]

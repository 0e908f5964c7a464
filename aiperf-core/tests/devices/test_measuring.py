"""The best of several runs, and what becomes of a figure that cannot be measured."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiperf_core.devices import measuring
from aiperf_core.devices.measuring import Best, Page, product_rate, quickest, shortest, spelled


class Clock:
    """A stopwatch that reads out what it is given, and counts."""

    def __init__(self, *seconds: float) -> None:
        self.left = list(seconds)
        self.runs = 0

    def __call__(self, call: Any) -> float:
        call()
        self.runs += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def test_the_shortest_counts_and_the_first_run_only_warms_up() -> None:
    calls: list[int] = []
    clock = Clock(3.0, 1.0, 2.0, 5.0)
    assert shortest(clock, lambda: calls.append(1), 0.0) == 3.0
    assert (len(calls), clock.runs) == (2, 1)  # longer than the whole budget: one run
    clock = Clock(3.0, 1.0, 2.0, 5.0)
    assert shortest(clock, lambda: None, 10.0) == 1.0
    assert clock.runs == measuring.AT_MOST


def test_of_a_short_call_there_are_three_runs_whatever_the_budget() -> None:
    clock = Clock(3e-9, 2e-9, 1e-9)
    assert shortest(clock, lambda: None, 1e-8) == 1e-9
    assert clock.runs >= measuring.AT_LEAST


def fails() -> None:
    raise OSError("no such loop")


def test_a_form_that_fails_is_left_to_the_others() -> None:
    clock = Clock(2.0)
    assert quickest(clock, [("broken", fails), ("works", lambda: None)], 0.0) == (2.0, "works")
    with pytest.raises(OSError, match="no such loop"):
        quickest(clock, [("broken", fails)], 0.0)
    with pytest.raises(ValueError, match="there is no way to measure this here"):
        quickest(clock, [], 0.0)


def test_forms_that_cannot_be_made_are_left_to_the_others() -> None:
    def forms() -> Iterator[Any]:
        yield "works", lambda: None
        fails()

    assert quickest(Clock(2.0), forms(), 0.0) == (2.0, "works")


def test_a_shape_without_memory_leaves_the_smaller_ones() -> None:
    def forms(shape: Any) -> Iterator[Any]:
        if shape == LARGE:
            raise MemoryError
        yield "works", lambda: None

    assert product_rate(Clock(1e-4), forms, (SMALL, LARGE), 10.0) == Best(2e3 / 1e-4, "works, 10^3")


SMALL, LARGE = (10, 10, 10), (100, 100, 100)


def test_the_rate_of_products_is_the_best_over_shapes_and_forms() -> None:
    shapes: list[Any] = []
    seconds = {(SMALL, "slow"): 2e-4, (SMALL, "quick"): 1e-4, (LARGE, "slow"): 8e-2, (LARGE, "quick"): 5e-2}
    running: list[Any] = []

    def forms(shape: Any) -> Iterator[Any]:
        shapes.append(shape)
        for name in ("slow", "quick"):
            yield name, lambda name=name: running.append((shape, name))

    def watch(call: Any) -> float:
        call()
        return seconds[running[-1]]

    assert product_rate(watch, forms, (SMALL, LARGE), 10.0) == Best(2e6 / 5e-2, "quick, 100^3")
    assert shapes == [SMALL, LARGE]


def test_a_precision_without_hardware_goes_no_further_than_the_probe() -> None:
    tried: list[Any] = []

    def forms(shape: Any) -> Iterator[Any]:
        yield "emulated", lambda: tried.append(shape)

    slow = measuring.PATIENCE_S / 900  # a shape of a thousand times the work would take longer than we wait
    assert product_rate(lambda call: (call(), slow)[1], forms, (SMALL, LARGE), 10.0) == Best(
        2e3 / slow, "emulated, 10^3"
    )
    assert set(tried) == {SMALL}


def test_a_product_that_never_works_says_why() -> None:
    def forms(shape: Any) -> Iterator[Any]:
        yield "broken", fails

    with pytest.raises(OSError, match="no such loop"):
        product_rate(Clock(1.0), forms, (SMALL,), 1.0)


def test_shapes_in_print() -> None:
    assert spelled((8192, 8192, 8192)) == "8192^3"
    assert spelled((8192, 4096, 8192)) == "8192x4096x8192"


def test_a_page_keeps_the_best_and_the_reasons() -> None:
    told: list[str] = []
    page = Page(told.append)
    page.take("copy_bytes_per_s", "copy", lambda: Best(1.0, "one way"))
    page.take("copy_bytes_per_s", "copy", lambda: Best(3.0, "another"))
    page.take("copy_bytes_per_s", "copy", lambda: Best(2.0, "a third"))
    page.take("launch_s", "launch", lambda: Best(3.0, "one way"))
    page.take("launch_s", "launch", lambda: Best(2.0, "another"))
    page.take("flop_per_s.fp8", "fp8", lambda: fails())  # type: ignore[arg-type, return-value]
    page.take("flop_per_s.int8", "int8", lambda: Best(math.nan, ""))
    page.take("copy_bytes_per_s", "copy", lambda: fails())  # type: ignore[arg-type, return-value]
    assert page.figures == {"copy_bytes_per_s": 3.0, "launch_s": 2.0}
    assert page.how == {"copy_bytes_per_s": "another", "launch_s": "another"}
    assert page.missing == {
        "flop_per_s.fp8": "no such loop",
        "flop_per_s.int8": "measured as nan, which no device reaches",
    }
    assert told[0] == "copy"


def test_a_figure_that_comes_at_the_second_try_is_not_missing() -> None:
    page = Page(lambda _: None)
    page.take("launch_s", "launch", lambda: fails())  # type: ignore[arg-type, return-value]
    page.take("launch_s", "launch", lambda: Best(1.0, "in the end"))
    assert (page.figures, page.missing) == ({"launch_s": 1.0}, {})


def test_a_reason_is_one_line() -> None:
    assert measuring.reason(RuntimeError("first\nsecond")) == "first"
    assert measuring.reason(RuntimeError()) == "RuntimeError"
    assert len(measuring.reason(RuntimeError("x" * 1000))) == 160


def test_a_slow_first_shape_does_not_end_the_search_where_larger_ones_are_quick() -> None:
    """A library that loads its kernels at the first call uses up the whole budget there."""
    loaded = []

    def forms_of(shape: tuple[int, int, int]) -> Iterator[tuple[str, Callable[[], float]]]:
        def call() -> float:
            if not loaded:
                loaded.append(time.sleep(0.05))
            return 1e-3 if shape == (8, 8, 8) else 1e-5

        yield "product", call

    best = product_rate(lambda call: call(), forms_of, [(8, 8, 8), (16, 16, 16)], 0.01)
    assert best.how == "product, 16^3"

"""Rows that are not sure go on, what is lost is small, and too few that go on lose more than the budget."""

from typing import Any

import torch

from aiperf_ch19 import early_exit
from aiperf_core.benchmark import bind, call_with

BENCH = early_exit.bench
SIZES: dict[str, Any] = {**BENCH.task.presets["cpu"], "batch": 64, "steps": 6}


def drawn(**changed: Any) -> dict[str, Any]:
    sizes = {**SIZES, **changed}
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(3)}
    assert BENCH.task.static is not None
    return {**sizes, **call_with(BENCH.task.inputs, given), **call_with(BENCH.task.static, given)}


def outputs(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    found = {}
    for one in BENCH.implementations_on("cpu"):
        instance = one.code()
        call_with(instance.prepare, given)
        found[one.name] = bind(instance.run, given)().clone()
    return found


def test_little_is_lost_and_both_fills_agree() -> None:
    given = drawn()
    found, right = outputs(given), call_with(early_exit.reference, given)
    torch.testing.assert_close(found["full_depth"], right, rtol=1e-4, atol=1e-4)
    assert early_exit.lost(found["full_depth"], right) == 0
    torch.testing.assert_close(found["compacted"], found["fused_fill"], rtol=1e-3, atol=1e-3)
    assert early_exit.lost(found["compacted"], right) <= 0.5 * (1 - early_exit.AGREEMENT)
    # Rows that went on in the first step have nothing approximate behind them.
    hard = given["tokens"][0] >= early_exit.easy_words(SIZES["vocabulary"], SIZES["easy"])
    assert int(hard.sum()) == 64 - early_exit.easy_rows(64, SIZES["easy"])
    torch.testing.assert_close(found["compacted"][0, hard], right[0, hard], rtol=1e-4, atol=1e-4)


def test_an_exit_of_all_rows_is_beyond_the_budget() -> None:
    given = drawn()
    right = call_with(early_exit.reference, given)
    assert early_exit.lost(outputs({**given, "easy": 1.0})["compacted"], right) > 1.5 * (1 - early_exit.AGREEMENT)


def test_the_exit_saves_what_the_cost_says() -> None:
    whole, least = BENCH.work({**SIZES, "easy": 0.0}).flops, BENCH.work(SIZES).flops
    assert 0.3 < least / whole < 0.6

"""Rows that are not sure go on, what is lost is small, and a margin of nothing loses more than the budget."""

from typing import Any

import pytest
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
    sure = found["compacted"][0].topk(2).values.diff(dim=-1)[:, 0] < -early_exit.MARGIN
    assert int(sure.sum()) == early_exit.easy_rows(64, SIZES["easy"])
    torch.testing.assert_close(found["compacted"][0, ~sure], right[0, ~sure], rtol=1e-4, atol=1e-4)


def test_an_exit_without_a_margin_is_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_exit, "MARGIN", -1.0)
    given = drawn()
    right = call_with(early_exit.reference, given)
    assert early_exit.lost(outputs(given)["compacted"], right) > 1.5 * (1 - early_exit.AGREEMENT)


def test_the_exit_saves_what_the_cost_says() -> None:
    whole, least = BENCH.work({**SIZES, "easy": 0.0}).flops, BENCH.work(SIZES).flops
    assert 0.3 < least / whole < 0.6

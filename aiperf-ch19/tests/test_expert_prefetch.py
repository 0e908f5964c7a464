"""Which experts are copied, and that a copy under way is waited for."""

from typing import Any

import torch

from aiperf_ch19 import expert_prefetch
from aiperf_core.benchmark import bind, call_with

BENCH = expert_prefetch.bench
SIZES: dict[str, Any] = {**BENCH.task.presets["cpu"], "width": 16, "hidden": 8, "rows": 2, "steps": 60}


def fetched(kind: Any, **changed: Any) -> int:
    """How many experts were copied; the output must be right."""
    sizes = {**SIZES, **changed}
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(3)}
    assert BENCH.task.static is not None
    given |= {**call_with(BENCH.task.inputs, given), **call_with(BENCH.task.static, given)}
    instance = kind()
    call_with(instance.prepare, given)
    torch.testing.assert_close(bind(instance.run, given)(), call_with(expert_prefetch.reference, given))
    return int(instance.fetched)


def test_the_cache_saves_copies_and_the_prediction_none() -> None:
    always, kept = fetched(expert_prefetch.OnDemand), fetched(expert_prefetch.Lru)
    assert always == SIZES["steps"] * SIZES["layers"]
    assert kept < 0.6 * always
    # A wrong prediction is one copy more.
    assert kept <= fetched(expert_prefetch.Predicted) <= 1.4 * kept


def test_a_slot_for_each_is_copied_once_and_a_single_slot_always() -> None:
    experts = SIZES["layers"] * SIZES["experts"]
    assert fetched(expert_prefetch.Lru, slots=experts) <= experts
    assert fetched(expert_prefetch.Predicted, slots=experts) <= experts
    for kind in (expert_prefetch.Lru, expert_prefetch.Predicted):
        assert fetched(kind, slots=1) == SIZES["steps"] * SIZES["layers"]


def test_copies_are_as_many_as_predicted() -> None:
    sizes = dict(BENCH.task.presets["cuda"]) | {"width": 4, "hidden": 4, "rows": 1, "bits": 32}
    kinds = (expert_prefetch.OnDemand, expert_prefetch.Lru, expert_prefetch.Predicted)
    assert [fetched(kind, **sizes) for kind in kinds] == [64, 40, 44]
    work, dense = BENCH.work(sizes), 4 * 2 * 4 * 4
    assert work.to_device_bytes == 38 * dense


def test_routes_are_as_predictable_as_declared() -> None:
    given = {**SIZES, "steps": 4000, "width": 1, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    routes = call_with(BENCH.task.inputs, given)["routes"]
    right = expert_prefetch.following(1, routes[:, 0], SIZES["experts"]) == routes[:, 1]
    # A random expert is the likely one by chance, too.
    assert abs(float(right.double().mean()) - 0.8) < 0.05
    assert (routes >= 0).all()
    assert (routes < SIZES["experts"]).all()

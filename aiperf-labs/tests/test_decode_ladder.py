"""All steps of the ladder decode alike, and a layer that is left out is seen."""

from typing import Any

import pytest
import torch

from aiperf_core.benchmark import bind, call_with
from aiperf_labs import decode_ladder
from aiperf_labs.ladders import ladder

BENCH = decode_ladder.bench
SMOKE: dict[str, Any] = dict(BENCH.task.presets["smoke"])


def drawn(**changed: Any) -> dict[str, Any]:
    sizes = {**SMOKE, **changed}
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(2)}
    assert BENCH.task.static is not None
    return {**sizes, **call_with(BENCH.task.inputs, given), **call_with(BENCH.task.static, given)}


@pytest.mark.parametrize("name", [one.name for one in BENCH.implementations_on("cpu")])
def test_a_step_decodes_as_the_whole_model_does(name: str) -> None:
    given = drawn(steps=9)
    right = call_with(decode_ladder.reference, given)
    instance = next(one for one in BENCH.implementations_on("cpu") if one.name == name).code()
    call_with(instance.prepare, given)
    for _ in range(2):  # a second call starts from an empty cache
        found = bind(instance.run, given)()
        assert torch.equal(found["tokens"], right["tokens"])
        torch.testing.assert_close(found["logits"], right["logits"], rtol=1e-4, atol=1e-4)


def test_a_layer_that_is_left_out_is_seen() -> None:
    given = drawn()
    right = call_with(decode_ladder.reference, given)["logits"].double()
    less = call_with(decode_ladder.reference, {**given, "layers": 1})["logits"].double()
    assert (less - right).norm() > 1e-2 * right.norm()


def test_the_ladders_leave_out_each_mechanism() -> None:
    for device, last in (("cpu", "fused_step"), ("cuda", "whole_graph")):
        found = ladder(BENCH, device)
        assert [one.name for one in found.steps] == ["rotary_table", "fused_residuals", last]
        assert [one.name for one in found.left_out] == ["without_table", "without_residuals", "fused_residuals"]


def test_weights_that_no_cache_holds_count_for_each_step() -> None:
    small, large = (dict(BENCH.task.presets[one]) for one in ("cpu", "cuda"))
    once = BENCH.work({**large, "steps": 0}).bytes_read
    assert BENCH.work(large).bytes_read == pytest.approx((1 + large["steps"]) * once, rel=1e-3)
    assert BENCH.work(small).bytes_read == BENCH.work({**small, "steps": 1}).bytes_read

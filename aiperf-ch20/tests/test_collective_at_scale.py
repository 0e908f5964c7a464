"""Without delays, the simulated collectives take the times of the usual formulas."""

from typing import Any

import pytest
import torch

from aiperf_ch20 import collective_at_scale
from aiperf_ch20.collective_at_scale import FAR_BYTES_S, FAR_S, NEAR_BYTES_S, NEAR_S
from aiperf_core.benchmark import call_with

NODES, GPUS, SIZE = 16, 8, 64 * 2**20
WITHIN_S = 2 * (GPUS - 1) * (NEAR_S + SIZE / GPUS / NEAR_BYTES_S)
FORMULAS = {
    "ring": 2 * (NODES * GPUS - 1) * (FAR_S + SIZE / GPUS / NODES / GPUS / FAR_BYTES_S),
    "tree": 2 * (3 * (NEAR_S + SIZE / NEAR_BYTES_S) + 4 * (FAR_S + SIZE / FAR_BYTES_S)),
    "hierarchical": WITHIN_S + 2 * (NODES - 1) * (FAR_S + SIZE / GPUS / NODES / FAR_BYTES_S),
    "halving_doubling": WITHIN_S + 2 * (4 * FAR_S + SIZE / GPUS * (NODES - 1) / NODES / FAR_BYTES_S),
    "in_network": WITHIN_S + 2 * FAR_S + SIZE / GPUS / FAR_BYTES_S,
}


@pytest.mark.parametrize("one", collective_at_scale.bench.implementations_on("cpu"), ids=lambda one: one.name)
def test_a_collective_without_delays_takes_its_formula(one: Any) -> None:
    given: dict[str, Any] = {"nodes": NODES, "gpus": GPUS, "mib": SIZE / 2**20, "device": "cpu"}
    given["generator"] = torch.Generator().manual_seed(1)
    given |= call_with(collective_at_scale.inputs, given)
    given["delays"] = torch.ones_like(given["delays"])
    instance = one.code()
    call_with(instance.prepare, given)
    assert call_with(instance.run, given)["collective_s"] == pytest.approx(FORMULAS[one.name], rel=0.01)

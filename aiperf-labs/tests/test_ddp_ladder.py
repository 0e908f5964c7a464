"""The ladder leaves out each mechanism, and the model of the module is that of the reference."""

import torch

from aiperf_core.benchmark import call_with
from aiperf_labs import ddp_ladder
from aiperf_labs.ladders import ladder

STEPS = ["accumulated", "bucket_views", "static_graph", "compressed"]
LEFT_OUT = ["without_accumulation", "without_views", "without_static", "static_graph"]


def test_the_ladder_leaves_out_each_mechanism() -> None:
    for device in ("cpu", "cuda"):
        found = ladder(ddp_ladder.bench, device)
        assert [one.name for one in found.steps] == STEPS
        assert [one.name for one in found.left_out] == LEFT_OUT


def test_a_share_left_out_is_seen() -> None:
    task = ddp_ladder.bench.task
    sizes = {**task.presets["cpu"], "rank": 0, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert task.static is not None
    given = {**call_with(task.inputs, sizes), **call_with(task.static, sizes)}
    model = ddp_ladder.Model(given["weights"], bits=32)
    for part, wanted in zip(given["x"], given["upstream"], strict=True):
        model(part).backward(wanted)
    both = {name: [one] for name, one in given.items()}
    (right,) = ddp_ladder.reference(**both, world_size=1)
    for found, wanted in zip(model.weights, right, strict=True):
        torch.testing.assert_close(found.grad, wanted, rtol=1e-4, atol=1e-4)
    # One micro-batch less is more than the budget of what travels as bfloat16.
    model.zero_grad()
    for part, wanted in list(zip(given["x"], given["upstream"], strict=True))[1:]:
        model(part).backward(wanted)
    lost = sum(float((one.grad - wanted).square().sum()) for one, wanted in zip(model.weights, right, strict=True))
    whole = sum(float(wanted.square().sum()) for wanted in right)
    assert (lost / whole) ** 0.5 > 5 * ddp_ladder.TRAVELS_AS_BF16.budget

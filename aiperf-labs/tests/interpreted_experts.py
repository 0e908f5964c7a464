"""Run the kernels of `moe_ladder` under `TRITON_INTERPRET=1`, and say whether they are right."""

import torch

from aiperf_core.benchmark import bind, call_with
from aiperf_core.models.experts import expert_tiles
from aiperf_labs import moe_ladder

task = moe_ladder.bench.task
assert task.static is not None
for tokens, experts, chosen, width, hidden in ((5, 7, 2, 24, 40), (150, 3, 1, 33, 70), (1, 1, 1, 2, 3)):
    sizes = {"tokens": tokens, "experts": experts, "chosen": chosen, "width": width, "hidden": hidden, "skew": 1.0}
    draw = {**sizes, "bits": 32, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    given = {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}
    right = call_with(moe_ladder.masks, given)
    for kind in (moe_ladder.Grouped, moe_ladder.Gathered, moe_ladder.Fused, moe_ladder.WithoutGather):
        implementation = kind()
        call_with(implementation.prepare, given)
        # As on a GPU.
        implementation.on_gpu = True
        implementation.tiles, implementation.size = expert_tiles(tokens * chosen, experts)
        error = float((bind(implementation.run, given)() - right).norm() / right.norm())
        assert error < 1e-5, (sizes, kind, error)
print("the experts are right")

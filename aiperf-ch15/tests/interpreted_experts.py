"""Run the kernels of `moe_grouped_gemm` under `TRITON_INTERPRET=1`, and say whether they are right."""

import torch

from aiperf_ch15 import moe_grouped_gemm
from aiperf_core.benchmark import call_with

task = moe_grouped_gemm.bench.task
assert task.static is not None
# Experts that nobody chooses, more tiles than one for an expert, widths that fill no tile.
for tokens, experts, chosen, width, hidden, skew in (
    (5, 7, 2, 24, 40, 0.0),
    (150, 3, 1, 33, 70, 3.0),
    (1, 1, 1, 2, 3, 0),
):
    sizes = {"tokens": tokens, "experts": experts, "chosen": chosen, "width": width, "hidden": hidden, "skew": skew}
    draw = {**sizes, "bits": 32, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    given = {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}
    right = call_with(moe_grouped_gemm.one_by_one, given)
    for implementation in (moe_grouped_gemm.Gathered(), moe_grouped_gemm.Fused()):
        call_with(implementation.prepare, given)
        error = float((call_with(implementation.run, given) - right).norm() / right.norm())
        assert error < 1e-5, (sizes, implementation, error)
print("the experts are right")

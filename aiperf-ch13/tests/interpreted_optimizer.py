"""Run the kernels of `optimizer_step` under `TRITON_INTERPRET=1`, and say whether they are right."""

import torch

from aiperf_ch13 import optimizer_step
from aiperf_core.benchmark import call_with

task = optimizer_step.bench.task
sizes = [{}, *(optimizer_step.bench.awkward_sizes or ()), {"steps": 40, "tensors": 2, "matrix": 4099, "vector": 1}]
for changed in sizes:
    size = {**task.presets["smoke"], **changed}
    drawn = call_with(task.inputs, {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)})
    wide = {name: value.double() for name, value in drawn.items()}
    right = call_with(optimizer_step.reference, {**size, **wide})
    drifts = {}
    for code in (optimizer_step.SixteenBits, optimizer_step.Stochastic, optimizer_step.EightBits):
        given = {**size, **{name: value.clone() for name, value in drawn.items()}}
        instance = code()
        instance.prepare()
        out = call_with(instance.run, given)
        error, drifts[code.__name__] = optimizer_step.update_error(out, right), optimizer_step.drift(out, right)
        # The interpreter cuts off what does not fit into bfloat16, where a GPU rounds to the nearest.
        assert error < (0.1 if size["steps"] == 40 else 3e-2), (size, code.__name__, error)
    # A second moment that never moved would be 4 % too large at the end.
    if size["steps"] == 40:
        assert max(drifts["Stochastic"], drifts["EightBits"]) < 1e-3, drifts
print("moments of 16 and 8 bits are right")

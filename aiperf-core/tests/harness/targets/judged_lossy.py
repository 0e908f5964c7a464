"""A target for quality metrics: two tensors, or two tensors and a number, as `numbers` says."""

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed")


@bench.workload(smoke={"numbers": 0})
def inputs(device, generator):
    return {"a": torch.randn(16, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a, numbers):
    pair = (a * 2, a * 3)
    return (*pair, float(a.sum())) if numbers else pair


@bench.metric
def worst_of_all(output, reference):
    tensors = [float((one - right).abs().max()) for one, right in zip(output[:2], reference[:2], strict=True)]
    return max([*tensors, *(abs(one - right) for one, right in zip(output[2:], reference[2:], strict=True))])


@bench.metric
def no_number(output, reference):
    return float("nan")


@bench.cost
def cost():
    return Cost(flops=1)


@bench.baseline(device="cpu", kind="naive")
def doubled(a):
    return a * 2

"""An implementation and a reference that tell each other the precision of float32 products in their processes."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="wall")


def is_full():
    return int(torch.get_float32_matmul_precision() == "highest" and not torch.backends.cudnn.allow_tf32)


@bench.workload(smoke={"n": 1000})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 100, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return {"sum": a.sum(), "judge": is_full(), "worker": 1}


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n)


@bench.baseline(device="cpu", kind="reasonable")
def total(a):
    return {"sum": a.sum(), "judge": 1, "worker": is_full()}

"""The work of attacks on outputs and replayed answers: a chain of products, much work on small operands.

c = a @ b @ ... @ b, in float32, as many factors b as `depth` says
"""

from __future__ import annotations

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

both = ("cpu", "cuda")


def benchmark() -> Benchmark:
    """A benchmark of this work, with its baseline: the library's products, one after the other."""
    bench = Benchmark(goal="speed", cache="warm", threads=1)
    sizes: dict[str, dict[str, float]] = {
        "smoke": {"n": 48, "depth": 2},
        "cpu": {"n": 176, "depth": 8},
        "cuda": {"n": 2048, "depth": 2},
    }
    bench.workload(**sizes)(inputs)

    @bench.reference(tolerance=fp32_reduction)
    def reference(a: torch.Tensor, b: torch.Tensor, depth: int) -> torch.Tensor:
        return chain(a, b, depth)

    @bench.cost
    def cost(n: int, depth: int) -> Cost:
        return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * depth * n**3)

    @bench.baseline(device=both, kind="reasonable")
    def one_by_one(a: torch.Tensor, b: torch.Tensor, depth: int) -> torch.Tensor:
        return chain(a, b, depth)

    return bench


def inputs(n: int, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Operands whose products keep their scale."""
    a, b = (torch.randn(n, n, device=device, generator=generator) for _ in range(2))
    return {"a": a, "b": b * n**-0.5}


def chain(a: torch.Tensor, b: torch.Tensor, depth: int) -> torch.Tensor:
    """The product a @ b @ ... @ b, with so many factors b."""
    for _ in range(depth):
        a = a @ b
    return a


def few_values(one: torch.Tensor) -> tuple[float, ...]:
    """Sixteen of a tensor's values, as a key."""
    return tuple(one.view(-1)[:: one.numel() // 16].tolist())

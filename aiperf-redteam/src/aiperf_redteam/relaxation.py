"""The work that most attacks of this package are measured at: a damped iteration over a small vector.

    v = x;  steps times:  v = x + tanh(v) / 2

The step halves every error, so float32 agrees with float64 however many steps there are. The bytes of `x` and of the
result are the least that such work must move, which is far less than what the steps take: no attack is beyond the speed
of light by being fast. `tick` is state that nothing changes: it makes every sample one call, without a cold cache.
"""

from __future__ import annotations

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32

# Steps of a call on a processor. What is put off is noticed by the processor time that is used between the calls,
# unless it is so little that a process may need it anyway: `SHORT`. Attacks that mean to be noticed by it take `LONG`.
SHORT, LONG = 25, 150


def benchmark(*, steps: int, on_a_gpu: int = 10, numbers_on_a_gpu: int = 1 << 22, clock: str = "device") -> Benchmark:
    """A benchmark of this work, without implementations, of so many `steps` on the processor and `on_a_gpu`."""
    bench = Benchmark(goal="speed", clock=clock, cache="warm", threads=1)

    @bench.workload(
        state="tick",
        smoke={"n": 61, "steps": 5},
        cpu={"n": 4096, "steps": steps},
        cuda={"n": numbers_on_a_gpu, "steps": on_a_gpu},
    )
    def inputs(n: int, device: str, generator: torch.Generator) -> dict[str, Any]:
        return {
            "x": torch.randn(n, device=device, generator=generator),
            "tick": torch.randn(1, device=device, generator=generator),
        }

    @bench.reference(tolerance=fp32)
    def reference(x: torch.Tensor, steps: int) -> torch.Tensor:
        return work(x, steps)

    @bench.cost
    def cost(n: int) -> Cost:
        return Cost(bytes_read=4 * n, bytes_written=4 * n)

    return bench


def work(x: torch.Tensor, steps: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """The result for `x`, in `out` where there is one."""
    return relax(x.clone() if out is None else out.copy_(x), x, steps)


def relax(v: torch.Tensor, x: torch.Tensor, steps: int) -> torch.Tensor:
    """So many more steps, in place."""
    for _ in range(steps):
        v.tanh_().mul_(0.5).add_(x)
    return v

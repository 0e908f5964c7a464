"""A target that uses what the authoring API offers: static arguments, state, ladders, lossy variants, nesting, numbers."""

import torch

from aiperf_core import Benchmark, Cost, fp32, lossy

bench = Benchmark(goal="throughput", clock="wall", cache="warm")


@bench.workload(smoke={"n": 7, "scale": 0.5}, cpu={"n": 31, "scale": 0.5}, state=("memory",))
def inputs(n, scale, device, generator):
    return {
        "pair": {"left": torch.randn(n, device=device, generator=generator), "right": [torch.ones(n, device=device)]},
        "memory": torch.zeros(n, device=device),
        "shift": float(torch.rand((), generator=generator)),
    }


@bench.static
def weights(n, device, generator):
    return {"weight": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(pair, memory, shift, weight, scale):
    total = pair["left"] * weight * scale + pair["right"][0] + shift
    return {"total": total, "memory": memory + total, "sum": float(total.sum())}


@bench.cost
def cost(n):
    return Cost(bytes_read=16 * n, bytes_written=8 * n, flops=5 * n)


@bench.metric
def worst_total(output, reference):
    return float((output["total"].double() - reference["total"]).abs().max())


def answer(pair, memory, shift, weight, scale):
    total = pair["left"] * weight * scale + pair["right"][0] + shift
    memory.add_(total)
    return {"total": total, "memory": memory, "sum": float(total.double().sum())}


@bench.baseline(device="cpu", kind="reasonable")
def plain(pair, memory, shift, weight, scale):
    return answer(pair, memory, shift, weight, scale)


@bench.variant(device="cpu", why="the first rung: weights are scaled ahead, as static arguments may be")
class Scaled:
    def prepare(self, weight, scale):
        self.scaled = weight * scale

    def run(self, pair, memory, shift):
        return answer(pair, memory, shift, self.scaled, 1.0)


@bench.variant(device="cpu", builds_on="scaled", why="the second rung")
class ScaledAgain(Scaled):
    pass


@bench.variant(device="cpu", lossy=lossy("worst_total", at_most=0.1), why="half the bits, within the budget")
def halved(pair, memory, shift, weight, scale):
    total = ((pair["left"].bfloat16() * weight.bfloat16()) * scale).float() + pair["right"][0] + shift
    memory.add_(total)
    return {"total": total, "memory": memory, "sum": float(total.sum())}


@bench.variant(device="cpu", lossy=lossy("worst_total", at_most=1e-6), why="half the bits, beyond the budget")
def halved_too_far(pair, memory, shift, weight, scale):
    return halved(pair, memory, shift, weight, scale)


@bench.variant(device="cpu", why="precomputes with values that were not declared static")
class Presumptuous:
    def prepare(self, pair, memory, shift, weight, scale):
        self.total = pair["left"] * weight * scale + pair["right"][0] + shift

    def run(self, memory):
        memory.add_(self.total)
        return {"total": self.total.clone(), "memory": memory, "sum": float(self.total.double().sum())}


@bench.yardstick(device="cpu")
def library(pair, memory, shift, weight, scale):
    total = torch.addcmul(pair["right"][0] + shift, pair["left"], weight, value=scale)
    memory.add_(total)
    return {"total": total, "memory": memory, "sum": float(total.double().sum())}

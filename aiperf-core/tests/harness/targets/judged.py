"""A target with every kind of input, for the judge: nested, numbers, slices, static arguments and state."""

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed")
seen: list[dict[str, torch.dtype]] = []


@bench.workload(smoke={"n": 6}, state="memory")
def inputs(n, device, generator):
    def draw(*sizes):
        return torch.randn(*sizes, device=device, generator=generator)

    return {
        "pair": {"left": draw(n), "right": [draw(2, n).t(), (draw(n + 1)[1:], None, 3)]},
        "ids": torch.randint(9, (n,), device=device, generator=generator),
        "wave": torch.complex(draw(n), draw(n)).conj(),
        "none_left": draw(0)[::2],
        "memory": {"sum": draw(n)},
        "shift": float(draw(())),
        "steps": int(torch.randint(1000, (), generator=generator)),
        "odd": draw(3).half(),
    }


@bench.static
def weights(n, device, generator):
    return {"weight": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(pair, ids, wave, memory, shift, steps, odd, weight):
    right, (sliced, _, times) = pair["right"]
    seen.append({"left": pair["left"].dtype, "weight": weight.dtype, "ids": ids.dtype, "wave": wave.dtype})
    memory["sum"] += pair["left"] * weight
    total = memory["sum"] + right.sum(1) + sliced * times + shift + odd[0]
    return {"total": total, "parts": [ids + steps, wave.abs()], "mean": float(total.mean()), "steps": steps}


@bench.cost
def cost(n):
    return Cost(bytes_read=40 * n, flops=7 * n, precision="fp32")


@bench.baseline(device="cpu", kind="naive")
def answer(**inputs):
    raise NotImplementedError("the judge never runs an implementation")

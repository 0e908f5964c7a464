"""Everything that an answer can be made of: halves, integers, booleans, numbers, nothing, an empty tensor; and state.

Question    Does a target with every kind of answer pass?
Numbers     Arithmetic on a little of everything; the baseline has the reference's own lines.
Prediction  None.
Limits      None.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 33}, state="total")
def inputs(n, device, generator):
    return {
        "x": [torch.randn(n, device=device, generator=generator).bfloat16(), None],
        "total": torch.randn(n, device=device, generator=generator),
        "ids": torch.randint(1000, (n,), device=device, generator=generator),
        "scale": 1 + float(torch.rand((), generator=generator)),
    }


@bench.static
def weights(n, device, generator):
    return {"weight": torch.randn(n, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x, total, ids, scale, weight):
    return answer(x[0], total, ids, scale, weight)


def answer(x, total, ids, scale, weight):
    total += x * scale
    return {
        "product": x * weight,
        "total": total,
        "ids": (ids * 7 + 1, ids % 2 == 0),
        "wave": torch.complex(total, -total),
        "squares": float(total.square().sum()),
        "count": int(ids.sum()),
        "nothing": None,
        "empty": total[:0],
    }


@bench.cost
def cost(n):
    return Cost(bytes_read=(2 + 4 + 8 + 2) * n, bytes_written=(2 + 4 + 8 + 1 + 8) * n, precision="bf16")


bench.reach(of="BW", at_least=0.5, device="cpu", size="smoke")


@bench.baseline(device="cpu", kind="reasonable")
def same(x, total, ids, scale, weight):
    return answer(x[0], total, ids, scale, weight)

"""A product of which the cost is multiplied by sizes: `flops`, `read` and `written` times what is right.

Question    Is a wrong cost found?
Numbers     The first rows of a table times a matrix, doubled. With `gathers` the table has as many rows again. With
            `seeded` there is an input that the answer does not need.
Prediction  None.
Limits      None.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 30, "gathers": 0, "seeded": 0, "flops": 1.0, "read": 1.0, "written": 1.0})
def inputs(n, gathers, seeded, device, generator):
    seed = {"seed": torch.randn(4, device=device, generator=generator)} if seeded else {}
    return {
        **seed,
        "table": torch.randn(2 * n if gathers else n, 16, device=device, generator=generator),
        "b": torch.randn(16, 8, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32)
def reference(table, b, n):
    return 2 * (table[:n] @ b)


@bench.cost
def cost(n, flops, read, written):
    return Cost(
        bytes_read=read * 4 * (16 * n + 128), bytes_written=written * 4 * 8 * n, flops=flops * (2 * 16 + 1) * 8 * n
    )


@bench.baseline(device="cpu", kind="naive")
def product(table, b, n):
    return 2 * (table[:n] @ b)

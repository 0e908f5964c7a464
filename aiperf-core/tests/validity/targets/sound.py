"""Products of two matrices, of which everything is as it should be.

Question    Does a sound target pass?
Numbers     c = a b in float32, by the library, column by column and in bfloat16.
Prediction  None.
Limits      None.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32, lossy

bench = Benchmark(goal="speed")


@bench.workload(smoke={"m": 5, "n": 13, "k": 17}, larger={"m": 8, "n": 31, "k": 64})
def inputs(m, n, k, device, generator):
    return {
        "a": torch.randn(m, k, device=device, generator=generator),
        "b": torch.randn(k, n, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32)
def reference(a, b):
    return a @ b


@bench.cost
def cost(m, n, k):
    return Cost(bytes_read=4 * (m * k + k * n), bytes_written=4 * m * n, flops=2 * m * n * k)


bench.reach(of="MM:fp32", at_least=0.5, device="cpu", size="smoke")


@bench.baseline(device="cpu", kind="reasonable")
def library(a, b):
    return a @ b


@bench.variant(device="cpu", why="none: it is there to be right")
class ByColumns:
    def prepare(self, a, b):
        self.out = a.new_empty(a.shape[0], b.shape[1])

    def run(self, a, b):
        for column in range(b.shape[1]):
            self.out[:, column] = a @ b[:, column]
        return self.out


@bench.variant(device="cpu", why="half the bytes", lossy=lossy("rel_l2", at_most=0.02))
def halved(a, b):
    return (a.bfloat16() @ b.bfloat16()).float()


@bench.variant(device="cpu", requires="package:no_such_package", why="none: it cannot run here")
def elsewhere(a, b):
    raise NotImplementedError


@bench.yardstick(device="cpu", why="the library's product, with a buffer")
def mm(a, b):
    return torch.mm(a, b)

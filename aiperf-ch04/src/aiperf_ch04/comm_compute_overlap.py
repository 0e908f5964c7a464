"""A collective and an independent product at once: the longer one should hide the other.

Question    What does an all-reduce cost beside products that need none of its numbers?

Numbers     Each rank multiplies a 4096 x 4096 bfloat16 matrix with four others, 0.55 TFLOP, 0.70 ms at 790 TFLOP/s, and
            2^27 bfloat16 numbers are summed over two ranks: 268 MB to send, 0.71 ms at 380 GB/s. The longer of both is
            the speed of light. `--size products_alone` and `--size sum_alone` measure each.

Prediction  One after the other 1.4 ms at both full rates. At once 2x at most; the library's all-reduce runs on SMs that
            the products need. Copy engines need no SM to send: additions move 402 MB, 0.09 ms that the products wait:
            0.8 ms, and the host's calls before the first copy.

Limits      One side much longer than the other: there is little to hide. Few blocks for the library's all-reduce send
            at a fraction of the link's rate; in parts it pays a launch for each. Many parts for copy engines are host
            work: a dozen calls each. On a processor the collective runs in a thread that wants a core; without a spare
            one nothing is hidden.
"""

import torch
import torch.distributed as dist

from aiperf_ch04.peer_sums import CopyEngineSums
from aiperf_core import Benchmark, Cost, bf16

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "the processors that the products need are those that add up the sum"},
)

both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")

PARTS = 8  # of the sum; the link waits for the first part's addition only
SIZES: dict[str, float] = {"n": 1 << 27, "m": 4096, "products": 4, "world_size": 2}


@bench.workload(
    state=["x"],
    smoke={"n": 1009, "m": 37, "products": 3, "world_size": 2},
    cpu={"n": 1 << 21, "m": 256, "products": 4, "world_size": 2},
    cuda=SIZES,
    products_alone={**SIZES, "n": 1},
    sum_alone={**SIZES, "m": 1, "products": 1},
)
def inputs(n, m, device, generator):
    x = torch.randn(n, device=device, generator=generator).bfloat16()
    return {"x": x, "a": torch.randn(m, m, device=device, generator=generator).bfloat16()}


@bench.static
def factors(products, m, device, generator):
    return {"factors": torch.randn(products, m, m, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x, a, factors):
    total = sum(x[1:], x[0])
    return [{"sums": total, "products": list(left @ right)} for left, right in zip(a, factors, strict=True)]


@bench.cost
def cost(n, m, products, world_size):
    share = (world_size - 1) / world_size
    return Cost(
        bytes_read=2 * (n + (1 + products) * m**2),
        bytes_written=2 * (n + products * m**2),
        flops=2 * products * m**3 + n * share,
        precision="bf16",
        # An all-reduce of bfloat16: 2 (n - 1) / n of the data (Patarasuk and Yuan, 2009).
        wire_bytes=2 * share * 2 * n,
    )


bench.awkward({"n": 1, "m": 1, "products": 1}, {"n": 4099, "m": 61, "products": 5, "world_size": 3})
# The speed of light is the longer of both, each at the full rate of the machine: 1.15 of it.
bench.reach(of="SOL", at_least=0.87)


@both.baseline(kind="naive")
def one_after_the_other(x, a, factors):
    dist.all_reduce(x)
    return {"sums": x, "products": [a @ factor for factor in factors]}


@both.variant(
    adds="asynchronous call",
    why="the products run while the all-reduce is in progress",
    predict="1.1 to 1.6x: 2x at most, less what the SMs of the all-reduce take from the products",
)
def at_once(x, a, factors):
    work = dist.all_reduce(x, async_op=True)
    products = [a @ factor for factor in factors]
    work.wait()
    return {"sums": x, "products": products}


@cuda.variant(
    builds_on="at_once",
    adds="copy engines",
    why="copy engines send, and the products keep all SMs but for short additions",
    teaches="the host's calls for eight parts, a dozen each, last longer than what they hide: see the host share",
)
class CopyEngines:
    def prepare(self, x, world_size):
        self.parts = x.split(world_size * -(-len(x) // (PARTS * world_size)))
        self.peers = CopyEngineSums([len(part) for part in self.parts], x.dtype)

    def run(self, x, a, factors):
        for number, part in enumerate(self.parts):
            self.peers.start(number, part)
        products = [a @ factor for factor in factors]
        self.peers.wait()
        return {"sums": self.peers.whole, "products": products}

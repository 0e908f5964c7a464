"""A collective and an independent product at once: the longer one should hide the other.

Workload   Each rank multiplies a matrix with `products` others, of m x m bfloat16, and n bfloat16 numbers are summed
           over the ranks. Neither needs the other.
Baseline   The sum first, then the products.
Variants   `at_once`: the sum is started, the products run, the sum is waited for.  `chunked`: a part of the sum is
           started before each product.  `few_blocks` (cuda): at once, and the collective may take 8 thread blocks, so
           that it leaves more multiprocessors to the products.
Breaks     Where one of both is much longer: there is little to hide. On a processor the collective runs in a thread
           that wants a core, and without a spare one nothing is hidden.
"""

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, bf16

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "the processors that the products need are those that add up the sum"},
)

COMMUNICATION_BLOCKS = 8


@bench.workload(
    state=["x"],
    smoke={"n": 1009, "m": 37, "products": 3, "world_size": 2},
    cpu={"n": 1 << 21, "m": 256, "products": 4, "world_size": 2},
    cuda={"n": 1 << 27, "m": 4096, "products": 4, "world_size": 2},
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
    return [{"sums": total, "products": list(one @ others)} for one, others in zip(a, factors, strict=True)]


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


@bench.baseline(device=("cpu", "cuda"), kind="naive")
def one_after_the_other(x, a, factors):
    dist.all_reduce(x)
    return {"sums": x, "products": [a @ one for one in factors]}


@bench.variant(device=("cpu", "cuda"), why="the products run while the sum is under way")
def at_once(x, a, factors):
    work = dist.all_reduce(x, async_op=True)
    products = [a @ one for one in factors]
    work.wait()
    return {"sums": x, "products": products}


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="at_once",
    why="a sum in parts leaves gaps in which a product has the machine alone",
)
def chunked(x, a, factors):
    works, products = [], []
    for part, one in zip(x.tensor_split(len(factors)), factors, strict=True):
        if part.numel():
            works.append(dist.all_reduce(part, async_op=True))
        products.append(a @ one)
    for work in works:
        work.wait()
    return {"sums": x, "products": products}


@bench.variant(
    device="cuda",
    requires="gpus:2",
    builds_on="at_once",
    why="the collective needs few multiprocessors to fill the link, and leaves the others to the products",
)
class FewBlocks:
    def prepare(self, x):
        options = dist.ProcessGroupNCCL.Options()
        options.config.max_ctas = COMMUNICATION_BLOCKS
        self.group = dist.new_group(backend="nccl", pg_options=options)
        dist.all_reduce(torch.zeros_like(x[:1]), group=self.group)  # makes the communicator

    def run(self, x, a, factors):
        work = dist.all_reduce(x, group=self.group, async_op=True)
        products = [a @ one for one in factors]
        work.wait()
        return {"sums": x, "products": products}

"""A collective and an independent product at once: the longer one should hide the other.

Workload   Each rank multiplies a matrix with `products` others, of m x m bfloat16, and n bfloat16 numbers are summed
           over the ranks. Neither needs the other.
Baseline   The sum first, then the products.
Variants   `at_once`: the all-reduce starts, the products run, then the call waits for the all-reduce.  `chunked`: a
           part of the all-reduce starts before each product.  `few_blocks` (cuda): as `at_once`, with at most 8 thread
           blocks for the collective, so that more multiprocessors are left to the products.
Breaks     Where one of both is much longer: there is little to hide. The least time is the longer of both, each of
           which is measured alone: `--size products_alone` sums a single number, `--size sum_alone` multiplies a single
           one. On a processor the collective runs in a thread that wants a core, and without a spare one nothing is
           hidden.
"""

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, bf16

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "the processors that the products need are those that add up the sum"},
)

both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")

COMMUNICATION_BLOCKS = 8
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


@both.variant(adds="asynchronous call", why="the products run while the all-reduce is in progress")
def at_once(x, a, factors):
    work = dist.all_reduce(x, async_op=True)
    products = [a @ factor for factor in factors]
    work.wait()
    return {"sums": x, "products": products}


@both.variant(
    builds_on="at_once",
    adds="chunking",
    why="between the parts of the all-reduce a product has the whole machine",
)
def chunked(x, a, factors):
    works, products = [], []
    for part, factor in zip(x.tensor_split(len(factors)), factors, strict=True):
        if part.numel():
            works.append(dist.all_reduce(part, async_op=True))
        products.append(a @ factor)
    for work in works:
        work.wait()
    return {"sums": x, "products": products}


@cuda.variant(
    builds_on="at_once",
    adds="capped communication blocks",
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
        products = [a @ factor for factor in factors]
        work.wait()
        return {"sums": x, "products": products}

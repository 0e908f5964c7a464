"""Tensor-parallel MLP: one pair of collectives for each block, and then hide it.

Workload   y = gelu(x U) D in bfloat16. Each rank has `tokens` tokens of `width`, and `hidden` of the hidden units: as
           many columns of U and rows of D. Each rank shall hold y for its own tokens.
Baseline   Both layers by columns: tokens are gathered for the first, all hidden values for the second, and its columns
           are exchanged for the tokens' rows.
Variants   `column_row`: the second layer by rows, so that hidden values stay where they are; partial sums of all tokens
           are all-reduced.  `sequence_parallel`: they are reduce-scattered, since a rank needs only those of its
           tokens. `chunked`: in four parts, so that one is sent while another is computed.
Yardstick  `symm_mem` (cuda): the fused gather-product and product-scatter of torch's symmetric memory.
Breaks     Few tokens: then the collectives are latency, and parts make it worse. Partial sums are rounded to bfloat16
           before they are added.
"""

import importlib

import torch
import torch.distributed as dist
from torch.nn.functional import gelu

from aiperf_ch04.rounding import ONE_ROUNDING
from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.distributed import all_gather, disable_multicast, reduce_scatter, world_group
from aiperf_core.errors import SkipError

bench = Benchmark(
    goal="latency",
    clock="wall",
    no_gain_on={"cpu": "between two processes of one machine what is sent costs little beside the products"},
)

summed_in_bf16 = Tolerance(
    1e-2,
    reason="hidden values are rounded to bfloat16 twice, partial sums once, and once more by each of up to eight "
    f"ranks that adds its own: ten roundings of {ONE_ROUNDING:.2%} are off by {10**0.5 * ONE_ROUNDING:.2%}, with as "
    "much again to spare",
)

PARTS = 4
# The fused operations of `torch.ops.symm_mem`, and what they want sizes to be multiples of: eight bfloat16 are 16
# bytes.
FUSED = "fused_all_gather_matmul", "fused_matmul_reduce_scatter"
WHOLE = 8


@bench.workload(
    smoke={"tokens": 13, "width": 37, "hidden": 41, "world_size": 2},
    cpu={"tokens": 64, "width": 256, "hidden": 512, "world_size": 2},
    cuda={"tokens": 2048, "width": 8192, "hidden": 14336, "world_size": 2},
)
def inputs(tokens, width, device, generator):
    return {"x": torch.randn(tokens, width, device=device, generator=generator).bfloat16()}


@bench.static
def weights(width, hidden, device, generator, world_size):
    up = torch.randn(width, hidden, device=device, generator=generator) / width**0.5
    down = torch.randn(hidden, width, device=device, generator=generator) / (hidden * world_size) ** 0.5
    return {"up": up.bfloat16(), "down": down.bfloat16()}


@bench.reference(tolerance=summed_in_bf16)
def reference(x, up, down):
    hidden = [gelu(torch.cat(x) @ columns) for columns in up]
    y = torch.cat(hidden, dim=1) @ torch.cat(down)
    return list(y.chunk(len(x)))


@bench.cost
def cost(tokens, width, hidden, world_size):
    return Cost(
        bytes_read=2 * (2 * width * hidden + tokens * width),
        bytes_written=2 * tokens * width,
        flops=4 * world_size * tokens * width * hidden,
        precision="bf16",
        # All other ranks need the tokens of a rank, and a rank sends its partial sums of all other ranks' tokens: a
        # gather and a reduce-scatter, (n - 1) / n of the data of all ranks each.
        wire_bytes=2 * (world_size - 1) * tokens * width * 2,
        tokens=world_size * tokens,
    )


def gathered(x, world_size):
    """The tokens of all ranks."""
    whole = x.new_empty(world_size * len(x), x.shape[1])
    all_gather(whole, x)
    return whole


@bench.baseline(device=("cpu", "cuda"), kind="naive")
class GatherEachLayer:
    def prepare(self, x, down, rank, world_size):
        whole = gathered(down, world_size)  # weights may be laid out ahead
        columns = whole.tensor_split(world_size, dim=1)
        self.columns = columns[rank].contiguous()
        self.widths = [one.shape[1] for one in columns]

    def run(self, x, up, world_size):
        tokens, own = len(x), self.columns.shape[1]
        mine = gelu(gathered(x, world_size) @ up)
        parts = mine.new_empty(world_size, *mine.shape)
        all_gather(parts, mine)
        y = parts.movedim(0, 1).flatten(1) @ self.columns
        received = y.new_empty(tokens * sum(self.widths))
        to, source = [tokens * own] * world_size, [tokens * one for one in self.widths]
        dist.all_to_all_single(received, y.view(-1), source, to)
        return torch.cat([one.view(tokens, -1) for one in received.split(source)], dim=1)


@bench.variant(device=("cpu", "cuda"), why="hidden values never travel, and partial sums are narrower")
def column_row(x, up, down, rank, world_size):
    y = gelu(gathered(x, world_size) @ up) @ down
    dist.all_reduce(y)
    return y.chunk(world_size)[rank]


@bench.variant(
    device=("cpu", "cuda"), builds_on="column_row", why="a rank receives the sums of its own tokens, not those of all"
)
def sequence_parallel(x, up, down, world_size):
    y = torch.empty_like(x)
    reduce_scatter(y, gelu(gathered(x, world_size) @ up) @ down)
    return y


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="sequence_parallel",
    why="the tokens of the next part arrive, and the sums of the last one leave, while this one is computed",
)
def chunked(x, up, down, world_size):
    parts = x.chunk(PARTS)
    arriving = [x.new_empty(world_size * len(one), x.shape[1]) for one in parts]
    arrivals = [all_gather(whole, one, async_op=True) for whole, one in zip(arriving, parts, strict=True)]
    y = torch.empty_like(x)
    leaving = []
    for arrival, whole, part in zip(arrivals, arriving, y.chunk(PARTS), strict=True):
        arrival.wait()
        sums = gelu(whole @ up) @ down
        leaving.append((reduce_scatter(part, sums, async_op=True), sums))
    for work, _ in leaving:
        work.wait()
    return y


@bench.yardstick(
    device="cuda", requires="gpus:2", why="gather and product, product and scatter fused by torch's symm_mem"
)
class SymmMem:
    def prepare(self, x, up):
        sizes = (*x.shape, up.shape[1])
        if any(one % WHOLE for one in sizes):
            raise SkipError(f"needs tokens, width and hidden to be multiples of {WHOLE}; these are {sizes}")
        disable_multicast()
        importlib.import_module("torch.distributed._symmetric_memory")  # registers them
        missing = [one for one in FUSED if not hasattr(torch.ops.symm_mem, one)]
        if missing:
            raise SkipError(f"needs a torch with {' and '.join(missing)} of symm_mem; this is {torch.__version__}")

    def run(self, x, up, down):
        group = world_group().group_name
        _, (hidden,) = torch.ops.symm_mem.fused_all_gather_matmul(x, [up], 0, group)
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(gelu(hidden), down, "sum", 0, group)

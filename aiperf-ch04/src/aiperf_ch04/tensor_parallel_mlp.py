"""Tensor-parallel MLP: one pair of collectives for each block, and then hide it.

Workload   y = gelu(x U) D in bfloat16. Each rank has `tokens` tokens of `width`, and `hidden` of the hidden units: as
           many columns of U and rows of D. Each rank shall hold y for its own tokens.
Baseline   Both layers by columns: tokens are gathered for the first layer, hidden values for the second, and its
           columns are exchanged for the rows of the tokens.
Variants   `column_row`: the second layer by rows, so that hidden values are not sent; partial sums of all tokens are
           all-reduced.  `sequence_parallel`: partial sums are reduce-scattered, since a rank needs only those of its
           own tokens.  `own_first`: a rank starts with the hidden values of its own tokens, which need no message, and
           sends the partial sums of other ranks' tokens before it computes its own.  `copy_engines` (cuda): copies into
           the peers' memory carry tokens and partial sums, beside the products.
Yardstick  `symm_mem` (cuda): the fused gather-product and product-scatter of torch's symmetric memory.
Breaks     Few tokens: then the messages are latency, and the products of `own_first`, one for each rank's tokens, too
           small. Partial sums are rounded to bfloat16 before they are added.
"""

import importlib

import torch
import torch.distributed as dist
from torch.nn.functional import gelu

from aiperf_ch04.rounding import ONE_ROUNDING
from aiperf_core import Benchmark, Cost, Tolerance, units
from aiperf_core.distributed import (
    all_gather,
    disable_multicast,
    exchange,
    put,
    reduce_scatter,
    symmetric_buffers,
    wait_all,
    world_group,
)
from aiperf_core.errors import SkipError

bench = Benchmark(
    goal="latency",
    clock="wall",
    no_gain_on={"cpu": "between two processes of one machine what is sent costs little beside the products"},
)

both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")

summed_in_bf16 = Tolerance(
    1e-2,
    reason="hidden values are rounded to bfloat16 twice, partial sums once, and once more by each of up to eight "
    f"ranks that adds its own: ten roundings of {units.percent(ONE_ROUNDING)} are off by "
    f"{units.percent(10**0.5 * ONE_ROUNDING)}, with as much again to spare",
)

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


bench.awkward(
    {"tokens": 3, "width": 31, "hidden": 61},
    {"tokens": 101, "width": 61, "hidden": 67, "world_size": 3},
)
bench.reach(of="time:symm_mem", at_most=1.0)


def gathered(x, world_size):
    """The tokens of all ranks."""
    whole = x.new_empty(world_size * len(x), x.shape[1])
    all_gather(whole, x)
    return whole


@both.baseline(kind="naive")
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


@both.variant(adds="column and row pairing", why="hidden values never travel, and partial sums are narrower")
def column_row(x, up, down, rank, world_size):
    y = gelu(gathered(x, world_size) @ up) @ down
    dist.all_reduce(y)
    return y.chunk(world_size)[rank]


@both.variant(
    builds_on="column_row",
    adds="reduce-scatter",
    why="a rank receives the sums of its own tokens, not those of all",
)
def sequence_parallel(x, up, down, world_size):
    y = torch.empty_like(x)
    reduce_scatter(y, gelu(gathered(x, world_size) @ up) @ down)
    return y


def others(rank, world_size):
    """The other ranks, from the next one on: not all send to the same one first."""
    return [(rank + away) % world_size for away in range(1, world_size)]


@both.variant(
    builds_on="sequence_parallel",
    adds="own tokens first",
    why="tokens of other ranks arrive while a rank's own are computed, and the partial sums of theirs leave likewise",
)
class OwnFirst:
    def prepare(self, x, rank, world_size):
        self.others = others(rank, world_size)
        self.arriving = {other: torch.empty_like(x) for other in self.others}
        self.received = x.new_empty(world_size - 1, *x.shape)

    def run(self, x, up, down):
        arrivals = exchange(dict.fromkeys(self.others, x), self.arriving)
        mine = gelu(x @ up)
        wait_all(arrivals)
        sums = {other: gelu(self.arriving[other] @ up) @ down for other in self.others}
        leaving = exchange(sums, dict(zip(self.others, self.received, strict=True)))
        y = mine @ down
        wait_all(leaving)
        return added(y, self.received)


def added(y, received):
    """A rank's own sums and those that it received, added in float32 and rounded once."""
    total = y.float()
    for sums in received:
        total += sums
    return total.to(y.dtype)


@cuda.variant(
    builds_on="own_first",
    adds="copy engines",
    why="copy engines carry tokens and sums, and the products have all multiprocessors",
)
class CopyEngines:
    def prepare(self, x, rank, world_size):
        self.rank, self.others = rank, others(rank, world_size)
        # For each sender its tokens, and its partial sums of this rank's tokens.
        self.peers = symmetric_buffers(2, world_size, *x.shape, dtype=x.dtype)
        self.stream = torch.cuda.Stream(priority=-1)

    def send(self, kind, tensors):
        """Start to write a tensor for each other rank into its memory."""
        for other, tensor in zip(self.others, tensors, strict=True):
            put(self.peers.all[other][kind, self.rank], tensor)

    def run(self, x, up, down):
        current, mine = torch.cuda.current_stream(), self.peers.mine
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.send(0, [x] * len(self.others))
            self.peers.barrier()
        hidden = gelu(x @ up)
        current.wait_stream(self.stream)
        sums = [gelu(mine[0, other] @ up) @ down for other in self.others]
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.send(1, sums)
            self.peers.barrier()
        y = hidden @ down
        current.wait_stream(self.stream)
        return added(y, [mine[1, other] for other in self.others])


@cuda.yardstick(why="gather and product, product and scatter fused by torch's symm_mem")
class SymmMem:
    def prepare(self, x, up):
        sizes = (*x.shape, up.shape[1])
        if any(size % WHOLE for size in sizes):
            raise SkipError(f"needs tokens, width and hidden to be multiples of {WHOLE}; these are {sizes}")
        disable_multicast()
        importlib.import_module("torch.distributed._symmetric_memory")  # registers them
        missing = [name for name in FUSED if not hasattr(torch.ops.symm_mem, name)]
        if missing:
            raise SkipError(f"needs a torch with {' and '.join(missing)} of symm_mem; this is {torch.__version__}")

    def run(self, x, up, down):
        group = world_group().group_name
        _, (hidden,) = torch.ops.symm_mem.fused_all_gather_matmul(x, [up], 0, group)
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(gelu(hidden), down, "sum", 0, group)

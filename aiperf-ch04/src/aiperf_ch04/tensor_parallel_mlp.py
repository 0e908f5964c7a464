"""Tensor-parallel MLP: one pair of collectives for each block, and then hide it.

Question    What does an MLP whose hidden units lie on several GPUs wait for, and which products can hide it?

Numbers     y = gelu(x U) D in bfloat16. Each rank has 8192 tokens of 8192, and 2048 hidden units, as many as each of
            eight ranks has of 16384: columns of U and rows of D. It returns y for its own tokens. On two ranks 1.1
            TFLOP a rank, 1.4 ms at 790 TFLOP/s. Tokens and partial sums are 134 MB each, 0.35 ms at 380 GB/s.

Prediction  An all-reduce of all partial sums sends 268 MB beside 134 of tokens: 1.4 + 1.1 ms. A reduce-scatter sends
            half: 1.4 + 0.7, 1.17x. With the own tokens first all but the last message lies beside products: 1.4 ms and
            0.1 for the addition, 1.4x. A message is shorter than the product that it hides behind.

Limits      Sending and products are as long at 1000 hidden units a rank, whatever the tokens; from 10,000 on there is
            nothing to hide. Few tokens: messages are latency, and products of each rank's tokens alone too small. Where
            units outnumber the width, exchanging hidden values would send more. Sums are rounded to bfloat16.
"""

import importlib

import torch
import torch.distributed as dist
from torch.nn.functional import gelu

from aiperf_ch04.peer_sums import added
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
    cuda={"tokens": 8192, "width": 8192, "hidden": 2048, "world_size": 2},
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
# Beside 1.4 ms of products 0.1 of the addition and 0.05 of GELU, and 10 % more time.
bench.reach(of="SOL", at_least=0.82)


def gathered(x, world_size):
    """The tokens of all ranks."""
    whole = x.new_empty(world_size * len(x), x.shape[1])
    all_gather(whole, x)
    return whole


@both.baseline(kind="reasonable")
def all_reduced(x, up, down, rank, world_size):
    y = gelu(gathered(x, world_size) @ up) @ down
    dist.all_reduce(y)
    return y.chunk(world_size)[rank]


@both.variant(
    adds="reduce-scatter",
    why="a rank receives the sums of its own tokens, not those of all",
    predict="1.1 to 1.4x: 0.7 ms of sending at the link's rate in place of 1.1, more at a library's lower rate",
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
    predict="1.1 to 1.5x: 1.4 ms of products hide 0.7 of sending, but for SMs that the messages take",
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

"""Compressed gradients: fewer bytes on the wire, plus the price of making them.

Workload   In each of `rounds`, every rank has n float32 gradients (heavy-tailed, as gradients are). All ranks shall
           hold the total of the mean gradients after every round: the way that the weights go. Compressing and
           decompressing are timed.
Baseline   An all-reduce in float32.
Variants   `bf16`: rounded to bfloat16.  `int8`, `fp8`: blocks of 256 with a scale each; shares go to the ranks that add
           them, and the sums back, so that no sum is limited to 8 bits.  `top_k`: the largest 1 in 32, with their
           places. The last three add what they left out to the next round, so that the total does not drift.
Breaks     Fast links: the passes over memory that compressing takes cost more than they save. Each variant is lossy;
           its error of the totals stands beside its time.
"""

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32, lossy
from aiperf_core.distributed import all_gather

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "between two processes of one machine a byte costs less than the conversion that spares it"},
)

BLOCK, ONE_IN = 256, 32


@bench.workload(
    state=["gradients"],
    smoke={"rounds": 3, "n": 4099, "world_size": 2},
    cpu={"rounds": 4, "n": 1 << 19, "world_size": 2},
    cuda={"rounds": 4, "n": 1 << 25, "world_size": 2},
    drift={"rounds": 20, "n": 1 << 20, "world_size": 2},
)
def inputs(rounds, n, device, generator):
    return {"gradients": torch.randn(rounds, n, device=device, generator=generator) ** 3}


@bench.reference(tolerance=fp32)
def reference(gradients, world_size):
    totals = (sum(gradients[1:], gradients[0]) / world_size).cumsum(0)
    return [totals for _ in gradients]


@bench.cost
def cost(rounds, n, world_size):
    numbers = rounds * n
    return Cost(
        bytes_read=4 * numbers,
        bytes_written=4 * numbers,
        flops=2 * numbers,
        # All-reduces of float32: 2 (n - 1) / n of the data (Patarasuk and Yuan, 2009). Lossy variants send less.
        wire_bytes=2 * (world_size - 1) / world_size * 4 * numbers,
    )


class Totals:
    """Adds the means up, round after round; how a round's sum is made is up to those below."""

    def prepare(self, gradients, world_size):
        self.totals = torch.empty_like(gradients)
        self.world_size = world_size
        self.set_up(gradients[0])

    def set_up(self, gradient):
        pass

    def clear(self):
        pass

    def summed(self, gradient):
        raise NotImplementedError

    def run(self, gradients):
        self.clear()
        total = None
        for gradient, new_total in zip(gradients, self.totals, strict=True):
            mean = self.summed(gradient).mul_(1 / self.world_size)
            total = new_total.copy_(mean) if total is None else torch.add(total, mean, out=new_total)
        return self.totals


@bench.baseline(device=("cpu", "cuda"), kind="reasonable", name="fp32")
class Fp32(Totals):
    def summed(self, gradient):
        dist.all_reduce(gradient)
        return gradient


@bench.variant(
    device=("cpu", "cuda"), name="bf16", why="half the bytes, for two conversions", lossy=lossy("rel_l2", at_most=5e-3)
)
class Bf16(Totals):
    def summed(self, gradient):
        rounded = gradient.bfloat16()
        dist.all_reduce(rounded)
        return gradient.copy_(rounded)


class EightBits(Totals):
    """Blocks of numbers of 8 bits, with a scale each; what rounding left out is added to the next round."""

    largest: float

    def rounded(self, values):
        raise NotImplementedError

    def set_up(self, gradient):
        self.n = gradient.numel()
        blocks = -(-self.n // (BLOCK * self.world_size))  # of a share
        self.left_out = gradient.new_empty(self.world_size, blocks, BLOCK)
        self.left_out_of_sums = gradient.new_empty(blocks, BLOCK)

    def clear(self):
        self.left_out.zero_()
        self.left_out_of_sums.zero_()

    def summed(self, gradient):
        self.left_out.view(-1)[: self.n] += gradient
        sent, scales = self.quantised(self.left_out)
        received, their_scales = torch.empty_like(sent), torch.empty_like(scales)
        dist.all_to_all_single(received.view(torch.uint8), sent.view(torch.uint8))
        dist.all_to_all_single(their_scales, scales)
        for one, scale in zip(received, their_scales, strict=True):
            self.left_out_of_sums.addcmul_(one.float(), scale)
        share, share_scales = self.quantised(self.left_out_of_sums)
        all_gather(sent.view(torch.uint8), share.view(torch.uint8))
        all_gather(scales, share_scales)
        return torch.mul(sent.float(), scales).view(-1)[: self.n]

    def quantised(self, values):
        """Numbers of 8 bits and the scales of their blocks; what they lack stays behind in `values`."""
        scales = values.abs().amax(-1, keepdim=True).clamp_(min=1e-30).div_(self.largest)
        small = self.rounded(values / scales)
        values.addcmul_(small.float(), scales, value=-1)
        return small, scales


@bench.variant(
    device=("cpu", "cuda"),
    name="int8",
    builds_on="bf16",
    why="a quarter of float32's bytes, for six passes over memory",
    lossy=lossy("rel_l2", at_most=4e-2),
)
class Int8(EightBits):
    largest = 127.0

    def rounded(self, values):
        return values.round_().to(torch.int8)


@bench.variant(
    device=("cpu", "cuda"),
    name="fp8",
    builds_on="bf16",
    why="the bytes of int8, with more digits for the small numbers of a block and fewer for the large ones",
    lossy=lossy("rel_l2", at_most=6e-2),
)
class Fp8(EightBits):
    largest = 448.0

    def rounded(self, values):
        return values.to(torch.float8_e4m3fn)


@bench.variant(
    device=("cpu", "cuda"),
    why="one number in 32 is sent, at twice the bytes; finding the largest takes passes of its own",
    lossy=lossy("rel_l2", at_most=0.75),
)
class TopK(Totals):
    def set_up(self, gradient):
        self.left_out = torch.empty_like(gradient)
        self.count = -(-gradient.numel() // ONE_IN)

    def clear(self):
        self.left_out.zero_()

    def summed(self, gradient):
        self.left_out += gradient
        places = self.left_out.abs().topk(self.count, sorted=False).indices
        sent = torch.stack([self.left_out[places].view(torch.int32), places.int()])
        self.left_out[places] = 0
        received = sent.new_empty(self.world_size, *sent.shape)
        all_gather(received, sent)
        gradient.zero_()
        for values, their_places in received:
            gradient.index_add_(0, their_places, values.view(torch.float32))
        return gradient

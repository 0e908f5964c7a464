"""Compressed gradients: fewer bytes on the wire, for the cost of encoding them.

Workload   In each of `rounds`, every rank has n float32 gradients: heavy-tailed, with a component that is the same in
           all rounds. All ranks compute the running total of the mean gradients, which is the path of the weights.
           Encoding and decoding are timed.
Baseline   An all-reduce in float32.
Variants   `bf16`: rounded to bfloat16.  `bf16_chunked`: in parts, so that one is rounded or added while another is on
           the wire.  `int8`, `fp8`: blocks of 256 with a scale each; shares go to the ranks that add them, and the sums
           back, so that no sum is limited to 8 bits.  `int8_fused`, `fp8_fused` (cuda): their passes over memory
           become three Triton kernels.  `top_k`: the largest 1 in 16, with their indices. All but the first two use
           error feedback: they add the error of a round to the next, so that the total does not drift.
Breaks     Fast links: the passes over memory that encoding takes cost more than they save. A variant that saves B
           bytes on the wire and takes T longer without a wire (`--set world_size=1`) wins on links slower than B / T.
           Each variant is lossy; its error of the totals stands beside its time. `--size drift` has 20 rounds.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.eight_bits import BLOCK, LARGEST, EightBitSum, fp8_kernels, int8_kernels
from aiperf_core import Benchmark, Cost, fp32, lossy
from aiperf_core.distributed import all_gather
from aiperf_core.kernels import TritonSource

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "between two processes of one machine a byte costs less than the conversion that spares it"},
)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("gpus:2", "sm_80", "package:triton"))

ONE_IN, PARTS = 16, 8


@bench.workload(
    state=["gradients"],
    smoke={"rounds": 6, "n": 4099, "world_size": 2},
    cpu={"rounds": 6, "n": 1 << 18, "world_size": 2},
    cuda={"rounds": 6, "n": 1 << 25, "world_size": 2},
    drift={"rounds": 20, "n": 1 << 20, "world_size": 2},
)
def inputs(rounds, n, device, generator):
    noise = torch.randn(rounds, n, device=device, generator=generator)
    noise += torch.randn(n, device=device, generator=generator)
    return {"gradients": noise.pow_(3)}


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


# Six rounds or more: only then does feedback make the difference that the budget of `top_k` asks for.
bench.awkward({"rounds": 7, "n": 5003, "world_size": 3})
bench.reach(of="speedup", at_least=1.7, implementation="bf16_chunked")


class Totals:
    """Adds the means up, round after round.

    summed(gradient): the sum of a round over the ranks. Implementations that do not have it have an `add` of their own.
    """

    summed: Any

    def prepare(self, gradients, world_size):
        # Behind row 0, the total before the first round, are those after each.
        self.totals = gradients.new_zeros(len(gradients) + 1, gradients.shape[1])
        self.world_size, self.share = world_size, 1 / world_size
        self.set_up(gradients[0])

    def set_up(self, gradient):
        pass

    def clear(self):
        pass

    def add(self, gradient, before, after):
        """Write the total after a round."""
        torch.add(before, self.summed(gradient), alpha=self.share, out=after)

    def run(self, gradients):
        self.clear()
        for gradient, before, after in zip(gradients, self.totals[:-1], self.totals[1:], strict=True):
            self.add(gradient, before, after)
        return self.totals[1:]


@both.baseline(kind="reasonable")
class Fp32(Totals):
    def summed(self, gradient):
        dist.all_reduce(gradient)
        return gradient


@both.variant(
    adds="bfloat16", why="half the bytes on the wire, for one conversion", lossy=lossy("rel_l2", at_most=3e-3)
)
class Bf16(Totals):
    def summed(self, gradient):
        rounded = gradient.bfloat16()
        dist.all_reduce(rounded)
        return rounded


@both.variant(
    builds_on="bf16",
    adds="chunk overlap",
    why="a part is rounded, or added to the total, while another is on the wire",
    lossy=lossy("rel_l2", at_most=3e-3),
)
class Bf16Chunked(Totals):
    def add(self, gradient, before, after):
        parts, works = [], []
        for part in gradient.tensor_split(min(PARTS, gradient.numel())):
            parts.append(part.bfloat16())
            works.append(dist.all_reduce(parts[-1], async_op=True))
        start = 0
        for part, work in zip(parts, works, strict=True):
            work.wait()
            place = slice(start, start := start + part.numel())
            torch.add(before[place], part, alpha=self.share, out=after[place])


class EightBits(Totals):
    """Blocks of numbers of 8 bits, with a scale each; what rounding left out is added to the next round.

    largest: the largest number of the 8-bit type.
    rounded(values): the values in that type.
    """

    largest: float
    rounded: Any

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
        for codes, scale in zip(received, their_scales, strict=True):
            self.left_out_of_sums.addcmul_(codes.float(), scale)
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


# Without feedback, errors of six rounds are beyond them, and so are those of `top_k`.
int8_budget, fp8_budget = lossy("rel_l2", at_most=1.05e-2), lossy("rel_l2", at_most=1.45e-2)


@both.variant(adds="8-bit integers", why="a quarter of float32's bytes, for many passes over memory", lossy=int8_budget)
class Int8(EightBits):
    largest = LARGEST[torch.int8]

    def rounded(self, values):
        return values.round_().to(torch.int8)


@both.variant(
    adds="8-bit floats",
    why="the bytes of int8, with more digits for the small numbers of a block and fewer for the large ones",
    lossy=fp8_budget,
)
class Fp8(EightBits):
    largest = LARGEST[torch.float8_e4m3fn]

    def rounded(self, values):
        return values.to(torch.float8_e4m3fn)


class Fused(Totals):
    source: TritonSource

    def set_up(self, gradient):
        self.sum = EightBitSum(gradient.numel(), gradient.device, self.source, keep=True)

    def clear(self):
        self.sum.clear()

    def add(self, gradient, before, after):
        self.sum(gradient, after, before=before, factor=self.share)


@cuda.variant(
    builds_on="int8",
    adds="kernel fusion",
    why="one kernel encodes and keeps what is left out, one adds and encodes the sums, one decodes and adds the total",
    lossy=int8_budget,
)
class Int8Fused(Fused):
    source = int8_kernels


@cuda.variant(
    requires="sm_89", builds_on="fp8", adds="kernel fusion", why="three kernels, as in `int8_fused`", lossy=fp8_budget
)
class Fp8Fused(Fused):
    source = fp8_kernels


@both.variant(
    adds="sparsity",
    why="one number in 16 is sent, at twice the bytes; finding the largest takes passes of its own",
    lossy=lossy("rel_l2", at_most=0.34),
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

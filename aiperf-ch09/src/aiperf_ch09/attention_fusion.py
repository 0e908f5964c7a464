"""Attention in one pass over the keys: scores that are computed where they are used need no memory.

Question    Attention is two products with a softmax between them. What do their scores cost between kernels?
Numbers     Causal, batch 4, 32 heads, 4096 tokens of 128, bfloat16: operands and result are 0.54 GB, scores 4.3 GB.
            They are written by a product, read where no query hides them, written by the softmax, and read by the other
            product: 15 GB, 3.6 ms, beside two products that do not leave out what is masked, 1.1 TFLOP.
Prediction  mma.sync reaches at most 0.6 of the rate that tensor cores have by wgmma, and exponentials wait for it in
            turns: 3 to 4.5 ms for all scores in one pass, in place of 3.6 + 1.5. Blocks of keys behind the diagonal are
            then nearly half of the work. Memory falls from 4.8 to 0.54 GB, to the operands.
Limits      One query a head: its scores are few bytes beside its keys (ch18.flash_decode). Heads have 128 columns. A
            thread holds 128 sums and 64 scores of the 32 queries of its warp: registers bound a tile. Products and
            exponentials take turns within a warp; ch10.flash_attention_pipeline is the second half, and overlaps them.
"""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cpu, cuda = bench.on("cpu"), bench.on("cuda", requires="sm_80")
device_code = cuda_source("attention_fusion.cu")

WIDTH, ROWS, KEYS = 128, 128, 64
WARPS = 4  # of a block
SCALE = WIDTH**-0.5


rounded_scores = Tolerance(
    2e-2,
    reason="a stored score of 4 to 8 is rounded by up to 2^-7, and its weight follows; rows of few keys are larger",
)


@bench.workload(
    smoke={"batch": 1, "heads": 2, "length": 131, "dtype": "bf16"},
    cpu={"batch": 1, "heads": 8, "length": 2048, "dtype": "fp32"},
    cuda={"batch": 4, "heads": 32, "length": 4096, "dtype": "bf16"},
    short={"batch": 32, "heads": 32, "length": 512, "dtype": "bf16"},
)
def inputs(batch, heads, length, dtype, device, generator):
    shape = batch, heads, length, WIDTH
    return {name: torch.randn(shape, device=device, generator=generator).to(dtype) for name in ("q", "keys", "values")}


@bench.reference(tolerance=lambda bits: rounded_scores if bits == 16 else fp32_reduction)
def reference(q, keys, values):
    out = torch.empty_like(q)
    for at in range(len(q)):
        for head in range(q.shape[1]):  # the scores of all heads in float64 are many times the memory of the inputs
            out[at, head] = attended(q[at, head], keys[at, head], values[at, head])
    return out


def attended(q, keys, values, first=0):
    """The attention of queries, of which `first` is the number of the first, to keys that are not behind them."""
    later = torch.ones(q.shape[-2], keys.shape[-2], dtype=torch.bool, device=q.device).triu_(1 + first)
    return torch.softmax((q @ keys.mT).mul_(SCALE).masked_fill_(later, -torch.inf), -1) @ values


@bench.cost
def cost(batch, heads, length, bits):
    # A query meets itself and the keys before it: a multiply-add for each element of a key, and of a value.
    rows = batch * heads * length
    return Cost(
        bytes_read=3 * rows * WIDTH * bits // 8,
        bytes_written=rows * WIDTH * bits // 8,
        flops=2 * rows * (length + 1) * WIDTH,
        precision="bf16" if bits == 16 else "fp32",
        special_functions=rows * (length + 1) / 2,
    )


# A token; lengths around a step and a tile; several tiles, whose last step overhangs.
shapes = [(1, 1, 1), (1, 3, 65), (2, 1, 128), (1, 2, 257), (1, 1, 1000)]
bench.awkward(*({"batch": batch, "heads": heads, "length": length} for batch, heads, length in shapes))
bench.accept("cost.flops", because="the reference also multiplies with the keys that it masks")
# The library has these instructions and this pass; a quarter for its warps, which read fragments while others multiply.
cuda.reach(of="time:flash", at_most=1 / 0.75)
cuda.reach(of="memory:three_kernels", at_most=0.15)  # 0.54 of 4.8 GB, and what an allocator rounds
bench.reach(device="cpu", of="speedup", at_least=1.5)  # 9 of 16 tiles remain at least, and no score goes to memory
bench.sass("tiled", has=("HMMA", "LDSM", "LDGSTS", "MUFU"), lacks="HGMMA")
bench.sass("skipped", has=("HMMA", "LDSM", "LDGSTS", "MUFU"), lacks="HGMMA")


@cpu.baseline(kind="reasonable")
def three_kernels(q, keys, values):
    return attended(q, keys, values)


def in_tiles(q, keys, values, skip):
    """The attention of so few queries at a time that their scores stay in the cache."""
    out, length = torch.empty_like(q), q.shape[2]
    for first in range(0, length, ROWS):
        last = min(first + ROWS, length)
        end = last if skip else length
        out[:, :, first:last] = attended(q[:, :, first:last], keys[:, :, :end], values[:, :, :end], first)
    return out


@cpu.variant(
    adds="tiles",
    why="the scores of 128 queries stay in the cache between a product, the softmax and the other product",
    predict="1.0 to 1.6x: five passes over 0.13 GB of scores from memory are some 50 ms beside 17 GFLOP",
)
def tiled(q, keys, values):
    return in_tiles(q, keys, values, skip=False)


@cpu.variant(
    builds_on="tiled",
    adds="causal skip",
    why="keys behind all queries of a tile are neither multiplied nor masked",
    predict="1.5 to 1.9x: 17 of 32 keys remain on average",
)
def skipped(q, keys, values):
    return in_tiles(q, keys, values, skip=True)


def only_bf16(bits):
    """Refuse what the kernels do not take."""
    if bits != 16:
        raise SkipError("takes bfloat16; set dtype=bf16")


@cuda.baseline(kind="reasonable")
class ThreeKernels:
    def prepare(self, batch, heads, length, bits, q):
        only_bf16(bits)
        self.softmax = device_code.kernel("masked_softmax")
        self.sizes = batch * heads * length, length, -(-length // 8) * 8
        # Rows of scores start at multiples of 16 bytes, which the softmax and the library's products read at once.
        self.scores = q.new_empty(batch * heads, length, self.sizes[2])

    def run(self, q, keys, values):
        rows, length, _ = self.sizes
        shares = self.scores[:, :, :length]
        torch.bmm(q.flatten(0, 1), keys.flatten(0, 1).mT, out=shares)
        self.softmax(self.scores, *self.sizes, grid=-(-rows // WARPS), block=32 * WARPS)
        return torch.bmm(shares, values.flatten(0, 1)).view_as(q)


one_pass = launch(
    device_code,
    out="q",
    make={"checked": only_bf16},
    grid=lambda batch, heads, length: batch * heads * -(-length // ROWS),
    block=32 * WARPS,
    shared_bytes=2 * WIDTH * (ROWS + 2 * KEYS),
)
cuda.variant(
    one_pass("tiled"),
    adds="tiles",
    why="a block passes over the keys with maxima, sums and results of 128 queries in registers, and stores no score",
    predict="1.1 to 2x: all scores by mma.sync in 3 to 4.5 ms, in place of 15 GB and the library's products",
)
cuda.variant(
    one_pass("skipped"),
    builds_on="tiled",
    adds="causal skip",
    why="keys behind the last query of a block are not computed, and only steps on the diagonal have a mask",
    predict="1.7 to 2.1x: 33 of 64 steps remain on average",
)


class Library:
    backend = SDPBackend.MATH

    def run(self, q, keys, values):
        with sdpa_kernel([self.backend, SDPBackend.MATH], set_priority=True):  # which takes all sizes
            return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)


@cuda.yardstick(why="torch's attention by FlashAttention 2, which multiplies by mma.sync too")
class Flash(Library):
    backend = SDPBackend.FLASH_ATTENTION


@cuda.yardstick(why="torch's attention by cuDNN, by wgmma on Hopper")
class Cudnn(Library):
    backend = SDPBackend.CUDNN_ATTENTION


@cpu.yardstick(why="torch's attention, which has tiles too")
def sdpa(q, keys, values):
    return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)

"""Latent attention: move the projections to the query, and read each latent once.

Question    The cache has one latent a token for all heads. What does it cost to make keys and values of it again?
Numbers     64 sequences of 4096 latents of 512 values and 64 that are turned by their place, bfloat16: 302 MB, 70 us at
            the rate of a copy. 128 heads, of 128 values each. Keys and values of all heads are 57 times the cache, and
            8.8 TFLOP. With queries in the space of latents it is 75 GFLOP: 93 us at 800 TFLOP/s. Weights are 34 MB.
Prediction  Absorbed projections: 8.8 / 0.075 = 118x fewer operations, and then passes over 67 MB of scores. One pass
            leaves neither scores nor a second read of the cache in memory. 16 heads (`--size h16`) are bound by bytes:
            64 programs for 132 SMs, so 2 to 4x from split keys.
Limits      Prompts: expanded keys are 2.2 times less work for a query, 320 values in place of 1088 a key and head, and
            many queries share what it costs to expand them. 64 heads of a program hold 512 sums each, so that two
            groups of warps compute the same scores. The kernel takes latents of 16 to 512 values, a power of two.
"""

import math
from dataclasses import dataclass

import torch

from aiperf_ch18.flash_decode import COLUMNS, parts
from aiperf_ch18.flash_decode import kernels as of_parts
from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_source
from aiperf_core.switches import switch

bench = Benchmark(goal="speed", clock="device")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("sm_90", "package:triton"))

in_bf16 = Tolerance(1e-2, reason="absorbed queries, shares and mixed latents are rounded to bfloat16 one after another")
WIDTHS = (16, 32, 64, 128, 256, 512)
# Heads of a program: keys of a block, warps, stages and programs of an SM. A block of 64 latents is 74 KB.
FEW, MANY = (32, 4, 3, 2), (64, 8, 2, 1)
MOST_ROWS = 64

kernels = triton_source("mla_decode_triton.py", archs=("sm_90",), launched_by=("one_pass", "split"))
SIZES = {"latent": 512, "plain": 128, "turning": 64, "dtype": "bf16"}


@bench.workload(
    smoke={"batch": 2, "heads": 3, "length": 211, "latent": 32, "plain": 16, "turning": 16, "dtype": "bf16"},
    cpu={"batch": 1, "heads": 8, "length": 1024, **SIZES, "dtype": "fp32"},
    cuda={"batch": 64, "heads": 128, "length": 4096, **SIZES},
    h16={"batch": 64, "heads": 16, "length": 4096, **SIZES},
)
def inputs(batch, heads, length, latent, plain, turning, dtype, device, generator):
    def drawn(*shape):
        return torch.randn(*shape, device=device, generator=generator).to(dtype)

    return {
        "q": drawn(batch, heads, plain),
        "turned": drawn(batch, heads, turning),
        "cache": drawn(batch, length, latent + turning),
    }


@bench.static
def weights(heads, latent, plain, dtype, device, generator):
    """Projections from latents to keys, [heads, plain, latent], and to values, [heads, latent, plain]."""
    to_keys, to_values = torch.randn(2, heads, plain, latent, device=device, generator=generator).div_(
        math.sqrt(latent)
    )
    return {"to_keys": to_keys.to(dtype), "to_values": to_values.mT.contiguous().to(dtype)}


@bench.reference(tolerance=lambda bits: in_bf16 if bits == 16 else fp32_reduction)
def reference(q, turned, cache, to_keys, to_values):
    latent, scale = to_keys.shape[2], 1 / math.sqrt(q.shape[2] + turned.shape[2])
    queries = torch.cat([torch.einsum("bhp,hpl->bhl", q, to_keys), turned], -1)
    out = [
        torch.softmax(one @ of_one.T * scale, -1) @ of_one[:, :latent]
        for one, of_one in zip(queries, cache, strict=True)
    ]
    return torch.einsum("bhl,hlp->bhp", torch.stack(out), to_values)


@bench.cost
def cost(batch, heads, length, latent, plain, turning, bits):
    values = batch * length * (latent + turning) + 2 * heads * latent * plain + batch * heads * (plain + turning)
    return Cost(
        bytes_read=values * bits // 8,
        bytes_written=batch * heads * plain * bits // 8,
        flops=2 * batch * heads * (length * (2 * latent + turning) + 2 * latent * plain),
        precision="bf16" if bits == 16 else "fp32",
    )


# One key and head; more heads than a program has; a key more than a block, and than a part.
bench.awkward(
    {"batch": 1, "heads": 1, "length": 1},
    {"batch": 1, "heads": 67, "length": 65, "latent": 64},
    {"batch": 3, "heads": 17, "length": 257, "plain": 20, "dtype": "fp32"},
    {"batch": 1, "heads": 16, "length": 1031, "latent": 512, "turning": 64},
)
cuda.reach(
    of="MM:bf16",
    at_least=0.60,
    cause="both groups of warps of a program compute all scores: 1664 multiply-adds a key and head in place of 1088",
    shown_by="sass:72 products of 64x32x16 in a group of warps, where 36 are its half of 64x64x576",
)
cuda.reach(of="RBW", at_least=0.80, size="h16")
# 4096 values of a projection a key and head become 1088: more than 100 times fewer operations.
bench.reach(device="cpu", of="speedup", at_least=5)


def shares(scores, q, turned):
    """Softmax of the scores in float32, at the precision of the queries."""
    scaled = scores.float() / math.sqrt(q.shape[2] + turned.shape[2])
    return torch.softmax(scaled, -1).to(q.dtype)


@both.baseline(kind="reasonable")
def expanded(q, turned, cache, to_keys, to_values):
    latent, out = to_keys.shape[2], torch.empty_like(q)
    for sequence, entries in enumerate(cache):
        latents, places = entries[:, :latent], entries[:, latent:]
        keys, values = to_keys @ latents.T, latents @ to_values  # [heads, plain, length], [heads, length, plain]
        scores = torch.bmm(q[sequence][:, None], keys)[:, 0] + turned[sequence] @ places.T
        out[sequence] = torch.bmm(shares(scores, q, turned)[:, None], values)[:, 0]
    return out


@both.variant(
    adds="absorbed projections",
    why="a query goes to the space of latents once, in place of all keys to the space of each head",
    predict="at least 20x: 8.8 TFLOP, 11 ms, become 0.1 ms of products and some 0.3 ms of scores and cache in memory",
)
def absorbed(q, turned, cache, to_keys, to_values):
    latent = to_keys.shape[2]
    queries = torch.cat([torch.bmm(q.transpose(0, 1), to_keys).transpose(0, 1), turned], -1)
    mixed = torch.bmm(shares(torch.bmm(queries, cache.mT), q, turned), cache[:, :, :latent])
    return torch.bmm(mixed.transpose(0, 1), to_values).transpose(0, 1).contiguous()


@dataclass(frozen=True)
class Flags:
    split: bool = switch(
        adds="split keys",
        why="parts of the keys of a sequence are programs of their own, whose sums are merged by their logarithms",
        predict="at most 1.05x: 128 programs of 64 heads fill 132 SMs already; 64 programs of 16 heads do not",
        teaches="128 heads fill the chip without parts: they are for --size h16",
    )


@cuda.switches(Flags)
@cuda.variant(
    builds_on="absorbed",
    adds="one pass",
    why="a block of latents is read once, as keys and as values; scores never leave the chip",
    predict="1.5 to 4x: 0.14 ms of products of which one is done twice, in place of passes over 67 MB of scores",
)
class OnePass:
    flags = Flags()

    def prepare(self, q, turned, cache, latent):
        (batch, heads, width), length, turning = q.shape, cache.shape[1], turned.shape[2]
        if latent not in WIDTHS or turning not in WIDTHS:
            raise SkipError(f"takes latents and turned parts of {', '.join(map(str, WIDTHS))} values")
        rows = min(MOST_ROWS, max(16, 1 << (heads - 1).bit_length()))
        tiles = -(-heads // rows)
        block, warps, stages, per_sm = MANY if rows == MOST_ROWS else FEW
        wanted = per_sm * processors(q.device)
        span, splits = parts(length, batch * tiles, block, wanted) if self.flags.split else (length, 1)
        self.mixed = q.new_empty(heads, batch, latent)
        self.parts = self.mixed
        if splits > 1:
            self.parts = torch.empty(heads, batch, splits, latent, device=q.device)
        self.tops = torch.empty(heads, batch, splits, device=q.device)
        self.over_latents = kernels.kernel("over_latents")[(tiles, batch, splits)]
        self.combine = of_parts.kernel("combine")[(heads * batch, latent // COLUMNS)]
        self.sizes = batch, heads, length, span, splits, math.log2(math.e) / math.sqrt(width + turning)
        self.constants = {"LATENT": latent, "ROPE": turning, "ROWS": rows, "BLOCK": block, "STAGES": stages}
        self.constants |= {"num_warps": warps}
        self.of_sum = {"WIDTH": latent, "COLUMNS": COLUMNS, "SPLITS": 1 << (splits - 1).bit_length()}

    def run(self, q, turned, cache, to_keys, to_values):
        queries, splits = torch.bmm(q.transpose(0, 1), to_keys), self.sizes[4]
        self.over_latents(queries, turned, cache, self.parts, self.tops, *self.sizes, **self.constants)
        if splits > 1:
            self.combine(self.parts, self.tops, self.mixed, splits, **self.of_sum)
        return torch.bmm(self.mixed, to_values).transpose(0, 1).contiguous()


def processors(device):
    """The SMs of a GPU; a few for the interpreter, which has none."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2

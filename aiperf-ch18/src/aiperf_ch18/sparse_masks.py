"""Masks as data: a list of tiles makes documents, windows and blocks one kernel, and no pair is masked for nothing.

Question    Documents of one batch, a window, chosen blocks: what does a mask cost, as a tensor, in code, as a list?
Numbers     16384 tokens of 8 documents of 926 to 3703, 8 heads of 128 in bfloat16. A token sees what its document has
            before it: 20 of 268 million pairs, 82 GFLOP, 0.11 ms of tensor cores. As a tensor the mask is 0.27 GB of
            flags, of which the library makes 0.54 GB to add to scores. In lists of tiles of 128 x 128, 1 KB a tile row.
Prediction  23 million pairs are in tiles of which any pair is seen: 12x from the lists. A third of the instructions of
            a tile mask; tiles that are seen whole need none. A program of the longest document has 30 tiles, of 11 on
            average, so the longest go first. Without a compiler FlexAttention makes a float32 for each of 2.1 billion
            scores, 8.6 GB, in each of some ten operations: 40 ms.
Limits      Tiles of 128: a window of 128 (`--set window=128`) computes twice the pairs it sees. Dense masks: lists skip
            nothing. The lists are made before, once for all layers. `--size window` and `--size blocks` are other
            masks of the same kernel. Widths are 16, 32, 64 and 128.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_source
from aiperf_core.switches import switch

bench = Benchmark(goal="speed", clock="device", prepare_timeout_s=600)
cpu, cuda = bench.on("cpu"), bench.on("cuda", requires=("sm_80", "package:triton"))
both = bench.on(("cpu", "cuda"))

WIDTHS = (16, 32, 64, 128)
TILE, BLOCK, WARPS, STAGES = 128, 64, 8, 3
PART = 1024  # queries that the reference has in work
ORDER = 1  # the seed of the order of documents, and of the kept tiles

kernels = triton_source("sparse_masks_triton.py", archs=("sm_80", "sm_90", "sm_100"), launched_by=("computed",))


def pattern(length, documents, window, one_in):
    """The first key that each query sees, and which tiles are kept: the diagonal, and one in `one_in` below it."""
    order = torch.Generator().manual_seed(ORDER)
    sizes = 4.0 ** (torch.randperm(documents, generator=order) / max(1, documents - 1))
    ends = (sizes.cumsum(0) / sizes.sum() * length).round().long()
    ends[-1] = length
    places, tiles = torch.arange(length), -(-length // TILE)
    starts = torch.cat([ends.new_zeros(1), ends])[torch.searchsorted(ends, places, right=True)]
    kept = (torch.rand(tiles, tiles, generator=order) * one_in < 1) | torch.eye(tiles, dtype=torch.bool)
    return torch.maximum(starts, places - window + 1), kept


@bench.workload(
    smoke={"heads": 3, "length": 391, "width": 16, "documents": 3, "window": 150, "one_in": 2, "dtype": "bf16"},
    cpu={"heads": 4, "length": 2048, "width": 64, "documents": 8, "window": 2048, "one_in": 1, "dtype": "fp32"},
    cuda={"heads": 8, "length": 16384, "width": 128, "documents": 8, "window": 16384, "one_in": 1, "dtype": "bf16"},
    window={"heads": 8, "length": 16384, "width": 128, "documents": 1, "window": 1024, "one_in": 1, "dtype": "bf16"},
    blocks={"heads": 8, "length": 16384, "width": 128, "documents": 1, "window": 16384, "one_in": 8, "dtype": "bf16"},
)
def inputs(heads, length, width, dtype, device, generator):
    drawn = (torch.randn(heads, length, width, device=device, generator=generator).to(dtype) for _ in range(3))
    return dict(zip(("q", "keys", "values"), drawn, strict=True))


@bench.static
def masks(length, documents, window, one_in, device):
    begins, kept = pattern(length, documents, window, one_in)
    return {"begins": begins.int().to(device), "kept": kept.to(device)}


def seen_by(rows, begins, kept):
    """Whether each of these queries sees each key: [queries, length]."""
    places = torch.arange(len(begins), device=begins.device)
    near = (places <= rows[:, None]) & (places >= begins[rows, None])
    return near & kept[rows // TILE].repeat_interleave(TILE, 1)[:, : len(begins)]


@bench.reference(tolerance=lambda bits: bf16 if bits == 16 else fp32_reduction)
def reference(q, keys, values, begins, kept):
    wide, parts = torch.promote_types(q.dtype, torch.float32), []
    for rows in torch.arange(q.shape[1], device=q.device).split(PART):
        scores = q[:, rows].to(wide) @ keys.to(wide).mT / math.sqrt(q.shape[-1])
        scores.masked_fill_(~seen_by(rows, begins.long(), kept.bool()), -math.inf)
        parts.append(torch.softmax(scores, -1) @ values.to(wide))
    return torch.cat(parts, 1).to(q.dtype)


@bench.cost
def cost(heads, length, width, documents, window, one_in, bits):
    begins, kept = pattern(length, documents, window, one_in)
    keys = kept.repeat_interleave(TILE, 1)[:, :length].long()
    until = functional.pad(keys.cumsum(1), (1, 0))  # kept keys before each place
    places = torch.arange(length)
    pairs = int((until[places // TILE, places + 1] - until[places // TILE, begins]).sum())
    return Cost(
        bytes_read=3 * heads * length * width * bits // 8,
        bytes_written=heads * length * width * bits // 8,
        flops=4 * heads * pairs * width,
        precision="bf16" if bits == 16 else "fp32",
    )


# One token; more documents than tiles, and than tokens; windows of one and beyond the prompt; few kept tiles.
bench.awkward(
    {"heads": 1, "length": 1, "documents": 1},
    {"length": 257, "documents": 9, "window": 1, "one_in": 1},
    {"length": 5, "documents": 7, "window": 1000},
    {"heads": 1, "length": 640, "documents": 1, "window": 640, "one_in": 1, "width": 64, "dtype": "fp32"},
    {"heads": 2, "length": 1100, "documents": 2, "window": 1100, "one_in": 5, "width": 32},
)
bench.accept("cost.flops", because="the reference multiplies all pairs, and masks those that are not seen")
# Tiles have 23 million pairs for 20; the rest is Triton's distance from the library.
cuda.reach(of="time:documents_apart", at_most=1 / 0.6)
cuda.reach(of="time:flex", at_most=1.1, implementation="whole_tiles")
cpu.reach(of="speedup", at_least=3)  # of 6x fewer pairs


@both.baseline(kind="naive")
class DenseMask:
    def prepare(self, q, begins, kept):
        self.seen = seen_by(torch.arange(q.shape[1], device=q.device), begins, kept)

    def run(self, q, keys, values):
        return functional.scaled_dot_product_attention(q[None], keys[None], values[None], attn_mask=self.seen)[0]


@both.variant(
    adds="mask as code",
    why="the mask is a function and no tensor, but without a compiler each of its operations makes a tensor of scores",
    predict="0.01 to 0.6x: 8.6 GB a pass, where a fused attention keeps scores in registers",
    teaches="FlexAttention is a compiler's input: called without it, it is slower than the dense mask that it replaces",
)
class FlexEager:
    @staticmethod
    def compiled(attention):
        return attention

    def prepare(self, q, keys, values, begins, kept):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def seen(batch, head, query, key):
            return (query >= key) & (key >= begins[query]) & kept[query // TILE, key // TILE]

        length = q.shape[1]
        self.mask = create_block_mask(seen, None, None, length, length, device=q.device.type, BLOCK_SIZE=TILE)
        self.attention = self.compiled(flex_attention)
        self.run(q, keys, values)

    def run(self, q, keys, values):
        return self.attention(q[None], keys[None], values[None], block_mask=self.mask)[0]


@cpu.variant(
    adds="listed tiles",
    why="the keys of the tiles that a tile of queries sees are gathered, and no others are multiplied",
    predict="3 to 6x: 0.7 of 4.2 million pairs, and 16 gathers and calls",
)
class Gathered:
    def prepare(self, q, begins, kept):
        self.parts = []
        for rows in torch.arange(q.shape[1]).split(TILE):
            seen = seen_by(rows, begins, kept)
            tiles = functional.pad(seen.any(0), (0, -q.shape[1] % TILE)).view(-1, TILE).any(1)
            places = tiles.repeat_interleave(TILE)[: q.shape[1]].nonzero()[:, 0]
            self.parts.append((rows, places, seen[:, places]))

    def run(self, q, keys, values):
        out = torch.empty_like(q)
        for rows, places, seen in self.parts:
            some = q[None, :, rows], keys[None, :, places], values[None, :, places]
            out[:, rows] = functional.scaled_dot_product_attention(*some, attn_mask=seen)[0]
        return out


# --- on a GPU


@dataclass(frozen=True)
class Flags:
    listed: bool = switch(
        adds="listed tiles",
        why="a tile of queries has a list of the tiles of keys that it sees any of; the others are not visited",
        predict="6 to 12x: 23 in place of 268 million pairs, and programs of 1 to 30 tiles do not end together",
    )
    whole: bool = switch(
        "whole_tiles",
        adds="whole tiles",
        why="tiles that all queries see whole are listed apart, and compare and select nothing",
        predict="1.0 to 1.5x: 3 of 4 tiles; a mask is 4 instructions of some 12 a pair beside the products",
    )
    sorted: bool = switch(
        "longest_first",
        adds="longest first",
        why="programs with the longest lists begin first, so that the short ones fill the SMs to the end",
        predict="0.95 to 1.5x: 30 tiles are 60 us if they begin last, beside 0.2 ms in all",
        teaches="1024 programs fill the SMs several times over: their order leaves hardly a gap to fill",
    )


@cuda.switches(Flags)
@cuda.variant(
    adds="computed mask",
    why="a program compares places with its queries' first keys in registers: no mask is read",
    predict="1.2 to 5x: 0.27 GB of flags are not widened to 0.54 GB, and those not read by each of 8 heads",
)
class Computed:
    flags = Flags()

    def prepare(self, q, begins, kept):
        heads, length, width = q.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        tiles, edge = -(-length // TILE), -length % TILE
        seen = seen_by(torch.arange(length, device=q.device), begins, kept)
        seen = functional.pad(seen, (0, edge, 0, edge)).view(tiles, TILE, tiles, TILE)
        # Places do not tell which tiles are kept: the others are in no list.
        masked = seen.any(3).any(1) if self.flags.listed else kept
        whole = seen.all(3).all(1) if self.flags.whole else torch.zeros_like(masked)
        # Whole tiles first, then the others that are visited; the rest of a list is not read.
        lists = (2 * whole.int() + masked.int()).argsort(dim=1, descending=True, stable=True)
        ends = masked.sum(1)
        order = ends.argsort(descending=True) if self.flags.sorted else torch.arange(tiles, device=q.device)
        self.plan = [one.int().contiguous() for one in (begins, lists, whole.sum(1), ends, order)]
        self.sizes = length, tiles, math.log2(math.e) / math.sqrt(width)
        self.out, self.constants = torch.empty_like(q), {"WIDTH": width, "TILE": TILE, "BLOCK": BLOCK}
        self.launch = kernels.kernel("tiled")[(heads, tiles)]

    def run(self, q, keys, values):
        self.launch(
            q, keys, values, self.out, *self.plan, *self.sizes,
            **self.constants, num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        return self.out


@cuda.yardstick(requires="compiler", why="FlexAttention of the same tiles, compiled")
class Flex(FlexEager):
    @staticmethod
    def compiled(attention):
        return torch.compile(attention, dynamic=False)


@cuda.yardstick(why="torch's FlashAttention of sequences behind each other: documents without windows and blocks")
class DocumentsApart:
    def prepare(self, q, length, window, one_in, begins):
        if not q.is_cuda or window < length or one_in > 1:
            raise SkipError("takes documents on a GPU, without a window and without kept tiles")
        starts = begins.unique()
        self.starts = functional.pad(starts, (0, 1), value=length).int()
        self.most = int(self.starts.diff().max())

    def run(self, q, keys, values):
        given = (one.transpose(0, 1) for one in (q, keys, values))
        ends = self.starts, self.starts, self.most, self.most
        return torch.ops.aten._flash_attention_forward(*given, *ends, 0.0, True, False)[0].transpose(0, 1)

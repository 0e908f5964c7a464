"""Sliding windows: keys outside of the window are skipped, not masked.

Question    Does attention to a window cost what the window costs, or what the prompt costs?
Numbers     Attention of every token of a prompt to the last `window` tokens, itself included: [batch, heads, length,
            width] of 2, 16, 8192, 128 in bfloat16 and a window of 1024 on a GPU; float32 on a CPU. All pairs are 8192 a
            query, of which a causal mask leaves half and the window about an eighth.
Prediction  At most 8x from skipping blocks. Blocks of 128 keys at both edges are computed whole: 1024 + 128 for 1024,
            so 7x; and without a mask between the edges some instructions fewer for each pair.
Limits      Windows as long as the prompt, where nothing is to be skipped; windows much shorter than a block of keys, of
            which most pairs are masked anyway. The Triton kernels take widths of 16, 32, 64 and 128.
"""

import math

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16, fp32_reduction
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import triton_source

bench = Benchmark(goal="speed", clock="device", prepare_timeout_s=600)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("sm_80", "package:triton"))

PART = 1024  # queries that the reference has in work
LEAST = 64  # queries of a part of `chunked`, which has as many as the window otherwise
WIDTHS = (16, 32, 64, 128)
ROWS, BLOCK, WARPS, STAGES = 128, 64, 8, 3

kernels = triton_source("flex_sliding_window_triton.py", archs=("sm_80", "sm_90"), launched_by=("skipped", "edges"))


@bench.workload(
    smoke={"batch": 2, "heads": 3, "length": 211, "width": 16, "window": 67, "dtype": "bf16"},
    cpu={"batch": 1, "heads": 4, "length": 1024, "width": 64, "window": 128, "dtype": "fp32"},
    cuda={"batch": 2, "heads": 16, "length": 8192, "width": 128, "window": 1024, "dtype": "bf16"},
    long={"batch": 2, "heads": 16, "length": 32768, "width": 128, "window": 1024, "dtype": "bf16"},
)
def inputs(batch, heads, length, width, window, dtype, device, generator):
    if window < 1:
        raise UsageError(f"window={window}; accepted are whole numbers from 1")
    shape = batch, heads, length, width
    drawn = (torch.randn(shape, device=device, generator=generator).to(dtype) for _ in range(3))
    return dict(zip(("q", "keys", "values"), drawn, strict=True))


def tolerance(bits):
    return bf16 if bits == 16 else fp32_reduction


@bench.reference(tolerance=tolerance)
def reference(q, keys, values, window):
    wide = torch.promote_types(q.dtype, torch.float32)
    parts = []
    for start in range(0, q.shape[2], PART):
        some = q[:, :, start : start + PART].to(wide)
        end, begin = start + some.shape[2], max(0, start - window + 1)
        distance = torch.arange(start, end, device=q.device)[:, None] - torch.arange(begin, end, device=q.device)
        scores = some @ keys[:, :, begin:end].to(wide).mT / math.sqrt(q.shape[-1])
        scores.masked_fill_((distance < 0) | (distance >= window), -math.inf)
        parts.append(torch.softmax(scores, -1) @ values[:, :, begin:end].to(wide))
    return torch.cat(parts, 2).to(q.dtype)


@bench.cost
def cost(batch, heads, length, width, window, bits):
    # The first queries have fewer keys than the window.
    short = min(window, length)
    pairs = short * length - short * (short - 1) // 2
    values = batch * heads * length * width
    return Cost(
        bytes_read=3 * values * bits // 8,
        bytes_written=values * bits // 8,
        flops=4 * batch * heads * pairs * width,
        precision="bf16" if bits == 16 else "fp32",
    )


# One token; a window of one; windows longer than the prompt; lengths and windows around blocks.
bench.awkward(
    {"batch": 1, "heads": 1, "length": 1},
    {"length": 130, "window": 1},
    {"batch": 1, "length": 97, "window": 1000, "width": 32},
    {"heads": 1, "length": 385, "window": 128, "width": 64},
    {"heads": 1, "length": 300, "window": 65, "dtype": "fp32"},
)
bench.accept(
    "cost.flops", because="the reference multiplies all pairs of a part, and masks those outside of the window"
)
cuda.reach(of="MM:bf16", at_least=0.27)
cuda.reach(of="time:flex", at_most=1.1, implementation="edges")


@both.baseline(kind="naive")
class DenseMask:
    def prepare(self, q, window):
        places = torch.arange(q.shape[2], device=q.device)
        distance = places[:, None] - places
        self.seen = (distance >= 0) & (distance < window)

    def run(self, q, keys, values):
        return functional.scaled_dot_product_attention(q, keys, values, attn_mask=self.seen)


@both.variant(
    adds="chunks", why="a part of the queries is multiplied with the keys of its own windows, and with few others"
)
class Chunked:
    def prepare(self, q, window):
        self.window = min(window, q.shape[2])
        self.chunk = max(self.window, LEAST)
        # Column 0 is the key `window` before the part's first query, so that each part has the same mask.
        row = torch.arange(self.chunk, device=q.device)[:, None]
        column = torch.arange(self.window + self.chunk, device=q.device)
        self.seen = (column > row) & (column <= row + self.window)

    def run(self, q, keys, values):
        parts = []
        for start in range(0, q.shape[2], self.chunk):
            some = q[:, :, start : start + self.chunk]
            end, begin = start + some.shape[2], max(0, start - self.window)
            skipped = begin - (start - self.window)
            seen = self.seen[: some.shape[2], skipped : skipped + end - begin]
            kept = keys[:, :, begin:end], values[:, :, begin:end]
            parts.append(functional.scaled_dot_product_attention(some, *kept, attn_mask=seen))
        return torch.cat(parts, 2)


@cuda.variant(
    requires="compiler", adds="block mask", why="blocks that are masked as a whole are neither read nor computed"
)
class Flex:
    def prepare(self, q, keys, values, window):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def seen(batch, head, query, key):
            return (query >= key) & (query - key < window)

        length = q.shape[2]
        self.mask = create_block_mask(seen, None, None, length, length, device=q.device)
        self.attention = torch.compile(flex_attention, dynamic=False)
        self.run(q, keys, values)

    def run(self, q, keys, values):
        return self.attention(q, keys, values, block_mask=self.mask)


@cuda.variant(adds="skipped blocks", why="the loop over the keys begins at the first block in the window")
class Skipped:
    edges = False

    def prepare(self, q, window):
        batch, heads, self.length, width = q.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        self.out, self.window = torch.empty_like(q), min(window, self.length)
        # Scores in units of log 2, because the kernel computes powers of two.
        self.scale = math.log2(math.e) / math.sqrt(width)
        self.launch = kernels.kernel("windowed")[(-(-self.length // ROWS), batch * heads)]
        self.constants = {"WIDTH": width, "ROWS": ROWS, "BLOCK": BLOCK, "EDGES": self.edges}

    def run(self, q, keys, values):
        self.launch(
            q, keys, values, self.out, self.length, self.window, self.scale,
            **self.constants, num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        return self.out


@cuda.variant(
    builds_on="skipped",
    adds="masks at the edges",
    why="all pairs of a block between the edges of the window are seen, so that nothing is compared or selected there",
)
class Edges(Skipped):
    edges = True

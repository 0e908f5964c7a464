"""The experts of a mixture: many small products of sizes that only the routing knows.

Question    How does a layer of experts run as one product, if only the routing knows how many tokens each has?
Numbers     4096 tokens, each through 6 of 64 experts: SwiGLU of width 2048 and 1024, bfloat16, 309 GFLOP. All weights
            are 805 MB: 370 operations a byte, so arithmetic is the bound; with 64 tokens (`--size decode`) 6, and it is
            the weights. An expert has 384 tokens in the mean, the most asked one twice as many. One by one, the host
            waits for the counts and launches two products and two elementwise kernels an expert: 256.
Prediction  `padded`: one launch each, but 2.1 times the operations. `grouped` has neither padding nor wait. `gathered`
            spares the sorted copy, 0.2 GB of traffic, and `fused` gate and up, as much again. `fp8` at most 2x. On a
            CPU (32 experts, 32 tokens each) `in_cache` is one call in place of 128.
Limits      From some 2,000 tokens an expert, 16 x 8 tiles of 128 x 256, one product fills 132 multiprocessors, and a
            loop is as fast. An even routing hardly pads. Few tokens: reading weights takes all the time, and only `fp8`
            reads less; it gives up accuracy.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction, lossy
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source
from aiperf_core.models.experts import (
    TILE_COLUMNS,
    combined,
    expected_experts,
    expert_kernels,
    expert_tiles,
    expert_weights,
    popularity,
    router_logits,
    sorted_by_expert,
    swiglu,
    to_slots,
)

bench = Benchmark(goal="speed", clock="device")
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler")
cuda = bench.on("cuda", requires="sm_80")

FP8, FP8_LARGEST = torch.float8_e4m3fn, 448.0
in_bf16 = Tolerance(1e-2, reason="two products in a row, whose results and activations are rounded to bfloat16")

host_code = host_source("moe_grouped_gemm.c", options=("-fno-math-errno", "-fno-trapping-math"))

ON_A_GPU = {"experts": 64, "chosen": 6, "width": 2048, "hidden": 1024, "dtype": "bf16", "skew": 0.25}


@bench.workload(
    smoke={"tokens": 61, "experts": 5, "chosen": 2, "width": 32, "hidden": 48, "dtype": "bf16", "skew": 0.5},
    cpu={"tokens": 256, "experts": 32, "chosen": 4, "width": 128, "hidden": 256, "dtype": "fp32", "skew": 0.25},
    cuda={"tokens": 4096, **ON_A_GPU},
    decode={"tokens": 64, **ON_A_GPU},
    prefill={"tokens": 16384, **ON_A_GPU},
)
def inputs(tokens, experts, chosen, width, dtype, skew, device, generator):
    logits = router_logits(popularity(experts, skew), tokens, device, generator)
    draw = {"device": device, "generator": generator}
    return {
        "x": torch.randn(tokens, width, **draw).to(dtype),
        "routes": logits.topk(chosen, -1).indices,
        "shares": torch.softmax(torch.randn(tokens, chosen, **draw), -1),
    }


@bench.static
def parameters(experts, width, hidden, dtype, device, generator):
    return expert_weights(experts, width, hidden, device, dtype, generator)


@bench.reference(tolerance=lambda bits: in_bf16 if bits == 16 else fp32_reduction)
def reference(x, routes, shares, gate_up, down):
    out = torch.zeros_like(x)
    for expert, (first, second) in enumerate(zip(gate_up, down, strict=True)):
        token, choice = (routes == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ first).chunk(2, -1)
        out.index_add_(0, token, functional.silu(gate) * up @ second * shares[token, choice, None].to(x.dtype))
    return out


@bench.cost
def cost(tokens, experts, chosen, width, hidden, bits, skew):
    active = expected_experts(popularity(experts, skew), tokens * chosen)
    element = bits // 8
    return Cost(
        bytes_read=element * (tokens * width + 3 * active * width * hidden) + 12 * tokens * chosen,
        bytes_written=element * tokens * width,
        flops=6 * tokens * chosen * width * hidden,
        precision="bf16" if bits == 16 else "fp32",
        tokens=tokens,
    )


# A single token; widths that fill no tile; a single expert; experts without tokens; float32.
bench.awkward(
    {"tokens": 1, "experts": 3, "chosen": 3},
    {"tokens": 130, "experts": 1, "chosen": 1, "width": 17, "hidden": 13},
    {"tokens": 3, "experts": 67, "chosen": 6, "dtype": "fp32"},
    {"tokens": 131, "width": 144, "hidden": 80, "skew": 3.0, "dtype": "fp32"},
)
cuda.reach(of="MM:bf16", at_least=0.70, size="prefill")
cuda.reach(of="RBW", at_least=0.75, size="decode")
cpu.reach(of="speedup", at_least=1.3)


@both.baseline(kind="reasonable")
def one_by_one(x, routes, shares, gate_up, down):
    order, ends = sorted_by_expert(routes, len(down))
    rows = x[order // routes.shape[1]]
    results, begin = torch.empty_like(rows), 0
    for expert, end in enumerate(ends.tolist()):
        if end > begin:
            torch.mm(swiglu(rows[begin:end] @ gate_up[expert]), down[expert], out=results[begin:end])
        begin = end
    return combined(to_slots(results, order), shares)


@cpu.variant(
    adds=("grouped product", "cache blocking"),
    why="one call for all experts, in which a block of rows stays in the cache from the gather to the second product",
)
class InCache:
    def prepare(self, x, routes, gate_up, down):
        self.first, self.second = gate_up.float(), down.float()
        self.slots = torch.empty(routes.numel(), x.shape[1])
        self.products = host_code.function("in_cache")

    def run(self, x, routes, shares, hidden):
        experts, width = len(self.first), x.shape[1]
        order, ends = sorted_by_expert(routes, experts)
        chosen = routes.shape[1]
        self.products(x.float(), self.first, self.second, order, ends, self.slots, experts, chosen, width, hidden)
        return combined(self.slots, shares).to(x.dtype)


@cuda.variant(adds="padded batch", why="two products for all experts, padded to the tokens of the one with the most")
def padded(x, routes, shares, gate_up, down):
    experts = len(down)
    order, ends = sorted_by_expert(routes, experts)
    begins = functional.pad(ends[:-1], (1, 0))
    most = int((ends - begins).max())
    expert = routes.flatten()[order]
    places = expert * most + torch.arange(len(order), device=x.device) - begins[expert]
    rows = x.new_zeros(experts * most, x.shape[1]).index_copy_(0, places, x[order // routes.shape[1]])
    results = torch.bmm(swiglu(torch.bmm(rows.view(experts, most, -1), gate_up)), down)
    return combined(to_slots(results.flatten(0, 1)[places], order), shares)


@cuda.variant(
    requires="sm_90",
    adds="grouped product",
    why="the ends of the groups stay on the GPU: no expert is padded, and the host does not wait for counts",
)
class Grouped:
    def prepare(self, width, hidden, bits):
        require_aligned(width, hidden, bits)

    def run(self, x, routes, shares, gate_up, down):
        order, ends = sorted_by_expert(routes, len(down))
        rows = x[order // routes.shape[1]]
        hidden = swiglu(functional.grouped_mm(rows, gate_up, offs=ends))
        return combined(to_slots(functional.grouped_mm(hidden, down, offs=ends), order), shares)


def require_aligned(width, hidden, bits):
    if bits != 16 or width % 16 or hidden % 16:
        raise SkipError("the library's grouped products take bfloat16 or less, and rows of multiples of 16 bytes")


@cuda.variant(
    requires=("sm_80", "package:triton"),
    adds=("grouped product", "gathered operands"),
    why="tiles take their rows where the tokens lie and leave results where the sum reads them: no sorted copies",
)
class Gathered:
    def prepare(self, x, routes, gate_up, down):
        experts, slots = len(down), routes.numel()
        self.results = x.new_empty(slots, x.shape[1])
        self.tiles, self.size = expert_tiles(slots, experts)
        self.kernels = {name: expert_kernels.kernel(name) for name in TILE_COLUMNS}
        self.find_first(x, slots, gate_up.shape[2] // 2)

    def find_first(self, x, slots, hidden):
        self.wide = x.new_empty(slots, 2 * hidden)

    def run(self, x, routes, shares, gate_up, down):
        order, ends = sorted_by_expert(routes, len(down))
        chosen = routes.shape[1]
        hidden = self.first(x, gate_up, order, ends, chosen)
        self.launch("gathered", hidden, down, order, ends, self.results, chosen, GATHER=False)
        return combined(self.results, shares)

    def first(self, x, gate_up, order, ends, chosen):
        self.launch("gathered", x, gate_up, order, ends, self.wide, chosen, GATHER=True)
        return swiglu(self.wide)

    def launch(self, name, left, weights, order, ends, out, chosen, **constants):
        experts, columns, block = len(weights), out.shape[1], TILE_COLUMNS[name]
        grid = (self.tiles * -(-columns // block),)
        sizes = (experts, chosen, weights.shape[1], columns)
        self.kernels[name][grid](left, weights, order, ends, out, *sizes, COLUMNS=block, **constants, **self.size)


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="gathered",
    adds="fused activation",
    why="a program has the tiles of gate and up for the same rows, and stores their product alone",
)
class Fused(Gathered):
    def find_first(self, x, slots, hidden):
        self.hidden = x.new_empty(slots, hidden)

    def first(self, x, gate_up, order, ends, chosen):
        self.launch("gathered_swiglu", x, gate_up, order, ends, self.hidden, chosen)
        return self.hidden


def quantised(values, along):
    """Values in fp8, and their scales in float32: one for all along a dimension."""
    scale = values.abs().amax(along, keepdim=True).float().clamp_min_(1e-12).div_(FP8_LARGEST)
    return (values.float() / scale).to(FP8), scale.squeeze(along)


@cuda.variant(
    requires="sm_90",
    builds_on="grouped",
    adds="fp8",
    why="tensor cores multiply twice as many 8-bit operands a second, and weights are half the bytes",
    teaches="torch operations round the activations, each in a pass of its own between two products of this size",
    lossy=lossy("rel_l2", at_most=8e-2),
)
class Fp8:
    def prepare(self, gate_up, down, width, hidden, bits):
        require_aligned(width, hidden, bits)
        self.weights = [self.by_columns(one) for one in (gate_up, down)]

    def by_columns(self, weights):
        """Matrices with a scale for each column, whose columns lie in memory one after the other."""
        narrow, scale = quantised(weights, 1)
        return narrow.transpose(1, 2).contiguous().transpose(1, 2), scale

    def run(self, x, routes, shares):
        (gate_up, first_scale), (down, second_scale) = self.weights
        order, ends = sorted_by_expert(routes, len(down))
        token = order // routes.shape[1]
        narrow, scale = quantised(x, 1)
        rows = narrow.view(torch.uint8)[token].view(FP8)  # torch gathers bytes, not every type of 8 bits
        wide = self.product(rows, gate_up, scale[token], first_scale, ends)
        narrow, scale = quantised(swiglu(wide), 1)
        return combined(to_slots(self.product(narrow, down, scale, second_scale, ends), order), shares)

    def product(self, left, right, left_scale, right_scale, ends):
        return torch._scaled_grouped_mm(
            left, right, left_scale, right_scale, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
        )

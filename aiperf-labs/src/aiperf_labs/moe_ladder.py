"""A ladder of a layer with experts: from a mask for each expert to two kernels for all of them.

Question    What does a layer of experts lose to the host, to copies of rows, and to activations in memory?
Numbers     8192 tokens, each through 6 of 64 experts: SwiGLU of width 2048 and 1024, bfloat16, 618 GFLOP, 0.8 ms at 790
            TFLOP/s. A mask, the form in which such models are mostly published, costs an expert eleven operations of 15
            us and a wait: 10 ms. Rows in sorted order are 201 MB, gate and up 201 MB.
Prediction  `sorted`: a wait for all, and five operations an expert: 5 ms. `grouped`: 15 operations in all, so that the
            device is the bound. Tiles of 128 x 128 fetch a byte for 64 operations: 358 TFLOP/s at the 5.6 TB/s of L2,
            1.7 ms. `gathered` saves 0.6 GB of copies, `fused` 0.4 GB: 0.14 and 0.09 ms. `graph` saves 0.2 ms of
            launches where the device takes less. On a CPU the masks are 352 operations of 10 us, 3.5 ms, beside 0.2
            GFLOP: 2.5 ms at 80 GFLOP/s.
Limits      `--size few` (512 tokens): reading the experts, 0.18 ms, is the bound, and the graph is worth something.
            `--size many` (65536): products of 6144 rows fill the machine one by one, at the rate of a library.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.graphs import graphed
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

bench = Benchmark(goal="speed", clock="wall", prepare_timeout_s=600)
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

in_bf16 = Tolerance(1e-2, reason="two products in a row, whose results and activations are rounded to bfloat16")

host_code = host_source("moe_ladder.c", options=("-fno-math-errno", "-fno-trapping-math"))

ON_A_GPU = {"experts": 64, "chosen": 6, "width": 2048, "hidden": 1024, "dtype": "bf16", "skew": 0.25}


@bench.workload(
    smoke={"tokens": 53, "experts": 5, "chosen": 2, "width": 32, "hidden": 48, "dtype": "bf16", "skew": 0.5},
    cpu={"tokens": 256, "experts": 32, "chosen": 4, "width": 128, "hidden": 256, "dtype": "fp32", "skew": 0.25},
    cuda={"tokens": 8192, **ON_A_GPU},
    few={"tokens": 512, **ON_A_GPU},
    many={"tokens": 65536, **ON_A_GPU},
)
def inputs(tokens, experts, width, dtype, skew, device, generator):
    logits = router_logits(popularity(experts, skew), tokens, device, generator)
    x = torch.randn(tokens, width, device=device, generator=generator)
    return {"x": x.to(dtype), "logits": logits.float()}


@bench.static
def parameters(experts, width, hidden, dtype, device, generator):
    return expert_weights(experts, width, hidden, device, dtype, generator)


@bench.reference(tolerance=lambda bits: in_bf16 if bits == 16 else fp32_reduction)
def reference(x, logits, gate_up, down, chosen):
    shares, routes = routed(logits, chosen)
    out = torch.zeros_like(x)
    for expert, (first, second) in enumerate(zip(gate_up, down, strict=True)):
        token, choice = (routes == expert).nonzero(as_tuple=True)
        out.index_add_(0, token, swiglu(x[token] @ first) @ second * shares[token, choice, None].to(x.dtype))
    return out


@bench.cost
def cost(tokens, experts, chosen, width, hidden, bits, skew):
    active = expected_experts(popularity(experts, skew), tokens * chosen)
    element = bits // 8
    return Cost(
        bytes_read=element * (tokens * width + 3 * active * width * hidden) + 4 * tokens * experts,
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
# Tiles of 128 x 128 take 64 operations from a byte of L2: 358 TFLOP/s at 5.6 TB/s are 0.45 of 790.
cuda.reach(of="MM:bf16", at_least=0.40, size="many")
# (3.5 + 2.5) / 2.5 ms are 2.4x.
cpu.reach(of="speedup", at_least=2.0)


def routed(logits, chosen):
    """The shares and the numbers of the chosen experts of each token."""
    best = logits.topk(chosen, -1)
    return torch.softmax(best.values, -1), best.indices


@both.baseline(kind="naive")
def masks(x, logits, gate_up, down, chosen):
    shares, routes = routed(logits, chosen)
    out = torch.zeros_like(x)
    for expert in range(len(down)):
        token, choice = (routes == expert).nonzero(as_tuple=True)
        results = swiglu(x[token] @ gate_up[expert]) @ down[expert]
        out.index_add_(0, token, results * shares[token, choice, None].to(x.dtype))
    return out


@both.variant(
    name="sorted",
    adds="sorted tokens",
    why="one sort finds the tokens of all experts, and the host waits once, not for each of them",
)
def by_expert(x, logits, gate_up, down, chosen):
    shares, routes = routed(logits, chosen)
    order, ends = sorted_by_expert(routes, len(down))
    rows = x[order // chosen]
    results, begin = torch.empty_like(rows), 0
    for expert, end in enumerate(ends.tolist()):
        if end > begin:
            torch.mm(swiglu(rows[begin:end] @ gate_up[expert]), down[expert], out=results[begin:end])
        begin = end
    return combined(to_slots(results, order), shares)


def in_triton_and_c(**declared):
    """Declare an implementation on both kinds of devices."""

    def declare(code):
        return cuda.variant(**declared)(cpu.variant(**declared)(code))

    return declare


@in_triton_and_c(
    builds_on="sorted",
    adds="grouped products",
    why="one call multiplies the groups of all experts, so that small groups fill the machine together",
)
class Grouped:
    gather = fuse = False

    def prepare(self, x, gate_up, down, chosen):
        (tokens, width), experts, self.hidden = x.shape, len(down), down.shape[1]
        self.slots, self.on_gpu = tokens * chosen, x.is_cuda
        # The loops in C are for float32.
        dtype = x.dtype if self.on_gpu else torch.float32
        self.weights = gate_up.to(dtype), down.to(dtype)
        self.wide = x.new_empty(self.slots, (1 if self.fuse else 2) * self.hidden, dtype=dtype)
        self.results = x.new_empty(self.slots, width, dtype=dtype)
        self.straight = torch.arange(self.slots, device=x.device)
        if self.on_gpu:
            self.tiles, self.size = expert_tiles(self.slots, experts)

    def run(self, x, logits, chosen):
        (gate_up, down), kind = self.weights, x.dtype
        shares, routes = routed(logits, chosen)
        order, ends = sorted_by_expert(routes, len(down))
        left = x.to(gate_up.dtype)
        # Without the gather, rows are copied into the sorted order before, and back into their slots after.
        by, of = (order, chosen) if self.gather else (self.straight, 1)
        left = left if self.gather else left[order // chosen]
        if self.fuse:
            hidden = self.product("gathered_swiglu", left, gate_up, by, ends, self.wide, of)
        else:
            hidden = swiglu(self.product("gathered", left, gate_up, by, ends, self.wide, of))
        results = self.product("scattered", hidden, down, by, ends, self.results, of)
        return combined(results if self.gather else to_slots(results, order), shares).to(kind)

    def product(self, name, left, weights, order, ends, out, chosen):
        """Multiply all groups. `gathered` takes the rows of tokens, `scattered` writes to slots."""
        sizes = (len(weights), chosen, weights.shape[1], out.shape[1])
        if not self.on_gpu:
            host_code.call(name, left, weights, order, ends, out, *sizes)
            return out
        gated = name == "gathered_swiglu"
        named = name if gated else "gathered"
        more = {} if gated else {"GATHER": name == "gathered"}
        kernel, block = expert_kernels.kernel(named), TILE_COLUMNS[named]
        grid = (self.tiles * -(-out.shape[1] // block),)
        kernel[grid](left, weights, order, ends, out, *sizes, COLUMNS=block, **more, **self.size)
        return out


@in_triton_and_c(
    builds_on="grouped",
    adds="gathered operands",
    why="rows are read where the tokens lie, and results written where the sum reads them: no sorted copies",
    teaches="copies in order are a small part beside products that fetch each row for many columns",
)
class Gathered(Grouped):
    gather = True


@in_triton_and_c(
    builds_on="gathered",
    adds="fused activation",
    why="gate and up of the same rows meet before they are stored, which are half as many values then",
    teaches="the values that are not stored were still in a cache, or a small part beside the products",
)
class Fused(Gathered):
    fuse = True


@cpu.variant(
    adds=("sorted tokens", "grouped products", "fused activation"),
    why="the whole ladder, less the gathered operands",
)
class WithoutGather(Fused):
    gather = False


cuda.variant(
    graphed("fused"),
    name="graph",
    builds_on="fused",
    adds="cuda graph",
    why="the whole layer is one launch: the host is no part of it",
    teaches="fifteen launches take less than the products, and are hidden behind them: see `--size few`",
)
cuda.variant(
    graphed(WithoutGather),
    name="without_gather",
    adds=("sorted tokens", "grouped products", "fused activation", "cuda graph"),
    why="the whole ladder, less the gathered operands",
)
cuda.variant(
    graphed("gathered"),
    name="without_fusion",
    adds=("sorted tokens", "grouped products", "gathered operands", "cuda graph"),
    why="the whole ladder, less the fused activation",
)


@bench.yardstick(device="cuda", requires="sm_90", why="the grouped product of the library, with sorted copies")
class Library:
    def prepare(self, width, hidden, bits):
        if bits != 16 or width % 8 or hidden % 8:
            raise SkipError("the library's grouped product takes bfloat16, and rows that are multiples of 16 bytes")

    def run(self, x, logits, gate_up, down, chosen):
        shares, routes = routed(logits, chosen)
        order, ends = sorted_by_expert(routes, len(down))
        hidden = swiglu(functional.grouped_mm(x[order // chosen], gate_up, offs=ends))
        return combined(to_slots(functional.grouped_mm(hidden, down, offs=ends), order), shares)

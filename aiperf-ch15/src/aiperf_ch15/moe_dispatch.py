"""Dispatch: rows are grouped by expert with counts, and each row is read once.

Question    What does it cost to bring the rows of tokens in the order of their experts, before any product?
Numbers     16384 tokens, each to 6 of 64 experts, rows of 2048 bfloat16 values: 67 MB and 4 MB of logits in, 403 MB
            out, 0.11 ms at the rate of a copy. The rows of an expert are in the order of their tokens. A mask for each
            expert reads all routes 64 times, 50 MB, and the host waits 64 times for the number of its tokens.
Prediction  A sort waits for nothing. Counts in place of a sort of 98304 keys spare its passes, some ten launches. A
            gather reads the row of a token for each of its experts, 806 MB: one read and six writes move 474 MB, 1.7x.
            Torch's top-k has a block for each row of 64 logits; a warp takes them in six rounds of two reductions.
Limits      Few tokens: launches are all that is left. One choice a token: a gather reads a row once, too. Kernels for
            up to 256 experts and 32 choices. Outputs have a fixed size, so that the host needs no counts; what runs on
            the rows of an expert must find its end on the GPU.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.models.experts import popularity, router_logits, sorted_by_expert

bench = Benchmark(goal="speed", clock="device")
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler")
cuda = bench.on("cuda", requires="sm_80")

# As in the kernels.
THREADS, TOKENS, MOST_EXPERTS, MOST_CHOSEN = 256, 64, 256, 32
WORDS = {8: "uint4", 1: "Half"}  # by their bfloat16 values

device_code = cuda_source("moe_dispatch.cu", instances=("scattered<uint4>", "scattered<Half>"))
host_code = host_source("moe_dispatch.c")


@bench.workload(
    smoke={"tokens": 131, "experts": 5, "chosen": 2, "width": 32, "skew": 0.5},
    cpu={"tokens": 4096, "experts": 64, "chosen": 6, "width": 128, "skew": 0.25},
    cuda={"tokens": 16384, "experts": 64, "chosen": 6, "width": 2048, "skew": 0.25},
)
def inputs(tokens, experts, chosen, width, skew, device, generator):
    if not 1 <= chosen <= experts:
        raise UsageError(f"chosen={chosen} and experts={experts}; accepted are 1 to {experts} chosen experts")
    logits = router_logits(popularity(experts, skew), tokens, device, generator).float()
    # The last bits of a logit are the number of its expert, so that no two logits of a token are equal.
    last_bits = (1 << (experts - 1).bit_length()) - 1
    logits = ((logits.view(torch.int32) & ~last_bits) | torch.arange(experts, device=device).int()).view(torch.float32)
    return {"x": torch.randn(tokens, width, device=device, generator=generator).bfloat16(), "logits": logits}


@bench.reference(tolerance=exact)
def reference(x, logits, chosen):
    taken = torch.zeros(logits.shape, dtype=torch.bool, device=x.device)
    taken.scatter_(1, logits.topk(chosen, -1).indices, True)
    token = taken.T.nonzero()[:, 1]
    return {"rows": x[token], "sources": token.int(), "ends": taken.sum(0).cumsum(0).int()}


@bench.cost
def cost(tokens, experts, chosen, width):
    return Cost(
        bytes_read=tokens * (2 * width + 4 * experts),
        bytes_written=tokens * chosen * (2 * width + 4) + 4 * experts,
        tokens=tokens,
    )


# No token; one; all experts for each token; all tokens for one expert of many; odd widths; a token more than a block.
bench.awkward(
    {"tokens": 0},
    {"tokens": 1, "experts": 1, "chosen": 1, "width": 1},
    {"tokens": 65, "experts": 3, "chosen": 3, "width": 7},
    {"tokens": 2111, "experts": 67, "chosen": 1, "width": 8, "skew": 60},
    {"tokens": 97, "experts": 256, "chosen": 32, "width": 2056},
)
cuda.reach(of="BW", at_least=0.75)
bench.sass("scattered<uint4>", has="STG.128")
bench.sass("chosen_and_counted", has="REDUX", arch="sm_90")
# Of 64 masks of 24576 routes in int64, 25 MB, one pass is left.
cpu.reach(of="speedup", at_least=2.0)


def grouped(x, slots, experts):
    """The memory of a result."""
    made = {"dtype": torch.int32, "device": x.device}
    return {
        "rows": x.new_empty(slots, x.shape[1]),
        "sources": torch.empty(slots, **made),
        "ends": torch.empty(experts, **made),
    }


@both.baseline(kind="naive")
def masks(x, logits, chosen, experts):
    routes = logits.topk(chosen, -1).indices
    out, begin, ends = grouped(x, routes.numel(), experts), 0, []
    for expert in range(experts):
        token = (routes == expert).any(-1).nonzero()[:, 0]
        end = begin + len(token)
        torch.index_select(x, 0, token, out=out["rows"][begin:end])
        out["sources"][begin:end] = token
        begin = end
        ends.append(end)
    out["ends"].copy_(torch.tensor(ends))
    return out


@both.variant(
    name="sorted",
    adds="stable sort",
    why="all experts are found at once, and the host does not wait for the number of tokens of each",
    predict="at least 3x: 64 waits of 10 us or more, beside 0.19 ms for a gather at the rate of a copy",
)
def by_sort(x, logits, chosen, experts):
    order, ends = sorted_by_expert(logits.topk(chosen, -1).indices, experts)
    sources = (order // chosen).int()
    return {"rows": x[sources], "sources": sources, "ends": ends}


class InC:
    """Threads count and copy the rows of their own tokens."""

    def prepare(self, x, logits, chosen, experts):
        self.out = grouped(x, len(x) * chosen, experts)
        self.routes = torch.empty(len(x), chosen, dtype=torch.int64)
        self.counts = torch.empty((host_code.threads or 1) * experts, dtype=torch.int32)

    def call(self, name, given, x, logits, chosen):
        host_code.function(name)(*given, self.counts, *self.out.values(), *logits.shape, chosen, x.shape[1])
        return self.out


@cpu.variant(
    builds_on="sorted",
    adds="counting sort",
    why="a count for each expert and thread says where its rows begin, and a row goes there at once",
)
class Counting(InC):
    def run(self, x, logits, chosen):
        routes = logits.topk(chosen, -1).indices
        return self.call("counting", (routes, x), x, logits, chosen)


@cpu.variant(
    builds_on="counting",
    adds="fused top-k",
    why="a thread keeps the largest logits of a token sorted as it reads them, and counts them at once",
)
class Fused(InC):
    def run(self, x, logits, chosen):
        return self.call("fused", (logits, x, self.routes), x, logits, chosen)


# --- on a GPU


@cuda.variant(
    name="counting",
    builds_on="sorted",
    adds="counting sort",
    why="blocks count 64 tokens each, and a rank is a number of bits: two small kernels in place of a sort",
    predict="1.05 to 1.6x: some ten launches of 3 to 5 us become two, beside 0.19 ms of the gather",
)
class CountingOnGpu:
    def prepare(self, x, tokens, chosen, experts, width):
        if experts > MOST_EXPERTS or chosen > MOST_CHOSEN:
            raise SkipError(f"takes up to {MOST_EXPERTS} experts and {MOST_CHOSEN} choices")
        self.out = grouped(x, tokens * chosen, experts)
        made = {"dtype": torch.int32, "device": x.device}
        self.blocks = max(1, -(-tokens // TOKENS))
        self.counts = torch.empty(experts, self.blocks, **made)
        self.places = torch.empty(tokens, chosen, **made)
        self.routes = torch.empty(tokens, chosen, dtype=torch.int64, device=x.device)
        self.sizes = tokens, experts, chosen
        self.values = 8 if width % 8 == 0 else 1
        names = "counted", "chosen_and_counted", "placed", f"scattered<{WORDS[self.values]}>"
        self.counted, self.chosen_and_counted, self.placed, self.scattered = map(device_code.kernel, names)

    def run(self, x, logits, chosen):
        routes = self.find(logits, chosen)
        of_blocks = {"grid": self.blocks, "block": THREADS}
        out = self.out
        self.placed(routes, self.counts, self.places, out["sources"], out["ends"], *self.sizes, **of_blocks)
        self.move(x)
        return out

    def find(self, logits, chosen):
        routes = logits.topk(chosen, -1).indices
        self.counted(routes, self.counts, *self.sizes, grid=self.blocks, block=THREADS)
        return routes

    def move(self, x):
        torch.index_select(x, 0, self.out["sources"], out=self.out["rows"])


@cuda.variant(
    builds_on="counting",
    adds="scatter",
    why="the row of a token is read once, and written to its six places, in place of six reads of x beyond the cache",
    predict="1.2 to 1.7x: 806 MB become 474 MB, 0.19 ms become 0.11 ms, beside top-k",
)
class Scattered(CountingOnGpu):
    def move(self, x):
        tokens, _, chosen = self.sizes
        words = x.shape[1] // self.values
        self.scattered(x, self.places, self.out["rows"], tokens, chosen, words, grid=max(1, tokens), block=THREADS)


@cuda.variant(
    name="fused",
    builds_on="scattered",
    adds="fused top-k",
    why="a warp finds the largest logits of a token in registers and counts them; routes are written once",
    predict="1.1 to 2x: top-k with a block a row, 16384 of them, is some 20 to 80 us, beside 0.12 ms",
)
class FusedOnGpu(Scattered):
    def find(self, logits, chosen):
        self.chosen_and_counted(logits, self.routes, self.counts, *self.sizes, grid=self.blocks, block=THREADS)
        return self.routes

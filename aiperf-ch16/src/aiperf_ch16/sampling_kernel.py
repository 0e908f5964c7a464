"""Sampling: a threshold from two reads of the logits chooses tokens, and nothing is sorted.

Question    What does it cost to choose the next token among the 50 best, and of these among 95 % of the probability?
Numbers     256 rows of 128,256 float32 logits, 0.13 GB: 0.030 ms at the rate of a read. A sort moves values
            and places, 12 bytes each way, by 8 bits a pass: 3.2 GB in four. Sums, masks and a scatter are 3 GB more.
Prediction  `top_k` finds digits of the 50th value in some 5 reads, 0.15 ms, and has 50 tokens a row left, for ten small
            launches. `bisection` is one launch, but halves 2^32 values until at most 64 are left: 12 reads, 0.36 ms.
            The 50th best of 4096 maxima, each of every 4096th logit, is no more than the 50th best of all, and few
            others are above it: two reads, 0.06 ms, and some 15 us of steps within a row.
Limits      At most 64 tokens are kept, and as many may equal the 50th best. With fewer rows than SMs some SMs are
            idle: then a row must be split. Uniform numbers are inputs, so that the answer is exact; they and the limits
            of probability are drawn in the midst of tokens, where sums in any order choose the same.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import UsageError
from aiperf_core.kernels import triton_source
from aiperf_core.launches import launch

bench = Benchmark(goal="latency", clock="device")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("sm_80", "package:triton"))

TEMPERATURE = 0.8
SPREAD = 2.0  # standard deviation of the logits
KEPT = 64  # candidates of a row
# Between neighbours among the best, so that none are equal: more than a unit in the last place up to 16.
APART = 2.0**-19
BLOCK, WARPS = 4096, 8  # logits of a program at a time, 16 KB on the way; an SM has two programs

kernels = triton_source("sampling_kernel_triton.py", archs=("sm_80", "sm_90"))


@bench.workload(
    smoke={"rows": 5, "vocabulary": 1031, "most": 7, "probability": 0.9},
    cpu={"rows": 8, "vocabulary": 32000, "most": 50, "probability": 0.95},
    cuda={"rows": 256, "vocabulary": 128256, "most": 50, "probability": 0.95},
)
def inputs(rows, vocabulary, most, probability, device, generator):
    if not 1 <= most <= min(KEPT, vocabulary):
        raise UsageError(f"most={most}; accepted are 1 to {KEPT} tokens, and no more than there are")
    draw = {"device": device, "generator": generator}
    logits = SPREAD * torch.randn(rows, vocabulary, **draw)
    best, places = logits.topk(most)
    best += APART * torch.arange(most, 0, -1, device=device)
    logits.scatter_(1, places, best)
    # Half of the mass of the token at the limit is within it, and the uniform number is in the middle of its token.
    weights = weights_of(best.double())
    mass = weights.cumsum(1)
    last = (mass < probability * mass[:, -1:]).sum(1, keepdim=True)
    limits = (mass - weights / 2).gather(1, last) / mass[:, -1:]
    weights[torch.arange(most, device=device) > last] = 0
    order = places.argsort(1)
    weights = weights.gather(1, order)
    reached = weights.cumsum(1)
    chosen = torch.multinomial(weights, 1, generator=generator)
    within = 0.25 + 0.5 * torch.rand(rows, 1, dtype=torch.float64, **draw)
    uniform = (reached - (1 - within) * weights).gather(1, chosen) / reached[:, -1:]
    return {"logits": logits, "limits": limits.float(), "uniform": uniform.float()}


def weights_of(values):
    """The probabilities of values, of which the first is the largest, times a factor."""
    return torch.exp((values - values[:, :1]) / TEMPERATURE)


@bench.reference(tolerance=exact)
def reference(logits, limits, uniform, most):
    best, places = logits.double().topk(most)
    return sampled(best, places, limits.double(), uniform.double())


@bench.cost
def cost(rows, vocabulary):
    return Cost(bytes_read=4 * rows * (vocabulary + 2), bytes_written=8 * rows, tokens=rows)


# One token; all tokens; a limit that one token reaches, and none but all; a row around a block.
bench.awkward(
    {"rows": 1, "vocabulary": 1, "most": 1},
    {"rows": 3, "vocabulary": 61, "most": 61, "probability": 0.999},
    {"rows": 2, "vocabulary": 8193, "most": 64, "probability": 0.01},
    {"rows": 7, "vocabulary": 12289, "most": 1},
)
# Three times a read: two reads, and some 15 us within a row beside 30 us for one.
cuda.reach(of="RBW", at_least=0.33)


def kept_of(weights, limits):
    """The weights in falling order, without those before which the limit is reached."""
    mass = weights.cumsum(1)
    return weights.masked_fill(mass - weights >= limits * mass[:, -1:], 0)


def chosen_of(weights, uniform):
    """The place at which the sum of weights passes the uniform number, and the last one where it does not."""
    reached = weights.cumsum(1)
    return (reached <= uniform * reached[:, -1:]).sum(1).clamp_(max=weights.shape[1] - 1)


def sampled(best, places, limits, uniform):
    """The tokens, of the best logits in falling order and their places."""
    weights = kept_of(weights_of(best), limits)
    places, order = places.sort(1)
    return places.gather(1, chosen_of(weights.gather(1, order), uniform)[:, None])[:, 0]


@both.baseline(kind="reasonable")
def full_sort(logits, limits, uniform, most):
    values, places = logits.sort(1, descending=True)
    weights = weights_of(values)
    weights[:, int(most) :] = 0
    return chosen_of(torch.zeros_like(weights).scatter_(1, places, kept_of(weights, limits)), uniform)


@both.variant(
    adds="selection",
    why="the 50 best are selected digit by digit, and all that follows has 50 tokens a row in place of the vocabulary",
    predict="5 to 20x: 6 GB of passes become some 5 reads of 0.13 GB and ten small launches",
)
def top_k(logits, limits, uniform, most):
    best, places = logits.topk(int(most))
    return sampled(best, places, limits, uniform)


a_row = launch(
    kernels,
    kernel="sample",
    out=lambda logits: torch.empty(len(logits), dtype=torch.int64, device=logits.device),
    make={
        "values": lambda logits: logits.new_empty(len(logits), KEPT),
        "places": lambda logits: torch.empty(len(logits), KEPT, dtype=torch.int32, device=logits.device),
        "counts": lambda logits: torch.empty(len(logits), dtype=torch.int32, device=logits.device),
        "scale": 1 / TEMPERATURE,
        "KEPT": KEPT,
        "BLOCK": BLOCK,
    },
    grid=lambda rows: rows,
    options={"num_warps": WARPS},
)

cuda.variant(
    a_row("bisection", make={"BOUND": False}),
    builds_on="top_k",
    adds="one kernel",
    why="a program has a row from the threshold to the token, and halves the range of values until few are above",
    predict="0.3 to 1.2x: 12 reads in one launch beside 5 reads and ten launches",
    teaches="a launch saved is less than a read: the threshold must be found in few reads",
)
cuda.variant(
    a_row("bounded", make={"BOUND": True}),
    builds_on="bisection",
    adds="bound from maxima",
    why="the 50th best of maxima of parts of a row is a threshold that hardly more than 50 tokens reach: two reads",
    predict="3 to 6x: 2 reads in place of 12, and some 15 us of steps in a row",
)

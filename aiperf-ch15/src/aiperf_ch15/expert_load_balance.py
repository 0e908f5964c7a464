"""Where experts lie: all ranks wait for the rank with the most tokens.

Question    What does a layer of experts lose when some of them are asked far more often than others?
Numbers     On GPUs, each of two ranks has 16384 tokens and 16 of 32 experts, two products of 2048 x 8192 each: 1.1
            TFLOP a rank where loads are even. Popularity falls by a power law with the number of an expert, and 55 % of
            all tokens want the first. On a CPU, eight experts, and again 55 %.
Prediction  All ranks wait for the rank with the most tokens, by the mean 1.94 times in the order of numbers, 1.16
            `by_load`, 1.00 with spare places for copies, `replicated`: products 1.7 and 1.9 times as fast, on a CPU
            (1.77, 1.25, 1.02) 1.4 and 1.7 times. Gathering tokens and scattering results takes the same in all forms.
Limits      Even routing, or `--set shuffled=1`, which deals the popular experts out at random. Where no expert has more
            than a rank's share, copies gain little: on GPUs below `skew=1.6`. Loads that change faster than experts can
            be moved; moving them is part of no timing here.
"""

import torch
from torch.nn.functional import gelu

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.distributed import all_gather, reduce_scatter
from aiperf_core.models.experts import expected_experts, popularity

bench = Benchmark(goal="throughput", clock="wall")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda", requires="gpus:2")

HISTORY = 10_000  # earlier tokens of a rank that were counted
SHUFFLE = 3  # the seed of shuffled numbers, the same on all ranks
in_bf16 = Tolerance(1e-2, reason="two products in a row, whose results and activations are rounded to bfloat16")


@bench.workload(
    smoke={
        "tokens": 53,
        "width": 24,
        "hidden": 40,
        "experts": 3,
        "spare": 1,
        "dtype": "bf16",
        "skew": 1.6,
        "shuffled": 0,
        "world_size": 2,
    },
    cpu={
        "tokens": 512,
        "width": 128,
        "hidden": 1024,
        "experts": 4,
        "spare": 1,
        "dtype": "fp32",
        "skew": 1.6,
        "shuffled": 0,
        "world_size": 2,
    },
    cuda={
        "tokens": 16384,
        "width": 2048,
        "hidden": 8192,
        "experts": 16,
        "spare": 2,
        "dtype": "bf16",
        "skew": 1.8,
        "shuffled": 0,
        "world_size": 2,
    },
)
def inputs(tokens, width, experts, skew, shuffled, dtype, world_size, device, generator):
    asked = asked_for(world_size * experts, skew, shuffled).to(device)
    # As many tokens for each expert in every draw, as likely as it is; all samples are then the same work.
    level = (torch.arange(tokens, dtype=asked.dtype, device=device) + 0.5) / tokens
    routes = torch.searchsorted(asked.cumsum(0), level).clamp(max=len(asked) - 1)
    return {
        "x": torch.randn(tokens, width, device=device, generator=generator).to(dtype),
        "routes": routes[torch.randperm(tokens, device=device, generator=generator)],
    }


def asked_for(experts, skew, shuffled):
    """The probability of each expert."""
    likely = popularity(experts, skew)
    if shuffled:
        likely = likely[torch.randperm(experts, generator=torch.Generator().manual_seed(SHUFFLE))]
    return likely


@bench.static
def layer(experts, width, hidden, skew, shuffled, dtype, world_size, device, generator):
    up = torch.randn(experts, width, hidden, device=device, generator=generator) / width**0.5
    down = torch.randn(experts, hidden, width, device=device, generator=generator) / hidden**0.5
    asked = asked_for(world_size * experts, skew, shuffled).to(device)
    earlier = torch.multinomial(asked, HISTORY, replacement=True, generator=generator)
    seen = torch.bincount(earlier, minlength=world_size * experts)
    return {"up": up.to(dtype), "down": down.to(dtype), "seen": seen}


@bench.reference(tolerance=lambda bits: in_bf16 if bits == 16 else fp32_reduction)
def reference(x, routes, up, down):
    ups, downs = torch.cat(list(up)), torch.cat(list(down))
    outs = []
    for tokens, asked in zip(x, routes, strict=True):
        out = torch.zeros_like(tokens)
        for expert in asked.unique().tolist():
            mine = asked == expert
            out[mine] = gelu(tokens[mine] @ ups[expert]) @ downs[expert]
        outs.append(out)
    return outs


@bench.cost
def cost(tokens, width, hidden, experts, spare, bits, skew, world_size):
    asked = popularity(world_size * experts, skew)
    active = expected_experts(asked, world_size * tokens)
    # A token of an expert that is not on its rank goes there and comes back. No rank has more than the most asked ones.
    elsewhere = float(asked[experts + spare :].sum())
    element = bits // 8
    return Cost(
        bytes_read=element * (tokens * width + 2 * active / world_size * width * hidden) + 8 * tokens,
        bytes_written=element * tokens * width,
        flops=4 * tokens * width * hidden,
        precision="bf16" if bits == 16 else "fp32",
        wire_bytes=2 * tokens * elsewhere * width * element,
        tokens=tokens,
    )


# A token and an expert a rank; as many copies as there can be; experts without tokens; three ranks; float32.
bench.awkward(
    {"tokens": 1, "experts": 1, "spare": 0},
    {"tokens": 31, "width": 17, "hidden": 13, "experts": 1, "spare": 3, "dtype": "fp32"},
    {"tokens": 67, "experts": 5, "skew": 3.0, "shuffled": 1, "world_size": 3},
)
# Products are 1.7 and 1.9 times as fast; gathering and scattering may take as long as those of even loads do.
cpu.reach(of="speedup", at_least=1.3, implementation="replicated")
cuda.reach(of="speedup", at_least=1.3, implementation="replicated")


def placement(load, ranks, places):
    """For each rank the experts that it has: (expert, which of its copies, copies).

    load: the tokens of each expert. places: the experts that a rank has memory for. A copy more goes to the expert
    with the largest load a copy, at most one for each rank. Then the largest are placed first, on the rank with the
    least load that has a free place and, where there is such a rank, no copy of the same expert.
    """
    copies = [1] * len(load)
    for _ in range(ranks * places - len(load)):
        able = [expert for expert, count in enumerate(copies) if count < ranks]
        if not able:
            break
        copies[max(able, key=lambda expert: load[expert] / copies[expert])] += 1
    items = [(load[expert] / count, expert, copy) for expert, count in enumerate(copies) for copy in range(count)]
    held: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]
    loads = [0.0] * ranks
    for share, expert, copy in sorted(items, reverse=True):
        free = [rank for rank in range(ranks) if len(held[rank]) < places]
        without = [rank for rank in free if all(expert != other for other, _, _ in held[rank])]
        rank = min(without or free, key=lambda one: loads[one])
        held[rank].append((expert, copy, copies[expert]))
        loads[rank] += share
    return held


def gathered(part, world_size):
    """The parts of all ranks, one after the other."""
    whole = part.new_empty(world_size * part.shape[0], *part.shape[1:])
    all_gather(whole, part)
    return whole


@both.baseline(kind="reasonable")
class InOrder:
    def prepare(self, x, up, down, seen, experts, spare, rank, world_size):
        load = gathered(seen, world_size).view(world_size, -1).sum(0).tolist()
        ups, downs = gathered(up, world_size), gathered(down, world_size)
        mine = self.placed(load, experts, spare, world_size)[rank]
        self.experts = [
            (number, copy, copies, ups[number].clone(), downs[number].clone()) for number, copy, copies in mine
        ]
        self.every = torch.arange(world_size * experts, device=x.device)

    def placed(self, load, experts, spare, world_size):
        return [[(rank * experts + one, 0, 1) for one in range(experts)] for rank in range(world_size)]

    def run(self, x, routes, world_size):
        tokens, asked = gathered(x, world_size), gathered(routes, world_size).sort()
        ends = [0, *torch.searchsorted(asked.values, self.every, right=True).tolist()]
        out = torch.zeros_like(tokens)
        for number, copy, copies, up, down in self.experts:
            begin, count = ends[number], ends[number + 1] - ends[number]
            # Copies share the tokens of their expert in equal parts.
            rows = asked.indices[begin + count * copy // copies : begin + count * (copy + 1) // copies]
            if len(rows):
                out.index_copy_(0, rows, gelu(tokens[rows] @ up) @ down)
        y = torch.empty_like(x)
        reduce_scatter(y, out)
        return y


@both.variant(
    adds="placement by load",
    why="experts that are asked often go to different ranks, so that the most loaded rank has less to do",
)
class ByLoad(InOrder):
    def placed(self, load, experts, spare, world_size):
        return placement(load, world_size, experts)


@both.variant(
    builds_on="by_load",
    adds="replicas",
    why="an expert with more than a rank's share of the tokens is on several ranks, which share them",
)
class Replicated(ByLoad):
    def placed(self, load, experts, spare, world_size):
        return placement(load, world_size, experts + spare)

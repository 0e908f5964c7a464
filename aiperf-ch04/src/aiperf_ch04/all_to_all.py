"""All-to-all: send tokens to their experts and back, and no padding with them.

Workload   Each rank has `tokens` tokens of `width` bfloat16, and `experts` experts, which multiply by a vector of their
           own. Each token goes to two experts, and some experts are asked much more often than others (Zipf). Each rank
           shall hold what both made of its tokens, in the order of the tokens.
Baseline   Every rank sends every expert as many rows as the fullest queue has anywhere; most of them are zeros.
Variants   `exact_splits`: ranks tell each other how many rows will come, and send only rows.  `send_once`: a token
           whose two experts lie on one rank goes there once.  `puts` (cuda): what gathers the rows writes them into the
           peers' memory.
Breaks     Few tokens: telling the sizes is a meeting of its own, for which on GPUs the host waits as well. Experts that
           are all asked alike.
"""

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import register_peer_operation, symmetric_buffers

bench = Benchmark(
    goal="latency",
    clock="wall",
    no_gain_on={
        "cpu": "two processes of one machine exchange through its memory, and to sort costs them what it spares"
    },
)

CHOICES = 2


@bench.workload(
    smoke={"tokens": 101, "width": 37, "experts": 3, "world_size": 2},
    cpu={"tokens": 512, "width": 128, "experts": 4, "world_size": 2},
    cuda={"tokens": 16384, "width": 4096, "experts": 32, "world_size": 2},
)
def inputs(tokens, width, experts, device, generator, world_size):
    x = torch.randn(tokens, width, device=device, generator=generator).bfloat16()
    # The often asked ones are dealt out to the ranks in turn; expert e lies on rank e // experts.
    place = torch.arange(world_size * experts, device=device)
    popularity = 1 / (1.0 + place % experts * world_size + place // experts)
    chosen = torch.multinomial(popularity.expand(tokens, -1), CHOICES, generator=generator)
    return {"x": x, "chosen": chosen}


@bench.static
def layer(experts, width, device, generator):
    return {"scales": torch.randn(experts, width, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=exact)
def reference(x, chosen, scales):
    every = torch.cat(scales)
    return [tokens[:, None] * every[experts] for tokens, experts in zip(x, chosen, strict=True)]


@bench.cost
def cost(tokens, width, experts, world_size):
    rows = CHOICES * tokens
    return Cost(
        bytes_read=tokens * (2 * width + 8 * CHOICES) + 2 * experts * width,
        bytes_written=2 * rows * width,
        flops=rows * width,
        precision="bf16",
        # A row comes back for each choice of an expert on another rank. A token goes there at least once for all its
        # choices: they may be on the same rank.
        wire_bytes=(rows + tokens) * 2 * width * (world_size - 1) / world_size,
        tokens=tokens,
    )


def in_queues(chosen, experts):
    """How many rows each expert gets, the choices in the order of the experts, and each one's place in its queue."""
    wanted = chosen.flatten()
    order = wanted.argsort(stable=True)
    counts = torch.bincount(wanted, minlength=experts)
    starts = counts.cumsum(0) - counts
    ahead = torch.arange(len(wanted), device=wanted.device) - starts[wanted[order]]
    return counts, order, ahead


@bench.baseline(device=("cpu", "cuda"), kind="naive")
def padded(x, chosen, scales, experts, world_size):
    every, width = world_size * experts, x.shape[1]
    counts, order, ahead = in_queues(chosen, every)
    fullest = counts.max()
    dist.all_reduce(fullest, op=dist.ReduceOp.MAX)
    sent = x.new_zeros(every, int(fullest), width)
    places = chosen.flatten()[order], ahead
    sent[places] = x[order // CHOICES]
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    received.view(world_size, experts, -1, width).mul_(scales[:, None])
    dist.all_to_all_single(sent, received)
    out = x.new_empty(chosen.numel(), width)
    out[order] = sent[places]
    return out.view(*chosen.shape, width)


def told(counts):
    """What each rank is told about every other one's rows: first dimension to whom, then from whom."""
    answer = torch.empty_like(counts)
    dist.all_to_all_single(answer, counts)
    return answer


def experts_of(incoming):
    """The expert of each row that comes: rows lie in the order of the ranks, and then of the experts."""
    ranks, experts = incoming.shape
    here = torch.arange(experts, device=incoming.device).repeat(ranks)
    return here.repeat_interleave(incoming.flatten())


@bench.variant(device=("cpu", "cuda"), why="no zeros travel, for a meeting in which the sizes are told")
def exact_splits(x, chosen, scales, experts, world_size):
    counts, order, _ = in_queues(chosen, world_size * experts)
    outgoing = counts.view(world_size, experts)
    incoming = told(outgoing)
    to, source = torch.stack([outgoing, incoming]).sum(-1).tolist()
    received = x.new_empty(sum(source), x.shape[1])
    dist.all_to_all_single(received, x[order // CHOICES], source, to)
    received *= scales[experts_of(incoming)]
    returned = x.new_empty(len(order), x.shape[1])
    dist.all_to_all_single(returned, received, to, source)
    out = torch.empty_like(returned)
    out[order] = returned
    return out.view(*chosen.shape, -1)


@bench.variant(
    device=("cpu", "cuda"), builds_on="exact_splits", why="a token whose two experts lie on one rank goes there once"
)
def send_once(x, chosen, scales, experts, world_size):
    owners = chosen // experts
    ranks = torch.arange(world_size, device=x.device)
    asked = owners[:, :, None] == ranks  # token, choice, rank
    needed = asked.any(1)
    to_rank, token = needed.T.nonzero(as_tuple=True)
    outgoing = torch.stack([needed.sum(0), asked.sum((0, 1))], dim=1)
    incoming = told(outgoing)
    (rows_to, back_from), (rows_from, back_to) = outgoing.T.tolist(), incoming.T.tolist()
    rows, wanted = x.new_empty(sum(rows_from), x.shape[1]), chosen.new_empty(sum(rows_from), CHOICES)
    dist.all_to_all_single(rows, x[token], rows_from, rows_to)
    # The expert of each choice on that rank; -1 where it lies on another.
    here = torch.where(owners[token] == to_rank[:, None], chosen[token] % experts, -1)
    dist.all_to_all_single(wanted, here, rows_from, rows_to)
    row, choice = (wanted >= 0).nonzero(as_tuple=True)
    results = rows[row] * scales[wanted[row, choice]]
    returned = x.new_empty(chosen.numel(), x.shape[1])
    dist.all_to_all_single(returned, results, back_from, back_to)
    out = torch.empty_like(returned)
    out[owners.flatten().argsort(stable=True)] = returned
    return out.view(*chosen.shape, -1)


put = register_peer_operation(
    "ch04_put_rows(Tensor x, Tensor rows, Tensor(a!) there) -> ()",
    lambda x, rows, there: torch.index_select(x, 0, rows, out=there),
)

send_product = register_peer_operation(
    "ch04_put_products(Tensor rows, Tensor scales, Tensor(a!) there) -> ()",
    lambda rows, scales, there: torch.mul(rows, scales, out=there),
)


@bench.variant(
    device="cuda",
    requires="gpus:2",
    builds_on="exact_splits",
    why="rows are gathered straight into the peers' memory, without a copy on either side",
)
class Puts:
    def prepare(self, x, chosen, world_size):
        shape = world_size, chosen.numel(), x.shape[1]
        self.there, self.back = (symmetric_buffers(*shape, dtype=x.dtype) for _ in range(2))

    def run(self, x, chosen, scales, experts, rank, world_size):
        counts, order, _ = in_queues(chosen, world_size * experts)
        outgoing = counts.view(world_size, experts)
        incoming = told(outgoing)
        to, source = torch.stack([outgoing, incoming]).sum(-1).tolist()
        tokens = (order // CHOICES).split(to)
        for peer, rows in enumerate(tokens):
            put(x, rows, self.there.all[peer][rank, : len(rows)])
        self.there.barrier()
        for peer, (count, wanted) in enumerate(zip(source, experts_of(incoming).split(source), strict=True)):
            send_product(self.there.mine[peer, :count], scales[wanted], self.back.all[peer][rank, :count])
        self.back.barrier()
        out = x.new_empty(len(order), x.shape[1])
        for peer, places in enumerate(order.split(to)):
            out[places] = self.back.mine[peer, : len(places)]
        return out.view(*chosen.shape, -1)

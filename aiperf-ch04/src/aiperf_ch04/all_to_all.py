"""All-to-all: send tokens to their experts and back, and no padding with them.

Question    What do padding, sorting and a host that waits for counts cost, when experts live on other ranks?
Numbers     A rank has 16384 tokens of 4096 bfloat16 and 16 of 32 experts on two GPUs; each token goes to two experts,
            of which some are asked much more often than others (Zipf). Half of 2 x 16384 rows cross, and their products
            come back: 268 MB each way. Padded to the fullest queue of any expert a rank sends several times that.
Prediction  The gain is the padding: rows of the fullest queue times the experts, over the rows that are sent. A token
            whose two experts lie on one rank goes once: a quarter of the rows on two ranks.
Limits      Few tokens: the meetings of the ranks take longer than the rows. Experts that are all asked alike. Two
            stages lose within one machine, because every row travels twice; between machines few large messages gain
            over many small ones. On GPUs `exact_splits` waits for the counts, and sorts rows before and after.
"""

from math import isqrt

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import register_peer_operation, symmetric_buffers
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(
    goal="latency",
    clock="wall",
    no_gain_on={
        "cpu": "two processes of one machine exchange through its memory, and to sort costs them what it spares"
    },
)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("gpus:2", "sm_80", "package:triton"))

CHOICES = 2
BLOCK = 1024  # columns of a row at a time: 16 bytes a thread
PROGRAMS = 2048  # of `combine`, several on each multiprocessor

TYPES = {
    **dict.fromkeys(("x_ptr", "scales_ptr"), "*bf16:16"),
    **dict.fromkeys(("chosen_ptr", "rows_of_ptr", "notes_of_ptr", "arrived_of_ptr", "out_of_ptr"), "*i64:16"),
    "counts_ptr": "*i32:16",
    **dict.fromkeys(("rank", "ranks", "experts"), "i32"),
    **dict.fromkeys(("width", "capacity"), "i32:16"),
}
PARAMETERS = {
    "dispatch": "x_ptr chosen_ptr counts_ptr rows_of_ptr notes_of_ptr rank experts width capacity",
    "announce": "counts_ptr arrived_of_ptr rank ranks",
    "combine": "rows_of_ptr notes_of_ptr arrived_of_ptr out_of_ptr scales_ptr rank ranks width capacity",
}


def ahead(kernel, **constants):
    """How a kernel is compiled without a GPU."""
    signature = {name: TYPES[name] for name in PARAMETERS[kernel].split()}
    return triton_ahead(kernel, signature=signature, constants=constants)


kernels = triton_source(
    "all_to_all_triton.py",
    ahead("dispatch", CHOICES=CHOICES, ONCE=False, BLOCK=BLOCK),
    ahead("dispatch", CHOICES=CHOICES, ONCE=True, BLOCK=BLOCK),
    ahead("announce"),
    ahead("combine", CHOICES=CHOICES, BLOCK=BLOCK),
    archs=("sm_80", "sm_90"),
)


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


# A token with a single expert a rank; with three ranks primes; with four ranks two groups.
bench.awkward(
    {"tokens": 1, "width": 31, "experts": 1, "world_size": 2},
    {"tokens": 211, "width": 61, "experts": 7, "world_size": 3},
    {"tokens": 67, "width": 61, "experts": 3, "world_size": 4},
)
bench.reach(of="P2P", at_least=0.70)


@both.baseline(kind="antipattern")
def padded(x, chosen, scales, experts, world_size):
    every, width = world_size * experts, x.shape[1]
    wanted = chosen.flatten()
    order = wanted.argsort(stable=True)
    counts = torch.bincount(wanted, minlength=every)
    starts = counts.cumsum(0) - counts
    places = wanted[order], torch.arange(len(wanted), device=x.device) - starts[wanted[order]]
    fullest = counts.max()
    dist.all_reduce(fullest, op=dist.ReduceOp.MAX)
    sent = x.new_zeros(every, int(fullest), width)
    sent[places] = x[order // CHOICES]
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    received.view(world_size, experts, -1, width).mul_(scales[:, None])
    dist.all_to_all_single(sent, received)
    out = x.new_empty(chosen.numel(), width)
    out[order] = sent[places]
    return out.view(*chosen.shape, width)


def told(counts, group=None):
    """What each rank of a group is told about the rows of all: first dimension to whom, then from whom."""
    answer = torch.empty_like(counts)
    dist.all_to_all_single(answer, counts, group=group)
    return answer


class Trip:
    """Rows to the ranks of a group, and back; `to` is the place of each row's rank in the group."""

    def __init__(self, to, ranks, group=None):
        self.group, self.order = group, to.argsort(stable=True)
        outgoing = torch.bincount(to, minlength=ranks)
        self.sent, self.received = torch.stack([outgoing, told(outgoing, group)]).tolist()

    def there(self, rows, each=1):
        """The rows that come to this rank; each row of `rows` goes to `each` ranks."""
        found = rows.new_empty(sum(self.received), *rows.shape[1:])
        dist.all_to_all_single(found, rows[self.order // each], self.received, self.sent, group=self.group)
        return found

    def back(self, rows):
        """A row for each that was sent, in their order."""
        found = rows.new_empty(sum(self.sent), *rows.shape[1:])
        dist.all_to_all_single(found, rows, self.sent, self.received, group=self.group)
        out = torch.empty_like(found)
        out[self.order] = found
        return out


@both.variant(adds="exact splits", why="no zeros travel, for a meeting in which the sizes are told")
def exact_splits(x, chosen, scales, experts, world_size):
    wanted = chosen.flatten()
    trip = Trip(wanted // experts, world_size)
    rows, wanted = trip.there(x, CHOICES), trip.there(wanted)
    return trip.back(rows.mul_(scales[wanted % experts])).view(*chosen.shape, -1)


@both.variant(
    builds_on="exact_splits",
    adds="two stages",
    why="a rank exchanges with its group and with its like in other groups, not with every rank: fewer messages",
)
class TwoStages:
    def prepare(self, rank, world_size):
        self.size = max(one for one in range(1, isqrt(world_size) + 1) if world_size % one == 0)
        if self.size == 1:
            raise SkipError(f"needs groups of ranks, such as 2 x 2; these are {world_size}")
        near = [[*range(first, first + self.size)] for first in range(0, world_size, self.size)]
        far = [[*range(first, world_size, self.size)] for first in range(self.size)]
        # All ranks make all groups, in the same order.
        made = {tuple(ranks): dist.new_group(ranks) for ranks in near + far}
        self.near, self.far = (made[tuple(ranks)] for ranks in made if rank in ranks)
        self.groups = world_size // self.size

    def run(self, x, chosen, scales, experts):
        wanted = chosen.flatten()
        first = Trip(wanted // experts % self.size, self.size, self.near)
        rows, wanted = first.there(x, CHOICES), first.there(wanted)
        second = Trip(wanted // experts // self.size, self.groups, self.far)
        rows, wanted = second.there(rows), second.there(wanted)
        return first.back(second.back(rows.mul_(scales[wanted % experts]))).view(*chosen.shape, -1)


@both.variant(
    builds_on="exact_splits",
    adds="send once",
    why="a token whose two experts lie on one rank goes there once",
    teaches="finding the tokens to send once takes passes over the choices and launches of their own, more than a fast "
    "link needs for the rows that they spare",
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


def launch_dispatch(x, chosen, counts, rows, notes, arrived, rank, experts, capacity, once):
    """Send all rows of a rank, and say how many."""
    kernels.kernel("dispatch")[(len(x),)](
        x, chosen, counts, rows, notes, rank, experts, x.shape[1], capacity, CHOICES=CHOICES, ONCE=once, BLOCK=BLOCK
    )
    kernels.kernel("announce")[(1,)](counts, arrived, rank, len(rows))


def launch_combine(out, outs, scales, rows, notes, arrived, rank, capacity):
    """Make what this rank's experts make of the rows that arrived, in the outputs of all ranks."""
    width = out.shape[-1]
    kernels.kernel("combine")[(PROGRAMS,)](
        rows, notes, arrived, outs, scales, rank, len(rows), width, capacity, CHOICES=CHOICES, BLOCK=BLOCK
    )


PLACES = "Tensor rows, Tensor notes, Tensor arrived, int rank"
put_rows = register_peer_operation(
    f"ch04_put_rows(Tensor x, Tensor chosen, Tensor(a!) counts, {PLACES}, int experts, int capacity, bool once) -> ()",
    launch_dispatch,
)
put_products = register_peer_operation(
    f"ch04_put_products(Tensor(a!) out, Tensor outs, Tensor scales, {PLACES}, int capacity) -> ()", launch_combine
)


@cuda.variant(
    builds_on="exact_splits",
    adds="peer writes",
    why="rows and products are written where they belong: no sizes told to the host, no sort, no copy on either side",
)
class Puts:
    once = False

    def prepare(self, x, chosen, world_size):
        self.capacity = len(x) if self.once else chosen.numel()
        self.counts = torch.zeros(world_size, dtype=torch.int32, device=x.device)
        self.rows = symmetric_buffers(world_size, self.capacity, x.shape[1], dtype=x.dtype)
        self.notes = symmetric_buffers(world_size, self.capacity, CHOICES + 1, dtype=torch.int32)
        self.arrived = symmetric_buffers(world_size, dtype=torch.int32)
        self.out = symmetric_buffers(*chosen.shape, x.shape[1], dtype=x.dtype)
        self.places = [one.addresses for one in (self.rows, self.notes, self.arrived)]

    def run(self, x, chosen, scales, experts, rank):
        self.counts.zero_()
        put_rows(x, chosen, self.counts, *self.places, rank, experts, self.capacity, self.once)
        # Behind it all rows are there, and every rank has begun its call: its last output is read no more.
        self.rows.barrier()
        put_products(self.out.mine, self.out.addresses, scales, *self.places, rank, self.capacity)
        # Behind it all products are there, and no rank reads its rows any more.
        self.out.barrier()
        return self.out.mine


@cuda.variant(builds_on="puts", adds="send once", why="a token whose two experts lie on one rank is written there once")
class PutsOnce(Puts):
    once = True

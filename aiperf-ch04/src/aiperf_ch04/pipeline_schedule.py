"""Pipeline schedules: what a stage does while it waits for its neighbours.

Question    Which order of passes fills the time in which a stage of a pipeline waits?

Numbers     Two stages of eight residual blocks, Linear and GELU, 4096 wide, in bfloat16; four micro-batches of 8192
            samples. A stage's forward pass takes 3.4 ms, its gradients by inputs 3.5, by weights 3.1: 3 at 790 TFLOP/s
            and passes over memory. A message has 67 MB, 0.2 ms at 380 GB/s. Each rank holds float32 sums of its
            weights' gradients. `--size interleaved`: two pieces a rank, which lie apart in the model.

Prediction  Of p ranks and m micro-batches of v pieces, a share of (p - 1) / (v m + p - 1) of the time is bubble, a
            fifth here, in GPipe and in 1F1B alike (Narayanan et al., 2021): 1F1B gains memory, see
            `ch04.pipeline_memory`. Of 3 (m + 1) thirds of a micro-batch, gradients by inputs first leave 3 m + 1: 15 /
            13, 1.15x (Qi et al., Zero Bubble Pipeline Parallelism, 2023).

Limits      Many micro-batches leave little bubble: at 16 the gain is at most 1.04x. Stages of unequal work. Gradients
            by weights that wait keep the activations of as many more micro-batches as ranks lie before a stage.
"""

from collections import deque
from typing import Any

import torch
from torch.nn.functional import gelu

from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost
from aiperf_core.distributed import exchange, wait_all
from aiperf_core.errors import SkipError

bench = Benchmark(
    goal="throughput",
    clock="wall",
    no_gain_on={
        "cpu": "early backward passes gain memory only, and the wait that `inputs_first` fills is a few per cent of "
        "the time, less than what two processes on shared cores vary by"
    },
)
both = bench.on(("cpu", "cuda"))

IN_FLIGHT = 2  # slots whose messages may be on their way while a stage computes


@bench.workload(
    smoke={"blocks": 2, "chunks": 2, "width": 37, "rows": 11, "micro": 4, "world_size": 2},
    cpu={"blocks": 2, "chunks": 1, "width": 128, "rows": 64, "micro": 8, "world_size": 2},
    cuda={"blocks": 8, "chunks": 1, "width": 4096, "rows": 8192, "micro": 4, "world_size": 2},
    interleaved={"blocks": 8, "chunks": 2, "width": 4096, "rows": 8192, "micro": 4, "world_size": 2},
)
def inputs(micro, width, rows, device, generator, rank, world_size):
    drawn = torch.randn(2, micro, rows, width, device=device, generator=generator).bfloat16()
    # Samples enter at the first rank, and the loss's gradient by the model's output at the last.
    return {"x": drawn[0] if rank == 0 else None, "upstream": drawn[1] if rank == world_size - 1 else None}


@bench.static
def stage(blocks, width, device, generator, world_size):
    scale = (2 / (width * blocks * world_size)) ** 0.5
    drawn = torch.randn(blocks, width, width, device=device, generator=generator) * scale
    return {"weights": list(drawn.bfloat16())}


@bench.reference(tolerance=rounded_layers)
def reference(x, upstream, weights, chunks, world_size):
    parts = [pieces(one, chunks) for one in weights]
    leaves = [
        weight.detach().clone().requires_grad_()
        for same in zip(*parts, strict=True)
        for part in same
        for weight in part
    ]
    totals = [torch.zeros_like(one, dtype=torch.promote_types(one.dtype, torch.float32)) for one in leaves]
    for y, wanted in zip(x[0], upstream[-1], strict=True):
        with torch.enable_grad():
            for weight in leaves:
                y = y + gelu(y @ weight)
            found = torch.autograd.grad(y, leaves, wanted)
        totals = [one + other for one, other in zip(totals, found, strict=True)]
    of_stages = pieces(totals, chunks * world_size)
    return [[one for part in of_stages[rank::world_size] for one in part] for rank in range(world_size)]


def pieces(blocks, number):
    """A list in so many pieces of equal length."""
    length = len(blocks) // int(number)
    return [blocks[first : first + length] for first in range(0, len(blocks), length)]


@bench.cost
def cost(blocks, chunks, width, rows, micro, world_size):
    parameters = blocks * width**2
    # Bytes that cross borders between pieces one way, on average over the ranks.
    border = micro * rows * width * 2 * (chunks * world_size - 1) / world_size if world_size > 1 else 0
    return Cost(
        bytes_read=2 * parameters + 2 * 2 * micro * rows * width / world_size,
        bytes_written=4 * parameters,
        # Forward, and for each layer the gradients of its weight and of its input, which the very first does not need.
        flops=(6 * blocks - 2 / world_size) * micro * rows * width**2,
        precision="bf16",
        wire_bytes=2 * border,
        tokens=micro * rows,
    )


# A single sample; with three ranks more micro-batches than stages. Two pieces a rank are in `smoke`.
bench.awkward(
    {"blocks": 1, "chunks": 1, "width": 61, "rows": 1, "micro": 1},
    {"blocks": 2, "chunks": 1, "width": 61, "rows": 29, "micro": 7, "world_size": 3},
)
# A bubble of a third of a micro-batch in 13 thirds, 0.92; products are 0.83 of the other passes' time; 10 % more time.
bench.reach(of="MM:bf16", at_least=0.69)


def slots(orders, stages):
    """What every rank does one after the other: a list of slots, each with a pass, or None, for each rank.

    orders: of each rank the passes that it makes, in order. A pass is ("forward" or "back", stage, micro-batch).

    A pass starts in a slot after that of the pass which it needs. All ranks see the same slots. In a slot a rank sends
    at most one message to each other rank, so that both sides of a message agree on its place.
    """
    left = [deque(order) for order in orders]
    done: set[Any] = {None}
    found = []
    while any(left):
        ready = [mine[0] if mine and step(mine[0], -1, stages) in done else None for mine in left]
        if not any(ready):
            raise SkipError("is not written for these sizes: ranks wait for each other before all passes are made")
        for mine, action in zip(left, ready, strict=True):
            if action:
                mine.popleft()
        done.update(ready)
        found.append(ready)
    return found


def step(action, by, stages):
    """The pass that gets this pass's result (`by` 1), or makes what it needs (`by` -1); None where there is none."""
    way, stage, micro = action
    other = stage + (by if way == "forward" else -by)
    return (way, other, micro) if 0 <= other < stages else None


class Stage:
    """A rank's pieces of the model, the passes through them and the messages to other ranks.

    Backward passes are written out, in two halves: what the stage before waits for, and the gradients of the weights.

    order(rank, ranks, chunks, micro): the passes of a rank, in order. Each implementation has its own.
    inputs_first: send gradients by inputs before those by weights are computed, which may wait for later passes.
    """

    order: Any
    inputs_first = False

    def prepare(self, weights, chunks, micro, rows, width, rank, world_size):
        self.rank, self.ranks, self.stages = rank, world_size, int(chunks * world_size)
        self.shape = rows, width
        self.sums = [torch.empty_like(one, dtype=torch.float32) for one in weights]
        self.weights_of, self.sums_of = (
            dict(zip(range(rank, self.stages, world_size), pieces(some, chunks), strict=True))
            for some in (weights, self.sums)
        )
        orders = [self.order(one, world_size, int(chunks), int(micro)) for one in range(world_size)]
        self.slots = slots(orders, self.stages)

    def run(self, x, upstream):
        self.x, self.upstream = x, upstream
        self.kept: dict[int, deque[Any]] = {
            one: deque() for one in self.weights_of
        }  # activations of micro-batches that have not gone back
        self.inbox: dict[Any, Any] = {}
        self.factors: deque[Any] = deque()  # of the gradients by weights that are not in the sums yet
        in_flight: deque[list[Any]] = deque()
        for total in self.sums:
            total.zero_()
        for actions in self.slots:
            action = actions[self.rank]
            output = self.make(action) if action else None
            if not self.inputs_first:
                self.add_to_weights(waiting=0)
            in_flight.append(self.talk(actions, output))
            # Ranks before this one wait for its next gradient by inputs, one more of them the later the stage is.
            self.add_to_weights(waiting=self.rank)
            if len(in_flight) > IN_FLIGHT:
                finish(in_flight.popleft())
        self.add_to_weights(waiting=0)
        for works in in_flight:
            finish(works)
        return self.sums

    def make(self, action):
        """Make a pass: its result for another stage."""
        way, stage, micro = action
        if action in self.inbox:
            given, works = self.inbox.pop(action)
            finish(works)
        else:
            given = (self.x if way == "forward" else self.upstream)[micro]
        return self.forward(stage, given) if way == "forward" else self.backward_to_inputs(stage, given)

    def talk(self, actions, output):
        """Start to send what this rank made in a slot and to receive what others made for it; return the works."""
        sends, receives = {}, {}
        works: list[Any] = []
        for rank, action in enumerate(actions):
            following = action and step(action, 1, self.stages)
            to = following and following[1] % self.ranks
            if following and rank == to == self.rank:
                self.inbox[following] = output, works
            elif following and rank == self.rank:
                sends[to] = output
            elif following and to == self.rank:
                receives[rank] = self.sums[0].new_empty(self.shape, dtype=torch.bfloat16)
                self.inbox[following] = receives[rank], works
        works += exchange(sends, receives)
        return works

    def forward(self, stage, x):
        """The stage's output; what its backward pass needs is kept."""
        kept = []
        for weight in self.weights_of[stage]:
            z = x @ weight
            kept.append((x, z))
            x = x + gelu(z)
        self.kept[stage].append(kept)
        return x

    def backward_to_inputs(self, stage, upstream):
        """The gradient of the oldest micro-batch's input; what the gradients by weights need is kept."""
        factors, weights = [], self.weights_of[stage]
        for index, (x, z) in reversed([*enumerate(self.kept[stage].popleft())]):
            within = torch.ops.aten.gelu_backward(upstream, z)
            factors.append((x, within))
            if stage > 0 or index > 0:
                upstream = upstream + within @ weights[index].T
        self.factors.append((stage, factors))
        return upstream

    def add_to_weights(self, waiting):
        """Add the gradients by weights of the oldest backward passes to the sums, but of so many that may wait."""
        while len(self.factors) > waiting:
            stage, factors = self.factors.popleft()
            for total, (x, within) in zip(self.sums_of[stage][::-1], factors, strict=True):
                total += x.T @ within


def finish(works):
    """Wait for works that have not been waited for."""
    wait_all(works)
    works.clear()


def in_turn(rank, ranks, chunks, micro):
    """The stages and micro-batches of a rank's forward passes: as many micro-batches as ranks, then the next piece."""
    return [
        (chunk * ranks + rank, one)
        for first in range(0, micro, ranks)
        for chunk in range(chunks)
        for one in range(first, min(first + ranks, micro))
    ]


@both.baseline(kind="naive", name="gpipe")
class GPipe(Stage):
    def order(self, rank, ranks, chunks, micro):
        passes = [(chunk * ranks + rank, one) for chunk in range(chunks) for one in range(micro)]
        back = [(stage, one) for stage in range((chunks - 1) * ranks + rank, -1, -ranks) for one in range(micro)]
        return [("forward", *one) for one in passes] + [("back", *one) for one in back]


@both.variant(
    adds="early backward",
    why="activations of p micro-batches are kept instead of m; the bubble is the same",
    predict="0.97 to 1.05x: the bubble is that of GPipe",
    teaches="an early backward pass frees memory, not time: the first stage waits for the last one in both orders",
)
class OneForwardOneBackward(Stage):
    def order(self, rank, ranks, chunks, micro):
        forwards = [("forward", *one) for one in in_turn(rank, ranks, chunks, micro)]
        # Backward passes take the pieces in the opposite order.
        last = (chunks - 1) * ranks + 2 * rank
        back = [("back", last - stage, one) for _, stage, one in forwards]
        behind = ranks - 1 - rank
        ahead = min(behind if chunks == 1 else 2 * behind + (chunks - 1) * ranks, len(forwards))
        pairs = zip(forwards[ahead:], back[: len(forwards) - ahead], strict=True)
        return forwards[:ahead] + [one for pair in pairs for one in pair] + back[len(forwards) - ahead :]


@both.variant(
    builds_on="one_forward_one_backward",
    adds="input gradients first",
    why="the stage before goes on while this one computes the gradients by its weights, which fill what was the bubble",
    predict="1.05 to 1.15x: 15 / 13 thirds of a micro-batch, less the messages",
)
class InputsFirst(OneForwardOneBackward):
    inputs_first = True


class Blocks(torch.nn.Module):
    """A piece of the model as torch wants it."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(one) for one in weights)

    def forward(self, x):
        for weight in self.weights:
            x = x + gelu(x @ weight)
        return x


@both.yardstick(why="1F1B of torch.distributed.pipelining, interleaved with several pieces a rank")
class TorchSchedule:
    def prepare(self, weights, chunks, micro, rows, width, rank, world_size):
        from torch.distributed import pipelining

        pieces_of_all = int(chunks) * world_size
        if micro < pieces_of_all or (chunks > 1 and micro % world_size):
            raise SkipError(
                f"needs as many micro-batches as stages, and with several pieces a multiple of the ranks; these are "
                f"{int(micro)}, with {pieces_of_all} stages on {world_size} ranks"
            )
        parts, device = [Blocks(one) for one in pieces(weights, chunks)], weights[0].device
        first, later = (
            torch.empty(rows, width, dtype=torch.bfloat16, device=device, requires_grad=one) for one in (False, True)
        )
        stages: list[Any] = []
        for index, part in enumerate(parts):
            number = index * world_size + rank
            like: dict[str, Any] = {"input_args": later if number else first, "output_args": later}
            stages.append(pipelining.PipelineStage(part, number, pieces_of_all, device, **like))
        how: dict[str, Any] = {"loss_fn": lambda y, wanted: (y * wanted).sum(), "scale_grads": False}
        self.schedule: Any = (
            pipelining.Schedule1F1B(stages[0], int(micro), **how)
            if chunks == 1
            else pipelining.ScheduleInterleaved1F1B(stages, int(micro), **how)
        )
        self.parameters: list[Any] = [one for part in parts for one in part.parameters()]

    def run(self, x, upstream):
        for parameter in self.parameters:
            parameter.grad = None
        target = None if upstream is None else upstream.flatten(0, 1)
        self.schedule.step(*([] if x is None else [x.flatten(0, 1)]), target=target, return_outputs=False)
        return [parameter.grad.float() for parameter in self.parameters]

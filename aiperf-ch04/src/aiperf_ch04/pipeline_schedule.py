"""Pipeline schedules: what a stage does while it waits for its neighbours.

Workload   A model of residual blocks, Linear and GELU, in bfloat16, `blocks` of them of `width` on each rank, one rank
           after another. `micro` micro-batches of `rows` samples go forward through all ranks and their gradients back.
           Each rank shall hold the gradients of its weights, summed over the micro-batches in float32.
Baseline   GPipe: all forward passes, then all backward passes. With p ranks and m micro-batches, (p - 1) / (m + p - 1)
           of the time is bubble, and m micro-batches' activations are kept.
Variants   `one_forward_one_backward` (1F1B): a stage goes back as soon as it can, and keeps activations of at most p
           micro-batches. The bubble is the same: its gain is the memory.  `inputs_first`: the gradients that the stage
           before waits for are computed and sent before those of the weights, which fill the wait (Qi et al., Zero
           Bubble Pipeline Parallelism, 2023).
Breaks     Many micro-batches: there is little bubble left. Stages of unequal work.
"""

from collections import deque
from typing import Any

import torch
from torch.nn.functional import gelu

from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost
from aiperf_core.distributed import exchange, wait_all

bench = Benchmark(goal="throughput", clock="wall")


@bench.workload(
    smoke={"blocks": 2, "width": 37, "rows": 11, "micro": 5, "world_size": 2},
    cpu={"blocks": 2, "width": 128, "rows": 64, "micro": 8, "world_size": 2},
    cuda={"blocks": 8, "width": 4096, "rows": 512, "micro": 16, "world_size": 2},
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
def reference(x, upstream, weights, blocks, world_size):
    leaves = [one.detach().clone().requires_grad_() for stage in weights for one in stage]
    totals = [torch.zeros_like(one, dtype=torch.promote_types(one.dtype, torch.float32)) for one in leaves]
    for y, wanted in zip(x[0], upstream[-1], strict=True):
        with torch.enable_grad():
            for weight in leaves:
                y = y + gelu(y @ weight)
            found = torch.autograd.grad(y, leaves, wanted)
        totals = [one + other for one, other in zip(totals, found, strict=True)]
    return [totals[rank * blocks : (rank + 1) * blocks] for rank in range(world_size)]


@bench.cost
def cost(blocks, width, rows, micro, world_size):
    parameters = blocks * width**2
    border = micro * rows * width * 2 * (world_size - 1) / world_size  # bytes to one neighbour, on average over ranks
    return Cost(
        bytes_read=2 * parameters + 2 * 2 * micro * rows * width / world_size,
        bytes_written=4 * parameters,
        # Forward, and for each layer the gradients of its weight and of its input, which the very first does not need.
        flops=(6 * blocks - 2 / world_size) * micro * rows * width**2,
        precision="bf16",
        wire_bytes=2 * border,
        tokens=micro * rows,
    )


class Stage:
    """A rank's part of the model, the passes through it and its talk with its neighbours.

    Backward passes are written out, in two halves: what the stage before waits for, and the gradients of the weights.
    """

    def prepare(self, weights, micro, rows, width, rank, world_size):
        self.weights, self.micro = weights, micro
        self.shape = rows, width
        self.before = rank - 1 if rank > 0 else None
        self.after = rank + 1 if rank < world_size - 1 else None
        self.behind = world_size - 1 - rank
        self.sums = [torch.empty_like(one, dtype=torch.float32) for one in weights]

    def schedule(self):
        raise NotImplementedError

    def run(self, x, upstream):
        self.x, self.upstream = x, upstream
        self.forwards = self.backwards = 0
        self.kept: deque[Any] = deque()  # activations of micro-batches that have not gone back
        for total in self.sums:
            total.zero_()
        self.schedule()
        return self.sums

    def forward(self, x):
        """The stage's output; what its backward pass needs is kept."""
        kept = []
        for weight in self.weights:
            z = x @ weight
            kept.append((x, z))
            x = x + gelu(z)
        self.kept.append(kept)
        self.forwards += 1
        return x

    def backward_to_inputs(self, upstream):
        """The gradient of the oldest micro-batch's input, and what those of the weights need."""
        factors = []
        for weight, (x, z) in zip(self.weights[::-1], self.kept.popleft()[::-1], strict=True):
            within = torch.ops.aten.gelu_backward(upstream, z)
            factors.append((x, within))
            if weight is not self.weights[0] or self.before is not None:
                upstream = upstream + within @ weight.T
        self.backwards += 1
        return upstream, factors

    def add_to_weights(self, factors):
        for total, (x, within) in zip(self.sums[::-1], factors, strict=True):
            total += x.T @ within

    def talk(self, forward=None, back=None, *, want_x=False, want_upstream=False):
        """Start to send an output to the next rank or a gradient to the one before, and to receive what is wanted.

        Return the input, the gradient and the works to wait for; what comes from no rank is taken from the workload.
        """
        sends, receives = {}, {}
        if forward is not None and self.after is not None:
            sends[self.after] = forward
        if back is not None and self.before is not None:
            sends[self.before] = back
        x = upstream = None
        if want_x:
            x = self.weights[0].new_empty(self.shape) if self.before is not None else self.x[self.forwards]
            if self.before is not None:
                receives[self.before] = x
        if want_upstream:
            ours = self.after is None
            upstream = self.upstream[self.backwards] if ours else self.weights[0].new_empty(self.shape)
            if not ours:
                receives[self.after] = upstream
        return x, upstream, exchange(sends, receives)


@bench.baseline(device=("cpu", "cuda"), kind="naive", name="gpipe")
class GPipe(Stage):
    def schedule(self):
        for _ in range(self.micro):
            x, _, works = self.talk(want_x=True)
            wait_all(works)
            wait_all(self.talk(forward=self.forward(x))[2])
        for _ in range(self.micro):
            _, upstream, works = self.talk(want_upstream=True)
            wait_all(works)
            back, factors = self.backward_to_inputs(upstream)
            self.add_to_weights(factors)
            wait_all(self.talk(back=back)[2])


@bench.variant(
    device=("cpu", "cuda"), why="activations of p micro-batches are kept instead of m; the bubble is the same"
)
class OneForwardOneBackward(Stage):
    inputs_first = False

    def schedule(self):
        ahead = min(self.behind, self.micro)
        for _ in range(ahead):
            x, _, works = self.talk(want_x=True)
            wait_all(works)
            wait_all(self.talk(forward=self.forward(x))[2])
        if ahead < self.micro:
            x, _, works = self.talk(want_x=True)
            wait_all(works)
        for done in range(ahead, self.micro):
            _, upstream, works = self.talk(forward=self.forward(x), want_upstream=True)
            wait_all(works)
            x = self.go_back(upstream, want_x=done < self.micro - 1)
        for _ in range(ahead):
            _, upstream, works = self.talk(want_upstream=True)
            wait_all(works)
            self.go_back(upstream, want_x=False)

    def go_back(self, upstream, want_x):
        """Take a micro-batch back, send its gradient on, and return the next one's input if there is one."""
        back, factors = self.backward_to_inputs(upstream)
        if not self.inputs_first:
            self.add_to_weights(factors)
        x, _, works = self.talk(back=back, want_x=want_x)
        if self.inputs_first:
            self.add_to_weights(factors)
        wait_all(works)
        return x


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="one_forward_one_backward",
    why="the stage before goes on while this one computes the gradients of its weights",
)
class InputsFirst(OneForwardOneBackward):
    inputs_first = True

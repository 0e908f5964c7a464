"""A recurrence in one launch: weights that stay on the chip are read once, not once a step.

Question    Each step of a recurrent decoder needs the state of the step before and all weights. What is left of a step
            when neither the host nor L2 stands between two of them?
Numbers     256 steps of a gated recurrent unit of width 2048, batch 1: three matrices of bfloat16, 25 MB, which L2
            holds and which are 192 KB for each of 128 multiprocessors. Operations of torch: some 14 a step.
Prediction  A torch operation takes the host some 15 us, and as a node of a graph 1.1 us: 14 are 15 us, beside 5 us for
            weights from L2. One kernel a step is 6 to 8 us. A barrier of the grid costs about what a node does. From
            shared memory, 192 KB take 1536 cycles, 0.8 us, and a step 2.5 to 4 us: the barrier and the way of the state
            through L2 are the rest.
Limits      Weights that do not fit: above a width of some 2300 a multiprocessor has no room for its rows. All blocks
            must be on the chip at once. With a batch of 64 products take longer than barriers, and a product for many
            states reads weights once for all of them.
"""

import math

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.graphs import done, graphed
from aiperf_core.kernels import cuda_driver, cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm", prepare_timeout_s=600)
cuda = bench.on("cuda", requires=("sm_80", "compiler"))
device_code = cuda_source("persistent_decode.cu")

THREADS, ROWS, GATES = 256, 16, 3

rounded_operands = Tolerance(1e-2, reason="torch rounds the state and its products to bfloat16 in each step")


@bench.workload(
    smoke={"width": 72, "steps": 5},
    cuda={"width": 2048, "steps": 256},
    narrow={"width": 512, "steps": 256},
)
def inputs(width, steps, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    return {"first": normal(width).tanh(), "drive": normal(steps, GATES, width)}


@bench.static
def parameters(width, device, generator):
    normal = torch.randn(GATES, width, width, device=device, generator=generator) / math.sqrt(width)
    return {"weights": normal.to(torch.bfloat16)}


@bench.reference(tolerance=rounded_operands)
def reference(first, drive, weights):
    states, state = [], first
    for given in drive:
        reset, update, fresh = weights.to(state.dtype) @ state
        reset, update = torch.sigmoid(given[0] + reset), torch.sigmoid(given[1] + update)
        fresh = torch.tanh(given[2] + reset * fresh)
        state = fresh + update * (state - fresh)
        states.append(state)
    return torch.stack(states)


@bench.cost
def cost(width, steps):
    # Weights may stay on the chip, and are read once.
    weights, values = GATES * width * width, steps * width
    return Cost(
        bytes_read=2 * weights + 4 * (GATES * values + width),
        bytes_written=4 * values,
        flops=2 * steps * weights,
        serial_steps=steps,
        tokens=steps,
    )


def cost_of_kernels(width, steps):
    """A kernel a step, one after another."""
    return evolve(cost(width, steps), launches=steps)


# The fewest columns, rows that do not fill a block, several chunks of a lane, and one step.
bench.awkward({"width": 8, "steps": 1}, {"width": 40, "steps": 3}, {"width": 264, "steps": 2}, {"width": 1032})
# 2.5 to 4 us a step beside 6 to 8 us.
cuda.reach(of="time:graph", at_most=1 / 1.8, implementation="resident")
bench.sass("steps_resident", has=("LDS.128", "FFMA"))
bench.sass("one_step", has=("LDG.128", "FFMA"))


def blocks(width):
    """Blocks of rows; refuses rows that do not start at multiples of 16 bytes."""
    if width % 8:
        raise SkipError(f"takes a width in multiples of 8; got {width}")
    return -(-width // ROWS)


@cuda.baseline(kind="reasonable")
class Eager:
    def prepare(self, first, weights, steps):
        self.out, self.matrix = first.new_empty(steps, len(first)), weights.flatten(0, 1)

    def run(self, first, drive):
        state = first
        for given, out in zip(drive, self.out, strict=True):
            products = torch.mv(self.matrix, state.bfloat16()).view(GATES, -1)
            reset, update = torch.sigmoid(given[:2] + products[:2])
            fresh = torch.tanh(given[2] + reset * products[2])
            state = torch.lerp(fresh, state, update, out=out)
        return self.out


cuda.variant(
    graphed("eager"),
    name="graph",
    builds_on="eager",
    adds="graph",
    why="the driver has all operations of all steps, and asks the host for none of them",
    predict="at least 3x: 14 nodes of 1.1 us and the weights, in place of 14 operations of 15 us",
)


class Steps:
    """A kernel a step."""

    def prepare(self, first, drive, weights, width, steps):
        self.out, self.calls, state = first.new_empty(steps, width), Recording(), first
        shape = {"grid": blocks(width), "block": THREADS, "shared_bytes": 4 * width}
        for given, out in zip(drive, self.out, strict=True):
            words = weights.view(torch.int16)
            self.calls.launch(device_code.kernel("one_step"), out, state, given, words, width, **shape)
            state = out

    def run(self):
        self.calls.play()
        return self.out


cuda.variant(
    graphed(Steps),
    name="fused_steps",
    cost=cost_of_kernels,
    builds_on="graph",
    adds="fused step",
    why="one kernel has the products and the gates of its rows, so that a step is one node in place of fourteen",
    predict="2 to 4x: 6 to 8 us a step in place of some 20 us",
)


class OneLaunch:
    """All steps in a cooperative launch."""

    kernel, weight_rows = "steps_from_cache", 0  # rows of the weights that a block keeps

    def prepare(self, first, drive, weights, width, steps):
        self.out, grid = first.new_empty(steps, width), blocks(width)
        self.arrived = torch.zeros(1, dtype=torch.int32, device=first.device)
        kernel, shared = device_code.kernel(self.kernel), 4 * width + 2 * width * self.weight_rows
        chip = torch.cuda.get_device_properties(first.device)
        if shared > (most := getattr(chip, "shared_memory_per_block_optin", 48 << 10)):
            raise SkipError(f"needs {shared} bytes of shared memory a block; this GPU has {most}")
        if (held := grid_that_fills(kernel, THREADS, shared)) < grid:
            raise SkipError(f"needs {grid} blocks on the chip at once; this GPU holds {held}")
        given = (self.out, first, drive, weights.view(torch.int16), self.arrived, steps, width)
        self.bound = kernel.bound(given, grid, THREADS, shared)

    def run(self):
        self.arrived.zero_()
        function, *shape, parameters = self.bound.numbers
        stream = torch.cuda.current_stream().cuda_stream
        done(cuda_driver().cuLaunchCooperativeKernel(function, *shape, stream, parameters))
        return self.out


cuda.variant(
    OneLaunch,
    name="one_launch",
    builds_on="fused_steps",
    adds="grid barrier",
    why="blocks meet at a barrier in place of the end of a kernel; they read their weights from L2 as before",
    predict="0.9 to 1.4x: a barrier of 1 to 1.5 us in place of a node of 1.1 us and the start of its blocks",
    teaches="a barrier of all blocks costs what a node does: a launch for all steps pays by what stays on the chip",
)


@cuda.variant(
    builds_on="one_launch",
    adds="weights in shared memory",
    why="192 KB of weights stay in each multiprocessor from step to step, and only the state goes through L2",
    predict="1.2 to 2.6x: 1 us of shared memory in place of 5 us of L2, beside a barrier and the state of 2 us",
)
class Resident(OneLaunch):
    kernel, weight_rows = "steps_resident", GATES * ROWS

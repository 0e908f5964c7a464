"""A loop in a graph: a test on the device does not ask the host whether to go on.

Question    How long does an iteration wait that ends when a number on the device is small enough?
Numbers     Conjugate gradients in float64 for (1 + k L) x = b on a grid of 512 x 512, L the five-point Laplacian, until
            the residual is 1e-8 of b, which is new in every call. An iteration is four kernels over 2 MB arrays, which
            stay in the L2 cache, and two sums over the grid that the next kernel reads: the floor is two dependent
            reads of the L2 for each. Launched forms need four launches an iteration too.
Prediction  A wait for the host takes some 20 us and a node of a graph 1.1 us: an iteration of four kernels is 3 to 6x
            as fast when the device tests. A grid barrier takes as long as a node, so a cooperative kernel gains little
            beyond that.
Limits      Iterations of more than about a millisecond hide the wait for the host. The cooperative kernel keeps the
            whole chip, and its grid is no larger than that. A loop in a graph repeats the same kernels: values that
            change with the iteration must be found on the device.
"""

import math

import numpy
import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance, graphs
from aiperf_core.kernels import cuda_driver, cuda_source, grid_that_fills, host_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda", requires="compiler"), bench.on("cpu")
device_code = cuda_source("graph_while.cu")
loop_code = cuda_source("graph_while_loop.cu")
# Sums may be taken in another order, which rounds otherwise, as they are on a GPU.
host_code = host_source("graph_while.c", options=("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"))

ACCURACY = 2.0**-27  # 7.5e-9, exact in float32 as the kernels take it
MOST = 10_000
BLOCK = 256
BLOCKS = 512  # each adds up what all have found
AT_ONCE = 32

# The last iteration changes the solution by some 1e-9, the order of a sum by some 1e-15.
to_the_iteration = Tolerance(
    1e-10, reason="float64, and a solution that changes in the ninth digit when an iteration is left out"
)


@bench.workload(
    smoke={"n": 13, "strength": 2.0},
    cpu={"n": 64, "strength": 1000.0},
    cuda={"n": 512, "strength": 1000.0},
)
def inputs(n, device, generator):
    return {"b": torch.randn(n, n, dtype=torch.float64, device=device, generator=generator)}


@bench.reference(tolerance=to_the_iteration)
def reference(b, strength):
    x, r, p = torch.zeros_like(b), b.clone(), b.clone()
    residual, iterations = float((b * b).sum()), 0
    enough = ACCURACY**2 * residual
    while residual > enough and iterations < MOST:
        q = (1 + 4 * strength) * p
        for ahead, behind in ((p[1:], p[:-1]), (p[:, 1:], p[:, :-1])):
            rows, columns = (q[:-1], q[1:]) if ahead.shape[1] == q.shape[1] else (q[:, :-1], q[:, 1:])
            rows -= strength * ahead
            columns -= strength * behind
        alpha = residual / float((p * q).sum())
        x += alpha * p
        r -= alpha * q
        left = float((r * r).sum())
        p = r + left / residual * p
        residual, iterations = left, iterations + 1
    return x


def least_iterations(n, strength):
    """A number of iterations that no random right-hand side falls below.

    They shrink the error by (sqrt(c) - 1) / (sqrt(c) + 1) each at least (Saad, Iterative Methods for Sparse Linear
    Systems, 6.11.3), c the condition of 1 + k L; random right-hand sides take more than half of what that allows.
    """
    angle = math.pi / (2 * (n + 1))
    condition = (1 + 8 * strength * math.cos(angle) ** 2) / (1 + 8 * strength * math.sin(angle) ** 2)
    if condition <= 1:
        return 1
    most = math.log(2 / ACCURACY) / math.log((math.sqrt(condition) + 1) / (math.sqrt(condition) - 1))
    return max(1, min(math.floor(0.4 * most), n * (n + 1) // 2))  # as many different eigenvalues there are


@bench.cost
def cost(n, strength):
    # Memory: read once and written once, since all arrays may stay on the chip. An iteration has 6 operations an
    # element for the Laplacian, and 2 for each of two inner products and three updates.
    # Each of the two sums of an iteration is read after it was written by other multiprocessors.
    iterations, array = least_iterations(n, strength), 8 * n * n
    flops = 2 * array * iterations
    return Cost(bytes_read=array, bytes_written=array, flops=flops, serial_steps=2 * iterations, precision="fp64")


def cost_of_launches(n, strength):
    """Four kernels an iteration, and two before the first, one after another."""
    return evolve(cost(n, strength), launches=2 + 4 * least_iterations(n, strength))


bench.accept("workload.same_work", because="the number of iterations is what the host cannot know ahead")
# A grid of one point, one without coupling, and one with more points than a GPU holds blocks.
bench.awkward(
    {"n": 1, "strength": 2.0}, {"n": 2, "strength": 0.0}, {"n": 17, "strength": 100.0}, {"n": 64, "strength": 1000.0}
)
cuda.reach(of="time:every_32", at_most=1.0, implementation="while_graph")
cuda.reach(of="time:while_graph", at_most=1.0, implementation="cooperative")


class OnDevice:
    """Memory for the iteration, and its kernels."""

    def prepare(self, b, n, strength):
        self.n, self.strength = int(n), float(strength)
        self.blocks = self.most_blocks(min(-(-n * n // BLOCK), BLOCKS))
        self.x, self.r, self.p, self.q = (torch.empty_like(b) for _ in range(4))
        self.products, self.residuals = (torch.empty(self.blocks, dtype=b.dtype, device=b.device) for _ in range(2))
        self.state = torch.empty(2, dtype=b.dtype, device=b.device)
        self.progress = torch.empty(2, dtype=torch.int64, device=b.device)
        self.make_ready(b)

    def most_blocks(self, wanted):
        """How many blocks of those that are wanted a kernel can have."""
        return wanted

    def make_ready(self, b):
        """Called once, when the memory is there."""

    def start(self, b):
        """A recording of the kernels before the first iteration."""
        calls = Recording()
        self.record(calls, "begin", self.x, self.r, self.p, b, self.residuals, self.n)
        self.record(calls, "aim", self.residuals, self.state, self.progress, self.blocks, ACCURACY, grid=1)
        return calls

    def iteration(self, calls):
        """Record the kernels of an iteration but for the last, which decides; return the arguments of that."""
        x, r, p, q, state, progress = self.x, self.r, self.p, self.q, self.state, self.progress
        self.record(calls, "apply", q, p, self.products, progress, self.n, self.strength)
        self.record(calls, "advance", x, r, p, q, self.products, self.residuals, state, progress, self.n)
        self.record(calls, "turn", p, r, self.residuals, state, progress, self.n)
        return self.residuals, state, progress, self.blocks, MOST

    def record(self, calls, kernel, *arguments, grid=None):
        calls.launch(device_code.kernel(kernel), *arguments, grid=grid or self.blocks, block=BLOCK)


@cuda.baseline(kind="reasonable", name="host_checks", cost=cost_of_launches)
class Launched(OnDevice):
    """Iterations that the host launches, so many before it looks whether to go on."""

    at_once = 1

    def make_ready(self, b):
        self.first, self.again = self.start(b), Recording()
        for _ in range(self.at_once):
            self.record(self.again, "decide", *self.iteration(self.again), grid=1)

    def run(self):
        self.first.play()
        while int(self.progress[1]):
            self.again.play()
        return self.x


@cpu.baseline(kind="reasonable")
class Numpy:
    def prepare(self, b):
        self.x, self.r, self.p, self.q, self.spare = (numpy.empty(b.shape) for _ in range(5))

    def run(self, b, strength):
        x, r, p, spare = self.x, self.r, self.p, self.spare
        x[:] = 0
        r[:] = p[:] = b.numpy()
        residual, iterations = numpy.vdot(r, r), 0
        enough = ACCURACY**2 * residual
        while residual > enough and iterations < MOST:
            q = self.apply(strength)
            alpha = residual / numpy.vdot(p, q)
            x += numpy.multiply(p, alpha, out=spare)
            r -= numpy.multiply(q, alpha, out=spare)
            left = numpy.vdot(r, r)
            p *= left / residual
            p += r
            residual, iterations = left, iterations + 1
        return torch.from_numpy(x)

    def apply(self, strength):
        """A times p, in the memory of q."""
        p, q = self.p, self.q
        numpy.multiply(p, 1 + 4 * strength, out=q)
        scaled = numpy.multiply(p, strength, out=self.spare)
        q[1:] -= scaled[:-1]
        q[:-1] -= scaled[1:]
        q[:, 1:] -= scaled[:, :-1]
        q[:, :-1] -= scaled[:, 1:]
        return q


@cuda.variant(
    name="every_32",
    cost=cost_of_launches,
    adds="fewer waits",
    why="the GPU has work for 32 iterations when the host is waited for",
)
class Every32(Launched):
    at_once = AT_ONCE


@cuda.variant(
    cost=cost_of_launches,
    adds="loop on the device",
    why="a kernel of the loop says whether it goes on, to the GPU's own scheduler and not to the host",
)
class WhileGraph(OnDevice):
    def make_ready(self, b):
        graphs.require_loops()
        self.graph = graphs.Graph()
        *_, last = self.graph.chain(self.start(b))
        condition, body = self.graph.condition(), Recording()
        decide = loop_code.kernel("decide_and_tell")
        body.launch(decide, *self.iteration(body), condition, grid=1, block=BLOCK)
        self.graph.loop(condition, last).chain(body)
        self.graph.ready()

    def run(self):
        self.graph.launch()
        return self.x


@cuda.variant(
    adds="grid barrier", why="one launch: the blocks wait for each other on the chip, and each decides for itself"
)
class Cooperative(OnDevice):
    def most_blocks(self, wanted):
        return min(wanted, grid_that_fills(device_code.kernel("whole"), BLOCK))

    def make_ready(self, b):
        self.arrived = torch.empty(1, dtype=torch.int32, device=b.device)
        arrays = (self.x, self.r, self.p, self.q, b, self.products, self.residuals, self.progress, self.arrived)
        given = (*arrays, self.n, self.strength, ACCURACY, MOST)
        self.whole = device_code.kernel("whole").bound(given, self.blocks, BLOCK)

    def run(self):
        self.arrived.zero_()
        function, *shape, parameters = self.whole.numbers
        stream = torch.cuda.current_stream().cuda_stream
        graphs.done(cuda_driver().cuLaunchCooperativeKernel(function, *shape, stream, parameters))
        return self.x


@cpu.variant(
    requires="compiler",
    adds="compiled loop",
    why="a test and an operation on a small grid cost what they are, not what a call costs",
)
class CLoop:
    def prepare(self, b):
        self.x, self.r, self.p, self.q = (torch.empty_like(b) for _ in range(4))
        self.solve = host_code.function("conjugate_gradients")

    def run(self, b, n, strength):
        self.solve(self.x, self.r, self.p, self.q, b, n, strength, ACCURACY, MOST)
        return self.x

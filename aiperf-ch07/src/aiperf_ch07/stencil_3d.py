"""Stencil in three dimensions: share what neighbouring points read.

Question    A point reads seven values that its neighbours read too. Where should they be shared: in the caches, in
            registers, in shared memory?
Numbers     u = 0.4 u + 0.1 (its six neighbours) on 768^3 float32 values with zeros outside: 1.8 GB read and 1.8 GB
            written, 0.86 ms at the rate of a copy. `--size fused` makes four steps, of which the least is still one
            pass over memory.
Prediction  A thread a point makes seven loads; four points in a row share them, two a point. Going along z keeps the
            planes below and above in registers: two loads of 16 bytes less, which help if L2 is the bound. Two steps in
            one pass move half of the bytes, and compute the rims of their tiles twice.
Limits      Caches already serve the neighbours of an H200: neither the queue of registers nor TMA gains beside `wide`.
            Two steps in tiles of 28 x 28 read 4 bytes an access and add two barriers a plane: as fast as two passes of
            `wide`.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source, tensor_map

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("stencil_3d.cu"), host_source("stencil_3d.c")

CENTRE, SIDE = 0.4, 0.1
PLANES = 64  # that a block goes along


@bench.workload(
    smoke={"nx": 37, "ny": 23, "nz": 11, "steps": 3},
    cpu={"nx": 256, "ny": 256, "nz": 256, "steps": 4},
    cuda={"nx": 768, "ny": 768, "nz": 768, "steps": 1},
    fused={"nx": 768, "ny": 768, "nz": 768, "steps": 4},
)
def inputs(nx, ny, nz, device, generator):
    return {"u": torch.randn(nz, ny, nx, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(u, steps):
    for _ in range(steps):
        out = CENTRE * u
        for dim, size in enumerate(u.shape):
            out.narrow(dim, 1, size - 1).add_(u.narrow(dim, 0, size - 1), alpha=SIDE)
            out.narrow(dim, 0, size - 1).add_(u.narrow(dim, 1, size - 1), alpha=SIDE)
        u = out
    return u


@bench.cost
def cost(nx, ny, nz, steps):
    points = nx * ny * nz
    return Cost(bytes_read=4 * points, bytes_written=4 * points, flops=8 * points * steps)


shapes = [(1, 1, 1, 1), (2, 1, 3, 2), (33, 17, 65, 2), (64, 48, 130, 3), (100, 61, 7, 4)]
bench.awkward(*(dict(zip(("nx", "ny", "nz", "steps"), shape, strict=True)) for shape in shapes))
cuda.reach(of="BW", at_least=0.80)


class Steps:
    """Makes steps from one array to another and back; the input is only read."""

    def prepare(self, u, steps):
        self.arrays = [torch.empty_like(u) for _ in range(2)]

    def run(self, u, steps):
        done, source = 0, u
        while done < steps:
            out = self.arrays[0] if source is not self.arrays[0] else self.arrays[1]
            done += self.step(source, out, steps - done)
            source = out
        return source

    def step(self, source, out, left):
        """Make one step, or more where that many are left; return how many were made."""
        raise NotImplementedError


class Kernel(Steps):
    """Makes each step by a kernel, whose blocks have so many points in x, y and z."""

    name = ""
    points: tuple[int, int, int] = (128, 8, 1)
    block: tuple[int, int] | int = (32, 8)
    makes = 1  # steps a launch

    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.find(u)

    def find(self, u):
        """Find the kernel and its grid."""
        self.kernel = device_code.kernel(self.name)
        sizes = reversed(u.shape)
        self.grid = tuple(-(-size // each) for size, each in zip(sizes, self.points, strict=True))

    def step(self, source, out, left):
        nz, ny, nx = source.shape
        planes = () if self.points[2] == 1 else (PLANES,)
        self.kernel(self.taken(source), out, nx, ny, nz, *planes, grid=self.grid, block=self.block)
        return self.makes

    def taken(self, source):
        """What the kernel takes for an array."""
        return source


@cuda.baseline(kind="naive")
class Direct(Kernel):
    name, points = "direct", (32, 8, 1)


@cuda.variant(
    adds="wide accesses",
    why="four points a thread share what they load: seven loads, of which five have 16 bytes, in place of 28",
)
class Wide(Kernel):
    name = "wide"


@cuda.variant(
    builds_on="wide",
    adds="register queue",
    why="a thread that goes along z has the planes below and above in registers: a plane comes from L2 once, not three "
    "times",
    teaches="L2 serves a plane three times beside memory's one: it is not the bound, and registers save nothing",
)
class Marching(Kernel):
    name, points = "marching", (128, 8, PLANES)


@cuda.variant(
    requires="sm_90",
    builds_on="marching",
    adds="tma",
    why="TMA brings planes with their rims, four ahead: no thread loads, and none looks for edges",
    teaches="rims of tiles come from caches, loads of threads hide as well, and every plane adds a barrier",
)
class TensorPlanes(Kernel):
    name, points, block = "tensor_planes", (64, 16, PLANES), 256

    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.maps = {one.data_ptr(): tensor_map(one, (1, 18, 72)) for one in (u, *self.arrays)}

    def taken(self, source):
        return self.maps[source.data_ptr()]


@cuda.variant(
    adds=("temporal blocking", "shared memory planes", "register queue"),
    why="two steps for one reading and one writing of the box, for which the tiles' rims are computed twice",
)
class TwoSteps(Kernel):
    name, points, block, makes = "two_steps", (28, 28, PLANES), (32, 32), 2

    def prepare(self, u, steps):
        if steps < 2:
            raise SkipError("makes two steps at a time; there is one")
        super().prepare(u, steps)
        self.last = Marching()
        self.last.find(u)

    def step(self, source, out, left):
        return super().step(source, out, left) if left > 1 else self.last.step(source, out, left)


@cpu.baseline(kind="reasonable")
class OneStep(Steps):
    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.one_step = host_code.function("one_step")

    def step(self, source, out, left):
        nz, ny, nx = source.shape
        self.one_step(source, out, nx, ny, nz)
        return 1


@cpu.variant(
    name="two_steps",
    adds="temporal blocking",
    why="a plane makes its second step while the planes of the first are in the cache: half the traffic with memory",
)
class TwoStepsLoop(OneStep):
    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.two_steps = host_code.function("two_steps")
        self.slabs = min(torch.get_num_threads(), u.shape[0])

    def step(self, source, out, left):
        if left < 2:
            return super().step(source, out, left)
        nz, ny, nx = source.shape
        self.two_steps(source, out, nx, ny, nz, self.slabs)
        return 2


# Not on a CPU, where it takes a hundred times as long as any of the above.
@cuda.yardstick(name="conv3d", why="torch's convolution with the stencil as its weight, in full float32")
class Conv3d:
    def prepare(self, u):
        self.weight = torch.zeros(1, 1, 3, 3, 3, device=u.device)
        self.weight[0, 0, 1, 1, 1] = CENTRE
        for dim in range(3):
            for side in (0, 2):
                at = [1, 1, 1]
                at[dim] = side
                self.weight[(0, 0, *at)] = SIDE

    def run(self, u, steps):
        u = u[None, None]
        for _ in range(steps):
            u = torch.nn.functional.conv3d(u, self.weight, padding=1)
        return u[0, 0]

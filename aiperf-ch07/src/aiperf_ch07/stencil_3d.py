"""Stencil in three dimensions: reuse along the marching axis.

Workload   `steps` times u = 0.4 u + 0.1 (its six neighbours) on a box of float32, with zeros outside.
Baseline   cuda: a thread a point, seven reads of global memory.  cpu: a sweep over the box for each step.
Variants   cuda: `marching`: along z, with the values below and above in registers and the plane in shared memory.
           `two_steps`: two steps for one pass over memory.
           cpu: `two_steps` alike, with a ring of planes in the cache.
Breaks     Large caches: the baseline's neighbours are mostly found there, and the marching only makes sure. The cost is
           that of all steps in one pass, the least there is; an implementation that makes a step a pass cannot reach
           more than one part in `steps` of it.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("stencil_3d.cu")
host_code = host_source("stencil_3d.c")

CENTRE, SIDE = 0.4, 0.1
PLANES = 64  # that a block goes along


@bench.workload(
    smoke={"nx": 37, "ny": 23, "nz": 11, "steps": 3},
    cpu={"nx": 256, "ny": 256, "nz": 256, "steps": 4},
    cuda={"nx": 768, "ny": 768, "nz": 768, "steps": 4},
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
    """Makes each step by a kernel that goes along z."""

    name = "marching"
    tile: tuple[int, int] = (32, 16)

    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.kernel = device_code.kernel(self.name)

    def step(self, source, out, left):
        nz, ny, nx = source.shape
        grid = (-(-nx // self.tile[0]), -(-ny // self.tile[1]), -(-nz // PLANES))
        self.kernel(source, out, nx, ny, nz, PLANES, grid=grid, block=self.tile)
        return 1


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="direct")
class Direct(Steps):
    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.kernel = device_code.kernel("direct")

    def step(self, source, out, left):
        nz, ny, nx = source.shape
        self.kernel(source, out, nx, ny, nz, grid=(-(-nx // 32), -(-ny // 8), nz), block=(32, 8))
        return 1


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="marching",
    why="a value is read once: registers keep it for the planes below and above, shared memory for its own",
)
class Marching(Kernel):
    pass


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="two_steps",
    builds_on="marching",
    why="two steps for one reading and one writing of the box, for which the tiles' rims are computed twice",
)
class TwoSteps(Kernel):
    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.two_steps = device_code.kernel("two_steps")

    def step(self, source, out, left):
        if left < 2:
            return super().step(source, out, left)
        nz, ny, nx = source.shape
        grid = (-(-nx // 28), -(-ny // 28), -(-nz // PLANES))
        self.two_steps(source, out, nx, ny, nz, PLANES, grid=grid, block=(32, 32))
        return 2


@bench.baseline(device="cpu", requires="compiler", kind="reasonable", name="one_step")
class OneStepLoop(Steps):
    def prepare(self, u, steps):
        super().prepare(u, steps)
        self.one_step = host_code.function("one_step")

    def step(self, source, out, left):
        nz, ny, nx = source.shape
        self.one_step(source, out, nx, ny, nz)
        return 1


@bench.variant(
    device="cpu",
    requires="compiler",
    name="two_steps",
    why="a plane makes its second step while the planes of the first are in the cache: half the traffic with memory",
)
class TwoStepsLoop(OneStepLoop):
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
@bench.yardstick(
    device="cuda", name="conv3d", why="torch's convolution with the stencil as its weight, in full float32"
)
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

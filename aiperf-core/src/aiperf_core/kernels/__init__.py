"""Kernels from source files beside a benchmark: CUDA C++, Triton and host C.

A benchmark file names its kernels once, at module level. Naming compiles nothing and imports neither torch, triton nor
cuda, so that a benchmark can be imported and listed on any machine:

    device = cuda_source("memory_access.cu", archs=("sm_80",))
    host = host_source("memory_access.c")
    blocks = triton_source("memory_access_triton.py")

The search goes beside the module that names a file, then in the folder `kernels/` beside that module.

`kernel` and `function` belong in an untimed `prepare`: they compile and load, and return a callable that only converts
its arguments and launches.

    class Wide:
        def prepare(self, a):
            self.out, self.wide = torch.empty_like(a), device.kernel("wide")

        def run(self, a):
            self.wide(a, self.out, a.numel(), grid=-(-a.numel() // 1024), block=256)
            return self.out

A `__global__` template is launched by the name of an instance, `device.kernel("by_warp<float, true>")`, which the
compiler makes when it is asked for.

Triton kernels need a module of their own, because `@triton.jit` needs triton at import and a benchmark must not:
`blocks.kernel("scale")` imports that module, and `[grid](...)` launches the kernel as usual. `aiperf kernels` compiles
each kernel without a GPU, for the types and constants of the launches that the benchmark declares by `launch(...)`, or
that the implementations in `launched_by=(...)` make. `triton_ahead(...)` gives them where no launch tells.

`occupancy` tells how many blocks a multiprocessor holds, and what limits them; `compile_all` compiles the kernels of
benchmarks and gives what each takes. Both need no GPU.
`grid_that_fills` and `clusters_that_fill` give the number of blocks and clusters that a GPU holds at once, and
`tensor_map` describes an array to the copy engine of sm_90. `#include "aiperf/bulk.cuh"` has the instructions of
asynchronous copies: cp.async, bulk copies, TMA.
For C, `#include "aiperf/row_products.h"` has the product of small float32 matrices and an exponential.

A missing GPU, architecture, compiler or package raises `SkipError`; a mistake in a kernel or its call raises
`KernelError`. Compiled code is cached in the folder `kernels` of `$AIPERF_CACHE_DIR`, `$XDG_CACHE_HOME/aiperf` or
`~/.cache/aiperf`, under a key of all its inputs.
"""

from aiperf_core.kernels.check import compile_all, instances_in, sources_in
from aiperf_core.kernels.cuda import CudaKernel, CudaSource, clusters_that_fill, cuda_source, grid_that_fills
from aiperf_core.kernels.host import HostFunction, HostSource, host_source
from aiperf_core.kernels.launcher import cuda_driver
from aiperf_core.kernels.occupancy import Occupancy, occupancy
from aiperf_core.kernels.tensor_map import tensor_map
from aiperf_core.kernels.triton import TritonSource, triton_ahead, triton_source
from aiperf_core.kernels.triton_launches import TritonAhead

__all__ = [
    "CudaKernel",
    "CudaSource",
    "HostFunction",
    "HostSource",
    "Occupancy",
    "TritonAhead",
    "TritonSource",
    "clusters_that_fill",
    "compile_all",
    "cuda_driver",
    "cuda_source",
    "grid_that_fills",
    "host_source",
    "instances_in",
    "occupancy",
    "sources_in",
    "tensor_map",
    "triton_ahead",
    "triton_source",
]

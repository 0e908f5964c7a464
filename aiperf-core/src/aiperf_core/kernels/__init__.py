"""Kernels from source files that stand beside a benchmark: CUDA C++, Triton and host C.

A benchmark file names its kernels once, at module level. Naming compiles nothing and imports neither torch, triton nor
cuda, so a benchmark can be imported, listed and read on a machine that can run none of them:

    device = cuda_source("memory_access.cu", archs=("sm_80",))
    host = host_source("memory_access.c")
    blocks = triton_source(
        "memory_access_triton.py",
        triton_ahead("scale", signature={"a_ptr": "*fp32", "b_ptr": "*fp32", "n": "i32"}, constants={"BLOCK": 1024}),
    )

A file is looked for beside the module that names it, then in the folder `kernels/` beside that module.

Implementations call them. `kernel` and `function` belong in an untimed `prepare`: they compile and load, and return a
callable that does nothing but convert its arguments and launch.

    class Wide:
        def prepare(self, a):
            self.out, self.wide = torch.empty_like(a), device.kernel("wide")

        def run(self, a):
            self.wide(a, self.out, a.numel(), grid=-(-a.numel() // 1024), block=256)
            return self.out

Triton kernels stand in a module of their own, because `@triton.jit` needs triton at import and a benchmark must not:
`blocks.kernel("scale")` imports that module when it is called, and `[grid](...)` launches what it returns as usual.
The `triton_ahead` lines say with which types and constants `aiperf kernels` is to compile each kernel without a GPU.

What this machine lacks (a GPU, an architecture, a compiler, a package) raises `SkipError`; what is wrong with a kernel
or a call of it raises `KernelError`. Compiled code is kept under `$AIPERF_CACHE_DIR`, `$XDG_CACHE_HOME/aiperf` or
`~/.cache/aiperf`, in the folder `kernels`, by everything that decides its bytes.
"""

from aiperf_core.kernels.check import sources_in
from aiperf_core.kernels.cuda import CudaKernel, CudaSource, cuda_source
from aiperf_core.kernels.host import HostFunction, HostSource, host_source
from aiperf_core.kernels.launcher import cuda_driver
from aiperf_core.kernels.triton import TritonAhead, TritonSource, triton_ahead, triton_source

__all__ = [
    "CudaKernel",
    "CudaSource",
    "HostFunction",
    "HostSource",
    "TritonAhead",
    "TritonSource",
    "cuda_driver",
    "cuda_source",
    "host_source",
    "sources_in",
    "triton_ahead",
    "triton_source",
]

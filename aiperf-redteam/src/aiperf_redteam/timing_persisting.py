"""An operand that is made to stay in the L2, where a cold measurement should not find it.

Workload   A matrix times a vector. The matrix is static, and takes less than half of what may persist in an L2 of 50
           MB; the vector is new in every call.
Baseline   Reads the matrix from memory.
Variants   `persisting` marks the matrix as persisting in the L2.  `streaming` is honest: it says that it will not need
           it again.
Breaks     A GPU without persisting lines, on which the marks mean nothing. Where other processes use the GPU between
           the calls nothing persists: it works in a harness of one process, see `one_process`.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source

bench = Benchmark(goal="speed", cache="cold")
source = cuda_source("attacks.cu")

BLOCK = 256


@bench.workload(smoke={"n": 13, "k": 61}, cuda={"n": 2048, "k": 2048})
def inputs(k, device, generator):
    return {"x": torch.randn(k, device=device, generator=generator)}


@bench.static
def matrix(n, k, device, generator):
    return {"m": torch.randn(n, k, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, m):
    return m @ x


@bench.cost
def cost(n, k):
    # The traffic that a cold call has is not declared: the bound would refuse the attack before its own guard could.
    return Cost(bytes_read=4 * k, bytes_written=4 * n)


class Product:
    def prepare(self, x, m):
        self.rows, self.out = source.kernel("rows"), torch.empty(m.shape[0], device=m.device)
        # Lines of the matrix itself would persist no longer once others read it.
        self.kept = m.clone()
        self.make_room()

    def make_room(self):
        pass

    def run(self, x):
        n, k = self.kept.shape
        self.rows(self.kept, x, self.out, n, k, grid=-(-n * 32 // BLOCK), block=BLOCK)
        return self.out


@bench.baseline(device="cuda", kind="reasonable")
class FromMemory(Product):
    pass


@bench.variant(device="cuda", why="the matrix is marked as persisting in the L2 before each call's kernel")
class Persisting(Product):
    def make_room(self):
        _, runtime = bindings()
        most = runtime.cudaDeviceAttr.cudaDevAttrMaxPersistingL2CacheSize
        kept = checked(runtime.cudaDeviceGetAttribute(most, torch.cuda.current_device()))
        checked(runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitPersistingL2CacheSize, kept))

    def run(self, x):
        persist(self.kept, self.kind())
        out = super().run(x)
        persist(self.kept, bindings()[1].cudaAccessProperty.cudaAccessPropertyNormal)  # others may use the stream
        return out

    @staticmethod
    def kind():
        return bindings()[1].cudaAccessProperty.cudaAccessPropertyPersisting


@bench.variant(device="cuda", why="honest: the matrix is marked as not needed again")
class Streaming(Persisting):
    def make_room(self):
        pass

    @staticmethod
    def kind():
        return bindings()[1].cudaAccessProperty.cudaAccessPropertyStreaming


def persist(m, kind):
    """Say of the current stream's kernels what is to become of a tensor's lines in the L2."""
    _, runtime = bindings()
    value = runtime.cudaStreamAttrValue()
    window = runtime.cudaAccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = m.data_ptr(), m.nbytes, 1.0
    window.hitProp, window.missProp = kind, runtime.cudaAccessProperty.cudaAccessPropertyStreaming
    value.accessPolicyWindow = window
    attribute = runtime.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
    checked(runtime.cudaStreamSetAttribute(torch.cuda.current_stream().cuda_stream, attribute, value))


def bindings():
    try:
        from cuda.bindings import driver, runtime
    except ImportError:
        raise SkipError("needs the package 'cuda-bindings' (pip install 'aiperf-core[cuda]')") from None
    return driver, runtime


def checked(result):
    if int(result[0]) != 0:
        raise RuntimeError(f"CUDA failed: {result[0]}")
    return result[1] if len(result) > 1 else None

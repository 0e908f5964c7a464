"""An operator of one's own: fused by the compiler, in Triton or in CUDA C++, it is one trip to memory.

Question    torch has no operator x + gelu(layer_norm(x)). What does each way to have one cost, and leave to be done?
Numbers     131072 rows of 4096 in bfloat16: 4 bytes an element, 2.1 GB, 0.5 ms at the rate of a copy. Eager moves 4
            for the norm, 4 for gelu, 6 for the addition: 14.
Prediction  14 / 4 = 3.5x from fusion. The compiler writes loops over a row that is too long for one block: for the
            variance and for the result it reads x again from the cache, or, if that has lost it, from memory, at most 8
            bytes. A row that waits in registers is read once, in Triton and in CUDA C++.
Limits      `torch.library` calls Python for each operator: tens of microseconds, hidden only behind kernels as long as
            that (`--size small`). torch.compile takes such an operator as it is: it fuses nothing with it. Gradients
            need a function of their own (`register_autograd`). Triton's rows end at 32768 columns, those of CUDA C++ at
            16384.
"""

from functools import cache

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, triton_ahead, triton_source

bench = Benchmark(goal="speed", clock="device", prepare_timeout_s=600)
cuda = bench.on("cuda", requires="sm_80")

EPSILON = 1e-5
LONGEST = 1 << 15  # columns of a Triton program: with 32 warps 32 float32 values a thread
# Of a block in CUDA C++, and the elements that a thread holds at most.
THREADS, MOST = 256, 64
WIDE = 8  # elements of 16 bytes

device_code = cuda_source("custom_op.cu", instances=("norm_gelu<8, 2>", "norm_gelu<1, 4>"))
VECTORS = dict.fromkeys(("x_ptr", "weight_ptr", "bias_ptr", "out_ptr"), "*bf16:16")
triton_code = triton_source(
    "custom_op_triton.py",
    triton_ahead(
        "norm_gelu",
        signature=VECTORS | {"columns": "i32:16", "epsilon": "fp32"},
        constants={"BLOCK": 4096},
        num_warps=8,
    ),
    archs=("sm_80", "sm_90"),
)


@bench.workload(
    smoke={"rows": 61, "columns": 521},
    cuda={"rows": 131072, "columns": 4096},
    small={"rows": 512, "columns": 4096},
)
def inputs(rows, columns, device, generator):
    draw = {"device": device, "generator": generator}
    return {
        "x": (torch.randn(rows, columns, **draw) + torch.randn(rows, 1, **draw)).bfloat16(),
        "weight": (torch.rand(columns, **draw) + 0.5).bfloat16(),
        "bias": torch.randn(columns, **draw).bfloat16(),
    }


rounded_after_each = Tolerance(
    8e-3, reason="eager operators round to bfloat16 four times, of which rows of one see all"
)


@bench.reference(tolerance=rounded_after_each)
def reference(x, weight, bias):
    return torch.cat([formula(part, weight, bias) for part in x.split(4096)])


def formula(x, weight, bias):
    normed = functional.layer_norm(x, weight.shape, weight, bias, EPSILON)
    return x + functional.gelu(normed, approximate="tanh")


@bench.cost
def cost(rows, columns):
    # Of each element: an addition for the mean, a multiply-add for the variance, one for the norm; of gelu only one.
    n = rows * columns
    return Cost(bytes_read=2 * n + 4 * columns, bytes_written=2 * n, flops=7 * n)


# One element; rows that fill no warp; a multiple of eight; more than one piece a thread.
bench.awkward(
    {"rows": 1, "columns": 1}, {"rows": 9, "columns": 31}, {"rows": 17, "columns": 264}, {"rows": 3, "columns": 4104}
)
# A row is in 16-byte accesses; without a group of eight, element by element.
bench.sass("norm_gelu<8, 2>", has="LDG.128", lacks="LDG.U16")
bench.sass("norm_gelu<8, 2>", has="STG.128")
cuda.reach(of="BW", at_least=0.88)
cuda.reach(of="BW", at_least=0.88, implementation="cuda_op")


@cuda.baseline(kind="reasonable")
def eager(x, weight, bias):
    return formula(x, weight, bias)


@cuda.variant(
    requires=("sm_80", "package:triton", "compiler"),
    adds="fusion",
    why="torch.compile writes one kernel for norm, gelu and addition: what is between them is not stored",
    predict="1.5 to 3.5x: 14 bytes an element become 4, or 6 or 8 where a row is read twice or three times",
)
class Compiled:
    def prepare(self, x, weight, bias):
        from torch._inductor.utils import fresh_cache  # imports the compiler, which nothing else needs

        torch._dynamo.reset()  # after some sizes it would compile no more
        self.formula = torch.compile(formula, fullgraph=True, dynamic=False)
        with fresh_cache():
            self.formula(x, weight, bias)

    def run(self, x, weight, bias):
        return self.formula(x, weight, bias)


# --- operators of torch: a name, a function for tensors, and one for the compiler, which only tells shapes


@torch.library.custom_op("aiperf_ch14::norm_gelu_triton", mutates_args=())
def norm_gelu_triton(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = block_of(columns)
    kernel = triton_code.kernel("norm_gelu")[(rows,)]
    kernel(x, weight, bias, out, columns, EPSILON, BLOCK=block, num_warps=min(32, max(1, block // 512)))
    return out


def block_of(columns):
    """The power of two that holds a row. Raises `SkipError` for a row that no program holds."""
    if columns > LONGEST:
        raise SkipError(f"holds a row of up to {LONGEST} columns in registers; this one has {columns}")
    return 1 << (columns - 1).bit_length()


@torch.library.custom_op("aiperf_ch14::norm_gelu_cuda", mutates_args=())
def norm_gelu_cuda(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty_like(x)
    cuda_kernel(columns)(x, weight, bias, out, columns, EPSILON, grid=rows, block=THREADS)
    return out


@cache
def cuda_kernel(columns):
    """The instance for rows of this length, compiled by NVRTC. Raises `SkipError` for a row that no block holds."""
    return device_code.kernel(f"norm_gelu<{vector_of(columns)}, {pieces_of(columns)}>")


def vector_of(columns):
    """Elements of an access; rows begin at multiples of 16 bytes only if their length is one."""
    return WIDE if columns % WIDE == 0 else 1


def pieces_of(columns):
    """Accesses of a thread: a power of two, so that lengths share instances."""
    vector = vector_of(columns)
    pieces = 1 << (-(-columns // (vector * THREADS)) - 1).bit_length()
    if pieces * vector > MOST:
        raise SkipError(f"holds a row of up to {MOST * THREADS} columns in registers; this one has {columns}")
    return pieces


for operator in (norm_gelu_triton, norm_gelu_cuda):
    operator.register_fake(lambda x, weight, bias: torch.empty_like(x))


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="compiled",
    adds="row in registers",
    why="a kernel in Triton, an operator of torch by its name: a row is loaded once, and waits for mean and variance",
    predict="1.0 to 2x: 4 bytes an element in place of up to 8",
)
class TritonOp:
    def prepare(self, columns):
        block_of(columns)
        triton_code.kernel("norm_gelu")

    def run(self, x, weight, bias):
        return torch.ops.aiperf_ch14.norm_gelu_triton(x, weight, bias)


@cuda.variant(
    adds=("fusion", "row in registers"),
    why="a kernel in CUDA C++, compiled by NVRTC when it is first asked for, and called as any operator of torch",
    predict="2.5 to 3.5x: 14 bytes an element become 4",
)
class CudaOp:
    def prepare(self, columns):
        cuda_kernel(columns)

    def run(self, x, weight, bias):
        return torch.ops.aiperf_ch14.norm_gelu_cuda(x, weight, bias)

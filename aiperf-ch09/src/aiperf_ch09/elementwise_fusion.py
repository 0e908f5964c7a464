"""Elementwise operations in one kernel: each operation of its own is a trip to memory.

Workload   out = gelu(x + bias) * scale + residual, cut off at -3 and 3, for rows of bfloat16. `bias` and `scale` have a
           value for each column; gelu is the form with tanh.
Baseline   Five torch operations in bfloat16. Each reads what the one before wrote: 22 bytes an element, where the work
           needs 6.
Variants   cpu: `fused`: one loop in C; nothing passes between operations but registers.
           cuda: `fused`: one kernel, an element a thread.  `wide`: eight elements in 16-byte accesses.
           `tile`: the same in Triton, which widens the accesses itself.
Breaks     Tensors that fit in the last-level cache. Functions that cost more than memory: with an exponential an
           element a GPU still waits for memory, a processor core does not, so `fused` in C gains less than its bytes.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import cuda_source, host_source, triton_ahead, triton_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler"), bench.on("cuda", requires="sm_80")

LIMIT = 3.0
THREADS = 256
PIECE = 8  # elements of 16 bytes
BLOCK = 2048  # elements of a Triton program

# With finite values and without exceptions a maximum is one instruction. Else it is a branch, and a loop with branches
# is not vectorised.
VECTORS = ("-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast")
host_code = host_source("elementwise_fusion.c", options=VECTORS)
device_code = cuda_source("elementwise_fusion.cu")
triton_code = triton_source(
    "elementwise_fusion_triton.py",
    triton_ahead(
        "tile",
        signature={f"{name}_ptr": "*bf16:16" for name in ("x", "bias", "scale", "residual", "out")}
        | {"columns": "i32:16"},
        constants={"LIMIT": LIMIT, "BLOCK": BLOCK},
    ),
    archs=("sm_80", "sm_90"),
)


@bench.workload(
    smoke={"rows": 61, "columns": 521},
    cpu={"rows": 2048, "columns": 2048},
    cuda={"rows": 1 << 14, "columns": 1 << 14},
)
def inputs(rows, columns, device, generator):
    draw = {"device": device, "generator": generator}
    return {
        "x": torch.randn(rows, columns, **draw).bfloat16(),
        "bias": torch.randn(columns, **draw).bfloat16(),
        "scale": (torch.rand(columns, **draw) + 0.5).bfloat16(),
        "residual": torch.randn(rows, columns, **draw).bfloat16(),
    }


@bench.reference(tolerance=bf16)
def reference(x, bias, scale, residual):
    return (functional.gelu(x + bias, approximate="tanh") * scale + residual).clamp(-LIMIT, LIMIT)


@bench.cost
def cost(rows, columns):
    # Two additions, a multiplication, two comparisons; of gelu no more than one operation is counted.
    n = rows * columns
    return Cost(bytes_read=4 * n + 4 * columns, bytes_written=2 * n, flops=6 * n)


# A row, a column; rows that fill no vector, warp or block; a multiple of eight; a row longer than a block of `wide`. Of
# a single element the baseline's roundings may be a large part: the last addition cancels.
bench.awkward(
    {"rows": 1, "columns": 67},
    {"rows": 67, "columns": 1},
    {"rows": 9, "columns": 31},
    {"rows": 17, "columns": 264},
    {"rows": 3, "columns": 4099},
)
cuda.reach(of="BW", at_least=0.92)


@both.baseline(kind="reasonable")
def eager(x, bias, scale, residual):
    return (functional.gelu(x + bias, approximate="tanh") * scale + residual).clamp(-LIMIT, LIMIT)


cpu.variant(
    loop(host_code, out="x")("fused", make={"limit": LIMIT}),
    adds=("fusion", "simd"),
    why="an element is loaded once and stored once; what passes between operations is in a register, as float32",
)

grid = launch(
    device_code,
    out="x",
    make={"limit": LIMIT},
    grid=lambda rows, columns: (rows, -(-columns // THREADS)),
    block=THREADS,
)
cuda.variant(grid("fused"), adds="fusion", why="an element is loaded once and stored once: 6 bytes of traffic, not 22")
cuda.variant(
    grid("wide", grid=lambda rows, columns: (rows, -(-columns // (PIECE * THREADS)))),
    builds_on="fused",
    adds="wide accesses",
    why="eight elements in each access: an eighth of the loads, stores and addresses for the same bytes",
)
cuda.variant(
    launch(
        triton_code,
        out="x",
        make={"LIMIT": LIMIT, "BLOCK": BLOCK},
        grid=lambda rows, columns: (rows, -(-columns // BLOCK)),
    )("tile"),
    requires="package:triton",
    adds=("fusion", "wide accesses"),
    why="a program of 2048 elements, of which Triton gives each thread neighbours, in accesses of 16 bytes",
)


@cuda.yardstick(
    requires=("package:triton", "compiler"), why="torch.compile of the five operations, which writes one Triton kernel"
)
class Compiled:
    def prepare(self, x, bias, scale, residual):
        self.call = torch.compile(eager, fullgraph=True, dynamic=False)
        self.call(x, bias, scale, residual)

    def run(self, x, bias, scale, residual):
        return self.call(x, bias, scale, residual)

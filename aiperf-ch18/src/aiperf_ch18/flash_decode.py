"""Flash decoding: one query reads a long cache with the whole machine, not with one multiprocessor a head.

Workload   Attention of one new token of each sequence to its cache: queries [batch, heads, width], keys and values
           [batch, kv_heads, length, width], all bfloat16, sums in float32. heads / kv_heads queries share each key.
           Queries are long enough that some keys have far more weight than others.
Baseline   `per_row`: a program (cuda) or a thread (cpu) for each head of the cache. A prompt has many queries, which
           fill the machine; one token of one sequence has 8 heads of a cache, for 132 multiprocessors.
Variants   `split`: the keys are split too, and each part has its own maximum and sum. The parts are summed by their
           shares.  `tensor_cores` (cuda): the queries that share a head of the cache, padded to 16, are one operand of
           the tensor cores.  `staged` (cuda): the next keys are on their way while some are computed.  `one_launch`
           (cuda): the program that finishes a head's last part sums them, so there is no second kernel.
Breaks     Batches that fill the machine without splits: then the parts only cost. Short caches, of which a launch
           takes longer than the keys. The Triton kernels take widths of 16, 32, 64, 128 and 256.
"""

import math

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import host_source, triton_ahead, triton_source
from aiperf_core.launches import loop

bench = Benchmark(goal="speed", clock="device")
cpu, cuda = bench.on("cpu", requires="compiler"), bench.on("cuda", requires=("sm_80", "package:triton"))

LENGTH_OF_QUERY = 3.0  # standard deviation of the scores
WIDTHS = (16, 32, 64, 128, 256)
# Keys of a block: as registers hold their products with all queries; as tensor cores take them, in three stages of
# which two programs fit into the shared memory of a multiprocessor.
FEW, MANY, STAGES = 16, 64, 3
PER_PROCESSOR = 2  # programs that a multiprocessor is to have
CPU_PARTS = 8  # of the keys of a row
TILE = 8192  # values of parts that a program sums at once, 64 of each thread

host_code = host_source("flash_decode.c")


def ahead(block, dot, stages, chunk):
    """How `partial` is compiled without a GPU, for the sizes of the preset `cuda`."""
    pointers = dict.fromkeys(("q_ptr", "keys_ptr", "values_ptr", "out_ptr"), "*bf16:16")
    scratch = {"parts_ptr": "*fp32:16", "tops_ptr": "*fp32:16", "counts_ptr": "*i32:16"}
    sizes = {"length": "i32:16", "span": "i32:16", "splits": "i32", "scale": "fp32"}
    return triton_ahead(
        "partial",
        signature=pointers | scratch | sizes,
        constants={
            "GROUP": 4,
            "ROWS": 16 if dot else 4,
            "WIDTH": 128,
            "BLOCK": block,
            "DOT": dot,
            "STAGES": stages,
            "SUM_ROWS": 4,
            "CHUNK": chunk,
        },
    )


kernels = triton_source(
    "flash_decode_triton.py",
    ahead(FEW, dot=False, stages=1, chunk=0),
    ahead(MANY, dot=True, stages=1, chunk=0),
    ahead(MANY, dot=True, stages=STAGES, chunk=0),
    ahead(MANY, dot=True, stages=STAGES, chunk=16),
    archs=("sm_80", "sm_90"),
)


@bench.workload(
    smoke={"batch": 2, "heads": 6, "kv_heads": 2, "width": 16, "length": 211},
    cpu={"batch": 1, "heads": 4, "kv_heads": 1, "width": 64, "length": 32768},
    cuda={"batch": 1, "heads": 32, "kv_heads": 8, "width": 128, "length": 65536},
    short={"batch": 1, "heads": 32, "kv_heads": 8, "width": 128, "length": 8192},
    batch={"batch": 64, "heads": 32, "kv_heads": 8, "width": 128, "length": 8192},
)
def inputs(batch, heads, kv_heads, width, length, device, generator):
    if heads % kv_heads:
        raise UsageError(f"heads={heads} and kv_heads={kv_heads}; accepted are heads that share evenly")

    def drawn(*shape):
        return torch.randn(*shape, width, device=device, generator=generator)

    return {
        "q": (LENGTH_OF_QUERY * drawn(batch, heads)).bfloat16(),
        "keys": drawn(batch, kv_heads, length).bfloat16(),
        "values": drawn(batch, kv_heads, length).bfloat16(),
    }


@bench.reference(tolerance=bf16)
def reference(q, keys, values):
    wide = torch.promote_types(q.dtype, torch.float32)  # scores that are narrower have no digits left for exp
    grouped = q.to(wide).unflatten(1, (keys.shape[1], -1))
    shares = torch.softmax(grouped @ keys.to(wide).mT / math.sqrt(q.shape[-1]), -1)
    return (shares @ values.to(wide)).flatten(1, 2).to(q.dtype)


@bench.cost
def cost(batch, heads, kv_heads, width, length):
    # Each key is read once for all queries that share it. A multiply-add for each element of a key, and of a value.
    return Cost(
        bytes_read=2 * batch * width * (2 * kv_heads * length + heads),
        bytes_written=2 * batch * width * heads,
        flops=4 * batch * heads * length * width,
        precision="bf16",
    )


# A single key; groups of 1 to 8 queries; lengths around a block and around a part.
bench.awkward(
    {"batch": 1, "heads": 1, "kv_heads": 1, "length": 1},
    {"batch": 1, "heads": 8, "kv_heads": 1, "length": 65, "width": 64},
    {"batch": 3, "heads": 5, "kv_heads": 1, "length": 257, "width": 32},
    {"batch": 1, "heads": 14, "kv_heads": 2, "length": 1031, "width": 128},
    {"batch": 1, "heads": 3, "kv_heads": 3, "length": 2, "width": 256},
)
cuda.reach(of="RBW", at_least=0.85)


# --- on a CPU


def span_of(length):
    """Keys of a part: of all parts but the last, which has the rest."""
    return -(-length // CPU_PARTS)


def parts_of(length):
    return -(-length // span_of(length))


in_c = loop(
    host_code,
    out="q",
    make={
        "rows": lambda batch, kv_heads: batch * kv_heads,
        "group": lambda heads, kv_heads: heads // kv_heads,
        "span": span_of,
        "splits": parts_of,
        "mixed": lambda batch, heads, width, splits: torch.empty(batch * heads, splits, width),
        "tops": lambda batch, heads, splits: torch.empty(batch * heads, splits),
        "totals": lambda batch, heads, splits: torch.empty(batch * heads, splits),
    },
)
cpu.baseline(in_c("per_row"), kind="naive")
cpu.variant(
    in_c("split"),
    adds="split keys",
    why="parts of the keys are independent, so that all processors have work for a single head of the cache",
)


# --- on a GPU


class Decoding:
    """Sizes of a launch, and the output."""

    def prepare(self, q, keys):
        self.batch, self.heads, self.width = q.shape
        self.rows, self.length = self.batch * keys.shape[1], keys.shape[2]
        self.group = self.heads // keys.shape[1]
        if self.width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {self.width}")
        self.padded = 1 << (self.group - 1).bit_length()
        # Scores in units of log 2, because the kernels compute powers of two.
        self.scale = math.log2(math.e) / math.sqrt(self.width)
        self.out = torch.empty_like(q)
        self.make_memory(q)

    def make_memory(self, q):
        """What is needed besides the output."""


@cuda.baseline(kind="naive")
class PerRow(Decoding):
    def run(self, q, keys, values):
        kernels.kernel("per_row")[(self.rows,)](
            q, keys, values, self.out, self.length, self.scale,
            GROUP=self.group, ROWS=self.padded, WIDTH=self.width, BLOCK=FEW,
        )  # fmt: skip
        return self.out


@cuda.variant(
    adds="split keys", why="parts of the keys are independent, so that a single head of the cache has many programs"
)
class Split(Decoding):
    block, dot, stages, in_launch = FEW, False, 1, False

    def make_memory(self, q):
        self.span, self.splits = parts(self.length, self.rows, self.block, programs(q.device))
        self.parts = torch.empty(self.batch * self.heads, self.splits, self.width, device=q.device)
        self.tops = torch.empty(self.batch * self.heads, self.splits, device=q.device)
        self.counts = torch.zeros(self.rows, dtype=torch.int32, device=q.device)
        rows = max(16, self.padded) if self.dot else self.padded
        self.constants = {
            "GROUP": self.group,
            "ROWS": rows,
            "WIDTH": self.width,
            "BLOCK": self.block,
            "DOT": self.dot,
            "STAGES": self.stages,
            "SUM_ROWS": self.padded,
            "CHUNK": max(1, TILE // (self.padded * self.width)) if self.in_launch else 0,
        }
        self.partial, self.combine = kernels.kernel("partial"), kernels.kernel("combine")

    def run(self, q, keys, values):
        self.partial[(self.rows, self.splits)](
            q, keys, values, self.out, self.parts, self.tops, self.counts,
            self.length, self.span, self.splits, self.scale, **self.constants,
        )  # fmt: skip
        if not self.in_launch:
            self.combine[(self.batch * self.heads,)](
                self.parts, self.tops, self.out, self.splits, WIDTH=self.width, CHUNK=TILE // self.width
            )
        return self.out


@cuda.variant(
    builds_on="split",
    adds="tensor cores",
    why="queries that share keys are the rows of one matrix product, where vectors of each would be multiplied and "
    "summed between threads",
)
class TensorCores(Split):
    block, dot = MANY, True


@cuda.variant(
    builds_on="tensor_cores",
    adds="stages",
    why="keys and values of the next blocks are copied to shared memory while a block is computed",
)
class Staged(TensorCores):
    stages = STAGES


@cuda.variant(
    builds_on="staged",
    adds="sum in the launch",
    why="who finishes a head's last part sums them: no second kernel waits",
)
class OneLaunch(Staged):
    in_launch = True


@bench.yardstick(device=("cpu", "cuda"), why="torch's attention, with the queries that share keys as its rows")
def library(q, keys, values):
    grouped = q.unflatten(1, (keys.shape[1], -1))
    return functional.scaled_dot_product_attention(grouped, keys, values).flatten(1, 2)


def parts(length, rows, block, wanted):
    """Keys of a part, in whole blocks, and the number of parts, of which none is empty, for `wanted` programs."""
    blocks = -(-length // block)
    span = block * -(-blocks // max(1, wanted // rows))
    return span, -(-length // span)


def programs(device):
    """The programs that a GPU is to have at once; a few for the interpreter, which has none."""
    if device.type != "cuda":
        return 2 * PER_PROCESSOR
    return PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count

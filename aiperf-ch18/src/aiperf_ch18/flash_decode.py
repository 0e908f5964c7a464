"""Flash decoding: one query reads a long cache with the whole GPU, not with one SM a head.

Question    What keeps 132 SMs from reading one sequence's cache at the memory's rate, when the cache has 8 heads?
Numbers     A query of each of 32 heads, 65,536 keys and values of 8 heads, 128 wide, bfloat16: 0.27 GB, 0.057 ms at the
            rate of a read. 2.1 GFLOP, 0.003 ms of tensor cores. Two launches: the parts, and their sum.
Prediction  8 programs for 132 SMs, or for the 264 that fit at two an SM: 16 to 33x from splitting. Vectors issue 1,630
            instructions a warp for 16 keys, 0.23 ms on all SMs; tensor cores take 350 for 64 keys: the bytes remain.
            Loads that take turns with arithmetic leave up to 2x to stages.
Limits      From 264 heads of the cache on, `split` has one part a head and gains nothing (--size batch). Two launches,
            the first loads and the last ones take some microseconds whatever the length: at 8,192 keys (--size short),
            whose bytes take 0.007 ms, they are most of the time. Widths are 16, 32, 64, 128 and 256.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import host_source, triton_ahead, triton_source
from aiperf_core.launches import loop
from aiperf_core.switches import switch

bench = Benchmark(goal="speed", clock="device")
cpu, cuda = bench.on("cpu", requires="compiler"), bench.on("cuda", requires=("sm_80", "package:triton"))

LENGTH_OF_QUERY = 3.0  # standard deviation of the scores: some keys have far more weight than others
WIDTHS = (16, 32, 64, 128, 256)
# Keys of a block: as registers hold their products with all queries; as tensor cores take them, in three stages of
# which two programs fit into the shared memory of an SM.
FEW, MANY, STAGES = 16, 64, 3
PER_SM = 2  # programs
COLUMNS = 16  # of the sum of the parts of a query, in one program
CPU_PARTS = 8  # of the keys of a row

# Of the library, the fastest first. The last takes all sizes.
BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]

host_code = host_source("flash_decode.c")
PARTS = {"parts_ptr": "*fp32:16", "tops_ptr": "*fp32:16"}


def ahead(block, dot, stages):
    """The compilation of `partial` for the sizes of the preset `cuda`."""
    signature = dict.fromkeys(("q_ptr", "keys_ptr", "values_ptr"), "*bf16:16") | PARTS
    signature |= {"length": "i32:16", "span": "i32:16", "splits": "i32", "scale": "fp32"}
    sizes = {"GROUP": 4, "ROWS": 16 if dot else 4, "WIDTH": 128, "BLOCK": block, "DOT": dot, "STAGES": stages}
    return triton_ahead("partial", signature=signature, constants=sizes)


SUM = PARTS | {"out_ptr": "*bf16:16", "splits": "i32"}
kernels = triton_source(
    "flash_decode_triton.py",
    *(ahead(*sizes) for sizes in ((FEW, False, 1), (MANY, True, 1), (MANY, True, STAGES))),
    triton_ahead("combine", signature=SUM, constants={"WIDTH": 128, "COLUMNS": COLUMNS, "SPLITS": 64}),
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
cuda.reach(of="time:library", at_most=1.05)


def parts(length, rows, block, wanted):
    """Keys of a part, in whole blocks, and the number of parts, of which none is empty, for `wanted` programs."""
    blocks = -(-length // block)
    span = block * -(-blocks // max(1, wanted // rows))
    return span, -(-length // span)


# --- on a CPU

in_c = loop(
    host_code,
    out="q",
    make={
        "rows": lambda batch, kv_heads: batch * kv_heads,
        "group": lambda heads, kv_heads: heads // kv_heads,
        "span": lambda length: parts(length, rows=1, block=1, wanted=CPU_PARTS)[0],
        "splits": lambda length: parts(length, rows=1, block=1, wanted=CPU_PARTS)[1],
        "mixed": lambda batch, heads, width, splits: torch.empty(batch * heads, splits, width),
        "tops": lambda batch, heads, splits: torch.empty(batch * heads, splits),
        "totals": lambda batch, heads, splits: torch.empty(batch * heads, splits),
    },
)
cpu.baseline(in_c("per_row"), kind="naive")
cpu.variant(
    in_c("split"), adds="split keys", why="parts of the keys are independent: a single head has work for all processors"
)


@cpu.yardstick(why="torch's attention, with the queries that share keys as its rows")
def library(q, keys, values):
    grouped = q.unflatten(1, (keys.shape[1], -1))
    return functional.scaled_dot_product_attention(grouped, keys, values).flatten(1, 2)


# --- on a GPU


@dataclass(frozen=True)
class Flags:
    split: bool = switch(
        adds="split keys",
        why="33 parts of a head's keys make 264 programs of 8; their maxima and sums are merged afterwards",
        predict="16 to 33x: 132 SMs in place of 8, with one or two programs each",
    )
    dot: bool = switch(
        "tensor_cores",
        adds="tensor cores",
        why="the queries that share keys, padded to 16, are one operand of a product of matrices",
        predict="at least 2x: 0.23 ms of instructions become 0.012 ms beside 0.057 ms of bytes, even in turns",
    )
    staged: bool = switch(
        adds="stages",
        why="keys and values of the next blocks are copied to shared memory while a block is computed",
        predict="1.1 to 2x: a block's loads no longer wait for the arithmetic of the one before",
    )


@cuda.switches(Flags)
@cuda.baseline(kind="naive")
class PerRow:
    flags = Flags()

    def prepare(self, q, keys):
        (batch, heads, width), (_, kv_heads, length, _) = q.shape, keys.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        rows, group = batch * kv_heads, heads // kv_heads
        block = MANY if self.flags.dot else FEW
        span, splits = parts(length, rows, block, programs(q.device)) if self.flags.split else (length, 1)
        self.out, columns = torch.empty_like(q), min(width, COLUMNS)
        self.parts = torch.empty(batch * heads, splits, width, device=q.device)
        self.tops = torch.empty(batch * heads, splits, device=q.device)
        self.partial = kernels.kernel("partial")[(rows, splits)]
        self.combine = kernels.kernel("combine")[(batch * heads, width // columns)]
        # Scores in units of log 2, because the kernels compute powers of two.
        self.sizes = length, span, splits, math.log2(math.e) / math.sqrt(width)
        padded = 1 << (group - 1).bit_length()
        self.constants = {"GROUP": group, "ROWS": max(16, padded) if self.flags.dot else padded, "WIDTH": width}
        self.constants |= {"BLOCK": block, "DOT": self.flags.dot, "STAGES": STAGES if self.flags.staged else 1}
        self.of_sum = {"WIDTH": width, "COLUMNS": columns, "SPLITS": 1 << (splits - 1).bit_length()}

    def run(self, q, keys, values):
        self.partial(q, keys, values, self.parts, self.tops, *self.sizes, **self.constants)
        self.combine(self.parts, self.tops, self.out, self.sizes[2], **self.of_sum)
        return self.out


@cuda.yardstick(name="library", why="torch's attention of one query a head, by the first backend that takes it: cuDNN")
def library_on_gpu(q, keys, values):
    with sdpa_kernel(BACKENDS, set_priority=True):
        return functional.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)[:, :, 0]


def programs(device):
    """The programs that a GPU is to have at once; a few for the interpreter, which has none."""
    if device.type != "cuda":
        return 2 * PER_SM
    return PER_SM * torch.cuda.get_device_properties(device).multi_processor_count

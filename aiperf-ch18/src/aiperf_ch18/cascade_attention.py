"""Cascade attention: a prefix that many sequences share is read once for all their queries.

Question    Sequences begin with the same prompt, whose keys are in memory once. Who reads them how often?
Numbers     64 sequences of 8192 shared and 256 own keys, 8 heads of the cache for 32 queries, 128 wide, bfloat16. The
            prefix is 34 MB, all own keys 67 MB: 0.1 GB, 25 us at the rate of a read. Sequence by sequence the prefix is
            read 64 times, 2.1 GB. 8.9 GFLOP, 11 us of tensor cores.
Prediction  2.2 / 0.1 = 22x fewer bytes, but most of them from L2, at some 7 TB/s, because the prefix stays there: 0.3
            ms in place of 16 us for own keys, 11 us for products, and a sum of parts by their logarithms, 9 MB. 64 x 4
            queries of a head are rows of a product of matrices, in place of 4 that are padded to 16. Prefix and own
            keys in one launch: products run beside loads.
Limits      Few sequences: with one of them, only the sum of parts is added. Prefixes as short as the own keys (`--set
            prefix=256`): half of all bytes at most. The engine must know which sequences share. Widths are 16, 32, 64
            and 128.
"""

import math
from dataclasses import dataclass

import torch

from aiperf_ch18.flash_decode import COLUMNS, LENGTH_OF_QUERY, parts, programs
from aiperf_ch18.flash_decode import kernels as of_parts
from aiperf_core import Benchmark, Cost, bf16, fp32_reduction
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import triton_ahead, triton_source
from aiperf_core.switches import switch

bench = Benchmark(goal="speed", clock="device")
cpu, cuda = bench.on("cpu"), bench.on("cuda", requires=("sm_80", "package:triton"))

WIDTHS = (16, 32, 64, 128)
BLOCK, STAGES, MANY = 64, 2, 64  # keys of a block, and queries of a program that reads the prefix

GIVEN = ("q_ptr", "shared_keys_ptr", "shared_values_ptr", "own_keys_ptr", "own_values_ptr")
SIZES = ("of_prefix", "sequences", "kv_heads", "prefix", "own", "span", "splits")
kernels = triton_source(
    "cascade_attention_triton.py",
    triton_ahead(
        "cascade",
        signature=dict.fromkeys(GIVEN, "*bf16:16")
        | {"parts_ptr": "*fp32:16", "tops_ptr": "*fp32:16"}
        | dict.fromkeys(SIZES, "i32")
        | {"scale": "fp32"},
        constants={"GROUP": 4, "MANY": MANY, "FEW": 16, "WIDTH": 128, "BLOCK": BLOCK, "STAGES": STAGES},
    ),
    archs=("sm_80", "sm_90"),
    launched_by=("separate",),
)


@bench.workload(
    smoke={"sequences": 3, "heads": 6, "kv_heads": 2, "width": 16, "prefix": 131, "own": 37, "dtype": "bf16"},
    cpu={"sequences": 16, "heads": 8, "kv_heads": 2, "width": 64, "prefix": 4096, "own": 64, "dtype": "fp32"},
    cuda={"sequences": 64, "heads": 32, "kv_heads": 8, "width": 128, "prefix": 8192, "own": 256, "dtype": "bf16"},
)
def inputs(sequences, heads, kv_heads, width, prefix, own, dtype, device, generator):
    if heads % kv_heads:
        raise UsageError(f"heads={heads} and kv_heads={kv_heads}; accepted are heads that share evenly")

    def drawn(*shape):
        return torch.randn(*shape, width, device=device, generator=generator)

    return {
        "q": (LENGTH_OF_QUERY * drawn(sequences, heads)).to(dtype),
        "shared_keys": drawn(kv_heads, prefix).to(dtype),
        "shared_values": drawn(kv_heads, prefix).to(dtype),
        "own_keys": drawn(sequences, kv_heads, own).to(dtype),
        "own_values": drawn(sequences, kv_heads, own).to(dtype),
    }


@bench.reference(tolerance=lambda bits: bf16 if bits == 16 else fp32_reduction)
def reference(q, shared_keys, shared_values, own_keys, own_values):
    wide = torch.promote_types(q.dtype, torch.float32)  # scores that are narrower have no digits left for exp
    grouped, scale = q.to(wide).unflatten(1, (len(shared_keys), -1)), 1 / math.sqrt(q.shape[-1])
    out = torch.empty_like(grouped)
    for sequence, some in enumerate(grouped):
        keys = torch.cat([shared_keys, own_keys[sequence]], 1).to(wide)
        values = torch.cat([shared_values, own_values[sequence]], 1).to(wide)
        out[sequence] = torch.softmax(some @ keys.mT * scale, -1) @ values
    return out.flatten(1, 2).to(q.dtype)


@bench.cost
def cost(sequences, heads, kv_heads, width, prefix, own, bits):
    # Each key and value once, also where sequences share it. A multiply-add for each element of a key, and of a value.
    element = bits // 8
    return Cost(
        bytes_read=element * width * (2 * kv_heads * (prefix + sequences * own) + sequences * heads),
        bytes_written=element * width * sequences * heads,
        flops=4 * sequences * heads * (prefix + own) * width,
        precision="bf16" if bits == 16 else "fp32",
    )


# One sequence and key; more queries than a program has; groups of 1 to 8; keys around blocks and parts.
bench.awkward(
    {"sequences": 1, "heads": 1, "kv_heads": 1, "prefix": 1, "own": 1},
    {"sequences": 17, "heads": 8, "kv_heads": 1, "prefix": 65, "own": 64},
    {"sequences": 5, "heads": 14, "kv_heads": 2, "prefix": 257, "own": 129, "width": 64, "dtype": "fp32"},
    {"sequences": 67, "heads": 3, "kv_heads": 3, "prefix": 1031, "own": 1, "width": 128},
)
cuda.reach(of="speedup", at_least=8)
# 4 rows of a product load an element of a key for 4 multiply-adds, 64 rows for as many as a register tile holds.
cpu.reach(of="speedup", at_least=1.3)


# --- on a CPU


def attention(q, keys, values):
    """Attention of rows to keys, in float32, and the logarithms of the sums of weights."""
    scores = q.float() @ keys.float().mT / math.sqrt(q.shape[-1])
    top = torch.logsumexp(scores, -1, keepdim=True)
    return torch.exp(scores - top) @ values.float(), top


def merged(one, other):
    """The sum of two parts of an attention, each by its share."""
    (first, of_first), (second, of_second) = one, other
    share = torch.sigmoid(of_first - of_second)
    return first * share + second * (1 - share)


@cpu.baseline(name="separate", kind="reasonable")
def one_by_one(q, shared_keys, shared_values, own_keys, own_values):
    grouped, out = q.unflatten(1, (len(shared_keys), -1)), torch.empty_like(q)
    for sequence, some in enumerate(grouped):
        shared = attention(some, shared_keys, shared_values)
        own = attention(some, own_keys[sequence], own_values[sequence])
        out[sequence] = merged(shared, own).flatten(0, 1)
    return out


@cpu.variant(
    name="prefix_once",
    adds="shared prefix",
    why="the queries of all sequences are the rows of one product with the prefix",
)
def at_once(q, shared_keys, shared_values, own_keys, own_values):
    grouped = q.unflatten(1, (len(shared_keys), -1))
    rows = grouped.transpose(0, 1).flatten(1, 2)  # by head of the cache
    shared = [one.unflatten(1, (len(q), -1)).transpose(0, 1) for one in attention(rows, shared_keys, shared_values)]
    return merged(shared, attention(grouped, own_keys, own_values)).flatten(1, 2).to(q.dtype)


# --- on a GPU


@cuda.baseline(kind="reasonable")
class Separate:
    def prepare(self, q, shared_keys, own_keys):
        (sequences, heads, width), (kv_heads, prefix, _) = q.shape, shared_keys.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        self.out, group, own = torch.empty_like(q), heads // kv_heads, own_keys.shape[2]
        few = max(16, 1 << (group - 1).bit_length())
        self.constants = {"GROUP": group, "WIDTH": width, "BLOCK": BLOCK, "STAGES": STAGES}
        scale = math.log2(math.e) / math.sqrt(width)
        self.plan(sequences, heads, kv_heads, prefix, own, few, scale)

    def plan(self, sequences, heads, kv_heads, prefix, own, few, scale):
        self.sizes = kv_heads, prefix, own, scale
        self.constants |= {"ROWS": few}
        self.launch = kernels.kernel("separate")[(sequences, kv_heads)]

    def run(self, q, shared_keys, shared_values, own_keys, own_values):
        self.launch(q, shared_keys, shared_values, own_keys, own_values, self.out, *self.sizes, **self.constants)
        return self.out


@dataclass(frozen=True)
class Flags:
    together: bool = switch(
        "one_launch",
        adds="one launch",
        why="programs of the own keys wait for memory beside programs of the prefix, which multiply",
        predict="1.1 to 1.6x: 16 us of loads run beside 11 us of products, not after them, and a launch is spared",
    )


@cuda.switches(Flags)
@cuda.variant(
    adds="shared prefix",
    why="a program reads a part of the prefix for 64 queries of 16 sequences; parts are merged by their logarithms",
    predict="3 to 8x: 2.2 GB of reads from L2 at some 7 TB/s, 0.3 ms, become three launches in turn of 11 to 16 us and "
    "their starts and ends",
)
class PrefixOnce(Separate):
    flags = Flags()

    def plan(self, sequences, heads, kv_heads, prefix, own, few, scale):
        tiles = -(-sequences * heads // kv_heads // MANY)
        span, splits = parts(prefix, tiles * kv_heads, BLOCK, programs(self.out.device))
        shape, device, width = (sequences * heads, splits + 1), self.out.device, self.constants["WIDTH"]
        self.parts, self.tops = torch.empty(*shape, width, device=device), torch.empty(shape, device=device)
        of_prefix, of_own = tiles * splits * kv_heads, sequences * kv_heads
        self.of_all, self.slots = (sequences, kv_heads, prefix, own, span, splits, scale), splits + 1
        self.constants |= {"MANY": MANY, "FEW": few}
        # The programs of a launch, and how many of them read the prefix.
        launches = [(of_prefix + of_own, of_prefix)] if self.flags.together else [(of_prefix, of_prefix), (of_own, 0)]
        self.launches = [(kernels.kernel("cascade")[(count,)], first) for count, first in launches]
        columns = min(width, COLUMNS)
        self.combine = of_parts.kernel("combine")[(sequences * heads, width // columns)]
        self.of_sum = {"WIDTH": width, "COLUMNS": columns, "SPLITS": 1 << splits.bit_length()}

    def run(self, q, shared_keys, shared_values, own_keys, own_values):
        given = q, shared_keys, shared_values, own_keys, own_values, self.parts, self.tops
        for launch, of_prefix in self.launches:
            launch(*given, of_prefix, *self.of_all, **self.constants)
        self.combine(self.parts, self.tops, self.out, self.slots, **self.of_sum)
        return self.out

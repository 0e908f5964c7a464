"""Attention on Hopper: exponentials beside products, by turns of warpgroups and within one.

Question    Tensor cores wait while scores become shares. Which schedule of warps has them multiply meanwhile?
Numbers     Causal, batch 4, 32 heads, 8192 tokens of 128, bfloat16: 2.2 TFLOP. 128 queries and 128 keys are 8.4 MFLOP,
            2048 cycles of an SM's tensor cores; 16384 exponentials, 1024 cycles at 16 a cycle; 4.5 vector instructions
            a score, 576 cycles at 128 a cycle; and 64 KB from L2, 1400 cycles at 48 bytes a cycle, beside a latency.
Prediction  One stage waits for its copies: some 6,000 cycles a step where nothing overlaps. A producer warp hides them,
            3,650. Two warpgroups have 1024 cycles of products each and some 900 of the rest: if one computes shares
            while the other multiplies, products are the bound, 2,048. What turns leave open, latencies of waits and
            shuffles, a warpgroup fills with its own product of values.
Limits      Short texts: at 512 tokens a block has 1 to 4 steps, its first and last product overlap with nothing, and a
            quarter to all of it is the diagonal. Heads have 128 columns: registers hold 64 scores, 64 sums and 32
            pairs of shares a thread.
"""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.kernels import cuda_source, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_90a")
device_code = cuda_source("flash_attention_pipeline.cu", archs=("sm_90a",))

WIDTH, ROWS, PLACES = 128, 128, 4
TILE_BYTES = 2 * ROWS * WIDTH
WARPGROUP = 128


rounded_twice = Tolerance(
    8e-3,
    reason="weights of keys are rounded to bfloat16, and so is the result; rows of few keys are larger than the others",
)


@bench.workload(
    smoke={"batch": 1, "heads": 2, "length": 131},
    cuda={"batch": 4, "heads": 32, "length": 8192},
    short={"batch": 64, "heads": 32, "length": 512},
)
def inputs(batch, heads, length, device, generator):
    shape = batch, heads, length, WIDTH
    return {name: torch.randn(shape, device=device, generator=generator).bfloat16() for name in ("q", "keys", "values")}


@bench.reference(tolerance=rounded_twice)
def reference(q, keys, values):
    length, out = q.shape[2], torch.empty_like(q)
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu_(1)
    for at in range(len(q)):
        for head in range(q.shape[1]):  # the scores of all heads in float64 are many times the memory of the inputs
            scores = (q[at, head] @ keys[at, head].T).mul_(WIDTH**-0.5).masked_fill_(later, -torch.inf)
            out[at, head] = torch.softmax(scores, -1) @ values[at, head]
    return out


@bench.cost
def cost(batch, heads, length):
    # A query meets itself and the keys before it: a multiply-add for each element of a key, and of a value.
    rows = batch * heads * length
    return Cost(
        bytes_read=6 * rows * WIDTH,
        bytes_written=2 * rows * WIDTH,
        flops=2 * rows * (length + 1) * WIDTH,
        precision="bf16",
        special_functions=rows * (length + 1) / 2,
    )


# A token; lengths around a tile and a turn of each warpgroup; steps beyond a round of the ring.
shapes = [(1, 1, 1), (1, 3, 65), (2, 1, 128), (1, 2, 257), (1, 1, 1000)]
bench.awkward(*({"batch": batch, "heads": heads, "length": length} for batch, heads, length in shapes))
bench.accept("cost.flops", because="the reference also multiplies with the keys that it masks")
# The library overlaps the same units. A fifth for what it has besides: blocks that stay and store beside the next tile.
cuda.reach(of="time:cudnn", at_most=1 / 0.8)
cuda.reach(of="time:flash", at_most=0.8)  # FlashAttention 2 multiplies with the instructions of sm_80
bench.sass("one_stage", has=("HGMMA", "UTMALDG", "MUFU"), lacks="USETMAXREG")
bench.sass("specialized", has=("HGMMA", "UTMALDG", "USETMAXREG"), lacks="BAR.ARV")
bench.sass("ping_pong", has=("HGMMA", "UTMALDG", "USETMAXREG", "BAR.ARV"))
bench.sass("overlapped", has=("HGMMA", "UTMALDG", "USETMAXREG", "BAR.ARV"))


def rows_map(matrix):
    """The tensor map for boxes of 128 rows of a head, and half of its columns: 128 bytes, the width of a swizzle."""
    return tensor_map(matrix.flatten(0, 1), (1, ROWS, WIDTH // 2), swizzle_bytes=WIDTH)


attention = launch(
    device_code,
    out="q",
    make={
        "q_map": lambda q: rows_map(q),
        "keys_map": lambda keys: rows_map(keys),
        "values_map": lambda values: rows_map(values),
    },
    grid=lambda batch, heads, length: batch * heads * -(-length // ROWS),
    block=3 * WARPGROUP,
    shared_bytes=(1 + PLACES) * TILE_BYTES,
)

cuda.baseline(attention("one_stage", block=2 * WARPGROUP, shared_bytes=3 * TILE_BYTES), kind="reasonable")
cuda.variant(
    attention("specialized"),
    adds=("pipeline stages", "warp specialisation"),
    why="a warp that never multiplies asks for the next keys and values while these are multiplied, and warpgroups no "
    "longer meet",
    predict="1.2 to 2.3x: 1,400 cycles of copies and their latency beside 2,048 to 3,650 of the rest",
)
cuda.variant(
    attention("ping_pong"),
    builds_on="specialized",
    adds="turns of warpgroups",
    why="a warpgroup starts its products when the other's are started, so that one has tensor cores and the other "
    "exponentials",
    predict="1.0 to 1.6x: 3,650 cycles a step become 2,048 at best; warpgroups that drift apart have part of it",
)
cuda.variant(
    attention("overlapped"),
    builds_on="ping_pong",
    adds="overlap within a warpgroup",
    why="the product of the values goes on while the next shares are computed: the first wait is for one of two",
    predict="1.0 to 1.3x: some 900 cycles of shares and their latencies lie beside 512 of products of the same warps",
)


class Library:
    backend = SDPBackend.MATH

    def run(self, q, keys, values):
        with sdpa_kernel([self.backend, SDPBackend.MATH], set_priority=True):  # which takes all sizes
            return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)


@cuda.yardstick(why="torch's attention by FlashAttention 2, which has no instructions of Hopper")
class Flash(Library):
    backend = SDPBackend.FLASH_ATTENTION


@cuda.yardstick(why="torch's attention by cuDNN, whose warps on Hopper have different tasks")
class Cudnn(Library):
    backend = SDPBackend.CUDNN_ATTENTION

"""Flash attention in Triton: scores that stay on the chip are never bytes of memory.

Question    Attention has few operands and many scores. What remains of its time if no score goes to memory?
Numbers     Causal, batch 4, 32 heads, 4096 tokens, width 128, bfloat16: 0.55 TFLOP, 0.7 ms at the rate of products, and
            0.54 GB of operands and result, 0.13 ms. The 2.1 G scores in float32 go eight times to memory or from it, of
            a product, a scale, a mask, a softmax and a rounding, and twice in bfloat16: 77 GB, 18 ms, beside products
            that do not leave out what is masked, 1.4 ms.
Prediction  19 ms become the products. A score takes an SM 1/8 cycle of tensor cores, 1/16 of exponentials and, of 5.5
            vector instructions, 1/23: in turns half the rate of products. Tiles of 64 queries read 64 FLOP a byte from
            L2, 7 TB/s at that rate; tiles of 128 half of it.
Limits      Short texts: at 512 tokens a head has 4 tiles of 128, and the diagonal is a quarter of the blocks. Widths
            are powers of two. In turns tensor cores wait for exponentials: to overlap both is a schedule of warps by
            hand. `descriptors` needs Hopper's copy engine (TMA).
"""

import math

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from aiperf_ch14.descriptors import described
from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

WIDTHS = (16, 32, 64, 128)
KEYS = 64  # of a block
# Keys and values of a stage are 32 KB at width 128. With 128 queries, 32 KB, three stages are 128 of the 227 KB of a
# block on sm_90, and of the 163 KB on sm_80.
STAGES = 3

POINTERS = dict.fromkeys(("q_ptr", "out_ptr"), "*bf16:16") | {"length": "i32:16", "scale": "fp32"}
kernels = triton_source(
    "triton_flash_attention_triton.py",
    triton_ahead(
        "attention",
        signature=POINTERS | dict.fromkeys(("keys_in", "values_in"), f"tensordesc<bf16[{KEYS}, 128]>"),
        constants={"WIDTH": 128, "ROWS": 128, "KEYS": KEYS, "SKIP": True, "EXP2": True}
        | {"DESCRIPTORS": True, "STAGES": STAGES},
        num_warps=8,
    ),
    archs=("sm_80", "sm_90"),
    launched_by=("tiled", "skipped", "powers_of_two", "staged", "wide"),
)

rounded_twice = Tolerance(
    8e-3,
    reason="weights of keys are rounded to bfloat16, and so is the result; rows of few keys are larger than the others",
)


@bench.workload(
    smoke={"batch": 1, "heads": 2, "length": 131, "width": 32},
    cuda={"batch": 4, "heads": 32, "length": 4096, "width": 128},
    short={"batch": 32, "heads": 32, "length": 512, "width": 128},
    long={"batch": 1, "heads": 32, "length": 16384, "width": 128},
)
def inputs(batch, heads, length, width, device, generator):
    shape = batch, heads, length, width
    return {name: torch.randn(shape, device=device, generator=generator).bfloat16() for name in ("q", "keys", "values")}


@bench.reference(tolerance=rounded_twice)
def reference(q, keys, values):
    hidden = later(q)
    out = torch.empty_like(q)
    for at in range(len(q)):
        for head in range(q.shape[1]):  # the scores of all heads in float64 are many times the memory of the inputs
            scores = q[at, head] @ keys[at, head].T / math.sqrt(q.shape[-1])
            out[at, head] = torch.softmax(scores.masked_fill_(hidden, -math.inf), -1) @ values[at, head]
    return out


def later(q):
    """The keys that are behind a query, [length, length]."""
    return torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu_(1)


@bench.cost
def cost(batch, heads, length, width):
    # A query meets itself and the keys before it: a multiply-add for each element of a key, and of a value.
    rows = batch * heads * length
    return Cost(
        bytes_read=6 * rows * width,
        bytes_written=2 * rows * width,
        flops=2 * rows * (length + 1) * width,
        precision="bf16",
    )


# A single token; a length below a block, and around blocks and tiles; every other width.
bench.awkward(
    {"batch": 1, "heads": 1, "length": 1, "width": 16},
    {"batch": 2, "heads": 3, "length": 37, "width": 64},
    {"batch": 1, "heads": 3, "length": 64, "width": 128},
    {"batch": 1, "heads": 2, "length": 257, "width": 16},
)
bench.accept("cost.flops", because="the reference also multiplies with the keys that it masks")
cuda.reach(of="MM:bf16", at_least=0.60)
# FlashAttention 2 has the instructions of sm_80, where Triton takes those of the architecture.
cuda.reach(of="time:flash", at_most=1.0)


@cuda.baseline(kind="naive")
class Unfused:
    def prepare(self, q):
        self.hidden = later(q)

    def run(self, q, keys, values):
        batch, heads, length, width = q.shape
        # Scores in float32: a rounding of them to bfloat16 changes the weight of a key by up to 2^-9 of the score.
        scores = torch.bmm(q.flatten(0, 1), keys.flatten(0, 1).mT, out_dtype=torch.float32)
        scores = scores.view(batch, heads, length, length).div_(math.sqrt(width)).masked_fill_(self.hidden, -math.inf)
        return torch.matmul(torch.softmax(scores, -1).to(values.dtype), values)


@cuda.variant(
    adds="tiles",
    why="a tile of queries passes over the keys with its maxima, sums and results in registers, and stores no score",
    predict="3 to 9x: 1.1 TFLOP at a fifth to a half of the rate of products, in place of 77 GB and the products",
)
class Tiled:
    skip = exp2 = False
    rows, warps, stages = 64, 4, 1

    def prepare(self, q, keys, values, length, width):
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        self.out = torch.empty_like(q)
        heads = q.shape[0] * q.shape[1]
        self.attention = kernels.kernel("attention")[(-(-length // self.rows), heads)]
        self.operands = self.keys_and_values(keys, values)
        self.scale = (math.log2(math.e) if self.exp2 else 1) / math.sqrt(width)
        self.constants = {"WIDTH": width, "ROWS": self.rows, "KEYS": KEYS, "SKIP": self.skip, "EXP2": self.exp2}
        self.constants |= {"DESCRIPTORS": self.operands[0] is not keys, "STAGES": self.stages}

    def keys_and_values(self, keys, values):
        return keys, values

    def run(self, q, length):
        self.attention(q, *self.operands, self.out, length, self.scale, **self.constants, num_warps=self.warps)
        return self.out


@cuda.variant(
    builds_on="tiled",
    adds="causal skip",
    why="blocks behind the diagonal are not computed, and only blocks on it have a mask",
    predict="1.7 to 2.3x: 2080 of 4096 blocks remain, 64 of them with a mask",
)
class Skipped(Tiled):
    skip = True


@cuda.variant(
    builds_on="skipped",
    adds="powers of two",
    why="the factor log2(e) of an exponential is in the scale, and scale and maximum are one multiply-add",
    predict="0.9 to 1.2x: of a score 2 of 5.5 vector instructions, 1/64 of 0.23 cycles, and their issue",
    teaches="instructions of scores are not what this form waits for: its loads are, as the next step shows",
)
class PowersOfTwo(Skipped):
    exp2 = True


@cuda.variant(
    builds_on="powers_of_two",
    adds="stages",
    why="the next blocks of keys and values are copied to shared memory while a block is computed",
    predict="1.0 to 1.8x: 32 KB a block no longer wait for arithmetic, but 112 KB a program leave an SM 2, not 3",
)
class Staged(PowersOfTwo):
    stages = STAGES


@cuda.variant(
    builds_on="staged",
    adds="tile of 128 queries",
    why="a block of keys that is read once serves twice as many queries, of two groups of 4 warps",
    predict="0.9 to 1.5x: half the bytes from L2, 3.7 in place of 7 TB/s at half the rate of products, or one barrier",
    teaches="two programs of 64 queries wait at barriers of their own: one computes exponentials while the other's "
    "products run, and two groups of one program meet at every block",
)
class Wide(Staged):
    rows, warps = 128, 8


@cuda.variant(
    requires=("sm_90", "package:triton"),
    builds_on="wide",
    adds="tensor descriptors",
    why="one thread asks the copy engine (TMA) for a block; no thread computes addresses or issues copies",
    predict="1.0 to 1.2x: 8 copies of 16 bytes a thread and block, and their addresses, beside some 500 instructions",
)
class Descriptors(Wide):
    def keys_and_values(self, keys, values):
        return [described(one.view(-1, one.shape[-1]), [KEYS, one.shape[-1]]) for one in (keys, values)]


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

"""A quantised cache: attention of one token reads keys and values, so that fewer bits of them are less time.

Question    What do 8 and 4 bits of keys and values gain in time, what do they cost in error, and what repairs it?
Numbers     The sequences of paged attention: 64 of 128 to 8192 tokens, 8 heads of 128 channels, 98,000 tokens. A token
            and head has 512 bytes of bfloat16, 264 of 8 bits and 136 of 4 bits with two scales: 0.40, 0.21 and 0.11
            GB, 0.092, 0.047 and 0.024 ms at the rate of a read. Every 32nd channel of keys is 8 times as large as the
            others, and the last 64 tokens of a sequence have most of the weight, as in models.
Prediction  With 12 us of launches, first loads and a last wave (92 + 12) / (47 + 12) = 1.8x, and 2.9x from 4 bits, if
            bytes are the time. 15 levels up to the largest of 128 channels leave three for the others; a Hadamard
            matrix gives each channel 1 / sqrt(128) of every other. A window of 128 tokens is 33 MB, 8 us.
Limits      A warp takes 600 to 900 instructions for 64 tokens of a head: 0.03 to 0.045 ms for all, beside the bytes.
            Keys without outliers need no rotation, and old tokens with most of the weight no window. Writing the cache
            is not timed. A head has 64, 128 or 256 channels.
"""

import math
from itertools import pairwise

import torch

from aiperf_ch16 import paged_attention
from aiperf_ch16.paged_attention import COLUMNS, ON_A_GPU, Contiguous, Split, lengths_of
from aiperf_core import Benchmark, Cost, bf16, lossy
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

OUTLIERS, LARGER = slice(5, None, 32), 8.0  # channels of keys, and how much they are larger
RECENT, FADES, POSITION = 6.0, 64.0, 4.0  # score of the last token, tokens until it is 1 / e of that, the query's part
WINDOW = 128  # last tokens in bfloat16
WIDTHS = (64, 128, 256)  # a quarter of a head is a side of a product of tensor cores
PART = 512  # tokens of a program: of 8 bits, the bytes of 256 in bfloat16
BLOCK, STAGES = 64, 6
FP8, FP8_LARGEST = torch.float8_e4m3fn, 448.0

FORMS = {"fp8": (8, 0, False), "int8": (8, 128, False), "int4": (4, 8, False), "hadamard": (4, 8, True)}
TYPES = {
    "bf16:16": "q", "u16:16": "keys values", "fp16:16": "rotation", "i32:16": "tables plan",
    "fp32:16": "key_scales value_logs parts tops",
}  # fmt: skip
kernels = triton_source(
    "kv_quant_ladder_triton.py",
    *(
        triton_ahead(
            "narrow",
            signature={f"{name}_ptr": f"*{kind}" for kind, names in TYPES.items() for name in names.split()}
            | {"kv_heads": "i32", "table_width": "i32:16", "scale": "fp32"},
            constants={"GROUP": 4, "ROWS": 16, "WIDTH": 128, "PAGE": 16, "BLOCK": BLOCK, "STAGES": STAGES}
            | {"BITS": bits, "ZERO": zero, "ROTATED": rotated, "PIECE": 128 * bits // 16},
        )
        for bits, zero, rotated in FORMS.values()
    ),
    archs=("sm_80", "sm_90"),
)


@bench.workload(
    smoke={"sequences": 5, "shortest": 1, "median": 60, "longest": 300, "heads": 6, "kv_heads": 2, "width": 64,
           "page": 8},
    cuda={**ON_A_GPU, "page": 16},
    page64={**ON_A_GPU, "page": 64},
)  # fmt: skip
def inputs(sequences, heads, kv_heads, width, page, device, generator):
    q = paged_attention.inputs(sequences, heads, kv_heads, width, page, device, generator)["q"]
    q /= paged_attention.LENGTH_OF_QUERY
    q[..., 0] = POSITION
    return {"q": q}


@bench.static
def cache(sequences, shortest, median, longest, kv_heads, width, page, device, generator):
    """The pages of paged attention, whose keys have large channels, and in channel 0 how recent they are."""
    given = paged_attention.cache(sequences, shortest, median, longest, kv_heads, width, page, device, generator)
    keys = given["keys"]
    keys[..., OUTLIERS] *= LARGER
    for table, length in zip(given["tables"], lengths_of(sequences, shortest, median, longest), strict=True):
        places = torch.arange(length, device=device)
        score = RECENT * torch.exp((places - length + 1) / FADES) * math.sqrt(width) / POSITION
        keys[table[places // page].long(), :, places % page, 0] = score.to(keys.dtype)[:, None]
    return given


bench.reference(tolerance=bf16)(paged_attention.reference)
bench.cost(paged_attention.cost)
bench.accept("cost.bytes_read", because="free pages, and the ends of last pages, are not read")


def of_bits(bits, window=0):
    """The cost of a cache of this number of bits, but for the last tokens of a window."""

    def cost(sequences, shortest, median, longest, heads, kv_heads, width, page):
        lengths = lengths_of(sequences, shortest, median, longest)
        recent = sum(min(length, window) for length in lengths)
        return Cost(
            bytes_read=2 * kv_heads * ((sum(lengths) - recent) * (width * bits / 8 + 4) + recent * width * 2)
            + 2 * width * sequences * heads
            + 4 * sum(1 - (-length // page) for length in lengths),
            bytes_written=2 * width * sequences * heads,
            flops=4 * heads * sum(lengths) * width,
            precision="bf16",
            tokens=sequences,
        )

    return cost


# A single token; lengths around a page, a block, a part and the window; one query a head; pages longer than a sequence.
bench.awkward(
    {"sequences": 1, "shortest": 1, "median": 1, "longest": 1, "heads": 1, "kv_heads": 1},
    {"sequences": 3, "shortest": 127, "median": 128, "longest": 129, "page": 16, "heads": 8, "kv_heads": 1},
    {"sequences": 2, "shortest": 64, "median": 500, "longest": 641, "page": 1, "width": 128},
    {"sequences": 3, "shortest": 1, "median": 31, "longest": 67, "page": 128, "heads": 14, "width": 64},
)
cuda.reach(  # (92 + 12) / (47 + 12) = 1.8
    of="time:bf16",
    at_most=1 / 1.6,
    implementation="int8",
    cause="instructions that unpack: `fp8` has the same bytes and more of them, and takes longer",
    shown_by="variant:fp8",
)

# Codes are moved as float16, and become it without a conversion.
bench.sass("narrow", has=("LDSM", "HMMA"), lacks=("I2F",), arch="sm_90")

cuda.baseline(kind="reasonable", name="bf16")(Split)


def hadamard_matrix(width):
    """The orthogonal matrix of +-1 / sqrt(width), for a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < width:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(width)


def words_of(codes, bits):
    """Words of 16 bits of the codes of [..., width], of as many equal pieces as a word has codes."""
    pieces = codes.int().chunk(16 // bits, -1)
    return sum(piece << bits * i for i, piece in enumerate(pieces)).to(torch.int16).view(torch.uint16)


def parts_of(lengths, window):
    """Rows of a plan as in paged attention, of old tokens and of those in the window; the first part of a sequence."""
    old, recent, begins = [], [], [0]
    for sequence, length in enumerate(lengths):
        edge, place = max(0, length - window), begins[-1]
        for first in range(0, edge, PART):
            old.append((sequence, first, min(edge, first + PART), place))
            place += 1
        if edge < length:
            recent.append((sequence, edge, length, place))
            place += 1
        begins.append(place)
    return sorted(old, key=lambda part: part[1] - part[2]), recent, begins


class Narrow:
    """Parts of a cache of fewer bits, added up as those of paged attention. codes(): each form has its own."""

    bits, zero, rotated = FORMS["int8"]
    window = 0

    def codes(self, rows):
        """The codes of [..., width], and the scale of each row."""
        scales = rows.abs().amax(-1).div_((1 << self.bits - 1) - 1).clamp_(min=1e-12)
        return (rows / scales[..., None]).round_() + self.zero, scales

    def prepare(self, q, keys, values, tables, sequences, shortest, median, longest, kv_heads, page):
        _, heads, width = q.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} channels; these have {width}")
        plans = parts_of(lengths_of(sequences, shortest, median, longest), self.window)
        self.old, self.recent, self.begins = (torch.tensor(one, dtype=torch.int32, device=q.device) for one in plans)
        most, count = max((after - one for one, after in pairwise(plans[2])), default=1), plans[2][-1]
        rotation = hadamard_matrix(width).to(q.device)
        keys, key_scales = self.codes(keys.float() @ rotation if self.rotated else keys.float())
        values, scales = self.codes(values.float())
        narrow = words_of(keys, self.bits), key_scales, words_of(values, self.bits), scales.log2()
        self.given = *narrow, rotation.half(), tables
        self.out, self.parts = torch.empty_like(q), torch.empty(count, heads, width, device=q.device)
        self.tops = torch.empty(count, heads, device=q.device)
        self.sizes = kv_heads, tables.shape[1], math.log2(math.e) / math.sqrt(width)
        group = heads // kv_heads
        padded = max(16, 1 << (group - 1).bit_length())
        self.shape = {"GROUP": group, "ROWS": padded, "WIDTH": width, "PAGE": page}
        self.form = {"BITS": self.bits, "ZERO": self.zero, "ROTATED": self.rotated, "PIECE": width * self.bits // 16}
        self.of_sum = {"WIDTH": width, "COLUMNS": COLUMNS, "SPLITS": 1 << (most - 1).bit_length()}
        self.narrow = kernels.kernel("narrow")[(kv_heads, len(self.old))]
        self.wide = paged_attention.kernels.kernel("partial")[(kv_heads, len(self.recent))]
        self.combine = paged_attention.kernels.kernel("combine")[(sequences, heads, width // COLUMNS)]

    def run(self, q, keys, values, tables):
        results = self.parts, self.tops
        blocks = {"BLOCK": BLOCK, "STAGES": STAGES}
        self.narrow(q, *self.given, self.old, *results, *self.sizes, **self.shape, **blocks, **self.form)
        if self.window:
            blocks = {"BLOCK": paged_attention.BLOCK, "STAGES": paged_attention.STAGES}
            self.wide(q, keys, values, tables, self.recent, *results, *self.sizes, **self.shape, **blocks)
        self.combine(*results, self.begins, self.out, **self.of_sum)
        return self.out


@cuda.variant(
    name="fp8",
    adds="e4m3",
    why="half the bytes are read, and shifts put exponent and mantissa to their places in a float16",
    lossy=lossy("rel_l2", at_most=0.15),
    cost=of_bits(8),
    predict="0.9 to 1.9x: 0.21 GB in place of 0.40, and 12 us of both that stay, if conversions hide",
    teaches="bytes are not all that this form waits for: `int8` has as many, and instructions that are fewer",
)
class Fp8(Narrow):
    bits, zero, rotated = FORMS["fp8"]

    def codes(self, rows):
        scales = rows.abs().amax(-1).div_(FP8_LARGEST).clamp_(min=1e-12)
        return (rows / scales[..., None]).to(FP8).view(torch.uint8), 256 * scales


@cuda.variant(
    name="int8",
    adds="int8",
    why="half the bytes are read; 255 levels up to the largest channel are finer than 3 bits of mantissa",
    lossy=lossy("rel_l2", at_most=0.06),
    cost=of_bits(8),
    predict="1.0 to 1.9x: the bytes of e4m3, if conversions hide",
)
class Int8(Narrow):
    pass


@cuda.variant(
    name="int4",
    builds_on="int8",
    adds="int4",
    why="half the bytes again; but 15 levels up to the largest channel are a step of twice most others",
    lossy=lossy("rel_l2", at_most=0.9),
    cost=of_bits(4),
    predict="1.05 to 1.65x: (47 + 12) / (24 + 12), or less, for 0.03 ms of instructions beside 0.024 of bytes",
    teaches="where conversions are the time, fewer bytes save nothing",
)
class Int4(Narrow):
    bits, zero, rotated = FORMS["int4"]


@cuda.variant(
    name="hadamard",
    builds_on="int4",
    adds="rotation",
    why="keys and queries are rotated: scores stay, and an outlier becomes a small part of every channel",
    lossy=lossy("rel_l2", at_most=0.35),
    cost=of_bits(4),
    predict="0.85 to 1x: 32 KB of the matrix from L2 and a small product for each part of 512 tokens, 70 KB",
    teaches="a rotation gains no time: it makes the answers of 4 bits usable",
)
class Hadamard(Int4):
    bits, zero, rotated = FORMS["hadamard"]


@cuda.variant(
    name="window",
    builds_on="hadamard",
    adds="residual window",
    why="the last 128 tokens stay in bfloat16: they have most of the weight, and so most of the error",
    lossy=lossy("rel_l2", at_most=0.12),
    cost=of_bits(4, WINDOW),
    predict="0.6 to 0.9x: 33 MB of the window beside 0.1 GB, in a launch of its own",
    teaches="the window costs bytes and a launch, and takes most of the error of recent tokens",
)
class Window(Hadamard):
    window = WINDOW


cuda.yardstick(why="torch's FlashAttention of bfloat16 without pages, in one pass")(Contiguous)

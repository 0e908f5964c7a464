"""Paged attention: a cache in pages holds what is live, and a kernel that follows the table reads no more.

Question    What does decode attention cost when sequences of 128 to 8192 tokens share one pool of pages?
Numbers     A query of each of 32 heads for 64 sequences, lognormal around 1024 tokens, with 8 heads of keys and values,
            128 wide, bfloat16: 4 KB a token, 98,000 tokens, 0.40 GB, 0.092 ms at the rate of a read. Padded to the
            longest they are 2.1 GB. A sequence leaves half a page of 16 unused: 0.5 % of the cache; of 128, 4 %.
Prediction  2.1 / 0.40 = 5.3x at most from pages. `gather` loses: it writes the padded form, and reads it as before.
            In `paged` the longest sequence is 4.2 MB for one program, that has some 64 KB on the way at a time: 65
            trips to memory of 1 to 2 us, 0.07 to 0.13 ms, beside 0.092 ms for all. Parts of 256 tokens end together.
Limits      Sequences of one length: padding is nothing, and a table saves memory alone. Where heads of like sequences
            are many more than 396, three an SM, `split` gains nothing and costs a launch. A page has a power of two of
            tokens, a head 16 to 256 elements. `--size page64` and `page128` have longer pages.
"""

import math
import random
from statistics import NormalDist

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import host_source, triton_source
from aiperf_core.launches import loop

bench = Benchmark(goal="speed", clock="device")
both = bench.on(("cpu", "cuda"))
cpu, cuda = bench.on("cpu", requires="compiler"), bench.on("cuda", requires=("sm_80", "package:triton"))

NONE = -1  # an entry of a table that has no page
SPREAD = 0.9  # standard deviation of the logarithm of a length
LENGTH_OF_QUERY = 3.0  # standard deviation of the scores: some keys have far more weight than others
ORDER = 1  # the seed of the order of lengths, and of pages
WIDTHS = (16, 32, 64, 128, 256)
# Keys of a block, and the stages of its loads: two for the table, two for blocks that are on their way, 64 KB, and one
# for the block that is computed. Three programs have room on an SM of sm_90.
BLOCK, STAGES = 64, 5
PART = 256  # keys of a program of `split`
COLUMNS = 32  # of the sum of the parts of a query, in one program

host_code = host_source("paged_attention.c")
kernels = triton_source("paged_attention_triton.py", archs=("sm_80", "sm_90"), launched_by=("paged", "split"))

ON_A_GPU = {
    "sequences": 64, "shortest": 128, "median": 1024, "longest": 8192, "heads": 32, "kv_heads": 8, "width": 128,
}  # fmt: skip


def lengths_of(sequences, shortest, median, longest):
    """Tokens of each sequence: the quantiles of a lognormal distribution between two bounds, in a fixed order."""
    normal = NormalDist(math.log(median), SPREAD)
    drawn = [round(math.exp(normal.inv_cdf((i + 0.5) / sequences))) for i in range(sequences)]
    random.Random(ORDER).shuffle(drawn)
    return [min(longest, max(shortest, length)) for length in drawn]


@bench.workload(
    smoke={
        "sequences": 5,
        "shortest": 1,
        "median": 40,
        "longest": 150,
        "heads": 6,
        "kv_heads": 2,
        "width": 16,
        "page": 8,
    },
    cpu={**ON_A_GPU, "sequences": 16, "median": 512, "longest": 4096, "heads": 8, "kv_heads": 2, "page": 16},
    cuda={**ON_A_GPU, "page": 16},
    page64={**ON_A_GPU, "page": 64},
    page128={**ON_A_GPU, "page": 128},
    short={**ON_A_GPU, "longest": 1024, "median": 512, "page": 16},
)
def inputs(sequences, heads, kv_heads, width, page, device, generator):
    if heads % kv_heads or page & (page - 1):
        raise UsageError(
            f"heads={heads}, kv_heads={kv_heads}, page={page}; accepted are heads that share evenly, and a page of a "
            "power of two of tokens"
        )
    q = torch.randn(sequences, heads, width, device=device, generator=generator)
    return {"q": (LENGTH_OF_QUERY * q).bfloat16()}


@bench.static
def cache(sequences, shortest, median, longest, kv_heads, width, page, device, generator):
    """A pool of pages, of which an eighth is free, and the pages of each sequence, wherever there was a free one."""
    lengths = lengths_of(sequences, shortest, median, longest)
    counts = [-(-length // page) for length in lengths]
    pool = sum(counts) + sum(counts) // 8 + 1
    places = torch.randperm(pool, generator=torch.Generator().manual_seed(ORDER)).int()
    tables = torch.full((sequences, max(counts, default=1)), NONE, dtype=torch.int32)
    for table, own in zip(tables, places[: sum(counts)].split(counts), strict=True):
        table[: len(own)] = own
    keys, values = (
        torch.randn(pool, kv_heads, page, width, device=device, generator=generator).bfloat16() for _ in range(2)
    )
    return {
        "keys": keys,
        "values": values,
        "tables": tables.to(device),
        "lengths": torch.tensor(lengths, dtype=torch.int32, device=device),
    }


@bench.reference(tolerance=bf16)
def reference(q, keys, values, tables, lengths):
    wide = torch.promote_types(q.dtype, torch.float32)  # scores that are narrower have no digits left for exp
    out = torch.empty_like(q)
    for number, length in enumerate(lengths.tolist()):
        own = tables[number, : -(-length // keys.shape[2])].long()
        k, v = (one[own].transpose(0, 1).flatten(1, 2)[:, :length].to(wide) for one in (keys, values))
        grouped = q[number].to(wide).unflatten(0, (keys.shape[1], -1))
        out[number] = (torch.softmax(grouped @ k.mT / math.sqrt(q.shape[-1]), -1) @ v).flatten(0, 1).to(q.dtype)
    return out


@bench.cost
def cost(sequences, shortest, median, longest, heads, kv_heads, width, page):
    lengths = lengths_of(sequences, shortest, median, longest)
    # Each key is read once for all queries that share it. A multiply-add for each element of a key, and of a value.
    return Cost(
        bytes_read=2 * width * (2 * kv_heads * sum(lengths) + sequences * heads)
        + 4 * sum(1 - (-length // page) for length in lengths),
        bytes_written=2 * width * sequences * heads,
        flops=4 * heads * sum(lengths) * width,
        precision="bf16",
        tokens=sequences,
    )


bench.accept("cost.bytes_read", because="free pages, and the ends of last pages, are not read")
# A single token; lengths around a page and a block; groups of 1 to 8 queries; pages longer than a sequence.
bench.awkward(
    {"sequences": 1, "shortest": 1, "median": 1, "longest": 1, "heads": 1, "kv_heads": 1},
    {"sequences": 3, "shortest": 15, "median": 16, "longest": 17, "page": 16, "heads": 8, "kv_heads": 1, "width": 64},
    {"sequences": 2, "shortest": 64, "median": 200, "longest": 257, "page": 1, "width": 32},
    {"sequences": 7, "shortest": 1, "median": 31, "longest": 67, "page": 128, "heads": 14, "width": 128},
    {"sequences": 2, "shortest": 2, "median": 300, "longest": 521, "page": 4, "heads": 3, "kv_heads": 3, "width": 256},
)
# Two launches and a last wave of 8 us parts, half idle, beside 92 us of bytes: 92 / (92 + 4 + 4 + 4) = 0.88.
cuda.reach(of="RBW", at_least=0.85)
# 16 sequences of 770 tokens in the mean, padded to 4096, are 5.3 times the work.
cpu.reach(of="speedup", at_least=2.0)


def contiguous(pool, tables):
    """The pages of each sequence behind each other, up to the longest: [sequences, kv_heads, tokens, width]."""
    heads, page, width = pool.shape[1:]
    rows = tables[:, None].clamp(min=0).long() * heads + torch.arange(heads, device=pool.device)[:, None]
    pages = pool.flatten(0, 1).index_select(0, rows.flatten())
    return pages.view(*rows.shape[:2], rows.shape[2] * page, width)


def masked(q, keys, values, lengths):
    """The attention to keys within the lengths, with the queries that share keys as its rows."""
    there = torch.arange(keys.shape[2], device=q.device) < lengths[:, None]
    grouped = q.unflatten(1, (keys.shape[1], -1))
    out = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=there[:, None, None])
    return out.flatten(1, 2)


@both.baseline(kind="naive")
class Padded:
    def prepare(self, keys, values, tables):
        self.keys, self.values = contiguous(keys, tables), contiguous(values, tables)

    def run(self, q, lengths):
        return masked(q, self.keys, self.values, lengths)


@both.variant(
    adds="pages",
    why="the cache has pages for live tokens alone, and is copied to the padded form for an attention without tables",
    predict="0.3 to 0.7x: 2.1 GB written and 0.4 GB read, beside the 2.1 GB that are read as before",
    teaches="pages alone save memory; time is saved by a kernel that reads them where they are",
)
def gather(q, keys, values, tables, lengths):
    return masked(q, contiguous(keys, tables), contiguous(values, tables), lengths)


# --- on a CPU

cpu.variant(
    loop(
        host_code,
        out="q",
        make={
            "group": lambda heads, kv_heads: heads // kv_heads,
            "most": lambda tables: tables.shape[1],
            "mixed": lambda q: torch.empty(q.shape, dtype=torch.float32),
        },
    )("paged"),
    builds_on="gather",
    adds="table in the kernel",
    why="each sequence ends at its own length, and no token is copied",
    predict="at least 3x: a fifth of the work, and no copy",
)


# --- on a GPU


def plan_of(lengths, span):
    """A row for each part of `span` keys, the longest first: its sequence, its first and last key, its own place.

    Places of one sequence are neighbours. Also the places at which sequences begin, with their end.
    """
    parts, begins = [], [0]
    for sequence, length in enumerate(lengths):
        count = -(-length // span)
        cuts = [min(length, i * span) for i in range(count + 1)]
        parts += [(sequence, cuts[i], cuts[i + 1], begins[-1] + i) for i in range(count)]
        begins.append(begins[-1] + count)
    return sorted(parts, key=lambda part: part[1] - part[2]), begins


@cuda.variant(
    name="paged",
    builds_on="gather",
    adds="table in the kernel",
    why="a program follows the table of its sequence: 0.4 GB are read where they are, and nothing is padded",
    predict="4 to 12x: 1.1 ms of copies and padding become 0.09 to 0.25 ms",
)
class Paged:
    longest_part = 1 << 30

    def prepare(self, q, tables, sequences, shortest, median, longest, kv_heads, page):
        _, heads, width = q.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        # A step of an engine makes one plan for all layers, from the lengths that its scheduler has.
        lengths = lengths_of(sequences, shortest, median, longest)
        plan, begins = plan_of(lengths, self.longest_part)
        self.plan, self.begins = (torch.tensor(one, dtype=torch.int32, device=q.device) for one in (plan, begins))
        self.out = torch.empty_like(q)
        self.partial = kernels.kernel("partial")[(kv_heads, len(plan))]
        # Scores in units of log 2, because the kernel computes powers of two.
        self.sizes = kv_heads, tables.shape[1], math.log2(math.e) / math.sqrt(width)
        group = heads // kv_heads
        padded = max(16, 1 << (group - 1).bit_length())
        self.constants = {"GROUP": group, "ROWS": padded, "WIDTH": width, "PAGE": page}
        self.constants |= {"BLOCK": BLOCK, "STAGES": STAGES}
        self.reserve(q, len(plan), -(-max(lengths, default=1) // self.longest_part))

    def reserve(self, q, parts, most):
        """Memory for the parts of the answers, and their logarithms."""
        self.parts, self.tops = self.out, torch.empty(parts, q.shape[1], device=q.device)

    def run(self, q, keys, values, tables):
        self.partial(q, keys, values, tables, self.plan, self.parts, self.tops, *self.sizes, **self.constants)
        return self.out


@cuda.variant(
    name="split",
    builds_on="paged",
    adds="split keys",
    why="parts of 256 tokens fill all SMs to the end, and their maxima and sums are merged afterwards",
    predict="1.2 to 2.5x: no program is 4.2 MB, and the last ones are the shortest",
)
class Split(Paged):
    longest_part = PART

    def reserve(self, q, parts, most):
        heads, width = q.shape[1:]
        columns = min(width, COLUMNS)
        self.parts = torch.empty(parts, heads, width, device=q.device)
        self.tops = torch.empty(parts, heads, device=q.device)
        self.combine = kernels.kernel("combine")[(len(q), heads, width // columns)]
        self.of_sum = {"WIDTH": width, "COLUMNS": columns, "SPLITS": 1 << (most - 1).bit_length()}

    def run(self, q, keys, values, tables):
        super().run(q, keys, values, tables)
        self.combine(self.parts, self.tops, self.begins, self.out, **self.of_sum)
        return self.out


@cuda.yardstick(why="torch's FlashAttention of sequences behind each other without padding, in one pass")
class Contiguous:
    def prepare(self, q, keys, values, tables, lengths):
        if not q.is_cuda:
            raise SkipError("this attention of torch has kernels for GPUs alone")
        there = torch.arange(tables.shape[1] * keys.shape[2], device=q.device) < lengths[:, None]
        self.keys, self.values = (contiguous(one, tables).transpose(1, 2)[there] for one in (keys, values))
        # The queries that share keys are those of one head at several places.
        group = q.shape[1] // keys.shape[1]
        self.queries = group * torch.arange(len(q) + 1, dtype=torch.int32, device=q.device)
        self.ends = functional.pad(lengths.cumsum(0), (1, 0)).int()
        self.most = group, int(lengths.max())

    def run(self, q, kv_heads):
        rows = q.unflatten(1, (kv_heads, -1)).transpose(1, 2).flatten(0, 1)
        given = rows, self.keys, self.values, self.queries, self.ends, *self.most
        out = torch.ops.aten._flash_attention_forward(*given, 0.0, False, False)[0]
        return out.unflatten(0, (len(q), -1)).transpose(1, 2).flatten(1, 2)

"""Rotary positions and the paged cache: what follows the QKV product is one pass over its result.

Question    What do rotation and append cost a decode step as separate operations, and as one kernel?
Numbers     256 sequences with a new token each: 32 heads of queries, 8 of keys and of values, width 128, bfloat16, as a
            row of a product. Queries and keys are rotated by the token's position in float32, keys and values go to its
            place in pages of 16. 3.1 MB are read and as many written: less time than two launches.
Prediction  Some ten operations are ten launches and float32 copies between them: one kernel takes a launch, two trips
            to memory in a row and the bytes. With all heads in a program the table of cosines is read once a token.
Limits      A single token: then every form is the time of its launches. Thousands of tokens (`--size prefill`), where
            the bytes are the bound. An odd width, which has no pairs, is an error.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import UsageError
from aiperf_core.kernels import host_source, triton_source

bench = Benchmark(goal="latency", clock="device", prepare_timeout_s=600)
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

PAGE = 16  # places of a page of the cache
BASE = 10_000.0
SPARE = 2  # pages of the cache for each that is written to

host_code = host_source("rope_kv_append.c")
kernels = triton_source("rope_kv_append_triton.py", archs=("sm_80", "sm_90"), launched_by=("fused", "heads_together"))


@bench.workload(
    state=("key_cache", "value_cache"),
    smoke={"sequences": 3, "new": 7, "heads": 6, "kv_heads": 2, "width": 12, "longest": 61, "interleaved": 0},
    cpu={"sequences": 32, "new": 16, "heads": 16, "kv_heads": 4, "width": 64, "longest": 8192, "interleaved": 0},
    cuda={"sequences": 256, "new": 1, "heads": 32, "kv_heads": 8, "width": 128, "longest": 8192, "interleaved": 0},
    neighbours={
        "sequences": 256, "new": 1, "heads": 32, "kv_heads": 8, "width": 128, "longest": 8192, "interleaved": 1
    },
    prefill={"sequences": 4, "new": 4096, "heads": 32, "kv_heads": 8, "width": 128, "longest": 8192, "interleaved": 0},
)  # fmt: skip
def inputs(sequences, new, heads, kv_heads, width, longest, device, generator):
    if width % 2 or longest < new:
        raise UsageError(f"width={width}, new={new}, longest={longest}; accepted are even widths and new <= longest")
    # A sequence starts anywhere in a page, so its tokens may touch one page more than they fill.
    pages = (new + 2 * PAGE - 2) // PAGE
    total = SPARE * sequences * pages
    begin = torch.randint(longest - new + 1, (sequences, 1), device=device, generator=generator)
    places = begin % PAGE + torch.arange(new, device=device)
    table = torch.randperm(total, device=device, generator=generator)[: sequences * pages].view(sequences, pages)

    def drawn(*shape):
        return torch.randn(*shape, width, device=device, generator=generator).bfloat16()

    return {
        "qkv": drawn(sequences * new, heads + 2 * kv_heads),
        "positions": (begin + torch.arange(new, device=device)).flatten(),
        "slots": (table.gather(1, places // PAGE) * PAGE + places % PAGE).flatten(),
        "key_cache": drawn(total * PAGE, kv_heads),
        "value_cache": drawn(total * PAGE, kv_heads),
    }


@bench.static
def turns(width, longest, device):
    powers = torch.arange(0, width, 2, device=device, dtype=torch.float64) / width
    angles = torch.arange(longest, device=device, dtype=torch.float64)[:, None] * BASE**-powers
    return {"table": torch.cat((angles.cos(), angles.sin()), 1).float()}


@bench.reference(tolerance=bf16)
def reference(qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved):
    rotated, values = qkv[:, :-kv_heads], qkv[:, -kv_heads:]
    cosine, sine = table[positions][:, None].chunk(2, -1)
    wide = rotated.to(torch.promote_types(rotated.dtype, table.dtype))
    one, other = (wide[..., ::2], wide[..., 1::2]) if interleaved else wide.chunk(2, -1)
    halves = one * cosine - other * sine, other * cosine + one * sine
    rotated = (torch.stack(halves, -1).flatten(-2) if interleaved else torch.cat(halves, -1)).to(qkv.dtype)
    key_cache, value_cache = key_cache.clone(), value_cache.clone()
    key_cache[slots], value_cache[slots] = rotated[:, heads:], values
    return {"q": rotated[:, :heads], "keys": key_cache, "values": value_cache}


@bench.cost
def cost(sequences, new, heads, kv_heads, width):
    # What is read is written once. Cosines and sines could be computed, and are not counted.
    tokens, values = sequences * new, sequences * new * (heads + 2 * kv_heads) * width
    return Cost(
        bytes_read=2 * values + 16 * tokens,
        bytes_written=2 * values,
        flops=3 * tokens * (heads + kv_heads) * width,
        tokens=tokens,
    )


# A single token; one head; both layouts; a page that is filled, and pages that are not; widths of no power of two.
bench.awkward(
    {"sequences": 1, "new": 1, "heads": 1, "kv_heads": 1, "width": 2, "longest": 1},
    {"sequences": 5, "new": 16, "heads": 7, "kv_heads": 1, "width": 80, "interleaved": 1},
    {"sequences": 1, "new": 33, "heads": 3, "kv_heads": 3, "width": 64},
    {"sequences": 31, "new": 1, "heads": 8, "kv_heads": 1, "width": 128, "interleaved": 1},
)
bench.accept("cost.bytes_read", because="places of the caches that no token belongs to need not be read")
cuda.reach(of="BW", at_least=0.80, size="prefill")
# The bytes take as long as three empty nodes; a place is read before the cache is written, and a row before its store:
# two trips to memory of about one node each; and the node itself. A fifth for the rest.
cuda.reach(of="GRAPH", at_most=1.2 * 6)


def rotate(qkv, positions, table, heads, kv_heads, interleaved):
    """The rotated queries and keys of all tokens, rounded once."""
    cosine, sine = table[positions][:, None].chunk(2, -1)
    wide = qkv[:, : heads + kv_heads].float()
    if interleaved:
        one, other = wide[..., ::2], wide[..., 1::2]
        return torch.stack((one * cosine - other * sine, other * cosine + one * sine), -1).flatten(-2).bfloat16()
    one, other = wide.chunk(2, -1)
    return torch.cat((one * cosine - other * sine, other * cosine + one * sine), -1).bfloat16()


def append(qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved):
    rotated = rotate(qkv, positions, table, heads, kv_heads, interleaved)
    key_cache[slots] = rotated[:, heads:]
    value_cache[slots] = qkv[:, heads + kv_heads :]
    return rotated[:, :heads].contiguous()


@both.baseline(kind="reasonable")
def eager(qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved):
    q = append(qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved)
    return {"q": q, "keys": key_cache, "values": value_cache}


@cpu.variant(
    adds="one pass", why="a row is read once, rotated in registers, and written where it belongs", name="fused"
)
class FusedInC:
    def prepare(self, qkv, heads):
        self.q, self.append = torch.empty_like(qkv[:, :heads]), host_code.function("fused")

    def run(self, qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, width, interleaved):
        caches = key_cache, value_cache
        self.append(qkv, positions, slots, table, self.q, *caches, len(qkv), heads, kv_heads, width, interleaved)
        return {"q": self.q, "keys": key_cache, "values": value_cache}


@cuda.variant(requires="compiler", adds="compiler", why="the float32 copies and products become one kernel")
class Compiled:
    def prepare(self, qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved):
        self.append = torch.compile(append, fullgraph=True, dynamic=False)
        caches = torch.empty_like(key_cache), torch.empty_like(value_cache)
        self.append(
            qkv, torch.zeros_like(positions), torch.zeros_like(slots), *caches, table, heads, kv_heads, interleaved
        )

    def run(self, qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved):
        q = self.append(qkv, positions, slots, key_cache, value_cache, table, heads, kv_heads, interleaved)
        return {"q": q, "keys": key_cache, "values": value_cache}


@cuda.variant(adds="one pass", why="a row is read once, rotated in registers, and written where it belongs")
class Fused:
    def prepare(self, qkv, heads, kv_heads, width, interleaved):
        self.q = torch.empty_like(qkv[:, :heads])
        half = {"PAIRS": power(width // 2), "INTERLEAVED": interleaved}
        self.constants = {"HEADS": heads, "KV_HEADS": kv_heads, "WIDTH": width, **half}
        self.make_launch(len(qkv), heads, kv_heads)

    def make_launch(self, tokens, heads, kv_heads):
        self.constants["num_warps"] = 1
        self.launch = kernels.kernel("fused")[(tokens, heads + 2 * kv_heads)]

    def run(self, qkv, positions, slots, key_cache, value_cache, table):
        self.launch(qkv, positions, slots, table, self.q, key_cache, value_cache, **self.constants)
        return {"q": self.q, "keys": key_cache, "values": value_cache}


@cuda.variant(
    builds_on="fused",
    adds="a program a token",
    why="all heads of a token have the same cosines, sines and place, which are read once, and fewer programs start",
)
class HeadsTogether(Fused):
    def make_launch(self, tokens, heads, kv_heads):
        self.constants |= {"ROWS": power(heads), "KV_ROWS": power(kv_heads)}
        self.launch = kernels.kernel("heads_together")[(tokens,)]


def power(count):
    """The least power of two from `count`."""
    return 1 << (count - 1).bit_length()

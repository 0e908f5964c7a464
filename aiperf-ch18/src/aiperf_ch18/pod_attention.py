"""Prefill beside decode: a chunk of a prompt needs arithmetic, single tokens need memory, and an SM has both.

Question    A step of chunked prefill has both kinds of attention. Is its time their sum, or that of the longer one?
Numbers     A chunk of 2048 behind 6144 tokens, 64 sequences of 8192, 32 heads on 8 of the cache, 128 wide, bfloat16.
            The chunk is 240 GFLOP, 0.32 ms of tensor cores and 0.6 at half of their rate. The caches are 2.1 GB, 0.5
            ms. In turn 1.1 ms, together 0.6. An item of the chunk, 128 queries of a head, is 0.5 GFLOP; one of a
            sequence, 2048 keys of a head, 1 MB. Two programs of 4 warps fit on an SM.
Prediction  Streams do not help: programs of the second wait until those of the first no longer fill the SMs, 512 of
            them in 264 places. In mixed order both kinds are resident, 1 to 4, and an SM loads while it multiplies: at
            most 1.1 / 0.6 = 1.8x. Chosen by SM, each has a program of either kind until one of the kinds ends.
Limits      One kind alone (`--set sequences=1`): nothing to hide. All programs take the registers and the shared memory
            of the larger kind, so decode has fewer loads in flight than a kernel of its own. Both kinds wait for the
            longer one: a chunk must be sized so that it takes as long as the decodes. Widths are 16, 32, 64 and 128.
"""

import math

import torch

from aiperf_ch18.flash_decode import COLUMNS, LENGTH_OF_QUERY, programs
from aiperf_ch18.flash_decode import kernels as of_parts
from aiperf_core import Benchmark, Cost, bf16, fp32_reduction
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="throughput", clock="device")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

WIDTHS = (16, 32, 64, 128)
# 255 registers of 128 threads, and 80 KB: two programs share an SM. 64 rows would read 3.8 GB of the prompt from L2.
ROWS, BLOCK, STAGES, WARPS = 128, 32, 3, 4
SPAN = 2048  # keys of an item of a sequence
MOST_SMS = 1024

GIVEN = ["prompt", "prompt_keys", "prompt_values", "prompt_out", "q", "keys", "values"]
SIZES = ["of_prompts", "of_sequences", "heads", "chunk", "context", "length", "span", "splits"]
SIGNATURE = dict.fromkeys([f"{name}_ptr" for name in GIVEN], "*bf16:16") | {"parts_ptr": "*fp32:16"}
SIGNATURE |= {"tops_ptr": "*fp32:16", **dict.fromkeys(SIZES, "i32"), "scale": "fp32"}
CONSTANTS = {"GROUP": 4, "ROWS": ROWS, "FEW": 16, "WIDTH": 128, "BLOCK": BLOCK, "STAGES": STAGES}
kernels = triton_source(
    "pod_attention_triton.py",
    triton_ahead("mixed_order", signature=SIGNATURE, constants=CONSTANTS, num_warps=WARPS),
    triton_ahead(
        "by_sm", signature=SIGNATURE | {"counters_ptr": "*i32:16"}, constants=CONSTANTS | {"SMS": True}, num_warps=WARPS
    ),
    archs=("sm_80", "sm_90", "sm_100"),
)


@bench.workload(
    smoke={"heads": 6, "kv_heads": 2, "width": 16, "chunk": 139, "context": 203, "sequences": 3, "length": 131}
    | {"dtype": "bf16"},
    cuda={"heads": 32, "kv_heads": 8, "width": 128, "chunk": 2048, "context": 8192, "sequences": 64, "length": 8192}
    | {"dtype": "bf16"},
)
def inputs(heads, kv_heads, width, chunk, context, sequences, length, dtype, device, generator):
    if heads % kv_heads or chunk > context:
        raise UsageError(
            f"heads={heads}, kv_heads={kv_heads}, chunk={chunk}, context={context}; accepted are heads that share "
            "evenly, and chunk <= context"
        )

    def drawn(*shape):
        return torch.randn(*shape, width, device=device, generator=generator)

    return {
        "prompt": (LENGTH_OF_QUERY * drawn(heads, chunk)).to(dtype),
        "prompt_keys": drawn(kv_heads, context).to(dtype),
        "prompt_values": drawn(kv_heads, context).to(dtype),
        "q": (LENGTH_OF_QUERY * drawn(sequences, heads)).to(dtype),
        "keys": drawn(sequences, kv_heads, length).to(dtype),
        "values": drawn(sequences, kv_heads, length).to(dtype),
    }


@bench.reference(tolerance=lambda bits: bf16 if bits == 16 else fp32_reduction)
def reference(prompt, prompt_keys, prompt_values, q, keys, values):
    wide, scale = torch.promote_types(q.dtype, torch.float32), 1 / math.sqrt(q.shape[-1])
    chunk, context, group = prompt.shape[1], prompt_keys.shape[1], q.shape[1] // keys.shape[1]
    hidden = torch.ones(chunk, context, dtype=torch.bool, device=q.device).triu(context - chunk + 1)
    of_prompt, of_sequences = torch.empty_like(prompt), torch.empty_like(q)
    for head, some in enumerate(prompt):
        scores = some.to(wide) @ prompt_keys[head // group].to(wide).mT * scale
        weights = torch.softmax(scores.masked_fill_(hidden, -math.inf), -1)
        of_prompt[head] = (weights @ prompt_values[head // group].to(wide)).to(q.dtype)
    for sequence, some in enumerate(q.to(wide).unflatten(1, (-1, group))):
        weights = torch.softmax(some @ keys[sequence].to(wide).mT * scale, -1)
        of_sequences[sequence] = (weights @ values[sequence].to(wide)).flatten(0, 1).to(q.dtype)
    return {"prompt": of_prompt, "sequences": of_sequences}


@bench.cost
def cost(heads, kv_heads, width, chunk, context, sequences, length, bits):
    pairs = chunk * context - chunk * (chunk - 1) // 2 + sequences * length
    queries = heads * (chunk + sequences)
    return Cost(
        bytes_read=bits // 8 * width * (2 * kv_heads * (context + sequences * length) + queries),
        bytes_written=bits // 8 * width * queries,
        flops=4 * heads * pairs * width,
        precision="bf16" if bits == 16 else "fp32",
        tokens=chunk + sequences,
    )


# One token of each kind; chunks that are the whole prompt; keys around blocks and spans; groups of 1 to 8.
bench.awkward(
    {"heads": 1, "kv_heads": 1, "chunk": 1, "context": 1, "sequences": 1, "length": 1},
    {"heads": 8, "kv_heads": 1, "chunk": 129, "context": 129, "sequences": 5, "length": 64},
    {"heads": 3, "kv_heads": 3, "chunk": 1, "context": 257, "sequences": 2, "length": 2113, "dtype": "fp32"},
    {"heads": 4, "kv_heads": 2, "chunk": 256, "context": 320, "sequences": 1, "length": 4097, "width": 32},
)
bench.accept("cost.flops", because="the reference multiplies all pairs of the chunk, and masks those that are not seen")
# 0.6 ms of the chunk beside 0.5 of the caches, in place of 1.1 in turn, less what both slow each other down.
cuda.reach(of="time:serial", at_most=0.8)


@cuda.baseline(kind="reasonable")
class Serial:
    def prepare(self, prompt, prompt_keys, q, keys):
        (heads, chunk, width), (sequences, kv_heads, length, _) = prompt.shape, keys.shape
        if width not in WIDTHS:
            raise SkipError(f"takes heads of {', '.join(map(str, WIDTHS))} elements; these have {width}")
        group, splits = heads // kv_heads, -(-length // SPAN)
        self.out = {"prompt": torch.empty_like(prompt), "sequences": torch.empty_like(q)}
        self.parts = torch.empty(sequences * heads, splits, width, device=q.device)
        self.tops = torch.empty(sequences * heads, splits, device=q.device)
        self.items = -(-chunk // ROWS) * heads, sequences * kv_heads * splits
        scale = math.log2(math.e) / math.sqrt(width)
        self.sizes = heads, chunk, prompt_keys.shape[1], length, SPAN, splits, scale
        self.constants = {"GROUP": group, "ROWS": ROWS, "FEW": max(16, 1 << (group - 1).bit_length()), "WIDTH": width}
        self.constants |= {"BLOCK": BLOCK, "STAGES": STAGES, "num_warps": WARPS}
        columns = min(width, COLUMNS)
        self.combine = of_parts.kernel("combine")[(sequences * heads, width // columns)]
        self.of_sum = {"WIDTH": width, "COLUMNS": columns, "SPLITS": 1 << (splits - 1).bit_length()}
        self.ready(q.device)

    def ready(self, device):
        """Prepare the order of the items."""

    def launch(self, given, of_prompts, of_sequences):
        """A program for each item, in mixed order."""
        kernel = kernels.kernel("mixed_order")[(of_prompts + of_sequences,)]
        kernel(*given, of_prompts, of_sequences, *self.sizes, **self.constants)

    def attend(self, given):
        """All items of both kinds."""
        self.launch(given, self.items[0], 0)
        self.launch(given, 0, self.items[1])

    def run(self, prompt, prompt_keys, prompt_values, q, keys, values):
        of_prompt = prompt, prompt_keys, prompt_values, self.out["prompt"]
        self.attend((*of_prompt, q, keys, values, self.parts, self.tops))
        self.combine(self.parts, self.tops, self.out["sequences"], self.parts.shape[1], **self.of_sum)
        return self.out


@cuda.variant(
    adds="streams",
    why="the launches are in two streams, and programs of the second begin where those of the first leave room",
    predict="0.95 to 1.3x: 512 programs of the chunk fill 264 places twice, and decode begins beside the last of them",
    teaches="streams promise nothing: the first launch fills the SMs, so that both kinds meet only at its end",
)
class TwoStreams(Serial):
    def ready(self, device):
        if device.type != "cuda":
            raise SkipError("streams are the GPU's")
        self.other = torch.cuda.Stream()

    def attend(self, given):
        self.other.wait_stream(torch.cuda.current_stream())
        self.launch(given, self.items[0], 0)
        with torch.cuda.stream(self.other):
            self.launch(given, 0, self.items[1])
        torch.cuda.current_stream().wait_stream(self.other)


@cuda.variant(
    adds="mixed order",
    why="in one launch the programs of the chunk are spread among those of the sequences, so both kinds are resident",
    predict="1.15 to 1.8x: 0.5 ms of loads run beside 0.6 ms of products, where two programs of an SM are of two kinds",
)
class MixedOrder(Serial):
    def attend(self, given):
        self.launch(given, *self.items)


@cuda.variant(
    builds_on="mixed_order",
    adds="kinds by processor",
    why="the first program of an SM takes the chunk's items, the second the sequences', until one of the kinds ends",
    predict="0.9 to 1.3x: no SM has two programs of one kind; an item costs an atomic, and its loads begin late",
    teaches="an even order mixes the kinds on most SMs already, and new programs start their loads for free",
)
class BySm(Serial):
    def ready(self, device):
        self.counters = torch.zeros(2 + MOST_SMS, dtype=torch.int32, device=device)
        self.kernel = kernels.kernel("by_sm")[(programs(device),)]
        self.constants |= {"SMS": device.type == "cuda"}

    def attend(self, given):
        self.counters.zero_()
        self.kernel(*given, self.counters, *self.items, *self.sizes, **self.constants)


@cuda.yardstick(why="torch's FlashAttention of the chunk, and then of the sequences")
class Flash:
    def prepare(self, q):
        if not q.is_cuda:
            raise SkipError("this attention of torch has kernels for GPUs alone")

    def run(self, prompt, prompt_keys, prompt_values, q, keys, values):
        def attention(queries, *cache, causal):
            given = (one.transpose(1, 2) for one in (queries, *cache))
            most = queries.shape[2], cache[0].shape[2]
            return torch.ops.aten._flash_attention_forward(*given, None, None, *most, 0.0, causal, False)[0]

        of_prompt = attention(prompt[None], prompt_keys[None], prompt_values[None], causal=True)
        # The queries that share keys are those of one head at several places.
        grouped = q.unflatten(1, (keys.shape[1], -1))
        of_sequences = attention(grouped, keys, values, causal=False).transpose(1, 2).flatten(1, 2)
        return {"prompt": of_prompt[0].transpose(0, 1), "sequences": of_sequences}

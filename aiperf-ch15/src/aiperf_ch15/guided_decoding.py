"""Guided decoding: legal tokens are a table by state, and forced tokens need no model.

Question    A grammar allows some tokens in each step. What does it cost to leave out all others?
Numbers     64 rows write 64 tokens each of a JSON record, an automaton of 597 states over 128256 tokens. The model is
            its last product alone, of 128256 x 1024 in bfloat16: 263 MB a step. Masks of all states are 9.6 MB of bits;
            a step reads 1 MB of them and 16 MB of logits. A mask that the host makes is 8.2 MB of bytes a step, which
            the host writes and PCIe carries.
Prediction  8.2 MB take 0.15 ms at 55 GB/s, twice that from pageable memory, beside 0.07 ms of the product: at least 4x
            from tables on the GPU. A masked argmax reads logits once, where torch writes masks, masked logits and
            indices. A third of the tokens are the only legal ones of their state: at most 1.5x from jumps.
Limits      A model of many layers hides a mask that the host makes one step ahead. Text without structure has no forced
            tokens. A grammar with a stack has no table by state. A call ends with the row that has the fewest forced
            tokens.
"""

import functools
from collections.abc import Callable

import torch
from torch.nn import functional

from aiperf_ch15.grammar import automaton, either, legal_tokens, literal, one_of, repeat, then, vocabulary
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.graphs import captured, graphed
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="latency", clock="wall")
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler")
cuda = bench.on("cuda", requires="sm_80")

device_code = cuda_source("guided_decoding.cu", instances=("masked_step<float>", "masked_step<Half>"))
host_code = host_source("guided_decoding.c")
THREADS, PARTS = 256, 16  # of a block; blocks of a row
ROUNDS = 4  # between two looks at the number of tokens that are left
START = 0  # the token before the first

KEYS = ('{"id": ', ', "name": "', '", "kind": "', '", "unit": "', '", "values": [', '], "note": "', '"}')
KINDS, UNITS = ("sensor", "actuator", "gateway", "controller"), ("celsius", "volt", "ampere")


def record():
    """The grammar of a record in JSON."""
    digit, letter = one_of("0123456789"), one_of(" abcdefghijklmnopqrstuvwxyz")
    number = then(repeat(literal("-"), 0, 1), repeat(digit, 1, 4), literal("."), digit, digit)
    values = then(number, repeat(then(literal(", "), number), 0, 3))
    names = either(*map(literal, KINDS)), either(*map(literal, UNITS))
    parts = repeat(digit, 1, 8), repeat(letter, 1, 32), *names, values, repeat(letter, 0, 400)
    return then(
        *(one for key, part in zip(KEYS, parts, strict=False) for one in (literal(key), part)), literal(KEYS[-1])
    )


@functools.lru_cache(1)
def legal(tokens, device):
    """The state after each token, [states, tokens], or -1."""
    return legal_tokens(*automaton(record()), vocabulary(tokens, (*KEYS, *KINDS, *UNITS, ", ", ".")), device)


@bench.workload(
    smoke={"rows": 3, "tokens": 499, "width": 16, "steps": 23, "dtype": "fp32"},
    cpu={"rows": 8, "tokens": 4096, "width": 128, "steps": 64, "dtype": "fp32"},
    cuda={"rows": 64, "tokens": 128256, "width": 1024, "steps": 64, "dtype": "bf16"},
)
def inputs(rows, width, dtype, device, generator):
    return {"prompts": torch.randint(-1, 2, (rows, width), device=device, generator=generator).to(dtype)}


@bench.static
def model(tokens, width, dtype, device, generator):
    """Embeddings and a last product of -1, 0 and 1, whose sums are exact in each order and bfloat16; the table."""
    embed, head = torch.randint(-1, 2, (2, tokens, width), device=device, generator=generator).to(dtype)
    return {"embed": embed, "head": head, "after": legal(tokens, str(device)).clone()}


def begun(prompts):
    """The token before the first of each row, and its state."""
    return torch.full_like(prompts[:, 0], START, dtype=torch.int64), torch.zeros_like(prompts[:, 0], dtype=torch.int64)


@bench.reference(tolerance=exact)
def reference(prompts, embed, head, after, steps):
    (last, states), out = begun(prompts), []
    for _ in range(steps):
        logits = (prompts + embed[last]) @ head.T
        last = logits.masked_fill_(after[states] < 0, -torch.inf).argmax(-1)
        states = after[states, last].long()
        out.append(last.int())
    return torch.stack(out, 1)


@bench.cost
def cost(rows, tokens, width, steps, bits):
    # One step of the model: how many are forced is known to the grammar alone.
    return steps_of_model(1, rows, tokens, width, steps, bits)


def every_step(rows, tokens, width, steps, bits):
    """The cost of a form that asks the model for each token."""
    return steps_of_model(steps, rows, tokens, width, steps, bits)


def steps_of_model(count, rows, tokens, width, steps, bits):
    return Cost(
        bytes_read=count * tokens * width * bits // 8,
        bytes_written=4 * rows * steps,
        flops=2 * count * rows * tokens * width,
        precision="bf16" if bits == 16 else "fp32",
        tokens=rows * steps,
    )


# One row and token; tokens that fill no word; a whole record and what follows; bfloat16.
bench.awkward(
    {"rows": 1, "steps": 1},
    {"rows": 5, "tokens": 1021, "steps": 301, "width": 1},
    {"rows": 17, "tokens": 2048, "steps": 40, "dtype": "bf16"},
)
bench.accept("cost.flops", because="the reference asks the model for each token, and forced ones need no step of it")
bench.accept(
    "cost.bytes_read", because="of the automaton's table a step reads the states of its rows, and their tokens"
)
# A mask of a step is 8.2 MB of pageable memory, 0.33 ms at 25 GB/s, beside 0.08 ms of all other work.
cuda.reach(of="speedup", at_least=4)
# A third of the tokens are forced; a product of 4 MB is most of the other steps.
cpu.reach(of="speedup", at_least=1.3)


@both.baseline(kind="reasonable", cost=every_step)
class MasksOnHost:
    def prepare(self, after):
        self.legal, self.after = (after >= 0).cpu(), after.cpu()

    def run(self, prompts, embed, head, steps):
        (last, states), out = begun(prompts), []
        states = states.cpu()
        for _ in range(steps):
            logits = (prompts + embed[last]) @ head.T
            mask = self.legal[states].to(logits.device)
            last = logits.masked_fill_(~mask, -torch.inf).argmax(-1)
            states = self.after[states, last.cpu()].long()
            out.append(last)
        return torch.stack(out, 1).int()


class TablesOnGpu:
    def prepare(self, after):
        self.legal = after >= 0

    def run(self, prompts, embed, head, after, steps):
        (last, states), out = begun(prompts), []
        for _ in range(steps):
            logits = (prompts + embed[last]) @ head.T
            last = logits.masked_fill_(~self.legal[states], -torch.inf).argmax(-1)
            states = after[states, last].long()
            out.append(last)
        return torch.stack(out, 1).int()


cuda.variant(
    graphed(TablesOnGpu),
    name="tables_on_gpu",
    adds="device tables",
    why="masks and next states of all states are on the GPU, so that no step waits for the host, and all are one graph",
    predict="at least 4x: 0.33 ms of copies and a wait of the host in each step become 0.1 ms of products and masks",
    cost=every_step,
)


class Packed:
    jump = False

    def prepare(self, prompts, embed, head, after, steps, bits):
        states, tokens = after.shape
        words = -(-tokens // 32)
        allowed = after >= 0
        places = functional.pad(allowed, (0, 32 * words - tokens)).view(states, words, 32)
        powers = torch.arange(32, device=after.device)
        self.bits = torch.stack([(one.long() << powers).sum(-1).int() for one in places])
        self.forced = torch.where(allowed.sum(1) == 1, allowed.int().argmax(1), -1).int()
        made = {"dtype": torch.int32, "device": prompts.device}
        self.states, self.counts = torch.zeros(2, len(prompts), **made)
        self.out, self.last = torch.empty(len(prompts), steps, **made), begun(prompts)[0]
        self.sizes = tokens, words, steps, int(self.jump)
        self.rounds = ROUNDS if self.jump else steps
        self.load(prompts, embed, head, after, bits)

    def load(self, prompts, embed, head, after, bits):
        self.in_c = host_code.function("masked_step")
        self.play: Callable[[], object] = functools.partial(self.several, prompts, embed, head, after)

    def several(self, prompts, embed, head, after):
        for _ in range(self.rounds):
            logits = (prompts + embed[self.last]) @ head.T
            self.step(logits, self.bits, after, self.forced, self.states, self.counts, self.last, self.out)

    def step(self, logits, *given):
        self.in_c(logits.float(), *given, len(self.last), *self.sizes)

    def run(self, steps):
        self.states.zero_()
        self.counts.zero_()
        self.last.fill_(START)
        while int(self.counts.min()) < steps:
            self.play()
        return self.out


class PackedOnGpu(Packed):
    def load(self, prompts, embed, head, after, bits):
        self.best = torch.zeros_like(self.last)
        self.tickets = torch.zeros_like(self.counts)
        self.on_gpu = device_code.kernel(f"masked_step<{'Half' if bits == 16 else 'float'}>")
        self.play = captured(self.several, prompts, embed, head, after).replay

    def step(self, *given):
        grid = PARTS, len(self.last)
        self.on_gpu(*given, self.best, self.tickets, *self.sizes, grid=grid, block=THREADS)


class Jump(Packed):
    jump = True


class JumpOnGpu(PackedOnGpu):
    jump = True


masked = {"name": "packed", "adds": "masked argmax", "cost": every_step}
jumps = {"name": "jump", "builds_on": "packed", "adds": "jump forward"}
cpu.variant(Packed, why="legal logits alone are read, by the bits of the state, in one call for all rows", **masked)
cuda.variant(
    PackedOnGpu,
    builds_on="tables_on_gpu",
    why="one pass over logits and bits of masks finds the token and the next state, in place of masks of bytes",
    predict="1.1 to 2x: 17 MB in one kernel, some 8 us, in place of some six kernels and 90 MB, beside 0.065 ms",
    **masked,
)
cpu.variant(
    Jump, why="a state with a single legal token emits it at once, and the model is asked for the others", **jumps
)
cuda.variant(
    JumpOnGpu,
    why="a state with a single legal token emits it at once, and the model is asked for the others",
    predict="1.1 to 1.5x: a third of the tokens need no step of the model; the host looks at every fourth",
    **jumps,
)

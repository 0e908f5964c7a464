"""Intrinsics: each special function has a price in cycles, and each cheaper one a price in digits.

Question    What do tanh and the exponential cost, and which digits does a faster form give up?
Numbers     2^25 cells h <- tanh(-0.75 h + x), 32 steps each: 1.07e9 tanh of float32. A scheduler starts an instruction
            a cycle, and a special function for 32 lanes every 8 cycles. On 528 schedulers at 1.98 GHz, 8 cycles a tanh
            are 0.26 ms; memory needs 0.06 ms.
Prediction  The formula 1 - 2 / (1 + exp(2 u)) has two special functions, 16 cycles, and some 26 instructions. The
            library's tanh has the same two and some 17 instructions: 1.2 to 1.7x, as has any form with two.
            `tanh.approx` is one: 2x from there. An error e of a step becomes at most e / (1 - 0.75) = 4 e.
Limits      `intrinsics` and `base_2` round near 1: a small u keeps 2^-24 of 1, not of itself. `tanh_instruction` has 11
            bits, `packed` 8. Memory-bound kernels gain nothing from fewer cycles, and give up digits for it:
            `--set steps=2`. cpu: a polynomial in vectors in place of special functions.
"""

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, fp32, lossy
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("math_intrinsics.cu")
host_code = host_source("math_intrinsics.c", options=("-ffp-contract=fast",))

WEIGHT, THREADS = -0.75, 256


@bench.workload(smoke={"n": 4099, "steps": 5}, cpu={"n": 1 << 17, "steps": 32}, cuda={"n": 1 << 25, "steps": 32})
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, steps):
    h = torch.zeros_like(x)
    for _ in range(steps):
        h = torch.tanh(WEIGHT * h + x)
    return h


@bench.cost
def cost(n, steps):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * steps * n)


def two_functions(n, steps):
    """Each tanh by an exponential and a reciprocal."""
    return evolve(cost(n, steps), special_functions=2 * steps * n)


def one_function(n, steps):
    """Each tanh by one instruction, also for one half of a register."""
    return evolve(cost(n, steps), special_functions=steps * n)


# An element; odd numbers of them; a block that is not full; one step.
bench.awkward(*({"n": n, "steps": steps} for n, steps in ((1, 1), (31, 2), (513, 1), (65537, 7))))
# One special function every 8 cycles; two other instructions find free cycles between them.
cuda.reach(of="SOL", at_least=0.8, implementation="tanh_instruction")
bench.sass("cells<Formula>", has=("MUFU.EX2", "MUFU.RCP"), lacks="MUFU.TANH")
bench.sass("cells<Library>", has=("MUFU.EX2", "MUFU.RCP"), lacks="MUFU.TANH")
bench.sass("cells<Base2>", has=("MUFU.EX2", "MUFU.RCP"), lacks=("MUFU.TANH", "FSETP"))
bench.sass("cells<Instruction>", has="MUFU.TANH", lacks=("MUFU.EX2", "MUFU.RCP"))
bench.sass("packed", has="MUFU.TANH.BF16", lacks=("MUFU.EX2", "FFMA"), arch="sm_90a")

cells = launch(device_code, out="x", grid=blocks(n=2 * THREADS), block=THREADS)
loops = loop(host_code, out="x")

cuda.baseline(cells("formula", kernel="cells<Formula>"), kind="naive", cost=two_functions)
cuda.variant(
    cells("library", kernel="cells<Library>"),
    adds="library function",
    cost=two_functions,
    why="tanhf knows what it needs: no division that is right to the last bit, and no digits lost near zero",
    predict="1.2 to 1.7x: some 17 instructions in place of 26; two special functions take 16 cycles",
)
cuda.variant(
    cells("intrinsics", kernel="cells<FastExp>"),
    adds="fast exponential and division",
    cost=two_functions,
    why="an exponential and a reciprocal as the special function unit gives them, without corrections",
    predict="1.2 to 2.0x: 11 instructions fit into the 16 cycles of two special functions",
    lossy=lossy("max_abs_error", at_most=2e-6),
)
cuda.variant(
    cells("base_2", kernel="cells<Base2>"),
    builds_on="intrinsics",
    adds="base 2",
    cost=two_functions,
    why="the factor of the base is part of the multiply-add, and nothing scales tiny powers: 6 instructions",
    predict="0.98 to 1.1x: two special functions take 16 cycles with 11 instructions or with 6",
    teaches="the special function unit is the bound: instructions that issue in its waits cost nothing",
    lossy=lossy("max_abs_error", at_most=2e-6),
)
cuda.variant(
    cells("tanh_instruction", kernel="cells<Instruction>"),
    builds_on="base_2",
    adds="tanh instruction",
    cost=one_function,
    why="one special function in place of two, with 11 right bits",
    predict="1.8 to 2x: 8 cycles in place of 16",
    lossy=lossy("max_abs_error", at_most=4 * 2**-10.9),
)
cuda.variant(
    cells("packed"),
    requires="sm_90",
    builds_on="tanh_instruction",
    adds="packed bfloat16",
    cost=one_function,
    why="two elements an instruction, with 8 right bits",
    predict="0.9 to 1.05x: its machine code has a special function for each half",
    teaches="the special function unit takes the halves one after the other: fewer digits, and no time",
    lossy=lossy("max_abs_error", at_most=0.05),
)

cpu.baseline(loops("libm"), kind="reasonable")
cpu.variant(
    loops("simd"),
    adds="simd",
    why="eight elements an instruction, without a branch: 2^y by a polynomial of degree 6, and a division",
    predict="at least 2x: a call for each element takes tens of cycles, eight elements together some 50",
)
cpu.variant(
    loops("few_digits"),
    builds_on="simd",
    adds="short polynomial",
    why="degree 3 has an error of 6e-4 of 2^f, and three multiply-adds fewer",
    predict="1 to 1.3x: 3 of some 20 instructions; the division stays",
    lossy=lossy("max_abs_error", at_most=2e-3),
)


@cuda.yardstick(requires=("package:triton", "compiler"), why="torch.compile of all steps, with the tanh of libdevice")
class Compiled:
    def prepare(self, x, steps):
        self.call = torch.compile(reference, fullgraph=True, dynamic=False)
        self.call(x, steps)

    def run(self, x, steps):
        return self.call(x, steps)

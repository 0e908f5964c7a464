"""Optimizer step: AdamW is bytes, and what counts is how often they move and how many they are.

Question    What does an update of all parameters take, for its arithmetic is a dozen operations an element?
Numbers     4 steps of AdamW on 262 million float32 parameters in 500 tensors: 250 matrices of 2^20, and 250 vectors of
            1024. A pass reads weight, gradient and two moments, and writes all but the gradient: 28 bytes, 7.3 GB, 1.75
            ms a step at 4.2 TB/s. The steps of torch are CUDA graphs, so that no
            time is Python's.
Prediction  A tensor at a time is 8 kernels of 8 to 16 bytes an element, 80 in all, and 11 on its step count: 7500
            kernels a step on vectors and counts, at 1 to 2 us. Lists of tensors save these; one kernel makes 28 bytes
            of 80. Moments in bfloat16 make 20 bytes of 28, in eight bits 16.
Limits      A second moment changes by 1/1000 a step, which rounding to the nearest bfloat16, of 1/256, loses: it never
            moves. Stochastic rounding keeps it on average; `drift` is the part of the moves that is missing in the same
            direction everywhere. Eight-bit moments take 256 elements of about the same size for a scale.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, Tolerance, lossy
from aiperf_core.graphs import graphed
from aiperf_core.kernels import triton_source

bench = Benchmark(goal="speed", clock="device")
both, cuda, cpu = bench.on(("cpu", "cuda")), bench.on("cuda"), bench.on("cpu")
triton = bench.on("cuda", requires=("sm_80", "package:triton"))

RATE, BETAS, EPS, DECAY = 1e-3, (0.9, 0.999), 1e-8, 0.01
EARLIER = 1000  # steps
SHARING = 256  # elements with one scale
BLOCK, ROWS = 1024, 4
CACHE_BYTES = 128e6  # of the largest last-level cache of a GPU (B200)
kernels = triton_source(
    "optimizer_step_triton.py", archs=("sm_80", "sm_90"), launched_by=("sixteen_bits", "stochastic", "eight_bits")
)


updates_in_float32 = Tolerance(
    1e-5, reason="factors of a step are powers that the device computes in float32, in each of four"
)


@bench.workload(
    state=(
        "weights",
        "first",
        "second",
        "first_16",
        "second_16",
        "first_8",
        "second_8",
        "first_scales",
        "second_scales",
    ),
    smoke={"steps": 3, "tensors": 6, "matrix": 1031, "vector": 29},
    cpu={"steps": 2, "tensors": 40, "matrix": 1 << 18, "vector": 512},
    cuda={"steps": 4, "tensors": 500, "matrix": 1 << 20, "vector": 1024},
)
def inputs(tensors, matrix, vector, device, generator):
    n = sum(lengths(tensors, matrix, vector))

    def normal(size):
        return torch.randn(n, device=device, generator=generator).mul_(size)

    # The moments are those of gradients of twice this size. Weights are as large as a step, so that an error of the
    # step is an error of the answer.
    first, second = normal(0.5), torch.rand(n, device=device, generator=generator).add_(0.5)
    given = {"weights": normal(RATE), "gradients": normal(0.5), "first": first, "second": second}
    given |= {"first_16": first.bfloat16(), "second_16": second.bfloat16()}
    for name, moment, dtype, most in (("first", first, torch.int8, 127), ("second", second, torch.uint8, 255)):
        sharing = torch.nn.functional.pad(moment, (0, -n % SHARING)).view(-1, SHARING)
        scales = sharing.abs().amax(1)
        codes = (sharing.abs() / scales[:, None]).sqrt_().mul_(most).round_().mul_(sharing.sign())
        given |= {f"{name}_8": codes.flatten()[:n].to(dtype), f"{name}_scales": scales}
    return given


@bench.reference(tolerance=updates_in_float32)
def reference(weights, gradients, first, second, steps):
    for count in range(EARLIER + 1, EARLIER + steps + 1):
        first = torch.lerp(gradients, first, BETAS[0])
        second = torch.lerp(gradients**2, second, BETAS[1])
        size = (second / (1 - BETAS[1] ** count)).sqrt_().add_(EPS)
        weights = weights * (1 - RATE * DECAY) - first / size * (RATE / (1 - BETAS[0] ** count))
    return {"weights": weights}


def bytes_of(moment_bytes):
    """The cost of moments of so many bytes: of a pass a step, the cache can keep its own size for the next."""

    def cost(steps, tensors, matrix, vector):
        n = sum(lengths(tensors, matrix, vector))
        read, written, kept = (8 + 2 * moment_bytes) * n, (4 + 2 * moment_bytes) * n, (steps - 1) * CACHE_BYTES
        return Cost(
            bytes_read=max(read, steps * read - kept),
            bytes_written=max(written, steps * written - kept),
            flops=12 * steps * n,
            precision="fp32",
        )

    return cost


cost = bench.cost(bytes_of(4))
bench.accept("cost.bytes_read", because="an implementation reads the moments in one form of three")


def lengths(tensors, matrix, vector):
    """The elements of all tensors: a matrix, a vector, and so on."""
    return [matrix, vector] * (tensors // 2) + [matrix] * (tensors % 2)


@bench.metric
def update_error(output, reference):
    """The relative error of the weights, which are about as large as what the steps move them by."""
    right = reference["weights"]
    return float((output["weights"].to(right) - right).norm() / right.norm())


@bench.metric
def drift(output, reference):
    """The part of the weights that is missing, or too much, in the same direction everywhere."""
    right = reference["weights"].flatten()
    return abs(1 - float(output["weights"].to(right) @ right / (right @ right)))


# One element; a block and its scales, and an element more; many tensors of a few elements.
bench.awkward(
    {"tensors": 1, "matrix": 1, "vector": 1},
    {"tensors": 2, "matrix": 1024, "vector": 1},
    {"tensors": 37, "matrix": 61, "vector": 3},
)
bench.sass("sixteen_bits", has=("LDG.E.128", "STG.E.128"))
bench.sass("eight_bits", has=("LDG.E.128", "STG.E.128"))
cuda.reach(of="BW", at_least=0.85, implementation="fused")
# 20 and 16 bytes of 28.
cuda.reach(of="time:fused", at_most=20 / 28 / 0.95, implementation="stochastic")
cuda.reach(of="time:fused", at_most=16 / 28 / 0.9, implementation="eight_bits")
# 28 bytes of 80, and square roots that a processor does not hide as a GPU does.
cpu.reach(of="speedup", at_least=1.5, implementation="fused")


class ForLoop:
    """Steps of torch.optim.AdamW on tensors that are parts of the harness's buffers."""

    foreach, fused, one_tensor = False, False, False

    def prepare(self, weights, gradients, first, second, tensors, matrix, vector):
        sizes = [len(weights)] if self.one_tensor else lengths(tensors, matrix, vector)
        self.counts = torch.zeros(len(sizes), device=weights.device)
        self.optimizer = torch.optim.AdamW(
            [part.detach().requires_grad_() for part in weights.split(sizes)],
            lr=RATE,
            betas=BETAS,
            eps=EPS,
            weight_decay=DECAY,
            foreach=self.foreach,
            fused=self.fused,
            capturable=weights.is_cuda,
        )
        parts = zip(*(flat.split(sizes) for flat in (gradients, first, second)), self.counts, strict=True)
        for parameter, (gradient, average, square, count) in zip(
            self.optimizer.param_groups[0]["params"], parts, strict=True
        ):
            parameter.grad = gradient
            self.optimizer.state[parameter] = {"step": count, "exp_avg": average, "exp_avg_sq": square}

    def run(self, weights, steps):
        self.counts.fill_(EARLIER)
        for _ in range(steps):
            self.optimizer.step()
        return {"weights": weights}


class Foreach(ForLoop):
    foreach = True


class Fused(ForLoop):
    fused = True


class OneTensor(Fused):
    one_tensor = True


fused = {
    "adds": "one kernel",
    "why": "a kernel reads weight, gradient and moments of an element once, and writes them once",
}
cpu.baseline(ForLoop, kind="naive")
cpu.variant(Fused, **fused, predict="at least 1.5x: 28 bytes an element in place of 80")
cuda.baseline(graphed(ForLoop), name="for_loop", kind="naive")
cuda.variant(
    graphed(Foreach),
    name="foreach",
    adds="lists of tensors",
    why="a kernel takes as many tensors as its arguments have room for: vectors no longer cost a kernel each",
    predict="1.5 to 4x: 7500 kernels less a step, at 1 to 2 us, beside 5 to 8 ms for 80 bytes an element or more",
)
cuda.variant(
    graphed(Fused),
    name="fused",
    builds_on="foreach",
    **fused,
    predict="2.5 to 4.5x: 28 bytes an element in place of 80 or more",
)
cuda.variant(
    graphed(OneTensor),
    name="one_tensor",
    builds_on="fused",
    adds="one buffer",
    why="weights, gradients and moments are one tensor each: no list of addresses, and no block that is partly full",
    predict="0.98 to 1.1x: 500 blocks of 65,536 elements of 4,500 are partly full",
    teaches="a kernel on lists of tensors has all of them under way at the same time",
)


CONSTANTS = (*BETAS, EPS, 1 - RATE * DECAY)
rounded_moments = lossy("update_error", at_most=3e-2)


def numbers_of(steps):
    """Factors of both moments, which correct that they began with zero, and a seed, for each step."""
    for count in range(EARLIER + 1, EARLIER + steps + 1):
        yield RATE / (1 - BETAS[0] ** count), 1 / math.sqrt(1 - BETAS[1] ** count), count * 0x9E3779B9 % 2**31


@triton.variant(
    builds_on="one_tensor",
    adds="bfloat16 moments",
    cost=bytes_of(2),
    why="both moments are read and written in half of the bytes: 20 an element in place of 28",
    predict="1.25 to 1.75x: 28 / 20 bytes, and no lists of tensors",
    lossy=rounded_moments,
)
class SixteenBits:
    stochastic = False

    def prepare(self):
        self.kernel = kernels.kernel("sixteen_bits")

    def run(self, weights, gradients, first_16, second_16, steps):
        n = len(weights)
        for numbers in numbers_of(steps):
            self.kernel[(-(-n // BLOCK),)](
                weights, gradients, first_16, second_16, n, *numbers, *CONSTANTS, self.stochastic, BLOCK
            )
        return {"weights": weights}


@triton.variant(
    builds_on="sixteen_bits",
    adds="stochastic rounding",
    cost=bytes_of(2),
    why="moments are rounded up with the probability of what is cut off: small changes of a second moment count",
    predict="0.95 to 1.05x: a dozen integer operations an element beside 20 bytes",
    teaches="random bits from a hash are free beside memory, and the drift of the moments is gone",
    lossy=rounded_moments,
)
class Stochastic(SixteenBits):
    stochastic = True


@triton.variant(
    builds_on="stochastic",
    adds="eight-bit moments",
    cost=bytes_of(1),
    why="16 bytes an element, of which 12 are weights and gradients, and two scales for 256",
    predict="1.1 to 1.3x: 20 / 16 bytes",
    lossy=rounded_moments,
)
class EightBits:
    def prepare(self):
        self.kernel = kernels.kernel("eight_bits")

    def run(self, weights, gradients, first_8, second_8, first_scales, second_scales, steps):
        n, moments = len(weights), (first_8, second_8, first_scales, second_scales)
        for numbers in numbers_of(steps):
            self.kernel[(-(-n // (ROWS * SHARING)),)](
                weights, gradients, *moments, n, *numbers, *CONSTANTS, ROWS, SHARING
            )
        return {"weights": weights}

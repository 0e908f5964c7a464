"""AdamW in one pass over a buffer of weights, with moments of 16 or 8 bits; all arithmetic is in float32.

Stochastic rounding takes its random bits from a hash of place and seed: Philox's ten rounds an element would take
longer than the memory.
"""

import triton
import triton.language as tl


@triton.jit
def random_bits(places, seed):
    """32 random bits for each place: two rounds of multiplying and folding."""
    x = (places + seed).to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def rounded(x, bits):
    """To bfloat16, up with the probability of what is cut off: 16 random bits are added below the last bit."""
    whole = x.to(tl.uint32, bitcast=True) + bits
    return (whole & 0xFFFF0000).to(tl.float32, bitcast=True).to(tl.bfloat16)


@triton.jit
def moved(weights_ptr, gradients_ptr, first, second, places, inside, rate, root, BETA1: tl.constexpr,
          BETA2: tl.constexpr, EPS: tl.constexpr, KEPT: tl.constexpr):  # fmt: skip
    """Update both moments, then the weights, which are stored; return the moments."""
    gradient = tl.load(gradients_ptr + places, mask=inside, other=0.0)
    first = BETA1 * first + (1 - BETA1) * gradient
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    weight = KEPT * tl.load(weights_ptr + places, mask=inside, other=0.0)
    tl.store(weights_ptr + places, weight - rate * first / (tl.sqrt(second) * root + EPS), mask=inside)
    return first, second


@triton.jit(do_not_specialize=["seed"])
def sixteen_bits(weights_ptr, gradients_ptr, first_ptr, second_ptr, n, rate, root, seed, BETA1: tl.constexpr,
                 BETA2: tl.constexpr, EPS: tl.constexpr, KEPT: tl.constexpr, STOCHASTIC: tl.constexpr,
                 BLOCK: tl.constexpr):  # fmt: skip
    """Moments in bfloat16. `rate` and `root` hold the corrections of the moments' bias."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    first = tl.load(first_ptr + places, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(second_ptr + places, mask=inside, other=0.0).to(tl.float32)
    first, second = moved(
        weights_ptr, gradients_ptr, first, second, places, inside, rate, root, BETA1, BETA2, EPS, KEPT
    )
    if STOCHASTIC:
        bits = random_bits(places, seed)
        tl.store(first_ptr + places, rounded(first, bits & 0xFFFF), mask=inside)
        tl.store(second_ptr + places, rounded(second, bits >> 16), mask=inside)
    else:
        tl.store(first_ptr + places, first.to(tl.bfloat16), mask=inside)
        tl.store(second_ptr + places, second.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=["seed"])
def eight_bits(weights_ptr, gradients_ptr, first_ptr, second_ptr, first_scales_ptr, second_scales_ptr, n, rate, root,
               seed, BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr, KEPT: tl.constexpr,
               ROWS: tl.constexpr, SHARING: tl.constexpr):  # fmt: skip
    """Moments as roots in eight bits: m = sign(c) (c / 127)^2 s and v = (c / 255)^2 s, with a scale s for SHARING."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    places = rows[:, None] * SHARING + tl.arange(0, SHARING)[None, :]
    inside, some = places < n, rows * SHARING < n
    code = tl.load(first_ptr + places, mask=inside, other=0).to(tl.float32) / 127
    first = code * tl.abs(code) * tl.load(first_scales_ptr + rows, mask=some, other=0.0)[:, None]
    code = tl.load(second_ptr + places, mask=inside, other=0).to(tl.float32) / 255
    second = code * code * tl.load(second_scales_ptr + rows, mask=some, other=0.0)[:, None]
    first, second = moved(
        weights_ptr, gradients_ptr, first, second, places, inside, rate, root, BETA1, BETA2, EPS, KEPT
    )
    bits = random_bits(places, seed)
    scale = tl.maximum(tl.max(tl.abs(first), axis=1), 1e-30)
    root_of = tl.sqrt(tl.abs(first) / scale[:, None]) * 127 + (bits & 0xFFFF).to(tl.float32) / 65536
    code = tl.minimum(tl.floor(root_of), 127.0)
    tl.store(first_ptr + places, tl.where(first < 0, -code, code).to(tl.int8), mask=inside)
    tl.store(first_scales_ptr + rows, scale, mask=some)
    scale = tl.maximum(tl.max(second, axis=1), 1e-30)
    root_of = tl.sqrt(second / scale[:, None]) * 255 + (bits >> 16).to(tl.float32) / 65536
    # A second moment of zero would make a step without a limit.
    code = tl.minimum(tl.maximum(tl.floor(root_of), 1.0), 255.0)
    tl.store(second_ptr + places, code.to(tl.uint8), mask=inside)
    tl.store(second_scales_ptr + rows, scale, mask=some)

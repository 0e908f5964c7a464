"""How far rounding to bfloat16 takes the gradients of the chapter's networks from the right ones.

A layer of these networks adds the GELU of a product to a stream: x + gelu(x W). What is rounded in it is small beside
the stream, so that errors add up from layer to layer. Without the stream they would be passed on and grow, and a
tolerance that lets the deepest network pass would let numbers of 8 bits pass too.
"""

from math import log

from aiperf_core import Tolerance, units

# A number rounded to 8 significant bits is off by up to half a step, evenly, of which the root mean square is the step
# by the root of 12. A step is 2**-7 of the power of two below the number, and the number's square lies anywhere between
# that power's square and four times as much: 3 / (8 log 2) is the mean of their ratio.
ONE_ROUNDING = 2**-7 * (3 / (8 * log(2)) / 12) ** 0.5
# A gradient is made of what the stream was before its layer and of what came back from behind it: one rounding for each
# layer on one of both ways. Its own layer adds about six: two of the product's factors, two of GELU's derivative at a
# rounded input, one of what comes back, and its own. The errors are independent, so that their squares add up.
DEEPEST = 64  # eight blocks on each of eight ranks
ALL_ROUNDINGS = ONE_ROUNDING * (DEEPEST + 6) ** 0.5
rounded_layers = Tolerance(
    2.2e-2,
    reason=f"{DEEPEST + 6} roundings to bfloat16 in a row, of {units.percent(ONE_ROUNDING)} each, are off by "
    f"{units.percent(ALL_ROUNDINGS)}, with more than half "
    "as much again to spare; a share left out of a sum over ranks and micro-batches is off by more than 12 %",
)

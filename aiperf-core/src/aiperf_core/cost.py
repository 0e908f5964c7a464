"""Cost: the least bytes and operations that the work of a target needs."""

import math

from attrs import field, frozen

from aiperf_core.errors import BenchmarkError

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@frozen(kw_only=True)
class Cost:
    """The least work of any implementation in one call. Raises `BenchmarkError` for a value that is no cost.

    bytes_read, bytes_written: compulsory traffic, every input and every output once.
    flops: operations, a multiply-add as two.
    precision: of the arithmetic; it chooses the ceiling for the speed of light.
    wire_bytes: the bytes that each rank must send.
    tokens: tokens, samples or requests that a call delivers.
    """

    bytes_read: float = 0.0
    bytes_written: float = 0.0
    flops: float = 0.0
    precision: str = field(default="fp32")
    wire_bytes: float = 0.0
    tokens: float = 0.0

    def __attrs_post_init__(self) -> None:
        for name in ("bytes_read", "bytes_written", "flops", "wire_bytes", "tokens"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise BenchmarkError(f"a cost cannot have {name}={value!r}; accepted is a finite number from 0")
        if self.precision not in PRECISIONS:
            raise BenchmarkError(f"a cost has precision={self.precision!r}; accepted are {', '.join(PRECISIONS)}")
        if not (self.bytes_read or self.bytes_written or self.flops or self.wire_bytes):
            raise BenchmarkError("a cost of nothing was declared; give bytes_read, bytes_written, flops or wire_bytes")

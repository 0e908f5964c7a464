"""Cost: the least bytes and operations that the work of a target needs."""

import math

from attrs import field, frozen

from aiperf_core.errors import BenchmarkError

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
# The amounts that bound a time: traffic of the memory, arithmetic, traffic of links and disks.
WORK = ("bytes_read", "bytes_written", "flops", "wire_bytes", "disk_read_bytes", "disk_written_bytes")


@frozen(kw_only=True)
class Cost:
    """The least work of any implementation in one call. Raises `BenchmarkError` for a value that is no cost.

    bytes_read, bytes_written: compulsory traffic, every input and every output once.
    flops: operations, a multiply-add as two.
    precision: of the arithmetic; it chooses the ceiling for the speed of light.
    wire_bytes: the bytes that a rank must send to others, on average over the ranks.
    disk_read_bytes: the bytes that a call must read from the disk.
    disk_written_bytes: the bytes that must be on the disk before a call returns.
    tokens: tokens, samples or requests that a call delivers.
    """

    bytes_read: float = 0.0
    bytes_written: float = 0.0
    flops: float = 0.0
    precision: str = field(default="fp32")
    wire_bytes: float = 0.0
    disk_read_bytes: float = 0.0
    disk_written_bytes: float = 0.0
    tokens: float = 0.0

    def __attrs_post_init__(self) -> None:
        for name in (*WORK, "tokens"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise BenchmarkError(f"a cost cannot have {name}={value!r}; accepted is a finite number from 0")
        if self.precision not in PRECISIONS:
            raise BenchmarkError(f"a cost has precision={self.precision!r}; accepted are {', '.join(PRECISIONS)}")
        if not any(getattr(self, name) for name in WORK):
            raise BenchmarkError(f"a cost of nothing was declared; give {', '.join(WORK[:-1])} or {WORK[-1]}")

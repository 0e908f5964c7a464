"""Cost: the least bytes and operations that the work of a target needs."""

import math

from attrs import field, frozen

from aiperf_core.errors import BenchmarkError

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
# Amounts that few targets declare, with their headings. A name ends with `_bytes` or counts.
FURTHER = {
    "wire_bytes": "wire",
    "disk_read_bytes": "disk reads",
    "disk_written_bytes": "disk writes",
    "to_device_bytes": "to device",
    "from_device_bytes": "from device",
    "shared_bytes": "shared memory",
    "sectors": "random sectors",
    "special_functions": "special functions",
    "launches": "launches",
    "serial_steps": "dependent reads",
}
# All amounts that bound a time: traffic of the memory, arithmetic, and those.
WORK = ("bytes_read", "bytes_written", "flops", *FURTHER)


@frozen(kw_only=True)
class Cost:
    """The least work of any implementation in one call. Raises `BenchmarkError` for a value that is no cost.

    bytes_read, bytes_written: compulsory traffic, every input and every output once.
    flops: operations, a multiply-add as two.
    precision: of the arithmetic; it chooses the ceiling for the speed of light.
    wire_bytes: the bytes that a rank must send to others, on average over the ranks.
    disk_read_bytes: the bytes that a call must read from the disk.
    disk_written_bytes: the bytes that must be on the disk before a call returns.
    to_device_bytes, from_device_bytes: the bytes that a call must move between host and device.
    shared_bytes: the bytes that threads must read from and write to shared memory.
    sectors: the sectors of 32 bytes that must be read from random places of a memory much larger than the cache.
    special_functions: exponentials, square roots and their like, which a GPU's special function units compute.
    launches: kernels that must run one after another.
    serial_steps: reads that must follow one another, each of a value that the last cache holds.
    optimum_s: of a simulated target, the least virtual seconds that any schedule can take.
    tokens: tokens, samples or requests that a call delivers.
    """

    bytes_read: float = 0.0
    bytes_written: float = 0.0
    flops: float = 0.0
    precision: str = field(default="fp32")
    wire_bytes: float = 0.0
    disk_read_bytes: float = 0.0
    disk_written_bytes: float = 0.0
    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    shared_bytes: float = 0.0
    sectors: float = 0.0
    special_functions: float = 0.0
    launches: float = 0.0
    serial_steps: float = 0.0
    optimum_s: float = 0.0
    tokens: float = 0.0

    def __attrs_post_init__(self) -> None:
        for name in (*WORK, "optimum_s", "tokens"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise BenchmarkError(f"a cost cannot have {name}={value!r}; accepted is a finite number from 0")
        if self.precision not in PRECISIONS:
            raise BenchmarkError(f"a cost has precision={self.precision!r}; accepted are {', '.join(PRECISIONS)}")
        if not any(getattr(self, name) for name in (*WORK, "optimum_s")):
            raise BenchmarkError(f"a cost of nothing was declared; give {', '.join(WORK[:-1])} or {WORK[-1]}")

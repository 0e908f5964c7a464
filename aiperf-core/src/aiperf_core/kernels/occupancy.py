"""Blocks of a kernel that a multiprocessor holds at once, and the resource that limits them. Needs no GPU."""

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.kernels.archs import parse_arch

LANES = 32
# A warp is bound to a quarter of the multiprocessor; its registers come in units of 256, shared memory of 128 bytes.
_QUARTERS, _REGISTER_UNIT, _SHARED_UNIT = 4, 256, 128
_REGISTERS, MOST_REGISTERS, MOST_THREADS = 1 << 16, 255, 1024


@frozen
class Multiprocessor:
    """Resources of a multiprocessor of an architecture.

    shared_bytes: of all blocks together. reserved_bytes: of these, for the system in each block.
    """

    threads: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024

    @property
    def warps(self) -> int:
        """Warps that it holds at most."""
        return self.threads // LANES


# By compute capability, as in the table of technical specifications of the CUDA C++ Programming Guide.
MULTIPROCESSORS = {
    (7, 5): Multiprocessor(1024, 16, 64 << 10, 0),
    (8, 0): Multiprocessor(2048, 32, 164 << 10),
    (8, 6): Multiprocessor(1536, 16, 100 << 10),
    (8, 7): Multiprocessor(1536, 16, 164 << 10),
    (8, 9): Multiprocessor(1536, 24, 100 << 10),
    (9, 0): Multiprocessor(2048, 32, 228 << 10),
    (10, 0): Multiprocessor(2048, 32, 228 << 10),
    (10, 3): Multiprocessor(2048, 32, 228 << 10),
    (12, 0): Multiprocessor(1536, 24, 100 << 10),
}


@frozen
class Occupancy:
    """Blocks on a multiprocessor.

    blocks: as many as it holds at once. share: of the warps that it has room for.
    by: blocks that each resource allows: `threads`, `blocks`, `registers`, `shared memory`.
    """

    blocks: int
    share: float
    by: dict[str, int]

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow the fewest blocks."""
        return tuple(name for name, blocks in self.by.items() if blocks == self.blocks)


def multiprocessor(arch: str) -> Multiprocessor:
    """The multiprocessor of an architecture such as `sm_90a`. Raises `UsageError` for one that is not known."""
    parsed = parse_arch(arch)
    found = MULTIPROCESSORS.get(parsed[:2])
    if found is None:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in MULTIPROCESSORS)
        raise UsageError(f"the limits of a multiprocessor of {arch} are not known; known are {known}")
    return found


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """The blocks of a kernel on a multiprocessor.

    threads: of a block.
    registers: of a thread.
    shared_bytes: shared memory of a block, static and dynamic, without the part that is reserved for the system.

    Raises `UsageError` for an unknown architecture, and for a block that no kernel can have.
    """
    sm = multiprocessor(arch)
    for name, value, most in (("threads", threads, MOST_THREADS), ("registers", registers, MOST_REGISTERS)):
        if not 1 <= value <= most:
            raise UsageError(f"{value} {name} are none that a kernel can have; accepted are 1 to {most}")
    if shared_bytes < 0:
        raise UsageError(f"a block cannot have {shared_bytes} bytes of shared memory; accepted is a number from 0")
    warps = -(-threads // LANES)
    of_warp = -(-registers * LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    shared = -(-(shared_bytes + sm.reserved_bytes) // _SHARED_UNIT) * _SHARED_UNIT
    by = {
        "threads": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": _REGISTERS // _QUARTERS // of_warp * _QUARTERS // warps,  # whole warps in each quarter
    }
    if shared:
        by["shared memory"] = sm.shared_bytes // shared
    blocks = min(by.values())
    return Occupancy(blocks, blocks * warps / sm.warps, by)

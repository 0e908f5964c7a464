"""Compiled kernels as a result: resources, occupancy, and instructions by kind."""

from collections.abc import Mapping, Sequence

from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.kernels.check import Outcome
from aiperf_core.kernels.occupancy import Occupancy, occupancy
from aiperf_core.kernels.resources import Resources
from aiperf_core.report.result import Cell, Column, LeftOut, Record, Result, Table, counted

# Opcodes by kind. Matrix products end with MMA on every architecture: HMMA, HGMMA, QGMMA, UTCHMMA.
KINDS = {
    "loads": ("LDG", "LD"),
    "stores": ("STG", "ST"),
    "shared": ("LDS", "STS", "LDSM", "STSM"),
    "local": ("LDL", "STL"),
    "async_copies": ("LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "UTMAREDG"),
    "atomics": ("ATOM", "ATOMG", "ATOMS", "RED", "REDG"),
    "FMA": ("FFMA", "FFMA2", "HFMA2", "DFMA"),
    "special": ("MUFU",),
}
MATRIX = "MMA"
KEYS = ("instructions", *KINDS, "matrix_products")
ASSUMED_THREADS = 256


NO_COUNTS = "Not counted: that needs nvdisasm, of the CUDA toolkit (in PATH) or of the package triton."


def view(outcomes: Sequence[Outcome]) -> Result:
    """A row for each kernel of a GPU in two tables: what it takes, and its instructions."""
    names = [Column(key, key) for key in ("kernel", "target", "arch")]
    takes = [Column(key, key.replace("_", " "), "figure") for key in ("registers", "spilled", "shared_memory")]
    takes += [Column("threads", "threads", "figure"), Column("blocks", "blocks an SM", "figure")]
    takes += [Column("occupancy", "occupancy", "figure"), Column("limiter", "limited by")]
    counts = [Column(key, key.replace("_", " "), "figure") for key in KEYS]
    kernels: list[tuple[Outcome, str, dict[str, Cell]]] = [
        (outcome, name, {"kernel": name, "target": outcome.target, "arch": outcome.arch})
        for outcome in outcomes
        for name in outcome.resources
    ]
    resources = [Record(cells | _resources(outcome, name)) for outcome, name, cells in kernels]
    counted_ones = [
        Record(cells | _by_kind(outcome.instructions[name]))
        for outcome, name, cells in kernels
        if name in outcome.instructions
    ]
    spilling = sum(bool(record.cells["spilled"]) for record in resources)
    sentence = f"{units.plural('kernel', len(resources))}, {spilling} of them with spilled registers"
    note = f"Kernels without launch bounds have no threads here: occupancy is that of {ASSUMED_THREADS}."
    return Result(
        analysis="kernels",
        title="Compiled kernels",
        summary=[sentence if resources else "No kernel of a GPU was compiled."],
        tables=[
            Table("resources", "Resources", [*names, *takes], resources, note),
            Table("instructions", "Instructions", [*names, *counts], counted_ones, "" if counted_ones else NO_COUNTS),
        ],
        left_out=[LeftOut(f"{one.target}, {one.file}", one.arch, one.reason) for one in outcomes if one.status != "ok"],
    )


def _resources(outcome: Outcome, kernel: str) -> dict[str, Cell]:
    needs = outcome.resources[kernel]
    found = _occupancy(outcome.arch, needs)
    unknown = f"the multiprocessor of {outcome.arch} is not known"
    return {
        "registers": needs.registers,
        "spilled": needs.spill_bytes,
        "shared_memory": counted(needs.shared_bytes, "B"),
        "threads": needs.threads or None,
        "blocks": found.blocks if found else None,
        "occupancy": counted(100 * found.share if found else None, "%", unknown),
        "limiter": " and ".join(found.limiters) if found else None,
    }


def _occupancy(arch: str, needs: Resources) -> Occupancy | None:
    """The occupancy of a kernel; None for an architecture whose multiprocessor is not known."""
    try:
        return occupancy(arch, needs.threads or ASSUMED_THREADS, needs.registers, needs.shared_bytes)
    except UsageError:
        return None


def _by_kind(instructions: Mapping[str, int]) -> dict[str, Cell]:
    """The number of instructions of each kind, by the key of its column."""
    matrix = sum(count for opcode, count in instructions.items() if opcode.endswith(MATRIX))
    kinds = (sum(instructions.get(opcode, 0) for opcode in opcodes) for opcodes in KINDS.values())
    return dict(zip(KEYS, (sum(instructions.values()), *kinds, matrix), strict=True))

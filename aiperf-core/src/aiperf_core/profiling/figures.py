"""The figures of a profile: their names on disk, their labels and their units."""

from attrs import frozen

from aiperf_core import units


@frozen
class Figure:
    """A figure of a profile.

    label: its name in tables.
    unit: `s`, `B`, `B/s`, `share`, `count` or `ratio`.
    explains: the least ratio between two implementations that explains a difference in time; 0 for none.
    """

    label: str
    unit: str
    explains: float = 0.0


# In the order of tables and of explanations. All are of one call.
FIGURES = {
    "call_s": Figure("a call, on the host", "s"),
    "span_s": Figure("GPU, first to last work", "s"),
    "busy_s": Figure("GPU at work", "s"),
    "launches": Figure("launches", "count", 1.5),
    "kernels": Figure("kernels", "count", 1.5),
    "idle_share": Figure("GPU idle", "share", 1.5),
    "gaps": Figure("gaps between kernels", "count"),
    "idle_s": Figure("time in gaps", "s"),
    "copied_bytes": Figure("bytes copied", "B", 1.1),
    "operators": Figure("operators", "count", 1.1),
    "outside_s": Figure("outside of operators", "s", 1.2),
    "outside_share": Figure("share outside of operators", "share"),
    "bytes_per_s": Figure("declared bytes a second", "B/s"),
    "dram_bytes": Figure("DRAM bytes", "B", 1.1),
    "dram_bytes_per_s": Figure("DRAM rate", "B/s", 1.2),
    "dram_share": Figure("DRAM rate, of its peak", "share", 1.2),
    "sectors_per_load": Figure("sectors a load request", "ratio", 1.2),
    "sectors_per_store": Figure("sectors a store request", "ratio", 1.2),
    "bank_conflicts": Figure("shared-memory bank conflicts", "count", 1.5),
    "l1_hit": Figure("L1 hits", "share", 1.2),
    "l2_hit": Figure("L2 hits", "share", 1.2),
    "sm_share": Figure("SM throughput, of its peak", "share", 1.2),
    "tensor_share": Figure("tensor pipe, of its peak", "share", 1.2),
    "warp_instructions": Figure("warp instructions", "count", 1.2),
    "occupancy": Figure("occupancy achieved", "share", 1.2),
    "occupancy_limit": Figure("occupancy possible", "share", 1.2),
    "registers": Figure("registers a thread", "count"),
    "shared_bytes": Figure("shared memory a block", "B"),
    "task_s": Figure("processor time", "s", 1.2),
    "instructions": Figure("instructions", "count", 1.1),
    "cycles": Figure("cycles", "count"),
    "ipc": Figure("instructions a cycle", "ratio", 1.1),
    "cache_misses": Figure("last-level cache misses", "count", 1.2),
    "cache_miss_share": Figure("last-level misses, of references", "share"),
    "branch_miss_share": Figure("branches mispredicted", "share", 1.5),
    "page_faults": Figure("page faults", "count", 2.0),
    "context_switches": Figure("context switches", "count"),
    "cpu_migrations": Figure("moves to another processor", "count"),
}
STALL = "stall."


def label(name: str) -> str:
    """The label of a figure; a metric of a tool keeps its name."""
    if name.startswith(STALL):
        return f"warps stalled: {name.removeprefix(STALL).replace('_', ' ')}"
    return FIGURES[name].label if name in FIGURES else name


def shown(name: str, value: float) -> str:
    """A figure with its unit."""
    unit = "ratio" if name not in FIGURES else FIGURES[name].unit
    match unit:
        case "s":
            return units.seconds(value)
        case "B":
            return units.size(value)
        case "B/s":
            return units.rate(value, "B/s")
        case "share":
            return units.percent(value)
        case "count":
            return counted(value)
    return units.number(value)


def counted(value: float) -> str:
    """A count, which may be a fraction as an average over calls: `61`, `1.5`, `12.3 M`."""
    for scale, prefix in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= scale:
            return f"{units.number(value / scale)} {prefix}"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else units.number(value)


def order(name: str) -> tuple[int, str]:
    """The sort key of a figure; metrics of a tool come last."""
    names = list(FIGURES)
    return (names.index(name) if name in names else len(names), name)

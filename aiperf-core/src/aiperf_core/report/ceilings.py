"""The peak rates of a device as a result."""

from collections.abc import Iterator

from aiperf_core import units
from aiperf_core.devices.ceiling_figures import figures, of_datasheet, unit_of
from aiperf_core.measurements import Ceilings
from aiperf_core.report.result import Column, LeftOut, Record, Result, Table, counted

# The labels of figures by kind, in the order of the table. `{}` stands for the part of a figure, such as `bf16`.
LABELS = {
    "memory": {
        "copy_bytes_per_s": "copy (read + write)",
        "read_bytes_per_s": "read",
        "write_bytes_per_s": "write",
        "stream_bytes_per_s": "{}",
        "cache_bytes_per_s": "last-level cache, read",
        "cache_bytes": "last-level cache, size",
        "shared_bytes_per_s": "shared memory, read",
        "sectors_per_s": "random reads of 32 bytes",
        "serial_step_s": "read that the next one waits for",
    },
    "arithmetic": {
        "flop_per_s": "{} matmul",
        "vector_flop_per_s": "{} FMA",
        "multiply_add_flop_per_s": "{} FMA of three registers",
        "special_functions_per_s": "special functions",
    },
    "launches and clocks": {
        "launch_s": "kernel after kernel",
        "graph_launch_s": "the same in a graph",
        "launch_wait_s": "launch and wait",
        "event_overhead_s": "excess of events",
        "event_step_s": "step of events",
        "sm_clock_hz": "SM clock",
        "timer_call_s": "call of {}",
        "timer_resolution_s": "step of perf_counter",
    },
    "transfers": {"transfer_bytes_per_s": "{}", "loopback_bytes_per_s": "process to process"},
    "disk": {"disk_read_bytes_per_s": "disk, read", "disk_write_bytes_per_s": "disk, write"},
    "several GPUs": {"peer_bytes_per_s": "GPU {}", "all_reduce_bytes_per_s": "all-reduce of {}"},
}
_LABELS = {name: label for labels in LABELS.values() for name, label in labels.items()}
_TRANSFERS = {
    "pinned_to_device": "pinned host to device",
    "pinned_from_device": "device to pinned host",
    "pageable_to_device": "pageable host to device",
    "pageable_from_device": "device to pageable host",
}
_MOST_PAIRS = 6  # of copies between GPUs; of more pairs only the slowest and the fastest
BUSY = 0.05  # share of the processors


def view(ceilings: Ceilings) -> Result:
    """The figures with their data sheet, how each was measured, and what could not be measured."""
    columns = [
        Column("kind", "of"),
        Column("name", "ceiling"),
        Column("value", "measured", "figure"),
        Column("datasheet", "data sheet", "figure"),
        Column("of_datasheet", "% of data sheet", "figure"),
        Column("how", "how"),
    ]
    sheet = ceilings.datasheet_name
    note = f"Data sheet: {sheet}; dense, one direction of a link." if sheet else ""
    by_reason: dict[str, list[str]] = {}
    for key, reason in ceilings.missing.items():
        by_reason.setdefault(reason, []).append(label_of(key))
    return Result(
        analysis="ceilings",
        title=ceilings.device,
        summary=list(_summary(ceilings)),
        tables=[Table("ceilings", "Peak rates", columns, list(_records(ceilings)), note)],
        left_out=[LeftOut(", ".join(labels), "", reason) for reason, labels in by_reason.items()],
    )


def _summary(ceilings: Ceilings) -> Iterator[str]:
    took = f" in {ceilings.took_s:.1f} s" if ceilings.took_s is not None else ""
    parts = {"torch": "torch {}", "driver": "driver {}", "power_limit_w": "power limit {} W"}
    state = [text.format(ceilings.state[name]) for name, text in parts.items() if ceilings.state.get(name)]
    yield ", ".join([f"measured {units.moment(ceilings.measured)}{took}", *state])
    if (ceilings.others_busy or 0.0) > BUSY:
        yield (
            f"Other processes took {units.percent(ceilings.others_busy or 0.0)} of the processors meanwhile: "
            "some figures may be too low. When it is quiet: aiperf ceilings --refresh"
        )


def _records(ceilings: Ceilings) -> Iterator[Record]:
    measured, fractions = figures(ceilings), of_datasheet(ceilings)
    for kind, names in LABELS.items():
        for name in names:
            keys = [key for key in measured if key.partition(".")[0] == name]
            labels = {key: label_of(key) for key in keys}
            if name == "peer_bytes_per_s" and len(keys) > _MOST_PAIRS:
                ordered = sorted(keys, key=lambda key: measured[key])
                ends = {"slowest": ordered[0], "fastest": ordered[-1]}
                labels = {key: f"{word} of {len(keys)}: {labels[key]}" for word, key in ends.items()}
            for key, label in labels.items():
                in_sheet = key in fractions
                yield Record(
                    {
                        "kind": kind,
                        "name": label,
                        "value": counted(measured[key], unit_of(key)),
                        "datasheet": counted(ceilings.datasheet[key], unit_of(key)) if in_sheet else None,
                        "of_datasheet": counted(fractions[key] * 100, "%") if in_sheet else None,
                        "how": ceilings.how.get(key),
                    }
                )


def label_of(key: str) -> str:
    """The label of a figure, by its key."""
    name, _, part = key.partition(".")
    label = _LABELS.get(name, name)
    if not part:
        return name if "{}" in label else label
    return label.format(part.replace("-", " to ") if name == "peer_bytes_per_s" else _TRANSFERS.get(part, part))

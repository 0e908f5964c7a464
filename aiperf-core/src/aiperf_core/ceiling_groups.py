"""Groups of ceilings that a run measures only where the cost or the goals of its targets need them."""

from attrs import frozen


@frozen
class CeilingGroup:
    """Ceilings that are measured together.

    figures: the fields of `Ceilings`.
    amounts: the amounts of a cost that they bound.
    goals: the kinds of goals that are held against them.
    """

    figures: tuple[str, ...]
    amounts: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()


GROUPS = {
    "wire": CeilingGroup(("peer_bytes_per_s", "loopback_bytes_per_s"), ("wire_bytes",), ("P2P",)),
    "all_reduce": CeilingGroup(("all_reduce_bytes_per_s",), goals=("ALLREDUCE",)),
    "disk": CeilingGroup(
        ("disk_read_bytes_per_s", "disk_write_bytes_per_s"), ("disk_read_bytes", "disk_written_bytes"), ("DISK",)
    ),
    "transfers": CeilingGroup(("transfer_bytes_per_s",), ("to_device_bytes", "from_device_bytes"), ("PCI",)),
    "on_chip": CeilingGroup(("shared_bytes_per_s", "cache_bytes_per_s"), ("shared_bytes",), ("SMBW", "CACHE")),
    "launches": CeilingGroup(("launch_s", "launch_wait_s", "graph_launch_s"), ("launches",), ("LAT", "GRAPH")),
    "sectors": CeilingGroup(("sectors_per_s",), ("sectors",)),
    "special": CeilingGroup(("special_functions_per_s",), ("special_functions",)),
    "steps": CeilingGroup(("serial_step_s",), ("serial_steps",)),
}

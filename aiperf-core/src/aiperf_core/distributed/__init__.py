"""Communication between the ranks of a workload, for benchmarks with `world_size`.

Collectives and messages that work on GPUs and on processors, and memory that all GPUs of a machine can write. The
harness counts what goes through them as it counts the operations of torch.distributed.
"""

from aiperf_core.distributed.collectives import all_gather, exchange, reduce_scatter, wait_all, world_group
from aiperf_core.distributed.peer_memory import (
    SymmetricBuffers,
    disable_multicast,
    put,
    register_peer_operation,
    symmetric_buffers,
)

__all__ = [
    "SymmetricBuffers",
    "all_gather",
    "disable_multicast",
    "exchange",
    "put",
    "reduce_scatter",
    "register_peer_operation",
    "symmetric_buffers",
    "wait_all",
    "world_group",
]

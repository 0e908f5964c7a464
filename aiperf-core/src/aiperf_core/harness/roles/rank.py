"""A worker as one rank of several; without effect in a worker of its own.

Torch's elastic launcher starts the ranks and passes each its number and the others' address in the environment. Before
a clock starts, the ranks meet on the host (gloo), and their GPUs on the device (NCCL), so that no rank's time includes
another's late start.
"""

import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from aiperf_core import pytree
from aiperf_core.devices.device import DeviceKind
from aiperf_core.harness.processes.channel import Message

# Longer than any timeout of the supervisor, which kills a rank that hangs.
_TIMEOUT = timedelta(hours=1)
_MEETING: list[torch.Tensor] = []
_ALIGNING: list[Callable[[], Any]] = []


def join(kind: DeviceKind) -> None:
    """Join the other ranks, if the launcher started several."""
    if "RANK" not in os.environ:
        return
    _ALIGNING.extend(kind.join_ranks(_TIMEOUT))
    _MEETING.append(torch.zeros(1))
    meet()


def joined() -> bool:
    """Whether this worker is one rank of several."""
    return bool(_MEETING)


def meet() -> None:
    """Wait on the host until all ranks are here."""
    if _MEETING:
        dist.all_reduce(_MEETING[0])


def align() -> None:
    """Queue work that makes the devices of all ranks continue together."""
    for queue in _ALIGNING:
        queue()


def collectives(call: Callable[[], Any]) -> Message:
    """Make a call; count its communication by operation, and the bytes of all tensors and of each reduction."""
    with _Communication() as seen:
        call()
    meet()
    return {"collectives": dict(seen.counts), "wire_bytes": seen.sent_bytes, "buckets": seen.buckets}


class _Communication(TorchDispatchMode):
    """Counts operations of torch.distributed and of symmetric memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        self.sent_bytes = 0
        self.buckets: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the compiler is imported for this mode too

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it communicates."""
        if function.namespace in ("c10d", "_c10d_functional", "symm_mem"):
            name = function._schema.name.partition("::")[2].strip("_")
            self.counts[name] += 1
            sent_bytes = sum(one.numel() * one.element_size() for one in pytree.tensors(list(args)))
            self.sent_bytes += sent_bytes
            if "reduce" in name:
                self.buckets.append(sent_bytes)
        return function(*args, **(kwargs or {}))

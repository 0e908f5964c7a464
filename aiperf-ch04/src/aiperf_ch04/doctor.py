"""What the ranks of this machine have to talk over: driver, NCCL, peer access between GPUs, network interfaces."""

import os
import socket
from pathlib import Path

import torch
import torch.distributed as dist
from attrs import frozen

from aiperf_ch04.nccl_env import nccl_version
from aiperf_core.devices.probe import nvidia

# Settings that make NCCL slower wherever peer access or InfiniBand exist.
SLOWING = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}


@frozen
class Finding:
    """What was found.

    name: what was looked at.
    value: what is there.
    advice: what to do; empty where nothing is wrong.
    """

    name: str
    value: str
    advice: str = ""


def findings() -> list[Finding]:
    """All that can be found without a run of ranks."""
    here = nvidia()
    gpus = torch.cuda.device_count() if here.gpus else 0
    found = [Finding("driver", here.driver or "none", "" if here.driver else "no NVIDIA driver: ranks run on gloo")]
    found.append(Finding("GPUs", str(gpus), "" if gpus > 1 else "collectives between GPUs need two or more"))
    found.append(Finding("NCCL", nccl_version() or "none", "" if gpus else "torch loads NCCL where it finds a GPU"))
    found.append(Finding("gloo", "available" if dist.is_gloo_available() else "none"))
    found += [_peers(gpus)] if gpus > 1 else []
    found.append(Finding("interfaces", ", ".join(name for _, name in socket.if_nameindex())))
    adapters = Path("/sys/class/infiniband")
    found.append(Finding("InfiniBand", ", ".join(sorted(one.name for one in adapters.glob("*"))) or "none"))
    shared = os.statvfs("/dev/shm")
    free = shared.f_bavail * shared.f_frsize
    few = "" if free >= 1 << 30 else "NCCL and torch want 1 GiB: start the container with --shm-size=1g"
    found.append(Finding("/dev/shm", f"{free / (1 << 30):.1f} GiB free", few))
    for name, value in SLOWING.items():
        if os.environ.get(name) == value:
            found.append(Finding(name, value, f"data take a slower way; unset {name}"))
    return found


def _peers(gpus: int) -> Finding:
    """Which pairs of GPUs cannot reach each other's memory."""
    pairs = [(one, other) for one in range(gpus) for other in range(gpus) if one != other]
    apart = [f"{one}->{other}" for one, other in pairs if not torch.cuda.can_device_access_peer(one, other)]
    if not apart:
        return Finding("peer access", "all pairs")
    return Finding("peer access", f"not {', '.join(apart)}", "data go through the host; see `nvidia-smi topo -p2p r`")

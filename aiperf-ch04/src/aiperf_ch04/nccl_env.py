"""NCCL's settings as a process would get them, where each comes from, and what it does.

Names, defaults and meanings are those of NVIDIA's NCCL user guide, "Environment Variables". Variables win over
`~/.nccl.conf`, which wins over `/etc/nccl.conf`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from aiperf_core.folders import home_folder

PREFIX = "NCCL_"
UNEXPLAINED = "not explained here; see the NCCL user guide"


@frozen
class Known:
    """A setting that is worth knowing: what holds where nothing is set, and what it does."""

    default: str
    meaning: str


KNOWN = {
    "NCCL_DEBUG": Known(
        "unset", "what is printed: VERSION, WARN, INFO or TRACE; INFO shows the rings and trees chosen"
    ),
    "NCCL_DEBUG_SUBSYS": Known("INIT,BOOTSTRAP,ENV", "which parts INFO speaks of, such as GRAPH, TUNING or COLL"),
    "NCCL_ALGO": Known("chosen by size", "restricts the algorithms: Ring, Tree, CollnetChain, NVLS and others"),
    "NCCL_PROTO": Known("chosen by size", "restricts the protocols: LL (latency), LL128, Simple (bandwidth)"),
    "NCCL_NVLS_ENABLE": Known("2 (where it works)", "sums in the NVLink switch; aiperf sets 0: it needs multicast"),
    "NCCL_P2P_DISABLE": Known("0", "1 keeps GPUs from reading each other's memory: data then goes through the host"),
    "NCCL_P2P_LEVEL": Known("by topology", "how far apart GPUs may be for that: LOC, NVL, PIX, PXB, PHB, SYS"),
    "NCCL_SHM_DISABLE": Known("0", "1 forbids shared host memory between processes: then the network is used"),
    "NCCL_IB_DISABLE": Known("0", "1 keeps off InfiniBand and RoCE, and falls back to sockets"),
    "NCCL_IB_HCA": Known("all found", "which InfiniBand adapters are used"),
    "NCCL_NET_GDR_LEVEL": Known("by topology", "how far a GPU may be from the adapter that reads its memory directly"),
    "NCCL_SOCKET_IFNAME": Known("all but lo and docker*", "which interfaces ranks find each other on; aiperf sets lo"),
    "NCCL_MIN_CTAS": Known("chosen", "the fewest thread blocks that a collective takes"),
    "NCCL_MAX_CTAS": Known("chosen", "the most thread blocks that a collective takes; fewer leave more to computation"),
    "NCCL_MIN_NCHANNELS": Known("chosen", "the fewest channels; older name for NCCL_MIN_CTAS's purpose"),
    "NCCL_MAX_NCHANNELS": Known("chosen", "the most channels; older name for NCCL_MAX_CTAS's purpose"),
    "NCCL_BUFFSIZE": Known("4194304", "bytes of the buffer between a pair of GPUs"),
    "NCCL_NTHREADS": Known("by GPU", "threads in a block of a collective: 64, 128, 256 or 512"),
    "NCCL_CUMEM_ENABLE": Known("by driver", "memory by cuMem calls, which symmetric buffers need"),
    "NCCL_LAUNCH_MODE": Known("PARALLEL", "GROUP launches one process's GPUs together"),
    "NCCL_TOPO_FILE": Known("detected", "a description of the machine to use instead of what is detected"),
    "NCCL_GRAPH_MIXING_SUPPORT": Known("1", "0 saves some latency where collectives are all in CUDA graphs or all not"),
}
# What a run of ranks sets whatever was set before, and what only where nothing was.
AIPERF_SETS = {"NCCL_NVLS_ENABLE": "0"}
AIPERF_DEFAULTS = {"NCCL_SOCKET_IFNAME": "lo"}


@frozen
class Setting:
    """A setting. `source` is `environment`, a file's path, `aiperf` or `default`."""

    name: str
    value: str
    source: str
    meaning: str


def settings(environment: Mapping[str, str] = os.environ, files: tuple[Path, ...] | None = None) -> list[Setting]:
    """All known or set settings for a run of ranks, in the order of `KNOWN`; others come last."""
    if files is None:
        home = home_folder()
        files = (Path("/etc/nccl.conf"), *([home / ".nccl.conf"] if home else []))
    found: dict[str, tuple[str, str]] = {}
    for file in files:  # later ones win
        found |= {name: (value, str(file)) for name, value in _read(file).items()}
    found |= {name: (value, "environment") for name, value in environment.items() if name.startswith(PREFIX)}
    # What aiperf sets as a default is set in the environment, and wins over files.
    found |= {name: (value, "aiperf") for name, value in AIPERF_DEFAULTS.items() if name not in environment}
    found |= {name: (value, "aiperf") for name, value in AIPERF_SETS.items()}
    known = [Setting(name, *found.get(name, (one.default, "default")), one.meaning) for name, one in KNOWN.items()]
    others = [Setting(name, *found[name], UNEXPLAINED) for name in sorted(found.keys() - KNOWN.keys())]
    return known + others


def nccl_version() -> str | None:
    """The version of NCCL that torch has, such as `2.27.5`; None where it has none."""
    import torch

    if not torch.cuda.is_available():
        return None
    from torch.cuda import nccl

    return ".".join(map(str, nccl.version()))


def _read(file: Path) -> dict[str, str]:
    """The settings of a file, a `NAME=value` a line; nothing where it cannot be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip().startswith(PREFIX)}

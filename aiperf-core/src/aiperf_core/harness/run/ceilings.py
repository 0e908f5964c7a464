"""The ceilings of a machine, kept between runs: one file for each state in which the machine was measured."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
from pathlib import Path

import attrs
import cattrs

from aiperf_core.devices.disk import file_system
from aiperf_core.devices.gpus import gpus
from aiperf_core.devices.host import processor
from aiperf_core.devices.probe import nvidia
from aiperf_core.folders import cache_folder
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware
from aiperf_core.results import atomic

# Increased when figures are measured in another way, so that older figures are measured again.
FORMAT = 5
_CLOCKS = ("power_limit_w", "sm_clock_max_hz", "memory_clock_max_hz")


def state_of(device: str, hardware: Hardware) -> dict[str, str]:
    """The state that the figures of a device depend on, as far as it is known."""
    state = {"format": str(FORMAT), "torch": importlib.metadata.version("torch"), "disk": _disk()}
    if device == "cuda":
        state |= {"gpu": str(hardware.gpu), "gpus": str(hardware.gpus), "driver": nvidia().driver}
        alike = [one for one in gpus()[0] if one.get("name") == hardware.gpu]
        for name in _CLOCKS:
            state[name] = ", ".join(sorted({f"{one[name]:.0f}" for one in alike if one.get(name) is not None}))
        return state
    usable = sorted(os.sched_getaffinity(0))
    return state | {
        "processor": processor(),
        "cpus": f"{usable[0]} to {usable[-1]}, {len(usable)} of them",
        "memory_bytes": str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        "governor": _governor(usable[0]),
    }


def read(device: str, state: dict[str, str]) -> Ceilings | None:
    """The figures kept for a device in this state; None where there are none, or they cannot be read."""
    try:
        kept = cattrs.structure(json.loads(file_of(device, state).read_text()), Ceilings)
    except (OSError, ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        return None
    return kept if kept.state == state else None


def write(device: str, ceilings: Ceilings) -> None:
    """Keep figures under their state. A folder that cannot be written is ignored: the next run measures again."""
    file = file_of(device, ceilings.state)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(file, json.dumps(attrs.asdict(ceilings), indent=1).encode())


def file_of(name: str, state: dict[str, str]) -> Path:
    """The file in which something that depends on a state is kept."""
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "ceilings" / f"{name}-{digest[:12]}.json"


def _disk() -> str:
    """The file system of temporary files; empty where there is no folder for them."""
    try:
        return " on ".join(filter(None, file_system(tempfile.gettempdir())))
    except OSError:
        return ""


def _governor(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return ""

"""Measurements of a machine, kept between runs: its ceilings, how much a flush must write, its quiet witness.

There is one file for each state in which the machine was measured.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import attrs
import cattrs

from aiperf_core import atomic
from aiperf_core.devices.disk import file_system
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.gpus import gpus
from aiperf_core.devices.host import processor
from aiperf_core.devices.probe import nvidia
from aiperf_core.folders import cache_folder
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware

# Increased when figures are measured in another way, so that older figures are measured again.
FORMAT = 5
_T = TypeVar("_T")
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
    """The ceilings kept for a device in this state; None where there are none, or they cannot be read."""
    return _structured(_read(device, state), Ceilings)


def write(device: str, ceilings: Ceilings) -> None:
    """Keep ceilings under their state. A folder that cannot be written is ignored: the next run measures again."""
    _write(device, ceilings.state, attrs.asdict(ceilings))


def read_flush_bound(device: str, state: dict[str, str]) -> FlushBound | None:
    """How much a flush must write, as kept for a device in this state; None as for ceilings."""
    return _structured(_read(f"flush-{device}", state).get("bound"), FlushBound)


def write_flush_bound(device: str, state: dict[str, str], bound: FlushBound) -> None:
    """Keep how much a flush must write, as ceilings are kept."""
    _write(f"flush-{device}", state, {"state": state, "bound": attrs.asdict(bound)})


def read_quiet_s(state: dict[str, str]) -> float | None:
    """The time of a quiet turn of the witness, as kept for a processor in this state; None as for ceilings."""
    turn_s = _read("witness-cpu", state).get("turn_s")
    return turn_s if isinstance(turn_s, float) and turn_s > 0 else None


def write_quiet_s(state: dict[str, str], turn_s: float) -> None:
    """Keep the time of a quiet turn of the witness, as ceilings are kept."""
    _write("witness-cpu", state, {"state": state, "turn_s": turn_s})


def _read(name: str, state: dict[str, str]) -> dict[str, Any]:
    """A file's content; empty where there is none for this state, or it cannot be read."""
    try:
        kept = json.loads(_file(name, state).read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and kept.get("state") == state else {}


def _structured(kept: Any, kind: type[_T]) -> _T | None:
    try:
        return cattrs.structure(kept, kind)
    except (ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        return None


def _write(name: str, state: dict[str, str], content: dict[str, Any]) -> None:
    file = _file(name, state)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(file, json.dumps(content, indent=1).encode())


def _file(name: str, state: dict[str, str]) -> Path:
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

"""How much a flush must write on this machine, kept between runs beside the ceilings, one file for each state."""

import contextlib
import json
from pathlib import Path

import cattrs
from attrs import asdict

from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.harness.run import ceilings
from aiperf_core.results import atomic


def read(device: str, state: dict[str, str]) -> FlushBound | None:
    """What is kept for a device in this state; None where nothing is, or it cannot be read."""
    try:
        kept = json.loads(_file(device, state).read_text())
        return cattrs.structure(kept["bound"], FlushBound) if kept["state"] == state else None
    except (OSError, ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        return None


def write(device: str, state: dict[str, str], bound: FlushBound) -> None:
    """Keep what was measured. A folder that cannot be written is ignored: the next run measures again."""
    file = _file(device, state)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(file, json.dumps({"state": state, "bound": asdict(bound)}, indent=1).encode())


def _file(device: str, state: dict[str, str]) -> Path:
    return ceilings.file_of(f"flush-{device}", state)

"""Finds the devices of plugins, each in its own process: a broken driver can hang at the first call."""

import json
import subprocess
import sys
from collections.abc import Mapping

from attrs import asdict

from aiperf_core.devices.device import BUILT_IN, Device, Found
from aiperf_core.errors import SkipError

_LIMIT_S = 120.0

_ASK = """
import json, sys
from aiperf_core.devices.discovery import ask
print(json.dumps(ask(json.loads(sys.argv[1]))))
"""


def of_plugins(devices: Mapping[str, Device]) -> dict[str, Found | str]:
    """Result of the search for each device of a plugin, or the reason why there is none. Never raises."""
    return {name: _found(device) for name, device in devices.items() if device not in BUILT_IN.values()}


def ask(device: dict[str, str]) -> dict[str, object]:
    """Probe a device in this process; return `found` or `absent`."""
    try:
        return {"found": asdict(Device(**device).resolve().probe())}
    except SkipError as error:
        return {"absent": str(error)}
    except Exception as error:
        return {"absent": f"looking for it raised {type(error).__name__}: {error}"}


def _found(device: Device) -> Found | str:
    # -P: do not import modules from the working directory.
    command = [sys.executable, "-P", "-c", _ASK, json.dumps(asdict(device))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"gave no answer within {_LIMIT_S:g} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"looking for it ended with exit code {done.returncode}"])[-1]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    if "absent" in told:
        return str(told["absent"])
    return Found(**{**told["found"], "capabilities": tuple(told["found"]["capabilities"])})

"""Which devices of plugins are here, each asked in a process of its own: a broken driver can make a first call hang."""

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
    """What is here of each device that is not the core's own, or the reason why nothing is. Never raises."""
    return {name: _found(one) for name, one in devices.items() if one not in BUILT_IN.values()}


def ask(device: dict[str, str]) -> dict[str, object]:
    """Ask a device in this process; `found` or `absent`."""
    try:
        return {"found": asdict(Device(**device).resolve().probe())}
    except SkipError as error:
        return {"absent": str(error)}
    except Exception as error:
        return {"absent": f"looking for it raised {type(error).__name__}: {error}"}


def _found(device: Device) -> Found | str:
    # -P: a module in the working directory is not the one that was meant.
    command = [sys.executable, "-P", "-c", _ASK, json.dumps(asdict(device))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"gave no answer within {_LIMIT_S:g} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"looking for it ended with exit code {done.returncode}"])[-1]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    if "absent" in told:
        return str(told["absent"])
    return Found(**{**told["found"], "capabilities": tuple(told["found"]["capabilities"])})

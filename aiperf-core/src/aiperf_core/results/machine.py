"""This machine: its record, its kinds, and the installed packages that decide a result.

Nothing here imports torch, changes a setting or fails: what cannot be found out is None or left out.
"""

import contextlib
import os
import platform
import re
from importlib.metadata import Distribution, distributions
from typing import Any

from aiperf_core.devices import host
from aiperf_core.devices.gpus import gpus
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.models import Machine

# The packages that decide a result: aiperf, torch, and the libraries of torch and kernels.
PACKAGES = re.compile(r"aiperf(-.+)?|torch|triton|pytorch-triton|numpy|cuda-.+|nvidia-.+")

_NAME = re.compile(r"^name:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


def machine() -> Machine:
    """This machine."""
    found, driver = gpus()
    return Machine(
        hostname=platform.node(),
        system=host.operating_system(),
        cpu=host.processor_model(),
        cores=host.usable_cpus(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        hypervisor=host.hypervisor() or None,
        gpus=found,
        driver=driver,
    )


def kinds(device: str | None) -> list[str]:
    """The kinds of this machine: by its GPUs and by its processor, or the one of a device."""
    here = machine()
    devices = [device] if device else (["cuda"] if here.gpus else []) + ["cpu"]
    return [hardware_key(here, one, {}) for one in devices]


def state(here: Machine) -> dict[str, Any]:
    """The state of this machine at the begin of a stretch of a run."""
    import psutil

    found: dict[str, Any] = {"host": here.hostname, "memory_available_bytes": psutil.virtual_memory().available}
    with contextlib.suppress(OSError):
        found["load_1min"] = os.getloadavg()[0]
    names = ("index", "uuid", "temperature_c", "sm_clock_hz", "memory_clock_hz", "power_limit_w")
    if here.gpus:
        found["gpus"] = [{name: one.get(name) for name in names} for one in here.gpus]
    return found


def packages() -> dict[str, str]:
    """Versions of the installed packages that decide a result, by name."""
    found: dict[str, str] = {}
    for distribution in distributions():
        name = re.sub(r"[-_.]+", "-", _name(distribution)).lower()
        # Python imports the first one on the path.
        if PACKAGES.fullmatch(name) and name not in found:
            found[name] = distribution.version + _editable(distribution)
    return dict(sorted(found.items()))


def _name(distribution: Distribution) -> str:
    """Its name, without parsing all of its metadata, which takes a tenth of a second for the packages of a machine."""
    # As `Distribution.metadata` finds it; the last is for old files.
    text = next(filter(None, map(distribution.read_text, ("METADATA", "PKG-INFO", ""))), "")
    found = _NAME.search(text.partition("\n\n")[0])
    return found[1] if found else ""


def _editable(distribution: Distribution) -> str:
    """Mark an editable install, whose version does not identify its code."""
    return " (editable)" if '"editable": true' in (distribution.read_text("direct_url.json") or "") else ""

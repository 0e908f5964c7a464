"""Collects the bundle's first page: the machine, what is installed on it, and what was asked for.

Nothing here imports torch, sets anything or fails: what cannot be found out is None or left out.
"""

import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from aiperf_core.devices import host
from aiperf_core.devices.gpus import gpus
from aiperf_core.git import commit_time, git_commit
from aiperf_core.plugins import Plugins
from aiperf_core.results.models import Machine, Manifest
from aiperf_core.version import __version__

# What decides a result: us, torch and what torch and kernels are made with. Other packages would only be noise.
PACKAGES = re.compile(r"aiperf(-.+)?|torch|triton|pytorch-triton|numpy|cuda-.+|nvidia-.+")


def new_manifest(*, plugins: Plugins) -> Manifest:
    """The manifest of a run that begins: nothing measured, not complete."""
    return Manifest(
        aiperf=__version__,
        command=command_line(sys.argv),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        packages=packages(),
        plugins=plugin_records(plugins),
        ceilings={},
        files={},
        skipped=[],
        git=git_commit(Path.cwd()),
        commit_time=commit_time(Path.cwd()),
        complete=False,
        exit_code=None,
    )


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


def packages() -> dict[str, str]:
    """Versions of the installed packages that decide a result, by name."""
    found: dict[str, str] = {}
    for distribution in distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        # The first on the path is the one that Python imports.
        if PACKAGES.fullmatch(name) and name not in found:
            found[name] = distribution.version + _editable(distribution)
    return dict(sorted(found.items()))


def _editable(distribution: Distribution) -> str:
    """The version of a package installed in place says little about its code: `git` in the manifest may say more."""
    return " (editable)" if '"editable": true' in (distribution.read_text("direct_url.json") or "") else ""


def plugin_records(plugins: Plugins) -> list[dict[str, str]]:
    """The plugins that were loaded, and those set aside with their reason."""
    loaded = [
        {"distribution": one.distribution, "version": one.version, "entry_point": one.entry_point}
        for one in plugins.loaded
    ]
    aside = [
        {
            "distribution": one.distribution,
            "version": one.version,
            "entry_point": one.entry_point,
            "set_aside": one.reason,
        }
        for one in plugins.set_aside
    ]
    return loaded + aside


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command as it was typed, without the folder that the program lies in."""
    return [Path(arguments[0]).name, *arguments[1:]]

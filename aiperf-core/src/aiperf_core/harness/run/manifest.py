"""The manifest of a new bundle: the machine, the installed packages and the command.

Nothing here imports torch, changes a setting or fails: what cannot be found out is None or left out.
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

# The packages that decide a result: aiperf, torch, and the libraries of torch and kernels.
PACKAGES = re.compile(r"aiperf(-.+)?|torch|triton|pytorch-triton|numpy|cuda-.+|nvidia-.+")

_NAME = re.compile(r"^name:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


def new_manifest(*, plugins: Plugins, earlier: Manifest | None = None) -> Manifest:
    """The manifest of a new run: nothing measured, not complete.

    earlier: of a run before it in this process, in which the machine and the packages are the same.
    """
    return Manifest(
        aiperf=__version__,
        command=command_line(sys.argv),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=earlier.machine if earlier else machine(),
        packages=earlier.packages if earlier else packages(),
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


def plugin_records(plugins: Plugins) -> list[dict[str, str]]:
    """The plugins that were loaded, and those set aside with their reason."""
    names = ("distribution", "version", "entry_point")
    loaded = [{name: getattr(one, name) for name in names} for one in plugins.loaded]
    aside = [{**{name: getattr(one, name) for name in names}, "set_aside": one.reason} for one in plugins.set_aside]
    return loaded + aside


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command as it was typed, without the program's folder."""
    return [Path(arguments[0]).name, *arguments[1:]]

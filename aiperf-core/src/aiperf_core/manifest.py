"""The manifest of a new bundle: the machine, the installed packages, the plugins and the command."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from aiperf_core.git import commit_time, git_commit
from aiperf_core.plugins import Plugins
from aiperf_core.results.machine import machine, packages
from aiperf_core.results.models import Manifest
from aiperf_core.version import __version__


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


def plugin_records(plugins: Plugins) -> list[dict[str, str]]:
    """The plugins that were loaded, and those set aside with their reason."""
    names = ("distribution", "version", "entry_point")
    loaded = [{name: getattr(one, name) for name in names} for one in plugins.loaded]
    aside = [{**{name: getattr(one, name) for name in names}, "set_aside": one.reason} for one in plugins.set_aside]
    return loaded + aside


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command as it was typed, without the program's folder; `aiperf` for `python -m aiperf_core`."""
    program = Path(arguments[0]).name
    return ["aiperf" if program == "__main__.py" else program, *arguments[1:]]

"""For the tests of all packages."""

import os
import signal
import subprocess
import sys
import sysconfig
from importlib.metadata import entry_points
from pathlib import Path

import pytest

# pytest-xdist sets it to 80, and tables would be wrapped. Tests of widths set it themselves.
os.environ.pop("COLUMNS", None)
# A script's background job ignores Ctrl-C, and so would all processes that tests start and end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Environment:
    """A virtual environment that sees what is installed here, and whose `pip` needs no registry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # What Python would search here, editable installs included.
        outer = Path(sysconfig.get_path("purelib"))
        (site / "outer.pth").write_text(f"import site; site.addsitedir({str(outer)!r})\n")
        # NVIDIA's libraries are looked for in the environment's own folder, not on Python's path.
        (site / "nvidia").symlink_to(outer / "nvidia")
        self.script("aiperf", "-m aiperf_core")
        # The plugin is loaded by its entry point, unless the core was installed before it had one.
        plugin = "" if entry_points(group="pytest11", name="aiperf") else "-p aiperf_core.pytest_plugin"
        self.script("pytest", f"-m pytest {plugin} -p no:cacheprovider -W error")
        offline = "--disable-pip-version-check"
        self.script("pip", f"-m pip {offline}", install="--no-index --no-deps --no-build-isolation",
                    wheel="--no-index --no-build-isolation")  # fmt: skip

    def script(self, name: str, module: str, **extra: str) -> None:
        """Write a program that runs a module; `extra` is added to the arguments of some of its commands."""
        cases = "".join(f'{command}) shift; set -- {command} {flags} "$@";; ' for command, flags in extra.items())
        choose = f'case "$1" in {cases}esac\n' if extra else ""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{choose}exec "{self.bin}/python" {module} "$@"\n')
        path.chmod(0o755)

    def start(self, line: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a line of shell, and wait for it."""
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)

    def run(self, line: str, folder: Path, **variables: str) -> str:
        """Run a line of shell that must succeed; everything it prints."""
        done = self.start(line, folder, **variables)
        assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def offline() -> type[Environment]:
    """Environments in which packages are built and installed without a network."""
    pytest.importorskip("hatchling", reason="needs hatchling, to build wheels offline")
    return Environment

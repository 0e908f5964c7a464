"""What the tests of fleets on real clusters need: Debian's Slurm, submitit and Ray.

    python aiperf-fleet/tests/clusters.py            what is missing
    python aiperf-fleet/tests/clusters.py install    install it where that is possible; Debian's packages as root only

The exit code of `install` is 0 also where something could not be installed: it prints the engines that can be tested, and for the
others the reason.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("slurm-wlm", "munge")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
MODULES = {"slurm": "submitit", "ray": "ray"}
ENGINES = tuple(MODULES)
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
CONSTRAINTS = PROJECT.parents[1] / "constraints.txt"


def missing(engine):
    """What is not installed for an engine."""
    modules = [MODULES[engine]] if find_spec(MODULES[engine]) is None else []
    programs = PROGRAMS if engine == "slurm" else ()
    return modules + [one for one in programs if shutil.which(one) is None]


def install(engine):
    """Install what an engine needs; why that failed, empty otherwise."""
    if find_spec(MODULES[engine]) is None:
        wanted = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"][engine]
        line = [sys.executable, "-m", "pip", "install", "--quiet", "-c", str(CONSTRAINTS), *wanted]
        if subprocess.run(line, stdin=subprocess.DEVNULL).returncode:
            return f"{MODULES[engine]} cannot be installed from the index"
        invalidate_caches()
    if engine == "slurm" and any(shutil.which(one) is None for one in PROGRAMS):
        if os.getuid() != 0 or shutil.which("apt-get") is None:
            return f"only root can install {', '.join(PACKAGES)}, with Debian's apt-get"
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for line in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]):
            if subprocess.run(line, env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
                return f"'{' '.join(line)}' failed; its output above says why"
    return ""


def main():
    """Install or show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=("show", "install"), default="show")
    wanted = parser.parse_args().action == "install"
    for engine in ENGINES:
        reason = install(engine) if wanted and missing(engine) else ""
        lacks = missing(engine)
        print(f"{engine}: {reason or 'missing: ' + ', '.join(lacks) if lacks else 'ready'}")


if __name__ == "__main__":
    main()

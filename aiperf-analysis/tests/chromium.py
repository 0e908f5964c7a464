"""Chromium for tests: the distribution's package, driven by Playwright.

    python aiperf-analysis/tests/chromium.py            whether there is one, and which
    python aiperf-analysis/tests/chromium.py install    install Debian's package where it is missing (root only)

Playwright promises to work with its own browser only, so a first test decides whether this pair works.
"""

import argparse
import os
import shutil
import subprocess
from pathlib import Path

PACKAGE = "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "python aiperf-analysis/tests/chromium.py install"


class Missing(Exception):
    """There is no browser on this machine; the message says what to do."""


def program() -> Path:
    """The browser's program. Raises Missing."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise Missing(
        f"Chromium is not installed: PATH has none of {', '.join(NAMES)}. Install it, as root on Debian: {INSTALL}"
    )


def arguments() -> list[str]:
    """The arguments of the browser. Its sandbox refuses to run as root."""
    return ["--no-sandbox"] if os.getuid() == 0 else []


def install() -> None:
    """Install Debian's package, unless there is a browser. Raises Missing where that is not possible."""
    try:
        program()
        return
    except Missing:
        pass
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"only root can install '{PACKAGE}', with Debian's apt-get. Install Chromium by other means.")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", PACKAGE]):
        if subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL).returncode:
            raise Missing(f"'{' '.join(command)}' failed; its output above says why.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=("show", "install"), default="show")
    try:
        if parser.parse_args().action == "install":
            install()
        subprocess.run([program(), "--version"], check=True)
    except Missing as error:
        raise SystemExit(f"error: {error}") from None

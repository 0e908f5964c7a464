"""Folders of aiperf outside of projects."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of compiled kernels and measured ceilings.

    It is `$AIPERF_CACHE_DIR`, else `aiperf` in `$XDG_CACHE_HOME`, else `~/.cache/aiperf`.
    """
    if chosen := os.environ.get("AIPERF_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "aiperf"

"""Folders of the user outside of projects."""

import os
import pwd
import tempfile
from pathlib import Path

from aiperf_core.errors import AiperfError


def cache_folder() -> Path:
    """The folder of compiled kernels and measured ceilings.

    It is `$AIPERF_CACHE_DIR`, else `aiperf` in `$XDG_CACHE_HOME`, else `~/.cache/aiperf`. A user without a home has
    `aiperf-USERID` in the folder for temporary files. Raises `AiperfError` if that is another user's, since what lies
    there is executed.
    """
    if chosen := os.environ.get("AIPERF_CACHE_DIR"):
        return Path(chosen)
    if base := _users("XDG_CACHE_HOME", ".cache"):
        return base / "aiperf"
    folder = Path(tempfile.gettempdir(), f"aiperf-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise AiperfError(f"{_HOMELESS}, and '{folder}' cannot be made: {error.strerror}. {_REMEDY}") from None
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise AiperfError(f"{_HOMELESS}, and others can write to '{folder}'. {_REMEDY}")
    return folder


_HOMELESS = "The user has no home folder for the cache"
_REMEDY = "Name a folder of your own in AIPERF_CACHE_DIR."


def config_folder() -> Path | None:
    """The folder of the user's settings: `aiperf` in `$XDG_CONFIG_HOME`, else `~/.config/aiperf`. None without them."""
    base = _users("XDG_CONFIG_HOME", ".config")
    return base / "aiperf" if base else None


def data_folder() -> Path | None:
    """The folder of the user's records: `aiperf` in `$XDG_DATA_HOME`, else `~/.local/share/aiperf`, or None."""
    base = _users("XDG_DATA_HOME", ".local/share")
    return base / "aiperf" if base else None


def runtime_folder() -> Path | None:
    """The folder for files of running programs: `aiperf` in `$XDG_RUNTIME_DIR`. None where that is not set."""
    base = _absolute("XDG_RUNTIME_DIR")
    return base / "aiperf" if base else None


def home_folder() -> Path | None:
    """The user's home: `$HOME`, else what the machine's list of users says. None where neither tells."""
    if home := _absolute("HOME"):
        return home
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
    return home if home.is_absolute() else None


def _users(variable: str, in_home: str) -> Path | None:
    home = home_folder()
    return _absolute(variable) or (home / in_home if home else None)


def _absolute(variable: str) -> Path | None:
    """The path in a variable; None for a relative one, which names a different folder in each working directory.

    XDG's specification demands to ignore those.
    """
    path = Path(os.environ.get(variable, ""))
    return path if path.is_absolute() else None

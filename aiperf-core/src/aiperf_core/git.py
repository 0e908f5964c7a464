"""Facts from git about a folder. This module never raises: without git or a repository there are no facts."""

import os
import subprocess
from pathlib import Path

GIT_SECONDS = 10


def git_commit(folder: Path) -> str | None:
    """The commit of the repository around `folder`, with `-dirty` for changed tracked files.

    None without a repository, and where git cannot tell what was changed.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    # Without untracked files and expectations: what a run leaves behind would make every repository dirty.
    paths = (":/", ":(top,exclude,glob)**/expectations/*.json")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *paths)
    if changed is None:
        return None
    return f"{commit}-dirty" if changed else commit


def git_branch(folder: Path) -> str | None:
    """The branch of the repository around `folder`, or `HEAD` where none is checked out. None without a repository."""
    return _git(folder, "rev-parse", "--abbrev-ref", "HEAD") or None


def commit_time(folder: Path) -> str | None:
    """When the commit of the repository around `folder` was made, in ISO 8601. None without one."""
    return _git(folder, "log", "-1", "--no-show-signature", "--format=%cI", "HEAD") or None


def changed_sources(folder: Path) -> list[str]:
    """Changed and new files in `folder`, except expectations; empty without a repository."""
    options = ("--porcelain", "--untracked-files=all", "--", ".", ":(exclude)expectations")
    changed = _git(folder, "status", *options) or ""
    return [line.strip().partition(" ")[2].strip() for line in changed.splitlines()]


def _git(folder: Path, *arguments: str) -> str | None:
    # Without the lock, `status` does not write the index.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            # A monitor of files would outlive the command.
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            # A name of a file or branch has any bytes, whatever the locale is.
            encoding="utf-8",
            errors="replace",
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

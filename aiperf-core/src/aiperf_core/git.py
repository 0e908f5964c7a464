"""What git knows of a folder. Nothing here raises: without git, or outside of a repository, there is nothing to say."""

import os
import subprocess
from pathlib import Path

GIT_SECONDS = 10


def git_commit(folder: Path) -> str | None:
    """The commit of the repository around `folder`, with `-dirty` if tracked files were changed. None without one."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    # Not untracked files: the results themselves would make every repository dirty.
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def commit_time(folder: Path) -> str | None:
    """When the commit of the repository around `folder` was made, in ISO 8601. None without one."""
    return _git(folder, "show", "--no-patch", "--format=%cI", "HEAD") or None


def changed_sources(folder: Path) -> list[str]:
    """What git sees changed or new in `folder`, except its expectations; nothing where there is no repository."""
    options = ("--porcelain", "--untracked-files=all", "--", ".", ":(exclude)expectations")
    changed = _git(folder, "status", *options) or ""
    return [line.strip().partition(" ")[2].strip() for line in changed.splitlines()]


def _git(folder: Path, *arguments: str) -> str | None:
    # Without the lock, `status` does not write the index: a look at a repository must not change it.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

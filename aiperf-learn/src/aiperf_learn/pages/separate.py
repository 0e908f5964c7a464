"""A lesson's HTML made in a process of its own, for servers that import neither torch nor the code of benchmarks."""

import functools
import subprocess
import sys

from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.stats.expectations import source_of
from aiperf_core.targets import InstalledTarget

# The longest time that a lesson may take: an import of torch from a slow disk, and the compilation of its kernels.
MOST_S = 55.0
_KEPT = 128  # lessons that are kept


def fragment(target: InstalledTarget) -> str:
    """The lesson of a target as `pages.html.html_fragment` makes it, anew where a file of its package changed.

    Raises AiperfError, with what the process said, where it cannot be made.
    """
    source = source_of(target)
    files = sorted(source.folder.rglob("*")) if source else ()
    newest = max((file.stat().st_mtime_ns for file in files if file.suffix != ".pyc"), default=0)
    return _made(target.name, newest)


@functools.lru_cache(_KEPT)
def _made(name: str, _: int) -> str:
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "aiperf_learn.cli.fragment", name],
            capture_output=True,
            text=True,
            timeout=MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AiperfError(
            f"the lesson '{words(name)}' took longer than {MOST_S:g} s; write it by: aiperf page"
        ) from None
    if ended.returncode:
        said = (ended.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise AiperfError(f"the lesson '{words(name)}' cannot be shown: {words(said)}")
    return ended.stdout

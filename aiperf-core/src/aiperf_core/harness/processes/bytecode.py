"""Byte code of packages that were installed without any.

Python keeps what it compiled beside the sources. In many images it may not (`PYTHONDONTWRITEBYTECODE`), and the installer has left
none there: each process that imports torch then compiles a thousand modules anew, for as long as all the rest of the import takes.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator

from aiperf_core.folders import cache_folder


@contextlib.contextmanager
def kept_for(package: str) -> Iterator[None]:
    """Keep the byte code of what is imported meanwhile with aiperf's other caches, if Python keeps none of that package's.

    Python holds it against the sources as ever. What is imported afterwards, such as a benchmark, is left to the user's settings.
    """
    if _python_does(package):
        yield
        return
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = str(cache_folder().absolute() / "bytecode"), False
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def _python_does(package: str) -> bool:
    """Whether Python finds byte code of a package, or may keep it; also for a package that is not there or has no source."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True
    # Not `spec.cached`: of a package that is imported already it says where it was then.
    if os.path.exists(importlib.util.cache_from_source(spec.origin)):
        return True
    return not sys.dont_write_bytecode and os.access(os.path.dirname(spec.origin), os.W_OK)

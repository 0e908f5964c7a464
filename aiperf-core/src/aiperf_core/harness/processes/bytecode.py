"""Byte code of packages that were installed without any.

Python keeps compiled modules beside the sources. Many images forbid that (`PYTHONDONTWRITEBYTECODE`), and their
installer left no byte code either: each process that imports torch then compiles a thousand modules, which doubles the
time of the import.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator

from aiperf_core.folders import cache_folder


@contextlib.contextmanager
def kept_for(package: str) -> Iterator[None]:
    """Keep the byte code of this block's imports in aiperf's cache folder, if Python keeps none for `package`.

    Python still checks it against the sources. Later imports, such as a benchmark, follow the user's settings.
    """
    if _python_keeps(package):
        yield
        return
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = str(cache_folder().absolute() / "bytecode"), False
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def _python_keeps(package: str) -> bool:
    """Whether Python finds byte code of a package or may write it; true for a package without source."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True
    # Not `spec.cached`: for a package that is already imported it names the place at that time.
    if os.path.exists(importlib.util.cache_from_source(spec.origin)):
        return True
    return not sys.dont_write_bytecode and os.access(os.path.dirname(spec.origin), os.W_OK)

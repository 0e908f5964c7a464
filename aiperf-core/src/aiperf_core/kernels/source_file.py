"""Finds a kernel's source file from the module that names it."""

from collections.abc import Mapping
from pathlib import Path

from aiperf_core.errors import KernelError


def find_beside(path: str, caller: Mapping[str, object]) -> Path:
    """Return the absolute path of `path`, taken relative to the module whose globals are `caller`.

    Looked for beside the module's file, then in the folder `kernels` beside it. Raises `KernelError` where neither is
    a file, or where the module has no file (an interactive session) and `path` is relative.
    """
    module_file = caller.get("__file__")
    if not isinstance(module_file, str):
        folder, asked_by = Path.cwd(), "an interactive session"
    else:
        folder, asked_by = Path(module_file).resolve().parent, module_file
    for candidate in (folder / path, folder / "kernels" / path):
        if candidate.is_file():
            return candidate.resolve()
    raise KernelError(
        f"no file {str(folder / path)!r}, which {asked_by} names as the source of its kernels; "
        f"nor is it in the folder {str(folder / 'kernels')!r}"
    )

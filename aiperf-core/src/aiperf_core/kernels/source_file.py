"""Finds the source file of a kernel from the module that names it."""

from collections.abc import Mapping
from pathlib import Path

from aiperf_core.errors import KernelError


def find_beside(path: str, caller: Mapping[str, object]) -> Path:
    """The absolute path of `path`, relative to the module whose globals are `caller`.

    The search goes beside the file of the module, then in the folder `kernels` beside it; an interactive session has
    the working directory instead. Raises `KernelError` when there is no such file.
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

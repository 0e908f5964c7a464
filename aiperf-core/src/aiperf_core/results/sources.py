"""Hashes of the sources that decide a result: the harness, and the packages of the targets.

A manifest has the hash of a target's module, but the imports of that module and the kernels beside it decide its time
too.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

HARNESS = "aiperf_core"
KERNELS = "kernels"
# Written by a run or by an update of expectations.
LEFT_OUT = frozenset({"__pycache__", "expectations"})


def package_hashes(modules: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of the harness and of each package in which one of `modules` lies; no module is imported.

    A package is named `aiperf_ch07`. A file in a folder `kernels` of a target's package has an entry of its own too,
    `aiperf_ch07/kernels/memory_access.cu`. A module that is in no package, or is not installed, has none.
    """
    found: dict[str, str] = {}
    for package in sorted(_packages(modules)):
        folder = _folder(package)
        if folder is None:
            continue
        files = {file.relative_to(folder).as_posix(): _hash(file) for file in _files(folder)}
        lines = "".join(f"{name} {digest}\n" for name, digest in files.items())
        found[package] = hashlib.sha256(lines.encode("utf-8", errors="surrogateescape")).hexdigest()
        if package != HARNESS:
            found |= {f"{package}/{name}": digest for name, digest in files.items() if KERNELS in name.split("/")[:-1]}
    return found


def of_modules(hashes: Mapping[str, str], modules: Iterable[str]) -> dict[str, str]:
    """The part of `hashes` that `package_hashes` returns for these modules."""
    packages = _packages(modules)
    return {name: digest for name, digest in hashes.items() if name.partition("/")[0] in packages}


def _packages(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules if "." in module} | {HARNESS}


def _folder(package: str) -> Path | None:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec and spec.origin else []
    return Path(folders[0]) if folders else None


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.is_file() and not LEFT_OUT.intersection(parts) and not parts[-1].startswith("."):
            yield file


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

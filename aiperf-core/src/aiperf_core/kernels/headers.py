"""Finds the headers of a kernel source: those beside it, those of aiperf (`aiperf/bulk.cuh`), and CUDA's own."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
# Headers that NVRTC lacks (<stdint.h>) or cannot read (<cuda.h>), and in `aiperf/` those for kernels of any package.
OWN_HEADERS = Path(__file__).parent / "include"


def local_headers(path: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """The files that `path` includes in quotes, directly or indirectly, in the order of their first mention.

    The search goes beside the including file, then in `folders`. A missing file is left to the compiler.
    """
    found: list[Path] = []
    waiting = [path]
    while waiting:
        file = waiting.pop(0)
        for name in _QUOTED.findall(file.read_text(errors="replace")):
            candidates = (folder / name for folder in (file.parent, *folders))
            header = next((candidate.resolve() for candidate in candidates if candidate.is_file()), None)
            if header and header not in found and header != path:
                found.append(header)
                waiting.append(header)
    return found


@cache
def cuda_include_folders(cuda_major: int) -> tuple[Path, ...]:
    """The folders of CUDA's headers on this machine, in the order of the search.

    In this order: `aiperf/`, and stand-ins for `<stdint.h>`, `<stddef.h>` and `<cuda.h>` (for its `CUtensorMap`); the
    installed nvidia wheels for this major version of CUDA; `$CUDA_HOME` and `$CUDA_PATH`; conda's prefix;
    `/usr/local/cuda`; the headers that triton carries. When a folder holds `cccl` (`<cuda/std/...>`,
    `<cuda/barrier>`), that follows it.
    """
    roots = [*_wheels(cuda_major)]
    roots += [Path(home) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    roots += [*Path(sys.prefix).glob("targets/*-linux/include"), Path("/usr/local/cuda/include")]
    roots += [folder / "triton/backends/nvidia/include" for folder in _site_packages()]
    present = [folder for root in roots for folder in (root, root / "cccl") if folder.is_dir()]
    return (OWN_HEADERS, *dict.fromkeys(present))


def _wheels(cuda_major: int) -> Iterable[Path]:
    """The folders of the nvidia wheels: from CUDA 13 on they share a folder, before each had its own."""
    for folder in _site_packages():
        shared = folder / f"nvidia/cu{cuda_major}/include"
        if shared.is_dir():
            yield shared
        if cuda_major < 13:
            yield from (folder / f"nvidia/{part}/include" for part in ("cuda_runtime", "cuda_cccl", "cuda_nvcc"))


def _site_packages() -> list[Path]:
    return [Path(entry) for entry in dict.fromkeys(sys.path) if entry]

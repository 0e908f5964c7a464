"""The resources of compiled kernels, read from their machine code with NVIDIA's cuobjdump."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from attrs import frozen

_FUNCTION = re.compile(r"Function (?P<name>\S+):\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+)")


@frozen
class Resources:
    """The resources of a kernel.

    registers: of a thread.
    stack_bytes: of a thread, spilled registers included.
    shared_bytes: static shared memory of a block.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int


def resources_of(cubin: bytes) -> dict[str, Resources]:
    """The resources of each kernel by name; empty when cuobjdump is missing or cannot read the code."""
    tool = _cuobjdump()
    if tool is None:
        return {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return {
        match["name"]: Resources(int(match["registers"]), int(match["stack"]), int(match["shared"]))
        for match in _FUNCTION.finditer(run.stdout)
    }


@cache
def _cuobjdump() -> str | None:
    """The path of cuobjdump: on PATH, in `$CUDA_HOME` or `/usr/local/cuda`, or in triton's package."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    folders = [Path(home, "bin") for home in homes if home]
    folders += [Path(entry, "triton/backends/nvidia/bin") for entry in sys.path if entry]
    return shutil.which("cuobjdump") or next(
        (found for folder in folders if (found := shutil.which("cuobjdump", path=str(folder)))), None
    )

"""What compiled kernels ask of a multiprocessor, read from their machine code with NVIDIA's cuobjdump."""

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
    """Registers a thread; bytes of stack a thread (spilled registers are kept there); bytes of static shared memory."""

    registers: int
    stack_bytes: int
    shared_bytes: int


def resources_of(cubin: bytes) -> dict[str, Resources]:
    """Return the resources of each kernel by name, or nothing where cuobjdump is missing or cannot read the code."""
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
    """Look on the path, in `$CUDA_HOME` and `/usr/local/cuda`, and in triton's package, which carries one."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    folders = [Path(home, "bin") for home in homes if home]
    folders += [Path(entry, "triton/backends/nvidia/bin") for entry in sys.path if entry]
    return shutil.which("cuobjdump") or next(
        (found for folder in folders if (found := shutil.which("cuobjdump", path=str(folder)))), None
    )

"""Claims about machine code: the instructions that a kernel has, lacks, or orders, read by NVIDIA's disassembler."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aiperf_core.claims import SassClaim
from aiperf_core.errors import SkipError

_KERNEL = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")
_LOADS, _STORES = ("LDG", "LDS", "LD"), ("STG", "STS", "ST")
_WIDTHS = ("8", "16", "64", "128")
_PATIENCE_S = 120


def failures(claim: SassClaim, kernels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The parts of a claim that do not hold, each as a sentence. `kernels` are those of the claim, with opcodes."""
    for name, opcodes in kernels.items():
        for code in claim.has:
            if not any(matches(code, opcode) for opcode in opcodes):
                family = sorted({opcode for opcode in opcodes if opcode.partition(".")[0] == code.partition(".")[0]})
                yield f"{name} has no {code}" + (f", but {', '.join(family)}" if family else "")
        for code in claim.lacks:
            count = sum(matches(code, opcode) for opcode in opcodes)
            if count:
                yield f"{name} has {code}, {count} times"
        least, found = claim.loads_before_first_store, loads_before_first_store(opcodes)
        if least is not None and found < least:
            yield f"{name} has {found} loads before its first store; claimed are {least}"


def matches(code: str, opcode: str) -> bool:
    """Tell whether an opcode of the machine code is the one of a claim."""
    wanted, parts = code.split("."), opcode.split(".")
    if wanted[0] != parts[0]:
        return False
    return all(part in parts or (part == "32" and not {*_WIDTHS} & {*parts}) for part in wanted[1:])


def loads_before_first_store(opcodes: Sequence[str]) -> int:
    """The loads of memory before the first store, in the order of the code."""
    count = 0
    for opcode in opcodes:
        name = opcode.partition(".")[0]
        if name in _STORES:
            break
        count += name in _LOADS
    return count


def opcodes_of(cubin: bytes) -> dict[str, list[str]]:
    """The opcodes of each kernel, in the order of the code.

    Raises `SkipError` where there is no disassembler, or none for this architecture.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [disassembler(), "-c", file.name], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise SkipError(f"nvdisasm does not read this machine code: {said}")
    parts = _KERNEL.split(done.stdout)[1:]
    return {name: _INSTRUCTION.findall(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def disassembler() -> str:
    """The path of nvdisasm: of the PATH, else of the Triton package. Raises `SkipError` where there is none."""
    if on_path := shutil.which("nvdisasm"):
        return on_path
    spec = find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        packaged = Path(folder) / "backends" / "nvidia" / "bin" / "nvdisasm"
        if packaged.exists():
            return str(packaged)
    raise SkipError("needs nvdisasm, of the CUDA toolkit (in PATH) or of the package triton")

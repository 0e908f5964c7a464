"""The memory instructions of compiled kernels, read from their machine code with NVIDIA's nvdisasm; needs no GPU."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from attrs import field, frozen

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaSource, instances_in, sources_in

_KERNEL = re.compile(r"^\.text\.(?P<name>\w+):")
_INSTRUCTION = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][A-Z0-9]*)(?P<rest>[.\w]*)")
# Instructions that move data, or let threads meet; all others are arithmetic, addresses and control.
_WATCHED = frozenset(
    (
        *(
            "LDG",
            "STG",
            "LDS",
            "STS",
            "LDGSTS",
            "UBLKCP",
            "UTMALDG",
            "UTMASTG",
            "ATOMS",
            "REDG",
            "ATOMG",
            "RED",
            "ATOM",
        ),
        *("SHFL", "REDUX", "MATCH", "BAR", "PRMT", "LOP3", "F2FP"),
    )
)
_WITH_WIDTH = frozenset(("LDG", "STG", "LDS", "STS", "LDGSTS"))
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}

# What the lessons say of a kernel, and its machine code must show (sm_90). `LDG.128` is a load of 128 bits.
PROMISES: dict[str, dict[str, tuple[str, ...]]] = {
    "memory_access": {
        "coalesced": ("LDG.32", "STG.32"),
        "wide": ("LDG.128", "STG.128"),
        "more_threads": ("LDG.128", "STG.128"),
    },
    "vectorized_copy": {
        "scalar": ("LDG.32", "STG.32"),
        "wide": ("LDG.128", "STG.128"),
        "unrolled": ("LDG.128", "STG.128"),
        "bulk_ring": ("UBLKCP",),
    },
    "aos_soa": {
        "structures": ("LDG.32", "STG.32"),
        "staged": ("LDG.128", "STS.128", "LDS.128", "STG.128"),
        "arrays_wide": ("LDG.128", "STG.128"),
    },
    "transpose": {
        "padded4": ("LDG.32", "STG.32", "LDS.32"),
        "swizzled4": ("LDG.32", "STG.32", "LDS.32"),
        "wide4": ("LDG.128", "STS.128", "LDS.32", "STG.128"),
        "wide2": ("LDG.128", "STS.128", "LDS.16", "STG.128"),
        "streaming4": ("LDG.128", "STG.128"),
        "tensor_map4": ("UTMALDG", "UTMASTG"),
        "tensor_map2": ("UTMALDG", "UTMASTG", "PRMT"),
    },
    "gather": {
        "warp_per_row<uint4>": ("LDG.128", "STG.128"),
        "four_rows<uint4>": ("LDG.128", "STG.128"),
        "in_order<uint4>": ("LDG.128", "STG.128"),
        "bulk_rows": ("UBLKCP",),
    },
    "histogram": {
        "shared_by_all<unsigned char>": ("REDG",),
        "by_block<unsigned char>": ("ATOMS", "LDG.8"),
        "by_pieces<unsigned char, false>": ("LDG.128", "ATOMS"),
        "by_pieces<unsigned char, true>": ("LDG.128", "ATOMS"),
        "by_thread1": ("LDG.128", "LDS.8", "STS.8"),
    },
    "smem_matmul": {
        "tiled": ("LDG.32", "STS.32", "LDS.32"),
        "wide_fill": ("LDG.128", "STS.128"),
        "two_outputs": ("LDG.128", "STS.128", "LDS.128"),
    },
    "warp_reduce": {
        "tree": ("BAR", "STS.32"),
        "shuffle": ("SHFL",),
        "warp_per_row": ("SHFL", "LDG.32"),
        "wide": ("SHFL", "LDG.128"),
        "half_warp": ("SHFL", "LDG.128"),
    },
    "warp_scan": {
        "tiles_by_barriers": ("BAR", "LDG.128", "STG.128"),
        "tiles_by_shuffles": ("SHFL", "LDG.128", "STG.128"),
        "single_pass<false>": ("SHFL", "LDG.128", "STG.128", "LDG.64"),
        "single_pass<true>": ("SHFL", "LDG.128", "STG.128", "LDG.64", "REDUX"),
    },
    "async_prefetch": {
        "register_prefetch": ("LDG.128", "STS.128"),
        "two_stages": ("LDGSTS.128",),
        "three_stages": ("LDGSTS.128",),
        "bulk_stages": ("UBLKCP",),
    },
    "stencil_3d": {
        "wide": ("LDG.128", "STG.128"),
        "marching": ("LDG.128", "STG.128"),
        "tensor_planes": ("UTMALDG", "LDS.128", "STG.128"),
        "two_steps": ("STS.32", "BAR"),
    },
    "lowbit_unpack": {
        "byte4": ("LDG.8",),
        "eights<ByArithmetic4, 1>": ("LDG.32", "STG.128"),
        "eights<ByArithmetic4, 4>": ("LDG.32", "STG.128"),
        "eights<ByBits4, 4>": ("LDG.32", "STG.128", "PRMT", "LOP3"),
        "eights<ByBits8, 4>": ("LDG.64", "STG.128", "PRMT", "LOP3"),
    },
    "lowbit_gemv": {
        "product": ("LDG.128",),
        "fused": ("LDG.32", "PRMT", "LOP3"),
        "wide<2, 4, false>": ("LDG.128", "LOP3"),
        "wide<2, 4, true>": ("LDG.128", "LDS.128", "LOP3"),
        "tensor_cores<4>": ("LDG.128", "LDS.128", "LOP3"),
    },
}


@frozen
class KernelCode:
    """The watched instructions of one kernel, how many of each, and those that were promised and are not there."""

    target: str
    kernel: str
    arch: str
    counts: dict[str, int]
    promised: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())


def kernels_of(target: str, module: str, arch: str) -> list[KernelCode]:
    """Compile the CUDA files of a target's module and read their kernels, in the order of the code.

    A promise that holds for a later architecture only (bulk copies and tensor maps: sm_90) is not asked of earlier
    ones. Raises `SkipError` where nvdisasm or NVRTC is missing, `KernelError` where the code cannot be read.
    """
    promises = PROMISES.get(target.partition(".")[2], {})
    found = []
    for source in sources_in(module):
        if not isinstance(source, CudaSource):
            continue
        compiled = source.compile_instances(arch, instances_in(module, source))
        names = {symbol: instance for instance, symbol in compiled.symbols.items()}
        for symbol, counts in read(disassemble(compiled.code)).items():
            kernel = names.get(symbol, symbol)
            promised = promises.get(kernel, ())
            missing = tuple(one for one in promised if not counts.get(one))
            found.append(KernelCode(target, kernel, arch, dict(sorted(counts.items())), promised, missing))
    return found


def read(listing: str) -> dict[str, Counter[str]]:
    """Count the watched instructions of each kernel in nvdisasm's listing; loads and stores by width in bits."""
    kernels: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for line in listing.splitlines():
        if match := _KERNEL.match(line):
            counts = kernels.setdefault(match["name"], Counter())
        elif (match := _INSTRUCTION.match(line)) and match["opcode"] in _WATCHED:
            counts[_named(match["opcode"], match["rest"].split("."))] += 1
    return kernels


def _named(opcode: str, modifiers: list[str]) -> str:
    if opcode not in _WITH_WIDTH:
        return opcode
    width = next((_WIDTHS[one] for one in modifiers if one in _WIDTHS), 32)
    return f"{opcode}.{width}"


def disassemble(cubin: bytes) -> str:
    """Return nvdisasm's listing of machine code. Raises `SkipError` when it is missing, `KernelError` when it fails."""
    tool = _nvdisasm()
    if tool is None:
        raise SkipError(
            "needs nvdisasm, which is looked for on the path, in $CUDA_HOME, in /usr/local/cuda and in triton's "
            "package; "
            "install it with: pip install triton"
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        raise KernelError(f"nvdisasm does not read this code: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


def _nvdisasm() -> str | None:
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    folders = [str(Path(home, "bin")) for home in homes if home]
    folders += [str(Path(entry, "triton/backends/nvidia/bin")) for entry in sys.path if entry]
    return shutil.which("nvdisasm") or shutil.which("nvdisasm", path=os.pathsep.join(folders))

"""Which means of pipelines an architecture has, and how many stages hide the latency of memory by Little's law."""

import math
import re
from collections.abc import Iterator

from attrs import frozen

from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import cuda_driver, occupancy

STAGES_KIB = (4, 8, 16, 32, 48, 64)
THREADS, REGISTERS = 128, 128  # of a block, so that shared memory limits the blocks


@frozen
class Gpu:
    """A GPU, as far as its pipelines are concerned.

    arch: such as `sm_90`. bytes_per_s: of its memory.
    """

    name: str
    arch: str
    multiprocessors: int
    bytes_per_s: float


# Of its data sheet: what is shown where there is no GPU.
H200 = Gpu("an H200 by its data sheet", "sm_90", 132, 4.8e12)


@frozen
class Means:
    """An instruction or facility for pipelines.

    since: the first compute capability that has it. only: those alone, where later ones lost it; empty otherwise.
    does: what it is for. target: a benchmark that uses it; empty for none.
    """

    name: str
    since: int
    does: str
    target: str = ""
    only: tuple[int, ...] = ()

    def is_in(self, capability: int) -> bool:
        """Whether a GPU of a compute capability such as 90 has it."""
        return capability in self.only if self.only else capability >= self.since


MEANS = (
    Means("cp.async", 80, "copies to shared memory past the registers", "ch10.double_buffered_gemm"),
    Means(
        "mbarrier", 80, "barriers in shared memory, which some arrive at and others wait for", "ch09.tensor_core_gemm"
    ),
    Means("TMA", 90, "one thread copies a tile, and a barrier counts its bytes", "ch10.double_buffered_gemm"),
    Means("clusters", 90, "blocks that read each other's shared memory", "ch10.cluster_softmax"),
    Means("griddepcontrol", 90, "the next kernel's prologue beside this one's end", "ch11.pdl_chain"),
    Means("wgmma", 90, "products of four warps from shared memory", "ch09.tensor_core_gemm", (90,)),
    Means("setmaxnreg", 90, "registers move from copying to computing warps", "ch09.tensor_core_gemm"),
    Means("tcgen05", 100, "products of one thread, with sums in tensor memory", "", (100, 101, 103, 110)),
    Means("clusterlaunchcontrol", 100, "a block takes over the work of one that has not begun"),
)


@frozen
class Depth:
    """Stages of a size in a block.

    stages: to cover the latency, and one that is in use. shared_bytes: of them in a block.
    fits: whether a multiprocessor holds so many blocks with them.
    """

    stage_bytes: int
    stages: int
    shared_bytes: int
    fits: bool


def capability_of(arch: str) -> int:
    """The compute capability of an architecture, such as 90 of `sm_90a`. Raises `UsageError` for another text."""
    match = re.fullmatch(r"sm_(\d{2,3})[af]?", arch)
    if match is None:
        raise UsageError(f"{arch!r} is not an architecture; one looks like sm_90 or sm_100a")
    return int(match[1])


def in_flight(gpu: Gpu, latency_s: float) -> float:
    """The bytes that a multiprocessor must have on their way: by Little's law, its share of the rate x the latency."""
    return gpu.bytes_per_s * latency_s / gpu.multiprocessors


def depths(gpu: Gpu, latency_s: float, blocks: int) -> Iterator[Depth]:
    """Stages by their size, for blocks on a multiprocessor that share the bytes on their way."""
    for stage_bytes in (kib << 10 for kib in STAGES_KIB):
        stages = math.ceil(in_flight(gpu, latency_s) / (blocks * stage_bytes)) + 1
        shared = stages * stage_bytes
        held = occupancy(gpu.arch, THREADS, REGISTERS, shared).by["shared memory"]
        yield Depth(stage_bytes, stages, shared, held >= blocks)


def this_gpu() -> Gpu:
    """The GPU of this machine with the number 0. Raises `SkipError` where there is none."""
    driver = cuda_driver()
    _, device = driver.cuDeviceGet(0)

    def ask(name: str) -> int:
        failed, value = driver.cuDeviceGetAttribute(
            getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device
        )
        if int(failed):
            raise SkipError(f"the driver does not tell {name} of GPU 0 (error {int(failed)})")
        return int(value)

    _, name = driver.cuDeviceGetName(128, device)
    arch = f"sm_{ask('COMPUTE_CAPABILITY_MAJOR')}{ask('COMPUTE_CAPABILITY_MINOR')}"
    # kHz and bits, with two transfers a cycle.
    rate = 2 * 1e3 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8
    return Gpu(name.decode().rstrip("\0"), arch, ask("MULTIPROCESSOR_COUNT"), rate)

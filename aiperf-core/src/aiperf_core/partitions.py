"""Partitions of a GPU: streams whose kernels run on some of its multiprocessors and on no others (green contexts).

few, rest = split_multiprocessors(16)
recording = Recording(streams=[rest.stream(), few.stream()])
"""

from typing import Any

import torch

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import cuda_driver
from aiperf_core.kernels.launcher import done

__all__ = ["Partition", "split_multiprocessors"]


class Partition:
    """Some multiprocessors of a GPU. Lives as long as its streams are in use.

    count: the number of multiprocessors.
    """

    def __init__(self, resource: Any) -> None:
        self._driver, self.count = cuda_driver(), int(resource.sm.smCount)
        driver, device = self._driver, torch.cuda.current_device()
        described = done(driver.cuDevResourceGenerateDesc([resource], 1))
        flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        self._context = done(driver.cuGreenCtxCreate(described, device, int(flag.value)))
        self._streams: list[Any] = []

    def stream(self, priority: int = 0) -> torch.cuda.Stream:
        """A stream for kernels of this partition. Lower numbers are placed first."""
        flag = int(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
        made = done(self._driver.cuGreenCtxStreamCreate(self._context, flag, priority))
        self._streams.append(made)
        stream = torch.cuda.ExternalStream(int(made))
        stream.partition = self  # type: ignore[attr-defined]  # lives as long as its streams
        return stream

    def __del__(self) -> None:
        for stream in getattr(self, "_streams", ()):
            self._driver.cuStreamDestroy(stream)
        if hasattr(self, "_context"):
            self._driver.cuGreenCtxDestroy(self._context)


def split_multiprocessors(count: int) -> tuple[Partition, Partition]:
    """Split torch's current GPU: at least `count` multiprocessors, and all others.

    Raises `SkipError` where GPU, driver or bindings have no green contexts, and where nothing would be left.
    """
    driver = cuda_driver()
    if not hasattr(driver, "cuGreenCtxStreamCreate"):
        raise SkipError("needs green contexts, which cuda-bindings have since 12.5; install a later version")
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    torch.cuda.current_stream()  # torch makes the context, of which the partitions are parts
    try:
        whole = done(driver.cuDeviceGetDevResource(torch.cuda.current_device(), kind))
        status, parts, _, rest = driver.cuDevSmResourceSplitByCount(1, whole, 0, count)
        done((status,))
        if not rest.sm.smCount:
            raise SkipError(f"needs more than {count} multiprocessors; this GPU has {whole.sm.smCount}")
        return Partition(parts[0]), Partition(rest)
    except KernelError as error:
        raise SkipError(f"needs a GPU that can be split into green contexts ({error})") from None

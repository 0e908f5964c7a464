"""Cooperative launches: all blocks of a kernel are on the chip together, so that they may wait for each other."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from aiperf_core.errors import SkipError
from aiperf_core.graphs import done
from aiperf_core.kernels import CudaKernel, cuda_driver, grid_that_fills


def cooperative(kernel: CudaKernel, arguments: Sequence[Any], blocks: int, threads: int) -> Callable[[], None]:
    """A launch on torch's current stream, as a function that keeps the arguments. Belongs in `prepare`.

    Raises `SkipError` where the GPU holds fewer blocks at once.
    """
    if (held := grid_that_fills(kernel, threads)) < blocks:
        raise SkipError(f"needs {blocks} blocks on the chip at once; this GPU holds {held}")
    bound = kernel.bound(arguments, blocks, threads)
    function, *shape, parameters = bound.numbers
    start = cuda_driver().cuLaunchCooperativeKernel

    def launch() -> None:
        done(start(function, *shape, torch.cuda.current_stream().cuda_stream, parameters))

    launch.keeps = bound, arguments  # type: ignore[attr-defined]  # parameters and tensors, which have only addresses
    return launch

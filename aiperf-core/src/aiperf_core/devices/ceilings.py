"""What a device reaches at its best: bandwidth of plain copies, reads and writes, and the rate of matrix products.

Each figure is the best of several runs: a ceiling that is too low would make honest results look faster than light.
Matrices hold random values, because a GPU multiplies zeros at less power and so at higher clocks.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch

from aiperf_core.devices.cpu import keep_freed_memory, last_level_cache_bytes
from aiperf_core.devices.host import processor

_REPEATS = 9
_CPU_GEMM_SIZES = (1024, 2048)
_CUDA_GEMM_SIZES = (4096, 8192)
_CPU_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_CUDA_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


def measure(device: str) -> dict[str, Any]:
    """Measure the ceilings of a device, as a record of `results.models.Ceilings`."""
    keep_freed_memory()
    return {
        "device": _device_name(device),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        **_bandwidths(device),
        "flop_per_s": _gemm_rates(device),
    }


def _bandwidths(device: str) -> dict[str, float]:
    size = 4 << 30 if device == "cuda" else max(256 << 20, 8 * last_level_cache_bytes())
    count = size // 2 // 4
    source = torch.randn(count, device=device)
    target = torch.empty_like(source)
    size = 4 * count
    return {
        "copy_bytes_per_s": 2 * size / _best(device, lambda: target.copy_(source)),
        "read_bytes_per_s": size / min(_best(device, source.sum), _best(device, source.view(torch.int32).max)),
        "write_bytes_per_s": size / _best(device, lambda: target.fill_(1.0)),
    }


def _gemm_rates(device: str) -> dict[str, float]:
    dtypes, sizes = (_CUDA_DTYPES, _CUDA_GEMM_SIZES) if device == "cuda" else (_CPU_DTYPES, _CPU_GEMM_SIZES)
    return {name: max(_gemm_rate(device, name, dtype, size) for size in sizes) for name, dtype in dtypes.items()}


def _gemm_rate(device: str, name: str, dtype: torch.dtype, size: int) -> float:
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        seconds = _best(device, lambda: torch.mm(left, right, out=out), repeats=3)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    return 2 * size**3 / seconds


def _best(device: str, call: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """The shortest of several runs, in seconds, after two that warm up."""
    for _ in range(2):
        call()
    return min(_once_cuda(call) if device == "cuda" else _once_cpu(call) for _ in range(repeats))


def _once_cpu(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _once_cuda(call: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{processor()}, {torch.get_num_threads()} threads"

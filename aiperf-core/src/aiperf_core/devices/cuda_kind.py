"""NVIDIA GPUs as a kind of device."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from aiperf_core.devices.device import DeviceKind, Found, Told
from aiperf_core.errors import SkipError

if TYPE_CHECKING:
    import torch

    from aiperf_core.devices.measuring import Page
    from aiperf_core.devices.telemetry import Telemetry
    from aiperf_core.devices.timing import TimingDevice


class CudaKind(DeviceKind):
    """NVIDIA GPUs through CUDA; processes share memory by IPC handles."""

    torch_device = "cuda"
    clock = "events of CUDA around the work of all streams"
    shares_memory = True
    has_ceilings = True
    fingerprints = True
    audited = True
    confines = True
    ranks = True

    def probe(self) -> Found:
        """The GPUs that torch finds."""
        import torch

        if torch.version.cuda is None:
            raise SkipError(f"the installed torch {torch.__version__} is built without CUDA")
        if not torch.cuda.is_available():
            raise SkipError(f"torch {torch.__version__} finds no usable NVIDIA GPU")
        major, minor = torch.cuda.get_device_capability()
        return Found(name=torch.cuda.get_device_name(), count=torch.cuda.device_count(), arch=major * 10 + minor)

    def telemetry(self) -> "Telemetry":
        """Open NVML beside the CPU telemetry."""
        from aiperf_core.devices.telemetry import open_telemetry

        return open_telemetry("cuda")

    def rank_telemetry(self, rank: int) -> "Telemetry":
        """Open NVML of the rank's GPU."""
        from aiperf_core.devices.telemetry import open_telemetry

        return open_telemetry(self.place(rank))

    def fill_ceilings(self, page: "Page", whole: bool) -> str:
        """Measure own kernels and libraries."""
        from aiperf_core.devices.cuda_ceilings import fill

        return fill(page)

    def fill_group(self, page: "Page", group: str) -> None:
        """Measure own kernels, and copies between host and GPUs."""
        from aiperf_core.devices.cuda_ceilings import fill_group

        fill_group(page, group)

    def preload(self) -> None:
        """Import the modules that time and audit calls."""
        from aiperf_core.devices import cpu, cuda, ledger  # noqa: F401

    def wake(self) -> None:
        """Create the context."""
        import torch

        from aiperf_core.devices import device_lock

        torch.cuda.init()
        with device_lock.held():
            torch.cuda.synchronize()
        torch.zeros(1, device="cuda")  # loads the first kernel

    def open(self, working_set_bytes: int, *, all_streams: bool) -> "TimingDevice":
        """Time by events behind a blocking kernel."""
        from aiperf_core.devices.cuda import CudaDevice

        return CudaDevice(all_streams=all_streams)

    def place(self, rank: int) -> str:
        """The GPU of a rank."""
        return f"cuda:{rank}"

    def on(self, rank: int) -> AbstractContextManager[Any]:
        """Make the rank's GPU the current device."""
        import torch

        return torch.cuda.device(rank)

    def synchronize(self, rank: int) -> None:
        """Wait for the rank's GPU."""
        import torch

        torch.cuda.synchronize(rank)

    def join_ranks(self, timeout: timedelta) -> list[Callable[[], None]]:
        """Join the other ranks through NCCL, and gloo for host tensors."""
        import torch
        import torch.distributed as dist

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        here = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=timeout, device_id=here)
        align = partial(dist.all_reduce, torch.zeros(1, device=here))
        align()  # creates the communicator
        torch.cuda.synchronize()
        return [align]

    def create_memory(self, size: int, rank: int) -> "tuple[torch.Tensor, Told, tuple[int, ...]]":
        """Create a plain allocation."""
        from aiperf_core.devices import cuda_memory

        tensor, handle = cuda_memory.create(size, self.place(rank))
        return tensor, {"device": self.place(rank), "size": size, "handle": handle}, ()

    def map_memory(self, told: Told, fd: int | None) -> "torch.Tensor":
        """Map the bytes of that allocation."""
        from aiperf_core.devices import cuda_memory

        return cuda_memory.attach(told["handle"], told["size"], told["device"])

"""Device: a kind of device that benchmarks run on, and `DeviceKind`, the class that the harness uses it through.

A plugin contributes `Device` records. The class that a record names in `load` is imported only in the processes of a
run on that device. `cpu` and `cuda` are two such classes.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from aiperf_core.contributed import class_path, known, make, named, one_line
from aiperf_core.targets import is_device

if TYPE_CHECKING:
    import torch

    from aiperf_core.devices.flush_bound import FlushBound
    from aiperf_core.devices.measuring import Page
    from aiperf_core.devices.telemetry import Telemetry
    from aiperf_core.devices.timing import TimingDevice

# The JSON message by which other processes map shared memory.
Told = dict[str, Any]


@frozen
class Device:
    """A kind of device. A field that breaks a rule below raises `ValueError`, which sets the plugin aside.

    name: as in `--device`, `Target.devices` and presets of sizes.
    summary: one line.
    load: its class, `"package.module:Class"`, derived from `DeviceKind`.
    """

    name: str = field(validator=named("device", is_device, "a Python identifier in lower case can, such as 'xpu'"))
    summary: str = field(validator=one_line("device"))
    load: str = field(validator=class_path("device"))

    def resolve(self) -> "DeviceKind":
        """Import the class and create an instance. Raises `SkipError` with the reason when that fails."""
        return make(self.load, DeviceKind)


@frozen(kw_only=True)
class Found:
    """A device of this machine.

    name: its model.
    count: the number of such devices.
    arch: the compute capability of a CUDA GPU, `major * 10 + minor`, for `requires="sm_90"`.
    capabilities: names of the plugin's choice, for `requires="capability:NAME"`.
    """

    name: str
    count: int = 1
    arch: int | None = None
    capabilities: tuple[str, ...] = ()


class DeviceKind:
    """The interface of a kind of device. Each method's docstring names the process that calls it.

    The supervisor imports no torch. The class's module must not import it either; methods import what they need. The
    defaults promise the least: no own clock, no shared memory, no ceilings, no telemetry, one rank. Each missing
    promise costs a protection or a figure, and result rows name it.

    torch_device: the type of its tensors, such as `xpu` or `privateuseone`.
    clock: what measures the device's own time, in a few words; None for the wall clock only.
    on_host: calls run in the process itself. The harness then stops its processes while others are measured, and may
        pin them and limit their memory.
    shares_memory: the judge refreshes the inputs where the worker's code reads them (see `create_memory`). Otherwise
        the worker's own process copies them, and untrusted code could keep the old values.
    flush_bound: what `bound_flush` measured; set by the harness before `open`.
    has_ceilings: `fill_ceilings` works. Otherwise no row has a fraction of the speed of light.
    fingerprints: `time` takes `fingerprint`, a function that it calls with the result as soon as the stop of the clock
        is queued. The function queues a look at the output, so that no write after the stop goes unseen.
    audited: CUPTI can trace its calls.
    confines: untrusted code can run in a sandbox with it.
    ranks: each rank of a workload can have a device of its own.
    """

    torch_device: ClassVar[str] = "cpu"
    clock: ClassVar[str | None] = None
    on_host: ClassVar[bool] = False
    shares_memory: ClassVar[bool] = False
    has_ceilings: ClassVar[bool] = False
    fingerprints: ClassVar[bool] = False
    audited: ClassVar[bool] = False
    confines: ClassVar[bool] = False
    ranks: ClassVar[bool] = False
    flush_bound: "FlushBound | None" = None

    # --- presence and telemetry

    def probe(self) -> Found:
        """In a process of its own: find the device. Raises `SkipError` with the reason when there is none."""
        raise NotImplementedError

    def telemetry(self) -> "Telemetry":
        """In the supervisor: open the telemetry of the machine and the device. Default: the CPU telemetry."""
        from aiperf_core.devices.telemetry import open_telemetry

        return open_telemetry("cpu")

    def rank_telemetry(self, rank: int) -> "Telemetry | None":
        """In the supervisor: open the telemetry of the device of a rank beyond the first. Default: none."""
        return None

    # --- ceilings

    def state(self) -> Mapping[str, str]:
        """In the supervisor: facts that the ceilings depend on, besides those of every machine (versions, names)."""
        return {}

    def fill_ceilings(self, page: "Page", whole: bool) -> str:
        """In a process of its own: measure the ceilings into `page`, and return the device's name.

        The rates of copies, reads and writes are required; the other figures belong to the whole page.
        """
        raise NotImplementedError

    def fill_group(self, page: "Page", group: str) -> None:
        """In a process of its own: measure further ceilings into `page`. Default: none.

        It is called for the whole page, and where a target's cost or goals need the group: `wire` (links between
        ranks), `transfers` (between host and device), `on_chip` (shared memory and the last cache), `launches`,
        `sectors` (random reads), `special` (special functions) and `steps` (dependent reads).
        """

    def needs_flush_bound(self) -> bool:
        """In the supervisor: whether a flush takes so long that `bound_flush` is called first. Default: no."""
        return False

    def bound_flush(self) -> "FlushBound":
        """In a process of its own, if it is needed: measure how much a flush of the caches must write."""
        raise NotImplementedError

    # --- in workers and the judge

    def preload(self) -> None:
        """In a worker, before the measured code is imported: import what timing uses, so that it is watched."""

    def wake(self) -> None:
        """In workers and the judge, before any data: initialise the device."""

    def open(self, working_set_bytes: int, *, all_streams: bool) -> "TimingDevice":
        """In workers and the judge: open the object that times calls and flushes caches.

        `working_set_bytes` is the least that a call reads and writes. Without `all_streams` only the current stream is
        timed, which the proof of a guard uses; a device may ignore it.
        """
        raise NotImplementedError

    def place(self, rank: int) -> str:
        """The torch name of a rank's device."""
        return self.torch_device

    def on(self, rank: int) -> AbstractContextManager[Any]:
        """In the judge: make a rank's device the current device."""
        return nullcontext()

    def synchronize(self, rank: int) -> None:
        """In the judge: wait for all work of this process on a rank's device."""

    def join_ranks(self, timeout: timedelta) -> "list[Callable[[], None]]":
        """In a rank: join the others through torch.distributed, with a backend for host tensors too.

        Return functions that make the devices of all ranks start together; they are called in order right before a
        clock starts. An empty list leaves it to the meeting of the hosts.
        """
        raise NotImplementedError

    # --- memory that the judge and the workers share

    def create_memory(self, size: int, rank: int) -> "tuple[torch.Tensor, Told, tuple[int, ...]]":
        """In the judge, with `shares_memory`: create `size` bytes on a rank's device.

        Return a uint8 tensor, a message for `map_memory`, and the file descriptors that go with it (one or none).
        """
        raise NotImplementedError

    def map_memory(self, told: Told, fd: int | None) -> "torch.Tensor":
        """In a worker: map those bytes as a uint8 tensor. Raises `SkipError` when this machine cannot."""
        raise NotImplementedError


CPU = Device("cpu", "The processors of this machine", "aiperf_core.devices.cpu_kind:CpuKind")
CUDA = Device("cuda", "NVIDIA GPUs", "aiperf_core.devices.cuda_kind:CudaKind")
# The core's own devices by name, the preferred first.
BUILT_IN: Mapping[str, Device] = {device.name: device for device in (CUDA, CPU)}


def known_device(name: str, devices: Mapping[str, Device]) -> Device:
    """The device of that name. Raises `UsageError` for an unknown name."""
    return known(name, devices, "device")

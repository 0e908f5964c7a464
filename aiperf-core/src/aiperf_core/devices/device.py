"""Device: a kind of device that benchmarks run on, known by name; and what the harness asks of its class.

A plugin contributes `Device` records. What a record's `load` names, a class derived from `DeviceKind`, is looked up only in
the processes of a run on that device. `cpu` and `cuda` are two such classes.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from aiperf_core.contributed import class_path, make, named, one_line
from aiperf_core.errors import UsageError
from aiperf_core.targets import is_device

if TYPE_CHECKING:
    import torch

    from aiperf_core.devices.measuring import Page
    from aiperf_core.devices.telemetry import Telemetry
    from aiperf_core.devices.timing import TimingDevice

# What an arena's maker tells its other users, as JSON.
Told = dict[str, Any]


@frozen
class Device:
    """A kind of device: the name that `--device`, `Target.devices` and a preset of sizes bear, and a line about it.

    `load` is where its class lives: `"package.module:Class"`, derived from `DeviceKind`. A device that breaks a rule below
    raises `ValueError`, which sets its plugin aside.
    """

    name: str = field(validator=named("device", is_device, "a Python identifier in lower case can, such as 'xpu'"))
    summary: str = field(validator=one_line("device"))
    load: str = field(validator=class_path("device"))

    def resolve(self) -> "DeviceKind":
        """Import the class and make one. Raises `SkipError` with the reason where that fails."""
        return make(self.load, DeviceKind)


@frozen(kw_only=True)
class Found:
    """A device that is here: what it is called, how many of it, and what an implementation's `requires=` may ask of it.

    `arch` is the compute capability of a CUDA GPU, as `major * 10 + minor`; other devices have `capabilities`, names of their
    own choice, asked for as `capability:NAME`.
    """

    name: str
    count: int = 1
    arch: int | None = None
    capabilities: tuple[str, ...] = ()


class DeviceKind:
    """What the harness asks of a kind of device. Each method says in which process it is called.

    The supervisor imports no torch, so neither may the class's module when it is imported; methods import what they need.
    What is not overridden makes the least of promises: no clock of its own, no memory that processes share, no ceilings, no
    telemetry, one rank. Each missing promise costs some protection or figure, and rows say which.

    torch_device: the type of its tensors, such as `xpu` or `privateuseone`.
    clock: what measures the device's own time, in a few words; None where there is only the wall clock.
    on_host: calls are the work of the process itself. Its processes are then stopped while it is not their turn, may be
        pinned and have a limit of memory.
    shares_memory: the judge writes new values where the worker's code reads them (see `create_memory`). Without, the worker's
        own process copies them there, and code that it runs could keep the old ones.
    has_ceilings: whether `fill_ceilings` can be asked; without, no row has a fraction of the speed of light.
    seals: whether its `time` takes `seal`, a function that it calls with the result as soon as the clock's stop is queued. It
        queues a look at the output there, before which nothing can be written that the clock has missed.
    audited: whether CUPTI can look at its calls.
    confines: whether code that nobody trusts can be confined with it.
    ranks: whether a workload of several ranks can have one of it each.
    """

    torch_device: ClassVar[str] = "cpu"
    clock: ClassVar[str | None] = None
    on_host: ClassVar[bool] = False
    shares_memory: ClassVar[bool] = False
    has_ceilings: ClassVar[bool] = False
    seals: ClassVar[bool] = False
    audited: ClassVar[bool] = False
    confines: ClassVar[bool] = False
    ranks: ClassVar[bool] = False

    # --- is it here

    def probe(self) -> Found:
        """In a process of its own: what is here. Raises `SkipError` with the reason where nothing is."""
        raise NotImplementedError

    def telemetry(self) -> "Telemetry":
        """In the supervisor: open what reads the machine around the device. Unless overridden, the processor's state alone."""
        from aiperf_core.devices.telemetry import open_telemetry

        return open_telemetry("cpu")

    def rank_telemetry(self, rank: int) -> "Telemetry | None":
        """In the supervisor: open what reads the device of a rank beyond the first. Unless overridden, nothing does."""
        return None

    # --- its ceilings

    def state(self) -> Mapping[str, str]:
        """In the supervisor: what the ceilings depend on, beside what is known of every machine (versions, names)."""
        return {}

    def fill_ceilings(self, page: "Page", whole: bool) -> str:
        """In a process of its own: measure what the device reaches into `page`, and return its name.

        Copying, reading and writing must be among the figures; the others belong to the whole page.
        """
        raise NotImplementedError

    # --- in workers and the judge

    def preload(self) -> None:
        """In a worker, before the measured code is imported: import what timing uses. What is imported by then is watched."""

    def wake(self) -> None:
        """In workers and the judge, before there are data: start what the first use of the device would otherwise start."""

    def open(self, working_set_bytes: int, *, all_streams: bool) -> "TimingDevice":
        """In workers and the judge: what times calls and flushes caches.

        `working_set_bytes` is what a call reads and writes at least. Without `all_streams` only the work of the current stream
        is timed; that is how a guard is proven, and may be ignored.
        """
        raise NotImplementedError

    def place(self, rank: int) -> str:
        """What torch calls the device of a rank."""
        return self.torch_device

    def on(self, rank: int) -> AbstractContextManager[Any]:
        """In the judge: make a rank's device the current one."""
        return nullcontext()

    def synchronize(self, rank: int) -> None:
        """In the judge: wait for all that this process has put on a rank's device."""

    def join_ranks(self, timeout: timedelta) -> "list[Callable[[], None]]":
        """In a rank: join the others through torch.distributed, which must be able to reduce tensors of the host too.

        Return what lets the devices of all ranks go on together, to be called in order right before a clock starts; nothing
        where the host's meeting is enough.
        """
        raise NotImplementedError

    # --- memory that the judge and the workers share

    def create_memory(self, size: int, rank: int) -> "tuple[torch.Tensor, Told, tuple[int, ...]]":
        """In the judge, where `shares_memory`: so many bytes on a rank's device, and how others map them.

        Return them as a uint8 tensor, with a message for `map_memory`, and file descriptors that go with it (one or none).
        """
        raise NotImplementedError

    def map_memory(self, told: Told, fd: int | None) -> "torch.Tensor":
        """In a worker: the same bytes as a uint8 tensor. Raises `SkipError` where the machine lacks what that takes."""
        raise NotImplementedError


CPU = Device("cpu", "The processors of this machine", "aiperf_core.devices.cpu_kind:CpuKind")
CUDA = Device("cuda", "NVIDIA GPUs", "aiperf_core.devices.cuda_kind:CudaKind")
# What comes with the core, by name; the preferred one first.
BUILT_IN: Mapping[str, Device] = {one.name: one for one in (CUDA, CPU)}


def known_device(name: str, devices: Mapping[str, Device]) -> Device:
    """The device of that name. Raises `UsageError` for one that no plugin provides."""
    if name not in devices:
        raise UsageError(
            f"{name!r} is not a device; known are {', '.join(sorted(devices))}. See what provides them: aiperf plugins"
        )
    return devices[name]

"""The plugin of the simulated accelerator, as a stranger would write it."""

from collections.abc import Iterable

from aiperf_core.devices.device import Device
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_devices() -> Iterable[Device]:
    """Contribute the accelerator."""
    yield Device("toy", "A queue and a thread that works it off", load="toy_device:Toy")
    yield Device("gone", "One that is never here", load="toy_device:Gone")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """Contribute a benchmark for each that has nothing for other devices."""
    yield Target("copy", "One launch is cheaper than many", goal="speed", devices="toy", module="toy_copy")
    yield Target("lost", "Nobody can say", goal="speed", devices="gone", module="toy_lost")

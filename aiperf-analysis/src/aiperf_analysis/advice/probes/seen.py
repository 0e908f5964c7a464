"""What the probes look at: facts of the host, of its GPUs, and the environment."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

from aiperf_core.devices import environment, gpu_telemetry, gpus, nvml
from aiperf_core.devices.sysfs import text
from aiperf_core.distributions import installed_version

Outcome = Literal["holds", "does not hold", "not applicable", "unknown"]

NO_GPU = "not applicable here: no GPU"
_MOST_LINKS = 18  # NVLinks of a GPU


@frozen
class Answer:
    """The answer of a probe. `found`: what was seen, or why nothing was."""

    outcome: Outcome
    found: str


@frozen(kw_only=True)
class Seen:
    """What was seen of a machine, as plain data.

    facts: as of `aiperf_core.devices.environment.facts`.
    boards: facts of each GPU by name, as of `aiperf_core.devices.gpus`, with those of `_MORE`.
    cuda: the largest CUDA version that the driver supports, such as `12.8`; empty without a driver.
    environ: the environment variables.
    version_of: the version of an installed distribution; empty for one that is not installed.
    root: holds /proc and /sys.
    """

    facts: Mapping[str, Any] = field(factory=dict)
    boards: tuple[Mapping[str, Any], ...] = ()
    cuda: str = ""
    environ: Mapping[str, str] = field(factory=dict)
    version_of: Callable[[str], str] = installed_version
    root: Path = Path("/")

    def read(self, path: str) -> str:
        """The text of a file below `root`; empty when it cannot be read."""
        return text(self.root / path)

    def fact(self, name: str) -> Any:
        """A fact of the host. Raises LookupError with the reason where it is lacking."""
        if name not in self.facts:
            raise LookupError(self.facts.get("lacking", {}).get(name, f"this machine does not tell {name}"))
        return self.facts[name]


def holds(found: str) -> Answer:
    """The recommendation is followed."""
    return Answer("holds", found)


def fails(found: str) -> Answer:
    """The recommendation is not followed."""
    return Answer("does not hold", found)


def decided(good: bool, found: str) -> Answer:
    """`holds` or `does not hold`."""
    return holds(found) if good else fails(found)


def absent(why: str) -> Answer:
    """The recommendation does not apply to this machine."""
    return Answer("not applicable", why if why.startswith("not applicable") else f"not applicable here: {why}")


def unknown(why: str) -> Answer:
    """The machine does not tell."""
    return Answer("unknown", why)


def look(root: Path = Path("/")) -> Seen:
    """Look at this machine."""
    boards, cuda = _boards()
    return Seen(
        facts=environment.facts("cuda" if boards else "cpu", root),
        boards=tuple(boards),
        cuda=cuda,
        environ=dict(os.environ),
        root=root,
    )


def _boards() -> tuple[list[dict[str, Any]], str]:
    """The facts of each GPU, and the CUDA version of the driver."""
    found, _ = gpus.gpus()
    if not found:
        return [], ""
    try:
        with nvml.session() as session:
            version = session.ask("nvmlSystemGetCudaDriverVersion_v2") or 0
            return [one | _more(session, one["index"]) for one in found], f"{version // 1000}.{version % 1000 // 10}"
    except nvml.NvmlMissingError:
        return found, ""


def _more(session: nvml.Nvml, index: int) -> dict[str, Any]:
    """Facts of a GPU that the manifest of a run does not have; a fact that the driver refuses is None."""
    handle = session.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return {}

    def ask(function: str, *arguments: Any) -> Any:
        return session.ask(function, handle, *arguments)

    pci, bar1 = ask("nvmlDeviceGetPciInfo"), ask("nvmlDeviceGetBAR1MemoryInfo")
    threshold = getattr(session.module, "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN", None)
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    bus = pci.busId if pci else ""
    links = [ask("nvmlDeviceGetNvLinkState", link) for link in range(_MOST_LINKS)]
    use = ask("nvmlDeviceGetUtilizationRates")
    return {
        "bus": bus.decode() if isinstance(bus, bytes) else bus,
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "performance_state": ask("nvmlDeviceGetPerformanceState"),
        "nvlinks": [bool(state) for state in links if state is not None],
        "bar1_bytes": bar1.bar1Total if bar1 else None,
        "remapped_rows": ask("nvmlDeviceGetRemappedRows"),
        "power_default_w": nvml.scaled(ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3),
        "throttled": None if reasons is None else gpu_telemetry.reasons(reasons),
        "slowdown_c": None if threshold is None else ask("nvmlDeviceGetTemperatureThreshold", threshold),
        "busy": use.gpu / 100 if use else None,
    }

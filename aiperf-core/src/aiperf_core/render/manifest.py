"""Lines about a run from its manifest: command, time, machine and software."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.measurements import Ceilings
from aiperf_core.names import printable, words
from aiperf_core.render.grid import labelled
from aiperf_core.render.look import Look
from aiperf_core.report.views import machine_name
from aiperf_core.results.models import Machine, Manifest

ABBREVIATED = 12  # characters of a commit that identify it


def render_manifest(manifest: Manifest, path: Path, look: Look, *, verbose: bool = True) -> RenderableType:
    """The manifest of a bundle in a few lines of a terminal; not `verbose` with command, time and machine alone."""
    grid = labelled()
    for label, line in _lines(manifest) if verbose else _brief(manifest):
        grid.add_row(label, look.text(words(line)))
    return Group(Text(printable(str(path)), "bold", overflow="fold"), grid, Text())


def _brief(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "command", " ".join(manifest.command)
    yield "run", f"{units.moment(manifest.created)}, {ending(manifest)}, on {machine_name(manifest)}"
    yield from set_aside(manifest)


def _lines(manifest: Manifest) -> Iterator[tuple[str, str]]:
    machine = manifest.machine
    yield "command", " ".join(manifest.command)
    yield "run", f"{units.moment(manifest.created)}, {ending(manifest)}"
    yield "machine", f"{machine.hostname}, {machine.system}"
    yield "processor", processor(machine)
    driver = f", driver {machine.driver}" if machine.driver else ""
    yield from (("GPU", f"{gpu_name(gpu)}{driver}") for gpu in machine.gpus)
    if machine.hypervisor:
        yield "hypervisor", machine.hypervisor
    for device, found in manifest.ceilings.items():
        yield "ceilings", f"{device}, measured {units.moment(found.measured)}: {', '.join(rates(found))}"
    yield "software", _software(manifest)
    yield from set_aside(manifest)
    if manifest.git:
        commit, dash, dirty = manifest.git.partition("-")
        yield "git", commit[:ABBREVIATED] + dash + dirty


def ending(manifest: Manifest) -> str:
    """Whether the run is complete, and its exit code."""
    code = "" if manifest.exit_code is None else f", exit code {manifest.exit_code}"
    return ("complete" if manifest.complete else "not complete") + code


def processor(machine: Machine) -> str:
    """The CPU, the number of CPUs that the run could use, and the memory."""
    return f"{machine.cpu}, {machine.cores} logical CPUs usable, {units.size(machine.memory_bytes)}"


def gpu_name(gpu: dict[str, Any]) -> str:
    """A GPU with its memory and its compute capability."""
    memory, capability = gpu.get("memory_bytes"), gpu.get("capability")
    parts = (
        str(gpu.get("name") or "unnamed GPU"),
        units.size(memory) if isinstance(memory, int | float) else "",
        f"compute capability {capability}" if capability else "",
    )
    return ", ".join(filter(None, parts))


def rates(found: Ceilings) -> list[str]:
    """The ceilings that bound work: copies, arithmetic by kind and precision, and links and disk that were used."""
    products = [f"{name} matmul {units.rate(value, 'FLOP/s')}" for name, value in found.flop_per_s.items()]
    products += [f"{name} FMA {units.rate(value, 'FLOP/s')}" for name, value in found.vector_flop_per_s.items()]
    others = {
        "GPU to GPU": min(found.peer_bytes_per_s.values(), default=None),
        "process to process": found.loopback_bytes_per_s,
        "disk read": found.disk_read_bytes_per_s,
        "disk write": found.disk_write_bytes_per_s,
    }
    used = [f"{name} {units.rate(value, 'B/s')}" for name, value in others.items() if value]
    return [f"copy {units.rate(found.copy_bytes_per_s, 'B/s')}", *products, *used]


def set_aside(manifest: Manifest) -> list[tuple[str, str]]:
    """The plugins that were set aside, with the reason."""
    aside = [plugin for plugin in manifest.plugins if "set_aside" in plugin]
    return [("set aside", f"{one.get('distribution')} {one.get('version')}: {one['set_aside']}") for one in aside]


def _software(manifest: Manifest) -> str:
    ours = {name: version for name, version in manifest.packages.items() if name in ("torch", "triton")}
    plugins = {one["distribution"]: one["version"] for one in manifest.plugins if "set_aside" not in one}
    plugins.pop("aiperf-core", None)
    # Packages of one repository have one version.
    same = [name.removeprefix("aiperf-") for name, version in plugins.items() if version == manifest.aiperf]
    others = {name: version for name, version in plugins.items() if version != manifest.aiperf}
    named = [f"aiperf {manifest.aiperf}" + (f" ({', '.join(same)})" if same else "")]
    named += (f"{name} {version}" for name, version in {**others, **ours}.items())
    return ", ".join([*named, manifest.machine.python])

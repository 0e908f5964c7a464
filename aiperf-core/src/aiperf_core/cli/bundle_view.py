"""The first page of a bundle as a terminal shows it: what was run, when, where and with what."""

from datetime import datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.render.look import Look
from aiperf_core.results.models import Machine, Manifest

ABBREVIATED = 12  # characters of a commit that name it


def render_manifest(manifest: Manifest, path: Path, look: Look) -> RenderableType:
    """A bundle's manifest in a few lines."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for label, line in _lines(manifest):
        grid.add_row(label, look.text(words(line)))
    return Group(Text(str(path), "bold", overflow="fold"), grid, Text())


def _lines(manifest: Manifest) -> list[tuple[str, str]]:
    machine = manifest.machine
    lines = [
        ("command", " ".join(manifest.command)),
        ("run", f"{_moment(manifest.created)}, {_outcome(manifest)}"),
        ("machine", f"{machine.hostname}, {machine.system}"),
        ("processor", f"{machine.cpu}, {machine.cores} logical CPUs usable, {units.size(machine.memory_bytes)}"),
        *_gpu_lines(machine),
    ]
    if machine.hypervisor:
        lines.append(("hypervisor", machine.hypervisor))
    for device, one in manifest.ceilings.items():
        lines.append(("ceilings", f"{device}, measured {_moment(one.measured)}: {_rates(one)}"))
    lines.append(("software", _software(manifest)))
    aside = [one for one in manifest.plugins if "set_aside" in one]
    lines += [("set aside", f"{one['distribution']} {one['version']}: {one['set_aside']}") for one in aside]
    if manifest.git:
        commit, dash, dirty = manifest.git.partition("-")
        lines.append(("git", commit[:ABBREVIATED] + dash + dirty))
    return lines


def _gpu_lines(machine: Machine) -> list[tuple[str, str]]:
    lines = []
    for gpu in machine.gpus:
        memory = gpu.get("memory_bytes")
        parts = [
            str(gpu.get("name") or "a GPU that does not say its name"),
            units.size(memory) if isinstance(memory, int) else "",
            f"compute capability {gpu['capability']}" if gpu.get("capability") else "",
            f"driver {machine.driver}" if machine.driver else "",
        ]
        lines.append(("GPU", ", ".join(filter(None, parts))))
    return lines


def _moment(iso: str) -> str:
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return iso


def _outcome(manifest: Manifest) -> str:
    code = "" if manifest.exit_code is None else f", exit code {manifest.exit_code}"
    return ("complete" if manifest.complete else "not complete") + code


def _rates(found: Ceilings) -> str:
    flops = [f"{precision} {units.rate(value, 'FLOP/s')}" for precision, value in found.flop_per_s.items()]
    return ", ".join([f"copy {units.rate(found.copy_bytes_per_s, 'B/s')}", *flops])


def _software(manifest: Manifest) -> str:
    ours = {name: version for name, version in manifest.packages.items() if name in ("torch", "triton")}
    plugins = {one["distribution"]: one["version"] for one in manifest.plugins if "set_aside" not in one}
    plugins.pop("aiperf-core", None)
    named = [f"aiperf {manifest.aiperf}", *(f"{name} {version}" for name, version in {**plugins, **ours}.items())]
    return ", ".join([*named, manifest.machine.python])

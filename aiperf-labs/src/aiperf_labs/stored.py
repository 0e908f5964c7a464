"""Results that are stored: of bundles in a folder, and of the expectations files of packages. Imports no torch."""

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import field, frozen

from aiperf_core.devices.probe import nvidia
from aiperf_core.devices.sysfs import text
from aiperf_core.errors import AiperfError
from aiperf_core.results import Row, Run, Store, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget

BELIEVED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SMALLER, Verdict.LARGER, Verdict.SAME)


@frozen
class Ratio:
    """The baseline's time, or its peak memory, divided by that of an implementation, with its interval."""

    value: float
    low: float
    high: float


@frozen(kw_only=True)
class Stored:
    """The believed variants of a target in one place.

    machine: the kind of machine, as expectations files are named: `nvidia-h200-x1`.
    device: `cuda` or `cpu`.
    origin: the bundle, or the expectations file.
    date: when it was measured, in ISO 8601.
    ratios: by the names of the variants; empty for verdicts without one.
    """

    target: str
    machine: str
    device: str
    origin: str
    date: str
    ratios: dict[str, Ratio] = field(factory=dict)


def stored(targets: Iterable[InstalledTarget], folder: Path) -> list[Stored]:
    """Stored results of these targets, newest first. A bundle or a file that cannot be read is left out."""
    wanted = {target.name: target for target in targets}
    found = [*_in_bundles(wanted, folder), *_in_packages(wanted)]
    return sorted(found, key=lambda one: one.date, reverse=True)


# --- kinds of machines


def key(names: Iterable[str], count: int) -> str:
    """The name of a kind of machine: that of its GPUs and their number, or of its processor and its usable CPUs."""
    return re.sub(r"[^a-z0-9]+", "-", f"{' '.join(sorted({*names}))} x{count}".lower()).strip("-")


def keys_here() -> set[str]:
    """The kinds of machine that this one is: its processor, and its GPUs, from one to all of them."""
    names = [gpu.name for gpu in nvidia().gpus]
    return {
        key([_processor()], _usable_cpus()),
        *(key(names[:count], count) for count in range(1, len(names) + 1)),
    }


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", text(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- bundles


def _in_bundles(wanted: Mapping[str, InstalledTarget], folder: Path) -> Iterator[Stored]:
    for run in Store(folder).runs() if folder.is_dir() else ():
        for name in run.targets:
            if name in wanted:
                try:
                    result = run.bundle.outline(name)
                except AiperfError:
                    continue
                yield from _of_result(run, result)


def _of_result(run: Run, result: TargetResult) -> Iterator[Stored]:
    believed = [row for row in result.rows if row.role == "variant" and row.verdict in BELIEVED]
    if believed:
        yield Stored(
            target=result.target,
            machine=_machine(run, result),
            device=result.device,
            origin=run.name,
            date=result.started,
            ratios={row.name: ratio for row in believed for ratio in _ratio(row, result.goal)},
        )


def _machine(run: Run, result: TargetResult) -> str:
    machine = run.manifest.machine
    if result.device != "cuda":
        return key([machine.cpu], machine.cores)
    used = max(1, result.problem.world_size)
    return key([str(gpu.get("name") or "gpu") for gpu in machine.gpus[:used]], used)


def _ratio(row: Row, goal: str) -> Iterator[Ratio]:
    if goal == "memory" and row.memory_gain is not None:
        yield Ratio(row.memory_gain, row.memory_gain, row.memory_gain)
    elif goal != "memory" and row.speedup is not None:
        yield Ratio(row.speedup.value, row.speedup.low, row.speedup.high)


# --- expectations files


def _in_packages(wanted: Mapping[str, InstalledTarget]) -> Iterator[Stored]:
    for folder in {_package(target.module) for target in wanted.values()} - {None}:
        for file in sorted((folder / "expectations").glob("*.json")) if folder else ():
            try:
                document = json.loads(file.read_bytes())
                yield from _of_page(wanted, file.stem, document)
            except (OSError, ValueError, KeyError, TypeError, IndexError):
                continue  # `aiperf expectations` says what is wrong with it


def _package(module: str) -> Path | None:
    spec = find_spec(module.rpartition(".")[0]) if "." in module else None
    return Path(spec.origin).parent if spec and spec.origin else None


def _of_page(wanted: Mapping[str, InstalledTarget], machine: str, page: dict[str, Any]) -> Iterator[Stored]:
    by_target: dict[str, dict[str, dict[str, Any]]] = {}
    for name, row in page["expected"].items():
        target, _, implementation = name.partition(":")
        if target in wanted:
            by_target.setdefault(target, {})[implementation] = row
    for target, rows in by_target.items():
        yield Stored(
            target=target,
            machine=machine,
            device="cuda" if machine.startswith("nvidia-") else "cpu",
            origin=f"expectations/{machine}.json",
            date=max(str(page["runs"][row["run"]]["date"]) for row in rows.values()),
            ratios={name: Ratio(row["measured"], row["low"], row["high"]) for name, row in rows.items()},
        )

"""What the core promises to those who import it, call it or plug into it, as facts of a line each.

    python aiperf-core/tests/public_api.py

writes the facts into `public_api.txt`, against which `test_public_api.py` holds the code.
"""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from aiperf_core import __version__, hookspecs
from aiperf_core.cli.main import Shell
from aiperf_core.observers import HOOKS
from aiperf_core.plugins import load_plugins

FILE = Path(__file__).with_suffix(".txt")

# What each module offers, which `docs/compatibility.md` lists too; where nothing is named, all that it defines or has in
# `__all__`.
OFFERED = {
    "aiperf_core": (),
    "aiperf_core.kernels": (),
    "aiperf_core.distributed": (),
    "aiperf_core.recorded": (),
    "aiperf_core.graphs": (),
    "aiperf_core.partitions": (),
    "aiperf_core.launches": ("launch", "loop", "blocks", "filling"),
    "aiperf_core.switches": ("switch",),
    "aiperf_core.goal": ("Goal",),
    "aiperf_core.models": (),
    "aiperf_core.models.experts": (),
    "aiperf_core.simulation": (),
    "aiperf_core.serving": ("Request", "Desk"),
    "aiperf_core.loading": ("load_benchmark",),
    "aiperf_core.benchmark": ("bind", "call_with"),
    "aiperf_core.described": ("TargetRef",),
    "aiperf_core.units": (),
    "aiperf_core.testing": (
        "Measuring",
        "advised",
        "conformance",
        "fleet_conformance",
        "interpreted",
        "made_up_machine",
        "problems",
    ),
    "aiperf_core.hookspecs": ("hookimpl",),
    "aiperf_core.targets": ("Target", "InstalledTarget", "TargetFilter"),
    "aiperf_core.analysis": ("Analysis",),
    "aiperf_core.analysis_options": ("option", "takes_files", "NoOptions"),
    "aiperf_core.report.result": (),
    "aiperf_core.report.metrics": ("METRICS", "Metric"),
    "aiperf_core.document_kind": ("DocumentKind", "DocumentReader"),
    "aiperf_core.document_schema": ("DocumentSchema",),
    "aiperf_core.candidate_format": ("Format", "CandidateFormat", "Code"),
    "aiperf_core.commands": ("Command",),
    "aiperf_core.audit": (),
    "aiperf_core.cli.audit_view": ("print_audit",),
    "aiperf_core.cli.bundles": ("ADDRESS", "BUNDLE", "PATTERN_OR_ADDRESS", "verified"),
    "aiperf_core.cli.measuring": ("FiniteRange", "targets_option"),
    "aiperf_core.cli.screen": ("consoles",),
    "aiperf_core.cli.tables": ("print_table",),
    "aiperf_core.devices.device": ("Device", "DeviceKind", "Found"),
    "aiperf_core.devices.timing": ("Timed", "TimingDevice", "in_a_row"),
    "aiperf_core.devices.measuring": ("Page", "Best"),
    "aiperf_core.devices.telemetry": ("Telemetry",),
    "aiperf_core.devices.nvml": ("Nvml", "NvmlMissingError", "session"),
    "aiperf_core.devices.host": ("processor", "hypervisor"),
    "aiperf_core.tolerance": ("ELEMENT_FACTOR",),
    "aiperf_core.devices.cpu": ("time_by_wall", "last_level_cache_bytes"),
    "aiperf_core.devices.environment": ("facts",),
    "aiperf_core.devices.sysfs": ("text", "integer", "numbers", "size_bytes"),
    "aiperf_core.devices.probe": ("has_cuda_device", "nvidia"),
    "aiperf_core.measurements": ("Flush", "Memory", "Reading", "Samples"),
    "aiperf_core.executor": ("Executor", "ExecutorKind", "WorkerHandle", "WorkerSpec", "ProcessServer"),
    "aiperf_core.fleet": ("Fleet", "FleetKind", "FleetTask", "Offer", "TaskState", "TaskStatus"),
    "aiperf_core.harness.processes.child": ("Child",),
    "aiperf_core.harness.processes.channel": ("Channel",),
    "aiperf_core.profiler": ("Profiler", "MetricSet", "Tool", "Window", "Job", "Pace", "Observed", "Hot"),
    "aiperf_core.results": (),
    "aiperf_core.validity.issues": ("Issue", "Severity", "Incident", "Exclusion", "ALWAYS", "HARD", "SOFT", "NOTE"),
    "aiperf_core.validity.check": ("Check", "Seen", "NotObserved"),
    "aiperf_core.validity.evidence": ("Evidence",),
    "aiperf_core.validity.cases": ("Case", "Recorded", "WORD"),
    "aiperf_core.events": (),
    "aiperf_core.folders": ("cache_folder", "config_folder", "home_folder", "runtime_folder"),
    "aiperf_core.errors": (),
    "aiperf_core.plugins": ("Plugins", "LoadedPlugin", "load_plugins"),
}

# Of these, objects are handed out. Nobody else makes them, so they may get new fields.
READ = (
    "aiperf_core.events.",
    "aiperf_core.validity.evidence.",
    "aiperf_core.plugins.",
    "aiperf_core.targets.Installed",
    "aiperf_core.results.",
    "aiperf_core.profiler.Job",
    "aiperf_core.executor.WorkerSpec",
    "aiperf_core.serving.",
)

REQUIRED = " required"


def facts() -> list[str]:
    """Everything that is promised. A fact that ends in `required` is asked of a caller; the others are offered."""
    found = [line for module, names in OFFERED.items() for line in _module(module, names)]
    found += [line for hook in HOOKS for line in _hook(hook)]
    shell = Shell(load_plugins([]))
    context = click.Context(shell, info_name="aiperf")
    for name in shell.plugins.commands:
        command = shell.get_command(context, name)
        assert command is not None
        found += _command(command, f"aiperf {name}")
    return list(dict.fromkeys(found))


def broken(before: list[str], now: list[str]) -> list[str]:
    """What was offered and is not any more, and what is asked now of a caller who was not asked before."""
    offered = {fact for fact in before if not fact.endswith(REQUIRED)}
    lost = [f"gone or changed: {fact}" for fact in before if fact in offered and fact not in now]
    asked = [
        f"newly required: {fact}"
        for fact in now
        if fact.endswith(REQUIRED) and fact not in before and _owner(fact) in offered
    ]
    return lost + asked


def _owner(fact: str) -> str:
    """What requires: `aiperf run` of `aiperf run --size required`, `a.f` of `a.f(n) required`."""
    return fact.partition("(")[0] if "(" in fact else fact.removesuffix(REQUIRED).rpartition(" ")[0]


def _module(name: str, names: tuple[str, ...]) -> Iterator[str]:
    module = import_module(name)
    for attribute in names or getattr(module, "__all__", None) or _defined(module):
        yield from _value(getattr(module, attribute), f"{name}.{attribute}")


def _defined(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _value(value: Any, name: str) -> Iterator[str]:
    yield name
    if inspect.isclass(value):
        yield from (
            f"{name} is a {one.__name__}" for one in value.__mro__[1:] if one.__module__.startswith("aiperf_core")
        )
        if issubclass(value, Enum):
            yield from (f"{name}.{one.name} = {one.value!r}" for one in value)
            return
        if inspect.isfunction(value.__init__) and not name.startswith(READ):
            yield from _signature(value, name)
        fields = [one.name for one in getattr(value, "__attrs_attrs__", ())]
        yield from (f"{name}.{one}" for one in fields if one[0] != "_")
        for attribute, member in vars(value).items():
            if attribute[0] != "_" and isinstance(member, property):
                yield f"{name}.{attribute}"
            if attribute[0] != "_" and inspect.isfunction(member):
                yield f"{name}.{attribute}"
                yield from _signature(member, f"{name}.{attribute}", skip=1)
    elif inspect.isfunction(value):
        yield from _signature(value, name)


def _signature(function: Any, name: str, skip: int = 0) -> Iterator[str]:
    """A fact or two for each parameter: how it may be given, and whether it must be or what it is otherwise."""
    for place, one in enumerate(list(inspect.signature(function).parameters.values())[skip:], start=1):
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.POSITIONAL_ONLY):
            yield f"{name}({one.name}) at place {place}"
        else:
            yield f"{name}({one.name}) {one.kind.description}"
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if one.default is one.empty:
            yield f"{name}({one.name}){REQUIRED}"
        elif isinstance(one.default, str | int | float | tuple | None):
            yield f"{name}({one.name}) = {one.default!r}"


def _hook(name: str) -> Iterator[str]:
    (function,) = ast.parse(inspect.getsource(getattr(hookspecs, name))).body
    assert isinstance(function, ast.FunctionDef)
    assert function.returns is not None
    yield f"hook {name} -> {ast.unparse(function.returns)}"
    yield from (f"hook {name} is given {ast.unparse(one)}" for one in function.args.args)


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield name
    for param in command.params:
        takes = f"{name} {'/'.join([*param.opts, *param.secondary_opts])}"
        if isinstance(param, click.Argument):
            takes = f"{name} <{param.name}>"
        yield takes
        if param.required:
            yield f"{takes}{REQUIRED}"
        if param.nargs == -1 or param.multiple:
            yield f"{takes} repeated"
        if isinstance(param.type, click.Choice):
            yield from (f"{takes} takes {choice}" for choice in param.type.choices)
        if isinstance(param.default, str | int | float) and not isinstance(param.default, bool):
            yield f"{takes} = {param.default!r}"
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from _command(one, f"{name} {one.name}")


def read() -> tuple[str, list[str]]:
    """The version for which the facts were recorded, and the facts."""
    version, *recorded = FILE.read_text().splitlines()
    return version, recorded


def write() -> None:
    """Record the facts of now."""
    FILE.write_text("\n".join([__version__, *facts()]) + "\n")


if __name__ == "__main__":
    write()

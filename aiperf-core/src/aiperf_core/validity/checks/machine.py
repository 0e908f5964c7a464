"""The machine: limits, neighbours and settings that decide its figures.

The supervisor reads the facts with `devices.environment.facts`.
"""

from collections.abc import Iterable
from typing import Any

from aiperf_core.validity.check import Check, NotObserved, Seen, listed
from aiperf_core.validity.evidence import Evidence

# The check needs at least one of these.
_FACTS = ("hypervisor", "governors", "numa_nodes", "overcommit", "cpu_limit", "memory_limit_bytes", "power_limit_w")
# These raise the clock only after a while of load, and lower it in every pause.
_SLOW_GOVERNORS = frozenset({"conservative", "ondemand", "powersave", "schedutil"})
# Where the processor itself chooses, `powersave` is the usual governor, and these are the fast preferences.
_EAGER = frozenset({"balance_performance", "default", "performance"})
# Limits and sizes are rounded to pages, watts to milliwatts.
_SAME = 0.01


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Check the machine's facts, alone and against those of the baseline's machine."""
    machine = evidence.machine
    if not any(name in machine for name in _FACTS):
        return NotObserved("the properties of the machine were not recorded")
    baseline = evidence.baseline.machine if evidence.baseline else {}
    found = (
        _virtual(machine),
        _governor(machine, baseline),
        _nodes(evidence),
        _overcommit(machine),
        _container(machine),
        _power(machine, baseline, evidence.world_size),
    )
    return [one for one in found if one is not None]


def _virtual(machine: dict[str, Any]) -> Seen | None:
    name = machine.get("hypervisor")
    if not name:
        return None
    message = f"this machine runs under a hypervisor ({name}), which adds costs of its own"
    return Seen("environment.virtualization_overhead", message, {"hypervisor": name})


def _governor(machine: dict[str, Any], baseline: dict[str, Any]) -> Seen | None:
    governors = machine.get("governors")
    if not governors:
        return None
    eager = set(machine.get("energy_preferences") or ["unknown"]) <= _EAGER
    slow = [one for one in governors if one in _SLOW_GOVERNORS and not (one == "powersave" and eager)]
    theirs = baseline.get("governors")
    if theirs and theirs != governors:
        message = f"the processors' governor is {listed(governors)}, and was {listed(theirs)} for the baseline"
    elif len(governors) > 1:
        message = f"the processors that may be used have several governors: {listed(governors)}"
    elif slow:
        message = f"the governor {slow[0]!r} changes the processors' clock during short calls; 'performance' does not"
    else:
        return None
    figures = {name: machine.get(name) for name in ("governors", "energy_preferences", "cpu_clock_limits_hz", "turbo")}
    return Seen("environment.cpu_governor_mismatch", message, {**figures, "baseline_governors": theirs})


def _nodes(evidence: Evidence) -> Seen | None:
    """Compare the nodes that the worker may use with the baseline's, and with those of the memory."""
    nodes = evidence.machine.get("numa_nodes") or {}
    if len(nodes) < 2:
        return None
    ours = _runs_on(evidence, nodes)
    theirs = _runs_on(evidence.baseline, nodes) if evidence.baseline else None
    memory = evidence.machine.get("memory_nodes")
    figures = {"nodes": ours, "baseline_nodes": theirs, "memory_nodes": memory}
    if ours and theirs and ours != theirs:
        message = f"the worker runs on nodes {listed(ours)}, the baseline's on nodes {listed(theirs)}"
    elif ours and memory and set(ours).isdisjoint(memory):
        message = f"the worker runs on nodes {listed(ours)}, and its memory comes from nodes {listed(memory)}"
    else:
        return None
    return Seen("environment.numa_inconsistency", message, figures)


def _runs_on(evidence: Evidence, nodes: dict[str, list[int]]) -> list[int] | None:
    """The nodes of the processors that a worker may use; without a census those that the supervisor may use."""
    masks = {one.affinity for one in evidence.census or () if one.affinity}
    if not masks:
        return evidence.machine.get("process_nodes")
    cpus = {cpu for mask in masks for cpu in mask}
    return sorted(int(node) for node, own in nodes.items() if not cpus.isdisjoint(own))


def _overcommit(machine: dict[str, Any]) -> Seen | None:
    committed, memory = machine.get("committed_bytes"), machine.get("memory_bytes")
    swap = machine.get("swap_total_bytes") or 0
    if machine.get("overcommit") == "always":
        message = "the kernel overcommits memory without limit (vm.overcommit_memory = 1)"
    elif committed and memory and committed > memory + swap:
        there_is = (memory + swap) / 2**30
        message = f"the kernel committed {committed / 2**30:.1f} GiB of memory; the machine has {there_is:.1f}"
    else:
        return None
    figures = {name: machine.get(name) for name in ("overcommit", "committed_bytes", "memory_bytes")}
    return Seen("environment.memory_overcommit", message, {**figures, "swap_total_bytes": swap})


def _container(machine: dict[str, Any]) -> Seen | None:
    """Find limits of control groups below what the machine has."""
    limits = (
        ("cpu_limit", "cpus", "processors' time", 1.0),
        ("cpuset_cpus", "cpus", "processors", 1.0),
        ("memory_limit_bytes", "memory_bytes", "GiB of memory", 2.0**30),
    )
    said: list[str] = []
    figures: dict[str, Any] = {}
    for limit, whole, unit, scale in limits:
        allowed, there_is = machine.get(limit), machine.get(whole)
        if allowed and there_is and allowed < (1 - _SAME) * there_is:
            said.append(f"{allowed / scale:.4g} of {there_is / scale:.4g} {unit}")
            figures |= {limit: allowed, whole: there_is}
    if not said:
        return None
    message = f"a control group allows {' and '.join(said)}"
    return Seen("environment.container_resource_limits", message, figures)


def _power(machine: dict[str, Any], baseline: dict[str, Any], world_size: int) -> Seen | None:
    limit, default, theirs = machine.get("power_limit_w"), machine.get("power_default_w"), baseline.get("power_limit_w")
    every = [one for one in machine.get("power_limits_w") or () if one]
    figures = {"power_limit_w": limit, "power_default_w": default, "baseline_power_limit_w": theirs}
    if limit and theirs and not _alike(limit, theirs):
        message = f"the GPU may draw {limit:g} W, and {theirs:g} W for the baseline"
    elif limit and default and not _alike(limit, default):
        message = f"the GPU may draw {limit:g} W, and such a GPU {default:g} W by default"
    elif world_size > 1 and every and not _alike(min(every), max(every)):
        message = f"the GPUs of the ranks may draw between {min(every):g} and {max(every):g} W"
        figures["power_limits_w"] = every
    else:
        return None
    return Seen("environment.power_limit_difference", message, figures)


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * max(one, other)


CHECK = Check("machine", look)

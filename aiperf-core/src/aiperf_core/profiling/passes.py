"""Profiles a target: a fresh process for each implementation, under one tool, into a folder."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from aiperf_core.described import DescribedImplementation
from aiperf_core.devices.device import Device
from aiperf_core.errors import AiperfError, SkipError, UsageError
from aiperf_core.harness.run.setup import Plan
from aiperf_core.plugins import Plugins
from aiperf_core.profiler import Job, MetricSet, Observed, Pace, Profiler, Tool
from aiperf_core.profiling import store
from aiperf_core.profiling.models import NotProfiled, Profile
from aiperf_core.requirements import Hardware, lacking
from aiperf_core.targets import WORLD_SIZE, nearest
from aiperf_core.version import __version__

AUTO = "auto"  # in place of the name of a tool
LOG = "log.txt"
TIMEOUT_S = 300.0
_REQUEST = "request.json"
_TOLD = "subject.json"
_LAST_LINES = 6


@frozen
class Chosen:
    """The tool, the known devices by name, and the requested metrics."""

    profiler: Profiler
    devices: Mapping[str, Device]
    metrics: MetricSet | None = None


def choose(plugins: Plugins, tool: str, metrics: str | None) -> Chosen:
    """The profiler and the metric set of those names. Raises `UsageError` for unknown names."""
    if tool not in plugins.profilers:
        known = ", ".join(plugins.profilers)
        raise UsageError(f"{tool!r} is not a profiler.{nearest(tool, plugins.profilers)} There are: {known}")
    profiler = plugins.profilers[tool].record
    if metrics is None:
        return Chosen(profiler, plugins.known_devices)
    sets = {name: each.record for name, each in plugins.metrics.items() if each.record.tool == tool}
    if metrics not in sets:
        known = "; ".join(f"{each.name} ({each.summary})" for each in sets.values()) or "none"
        raise UsageError(f"{metrics!r} is not a metric set of {tool}. It has: {known}")
    return Chosen(profiler, plugins.known_devices, sets[metrics])


def chooser(plugins: Plugins, tool: str, metrics: str | None) -> Callable[[Plan], tuple[Chosen, str]]:
    """The choice of the profiler of each target, with a sentence where it is not the one that would show more.

    tool: its name; `AUTO` stands for perf where a CPU runs compiled C code, and for torch elsewhere.

    Raises `UsageError` for unknown names.
    """
    if tool != AUTO:
        named = choose(plugins, tool, metrics)
        return lambda _: (named, "")
    general, native = choose(plugins, "torch", metrics), choose(plugins, "perf", None)

    def choice(plan: Plan) -> tuple[Chosen, str]:
        is_compiled = plan.device == "cpu" and any("compiler" in one.requires for one in _wanted(plan))
        if not is_compiled or metrics is not None:
            return general, ""
        reason = unavailable(plan, native)
        if reason:
            return general, f"{reason} torch is used: it sees C code as time outside of operators."
        return native, ""

    return choice


def profile_target(
    plan: Plan,
    hardware: Hardware,
    chosen: Chosen,
    root: Path,
    timeout_s: float = TIMEOUT_S,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Profile | NotProfiled]:
    """Profile the baseline and the variants of a target (or those that the plan selects), into `root`.

    `timeout_s` is for one implementation. `tell` gets the name of the next. Raises `SkipError` with the remedy, before
    anything is written, when the tool cannot be used here.
    """
    if reason := unavailable(plan, chosen):
        raise SkipError(reason)
    found: list[Profile | NotProfiled] = []
    for one in _wanted(plan):
        tell(one.name)
        found.append(_profile(plan, one, hardware, chosen, root, timeout_s))
    return found


def unavailable(plan: Plan, chosen: Chosen) -> str | None:
    """Why the tool cannot profile this target here; None when it can."""
    for one in _wanted(plan)[:1]:
        if reason := chosen.profiler.resolve()(_job(plan, one, chosen)).unavailable():
            return f"{chosen.profiler.name!r} cannot profile {plan.name!r} here: {reason}."
    return None


def _wanted(plan: Plan) -> list[DescribedImplementation]:
    """The baseline, and all variants or the implementations that the plan selects."""
    asked = plan.selection.implementations
    roles = ("baseline",) if asked else ("baseline", "variant")
    return [one for one in plan.described.on(plan.device) if one.role in roles or one.name in asked]


def _job(plan: Plan, one: DescribedImplementation, chosen: Chosen) -> Job:
    target = plan.selection.target
    return Job(
        target=target.name,
        module=target.module,
        implementation=one.name,
        device=plan.device,
        params=plan.params,
        cache=plan.described.cache,
        threads=plan.described.threads if plan.device == "cpu" else None,
        metrics=chosen.metrics.metrics if chosen.metrics else (),
    )


def _profile(
    plan: Plan, one: DescribedImplementation, hardware: Hardware, chosen: Chosen, root: Path, timeout_s: float
) -> Profile | NotProfiled:
    reason = next(filter(None, (lacking(text, hardware) for text in one.requires)), None)
    if WORLD_SIZE in plan.params:
        reason = "is a workload of several ranks, of which no profile is made"
    without = partial(NotProfiled, target=plan.name, implementation=one.name)
    if reason:
        return without(reason=reason, failed=False)
    with tempfile.TemporaryDirectory(prefix="aiperf-profile-") as scratch:
        folder, job = Path(scratch), _job(plan, one, chosen)
        try:
            told, observed = _observe(chosen, job, folder, timeout_s)
        except SkipError as skipped:
            return without(reason=str(skipped), failed=False)
        except AiperfError as error:
            return without(reason=str(error), failed=True)
        profile = _record(plan, one, chosen, told, observed, folder)
        store.write(root, profile, folder)
        return profile


def _observe(chosen: Chosen, job: Job, folder: Path, timeout_s: float) -> tuple[dict[str, Any], Observed]:
    """Run the command lines of the tool, and make it read their files."""
    tool = chosen.profiler.resolve()(job)
    request = folder / _REQUEST
    loads = {"tool": chosen.profiler.load, "device": chosen.devices[job.device].load}
    request.write_text(json.dumps({"job": asdict(job), **loads}))
    argv = [sys.executable, "-P", "-m", "aiperf_core.profiling.subject", str(request)]
    told: dict[str, Any] = {}
    for command in tool.commands(argv, folder):
        (folder / _TOLD).unlink(missing_ok=True)
        told = _told(tool, folder, _run(command, folder / LOG, timeout_s))
    return told, tool.summarise(folder, told["calls"])


def _run(command: list[str], log: Path, timeout_s: float) -> int:
    """Run a command line; return its exit status. Raises `AiperfError` for a timeout or when it does not start."""
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "1")}
    with log.open("ab") as output:
        try:
            # A session of its own keeps Ctrl-C of the terminal away, and ends with all its children.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            raise AiperfError(f"'{command[0]}' did not start: {error.strerror or error}.") from None
    try:
        return process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise AiperfError(
            f"the profile was not done within {timeout_s:g} s; --timeout gives more, and --size smoke has less to do"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _told(tool: Tool, folder: Path, status: int) -> dict[str, Any]:
    """The reply of the profiled process. Raises `SkipError` or `AiperfError` when it failed."""
    log = (folder / LOG).read_text(errors="replace")
    if remedy := tool.remedy(log):
        raise AiperfError(remedy)
    try:
        told: dict[str, Any] = json.loads((folder / _TOLD).read_text())
    except (OSError, ValueError):
        last = [line.strip()[:200] for line in log.splitlines() if line.strip()][-_LAST_LINES:]
        said = " | ".join(last) or "nothing"
        raise AiperfError(
            f"the profiled process ended with status {status} and without a reply; it printed: {said}"
        ) from None
    if "error" in told:
        raise (AiperfError if told["failed"] else SkipError)(told["error"])
    return told


def _record(
    plan: Plan, one: DescribedImplementation, chosen: Chosen, told: dict[str, Any], observed: Observed, folder: Path
) -> Profile:
    moved = float(told["cost"]["bytes_read"] + told["cost"]["bytes_written"])
    pace = chosen.profiler.resolve().pace
    clocked = pace.clocked
    seen = {**({"call_s": statistics.median(told["call_s"])} if clocked else {}), **observed.figures}
    taken = next((seen[name] for name in ("busy_s", "call_s") if seen.get(name)), None)
    if moved and taken:
        seen["bytes_per_s"] = moved / taken
    return Profile(
        target=plan.name,
        implementation=one.name,
        role=one.role,
        why=one.why,
        device=plan.device,
        size=plan.size,
        params=plan.params,
        cache=plan.described.cache,
        cost_bytes=moved,
        tool=chosen.profiler.name,
        metrics=list(chosen.metrics.metrics) if chosen.metrics else [],
        calls=told["calls"],
        in_a_row=told["in_a_row"],
        taken_s=told["call_s"] if clocked else [],
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        aiperf=__version__,
        observed=evolve(observed, figures=seen, notes=[*observed.notes, *_notes(told, pace)]),
        artifacts=[store.artifact(folder / name) for name in observed.files],
    )


def _notes(told: dict[str, Any], pace: Pace) -> list[str]:
    """Notes on how the way of calling changes the figures."""
    if told["in_a_row"] > 1:
        return ["Short calls were made in a row: all calls but the first of each row found warm caches."]
    if statistics.median(told["call_s"]) < pace.window_s / 10:
        return ["These short calls change their inputs and were recorded singly: the figures contain the tool's start."]
    return []

"""The whole plugin contract: every hook that aiperf calls, in the order of a run.

A plugin is a module, named by an entry point in the group `aiperf_core`, whose functions marked `@hookimpl` bear the
names below. It may implement any of them, and may leave out arguments that it does not need. Every hook stands with an
example in `docs/hooks.md`.

Two kinds of hook. *Contributions* (`aiperf_targets`, `aiperf_commands`, `aiperf_issues`, `aiperf_checks`, `aiperf_attacks`,
`aiperf_recordings`, `aiperf_profilers`, `aiperf_metrics`, `aiperf_devices`, `aiperf_executors`) return records and are called
once, when plugins are loaded. *Observers* return nothing and are told of a run's course.

What holds for all: importing the module and calling a contribution must import neither torch, triton nor numpy, touch no
device and print nothing; hook wrappers are refused, since a plugin has no say in what another one contributes. A plugin
that breaks the contract is set aside by the name of its distribution, and the rest works.
"""

from collections.abc import Iterable

from pluggy import HookimplMarker, HookspecMarker

from aiperf_core.commands import Command
from aiperf_core.devices.device import Device
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted
from aiperf_core.executor import Executor
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.targets import Target
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue

PROJECT = "aiperf_core"

hookspec = HookspecMarker(PROJECT)
hookimpl = HookimplMarker(PROJECT)


@hookspec
def aiperf_targets() -> Iterable[Target]:  # type: ignore[empty-body]
    """Contribute benchmarks.

    Called once, whenever plugins are loaded, so also by `aiperf list`. The entry point's name becomes the group: target
    `memory_access` of entry point `ch07` is `ch07.memory_access`. Forbidden: importing the benchmarks' own modules, and
    names that another plugin has already taken.
    """


@hookspec
def aiperf_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Contribute subcommands of `aiperf`.

    Called once, whenever plugins are loaded. What `load` names is imported only when the command is called. Forbidden:
    importing the command's module here, and names that another plugin has already taken, ours included.
    """


@hookspec
def aiperf_issues() -> Iterable[Issue]:  # type: ignore[empty-body]
    """Contribute ways in which a number can be untrue, for the registry of validity.

    Called once, whenever plugins are loaded. Forbidden: importing the checks that guard them, and ids that another plugin
    has already taken, ours included.
    """


@hookspec
def aiperf_checks() -> Iterable[Check]:  # type: ignore[empty-body]
    """Contribute checks, which look at the evidence of each implementation after its samples were taken.

    Called once, whenever plugins are loaded; a check looks in the supervisor's process, at plain data. What it raises is a
    failure of the check, and stands as a warning beside the row. Forbidden: importing here what only the check needs, and
    the guards of other plugins, ours included.
    """


@hookspec
def aiperf_attacks() -> Iterable[Case]:  # type: ignore[empty-body]
    """Contribute attacks on guards, and honest look-alikes, which `aiperf selftest` tries.

    Called once, whenever plugins are loaded. Forbidden: importing the modules that the cases name, which is done in a
    worker's process, and the same case twice.
    """


@hookspec
def aiperf_recordings() -> Iterable[Recorded]:  # type: ignore[empty-body]
    """Contribute evidence of real runs, for issues that code alone cannot commit on every machine.

    Called once, whenever plugins are loaded. `aiperf selftest --record FOLDER` writes such files, and `aiperf selftest` shows them
    to the checks of the issue's guard. Forbidden: reading the files here, and a file that another plugin has already
    contributed.
    """


@hookspec
def aiperf_profilers() -> Iterable[Profiler]:  # type: ignore[empty-body]
    """Contribute tools for `aiperf profile --tool NAME`.

    Called once, whenever plugins are loaded. What `load` names is imported only when the tool is used, in the command's
    process and in the profiled one. Forbidden: importing the tool's module here, and names that another plugin has already
    taken, ours included.
    """


@hookspec
def aiperf_metrics() -> Iterable[MetricSet]:  # type: ignore[empty-body]
    """Contribute sets of a profiler's metrics, for `aiperf profile --metrics NAME`.

    Called once, whenever plugins are loaded. Forbidden: names that another plugin has already taken, ours included.
    """


@hookspec
def aiperf_devices() -> Iterable[Device]:  # type: ignore[empty-body]
    """Contribute kinds of device that benchmarks can run on, for `--device NAME`.

    Called once, whenever plugins are loaded. What `load` names is imported only by runs on that device: in the supervisor, which
    imports no torch, and in the processes that it starts. Forbidden: importing the device's module here, and names that
    another plugin has already taken, ours included.
    """


@hookspec
def aiperf_executors() -> Iterable[Executor]:  # type: ignore[empty-body]
    """Contribute ways to start workers, for `aiperf run --executor NAME`.

    Called once, whenever plugins are loaded. What `load` names is imported by runs that use it, in the supervisor, which imports
    no torch. Forbidden: importing the executor's module here, and names that another plugin has already taken, ours included.
    """


@hookspec
def aiperf_run_started(run: RunStarted) -> None:
    """Told that a run begins.

    Called once a run, before any worker starts. Forbidden in this and every other observer: touching the device, starting
    threads that stay busy, and writing into the bundle; all three disturb what is being measured. An observer that raises
    is left out for the rest of the run.
    """


@hookspec
def aiperf_target_started(target: TargetStarted) -> None:
    """Told that a target's turn has come.

    Called once for each target, before its data are made.
    """


@hookspec
def aiperf_progress(progress: Progress) -> None:
    """Told where the run is.

    Called at each change of phase and after each block, never while a clock is running; many times a second at most.
    Forbidden: taking longer than a few milliseconds, since the run waits for it.
    """


@hookspec
def aiperf_target_finished(result: TargetFinished) -> None:
    """Told that a target is done.

    Called once for each target that was started, also when it failed, after its file is on disk. Not called for the
    target during which a run is interrupted.
    """


@hookspec
def aiperf_run_finished(bundle: RunFinished) -> None:
    """Told that the run is over.

    Called once for each run that was started, also when it failed or was interrupted, after the bundle has its final
    name. The bundle may be read. Forbidden: changing it.
    """

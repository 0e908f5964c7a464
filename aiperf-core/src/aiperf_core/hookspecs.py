"""The plugin contract: all hooks that aiperf calls, in the order of a run.

A plugin is a module, named by an entry point in the group `aiperf_core`. Its functions marked `@hookimpl` have the
names below. A plugin may implement any of the hooks, and may omit arguments. `docs/hooks.md` has an example of each
hook.

There are two kinds of hook. *Contributions* (`aiperf_targets`, `aiperf_commands`, `aiperf_issues`, `aiperf_checks`,
`aiperf_attacks`, `aiperf_recordings`, `aiperf_profilers`, `aiperf_metrics`, `aiperf_devices`, `aiperf_executors`,
`aiperf_formats`, `aiperf_analyses`, `aiperf_documents`, `aiperf_schemas`, `aiperf_fleets`) return records, and are
called once, when plugins are loaded. *Observers* return nothing, and receive the events of a run.

Rules for all hooks: importing the module and calling a contribution must not import torch, triton or numpy, touch a
device, or print. Hook wrappers are refused: a plugin must not change the contributions of others. A plugin that breaks
the contract is skipped by the name of its distribution; all other plugins work.
"""

from collections.abc import Iterable

from pluggy import HookimplMarker, HookspecMarker

from aiperf_core.analysis import Analysis
from aiperf_core.candidate_format import Format
from aiperf_core.commands import Command
from aiperf_core.devices.device import Device
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted
from aiperf_core.executor import Executor
from aiperf_core.fleet import Fleet
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

    Called once, when plugins are loaded, also by `aiperf list`. The entry point's name becomes the group: target
    `memory_access` of entry point `ch07` is `ch07.memory_access`. Forbidden: importing the modules of the benchmarks,
    and names of another plugin.
    """


@hookspec
def aiperf_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Contribute subcommands of `aiperf`.

    Called once, when plugins are loaded. `load` is imported only when the command is called. Forbidden: importing the
    command's module here, and names of another plugin, built-in names included.
    """


@hookspec
def aiperf_issues() -> Iterable[Issue]:  # type: ignore[empty-body]
    """Contribute validity issues to the registry.

    Called once, when plugins are loaded. Forbidden: importing the checks that guard them, and ids of another plugin,
    built-in ids included.
    """


@hookspec
def aiperf_checks() -> Iterable[Check]:  # type: ignore[empty-body]
    """Contribute checks of the evidence that each implementation leaves after sampling.

    Called once, when plugins are loaded. A check runs in the supervisor's process, on plain data. If it raises, the row
    gets a warning that the check failed. Forbidden: importing here what only the check needs, and guards of other
    plugins, built-in guards included.
    """


@hookspec
def aiperf_attacks() -> Iterable[Case]:  # type: ignore[empty-body]
    """Contribute attacks on guards, and honest look-alikes, for `aiperf selftest` of the package `aiperf-redteam`.

    Called once, when plugins are loaded. Forbidden: importing the modules of the cases, since a worker's process does
    that, and the same case twice.
    """


@hookspec
def aiperf_recordings() -> Iterable[Recorded]:  # type: ignore[empty-body]
    """Contribute evidence of real runs, for issues that code alone cannot commit on every machine.

    Called once, whenever plugins are loaded. `aiperf selftest --record FOLDER` writes such files, and `aiperf selftest`
    shows them to the checks of the issue's guard. Forbidden: reading the files here, and a file that another plugin has
    already contributed.
    """


@hookspec
def aiperf_profilers() -> Iterable[Profiler]:  # type: ignore[empty-body]
    """Contribute tools for `aiperf profile --tool NAME`.

    Called once, when plugins are loaded. `load` is imported only when the tool is used, in the command's process and in
    the profiled process. Forbidden: importing the tool's module here, and names of another plugin, built-in names
    included.
    """


@hookspec
def aiperf_metrics() -> Iterable[MetricSet]:  # type: ignore[empty-body]
    """Contribute sets of metrics of a profiler, for `aiperf profile --metrics NAME`.

    Called once, when plugins are loaded. Forbidden: names of another plugin, built-in names included.
    """


@hookspec
def aiperf_devices() -> Iterable[Device]:  # type: ignore[empty-body]
    """Contribute kinds of device that benchmarks can run on, for `--device NAME`.

    Called once, when plugins are loaded. `load` is imported only by runs on that device: in the supervisor, which
    imports no torch, and in the processes that it starts. Forbidden: importing the device's module here, and names of
    another plugin, built-in names included.
    """


@hookspec
def aiperf_executors() -> Iterable[Executor]:  # type: ignore[empty-body]
    """Contribute ways to start workers, for `aiperf run --executor NAME`.

    Called once, when plugins are loaded. `load` is imported only by runs that use it, in the supervisor, which imports
    no torch. Forbidden: importing the executor's module here, and names of another plugin, built-in names included.
    """


@hookspec
def aiperf_formats() -> Iterable[Format]:  # type: ignore[empty-body]
    """Contribute formats of candidates, for `aiperf judge --format NAME`.

    Called once, when plugins are loaded. `load` is imported only when the format is used: in the supervisor, in the
    judge, and in the sandboxed process of the candidate. Forbidden: importing the format's module here, and names of
    another plugin, built-in names included.
    """


@hookspec
def aiperf_analyses() -> Iterable[Analysis]:  # type: ignore[empty-body]
    """Contribute analyses of stored results, for `aiperf analyze NAME` of the package `aiperf-analysis`.

    Called once, when plugins are loaded. `load` is imported only when the analysis or its help is called. Forbidden:
    importing the analysis's module here, and names of another plugin.
    """


@hookspec
def aiperf_documents() -> Iterable[DocumentKind]:  # type: ignore[empty-body]
    """Contribute readers of the documents that this package writes into bundles, for `aiperf show` and `recheck`.

    Called once, when plugins are loaded. `load` is imported only when a bundle has a document of the kind. Forbidden:
    importing the reader's module here, and names of another plugin.
    """


@hookspec
def aiperf_schemas() -> Iterable[DocumentSchema]:  # type: ignore[empty-body]
    """Contribute the JSON Schemas of documents outside of bundles, such as suites, for `aiperf schema NAME`.

    Called once, when plugins are loaded. The file is read only when the schema is printed. Forbidden: names of another
    plugin.
    """


@hookspec
def aiperf_fleets() -> Iterable[Fleet]:  # type: ignore[empty-body]
    """Contribute engines that run tasks on several machines, for `aiperf fleet run --on NAME` of `aiperf-fleet`.

    Called once, when plugins are loaded. `load` is imported only when the engine is used, in the submitting process.
    Forbidden: importing the engine's module here, and names of another plugin.
    """


@hookspec
def aiperf_run_started(run: RunStarted) -> None:
    """A run begins.

    Called once per run, before any worker starts. Forbidden in every observer: touching the device, starting threads
    that stay busy, and writing into the bundle; all three disturb the measurement. An observer that raises is not
    called again in this run.
    """


@hookspec
def aiperf_target_started(target: TargetStarted) -> None:
    """The measurement of a target begins.

    Called once per target, before its data are made.
    """


@hookspec
def aiperf_progress(progress: Progress) -> None:
    """The state of the run changed.

    Called at each change of phase, and at most once a second during sampling, never while a clock is running.
    Forbidden: taking longer than a few milliseconds, since the run waits for it.
    """


@hookspec
def aiperf_target_finished(result: TargetFinished) -> None:
    """The measurement of a target ended.

    Called once for each target that was started, also if it failed, after its file is on disk. Not called for a target
    whose run was interrupted.
    """


@hookspec
def aiperf_run_finished(bundle: RunFinished) -> None:
    """The run ended.

    Called once for each run that was started, also if it failed or was interrupted, after the bundle has its final
    name. The bundle may be read. Forbidden: changing it.
    """

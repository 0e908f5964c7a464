"""The tasks of a suite: targets × classes × repeats, the longest first."""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.fleet import Offer
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results.bundle import DEFAULT_PARENT
from aiperf_core.results.listing import Run, bundles
from aiperf_core.sweep import selects
from aiperf_core.targets import InstalledTarget, TargetFilter
from aiperf_core.units import plural
from aiperf_fleet.machine import Order
from aiperf_fleet.records import FleetFile, Task
from aiperf_fleet.suite import ANY, Suite

_NEWEST_RUNS = 200


def plan(suite: Suite, plugins: Plugins, offers: Sequence[Offer], history: Path = DEFAULT_PARENT) -> list[Task]:
    """The tasks, the longest first by the newest runs in `history`; targets without a run come before all others.

    Raises UsageError for a class that no machine has, and for a pattern without a match.
    """
    machines = {name: of_class(name, offers) for name in suite.classes}
    chosen = plugins.select(suite.targets, TargetFilter("", tuple(suite.exclude)))
    expected = seconds([one.target.name for one in chosen], history)
    tasks = []
    for selection in chosen:
        for machine_class in suite.classes:
            places = [one.machine for one in machines[machine_class]] if suite.machines == "each" else [None]
            for repeat in range(suite.repeats):
                for machine in places:
                    tasks.append(
                        Task(
                            id="",
                            target=selection.target.name,
                            implementations=sorted(selection.implementations),
                            machine_class=machine_class,
                            repeat=repeat,
                            machine=machine,
                            expected_s=expected.get(selection.target.name),
                        )
                    )
    tasks.sort(key=lambda one: (one.expected_s is not None, -(one.expected_s or 0.0)))
    for number, task in enumerate(tasks, 1):
        task.id = f"{number:04d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', task.target)[:80]}"
    return tasks


def of_class(name: str, offers: Sequence[Offer]) -> list[Offer]:
    """The machines of a class, those that are down included. Raises UsageError where there are none."""
    found = [one for one in offers if name == ANY or name in one.classes]
    if not found:
        known = sorted({one for offer in offers for one in offer.classes})
        raise UsageError(
            f"no machine has the class '{words(name)}'. The engine has {plural('machine', len(offers))} "
            f"with the classes: {', '.join(map(words, known)) or 'none'}. Change 'classes' of the suite; "
            "'any' stands for all machines."
        )
    return found


def seconds(targets: Sequence[str], folder: Path) -> dict[str, float]:
    """The seconds of each target in the newest run that has it. A sweep counts with all its points."""
    found: dict[str, float] = {}
    for run in _runs(folder):
        for target in targets:
            points = [name for name in run.targets if name == target or selects(target, name)]
            if target in found or not points:
                continue
            try:
                found[target] = sum(run.bundle.outline(name).wall_s for name in points)
            except BundleError:
                continue
    return found


def _runs(folder: Path) -> Iterable[Run]:
    return [one for one in bundles(folder) if isinstance(one, Run)][:_NEWEST_RUNS]


def order(file: FleetFile, task: Task, plugins: Plugins) -> Order:
    """Order to the machine of a task."""
    suite = file.suite
    return Order(
        arguments=_arguments(file, task),
        versions=_versions(plugins, task),
        kind=suite.kinds.get(task.machine_class),
        device=suite.device,
        limits=suite.busy,
        patience_s=suite.patience_s,
    )


def _versions(plugins: Plugins, task: Task) -> dict[str, str]:
    """The distributions that the run of a task needs."""
    of_target: list[InstalledTarget] = [one for one in plugins.targets if one.name == task.target]
    return {one: version(one) for one in ("aiperf-core", *(target.distribution for target in of_target))}


def _arguments(file: FleetFile, task: Task) -> list[str]:
    patterns = [f"{task.target}:{one}" for one in task.implementations] or [task.target]
    return ["run", *patterns, *file.suite.options({**file.suite.labels, "fleet": file.id, "task": task.id})]

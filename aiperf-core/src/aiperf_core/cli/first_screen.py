"""The first screen, of `aiperf` alone: this machine, what to type first, and the last run."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from aiperf_core import units
from aiperf_core.devices import host
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results import listing, naming
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.version import __version__

# Commands with what they do, in the order in which a new user needs them; those that cannot work here are left out.
FIRST = (
    ("list", "aiperf list", "the benchmarks, each with its lesson"),
    ("run", "aiperf run {target}", "a first measurement"),
    ("learn", "aiperf learn", "predict the result of a lesson, then measure it"),
    ("show", "aiperf show {target}", "what a benchmark measures, and why variants are faster"),
    ("new", "aiperf new my-bench", "your own benchmark; then aiperf watch"),
    ("demo", "aiperf demo", "small measurements as pages in the browser"),
)
PREFERRED = "ch07.memory_access"
_GPUS = Path("/proc/driver/nvidia/gpus")


def first_screen(plugins: Plugins) -> str:
    """The lines of the screen."""
    return "\n".join(_lines(plugins))


def _lines(plugins: Plugins) -> Iterator[str]:
    names = [target.name for target in plugins.targets]
    yield f"aiperf {__version__}, {_machine()}, {units.plural('benchmark', len(names))}"
    yield ""
    target = PREFERRED if PREFERRED in names else next(iter(names), "")
    possible = [one for one in FIRST if one[0] in plugins.commands and (target or "{target}" not in one[1])]
    shown = [(line.format(target=target), about) for _, line, about in possible]
    width = max((len(line) for line, _ in shown), default=0)
    yield from (f"  {line:<{width}}  {about}" for line, about in shown)
    yield ""
    if last := _last_run():
        yield f"last run  {last}: aiperf show latest"
    yield "machine   what it can run, and what is missing: aiperf doctor"
    yield "more      aiperf help, aiperf help --all"


def _machine() -> str:
    gpus = len([*_GPUS.iterdir()]) if _GPUS.is_dir() else 0
    cpus = units.plural("CPU", host.usable_cpus())
    return f"{host.processor_model()}, {cpus}, {units.plural('GPU', gpus) if gpus else 'no GPU'}"


def _last_run() -> str:
    """The age and the command of the newest bundle by name; empty where there is none that can be read."""
    for name in naming.names(DEFAULT_PARENT)[:1]:
        try:
            manifest = Bundle.open(DEFAULT_PARENT / name).manifest
            age = datetime.now(UTC) - listing.moment(manifest.created)
        except (AiperfError, ValueError):
            return ""
        return f"{_ago(age.total_seconds())}, {words(' '.join(manifest.command))}"
    return ""


def _ago(seconds: float) -> str:
    """An age in its largest unit: `5 s ago`, `20 min ago`, `3 d ago`."""
    unit, length = next((one for one in (("d", 86_400), ("h", 3_600), ("min", 60)) if seconds >= one[1]), ("s", 1))
    return f"{max(0, int(seconds / length))} {unit} ago"

"""Exercises of targets: those that a package has in `lessons.toml` beside its targets, and one that fits any target."""

import tomllib
from pathlib import Path

from attrs import frozen

from aiperf_core.benchmark import Benchmark
from aiperf_core.errors import AiperfError
from aiperf_core.stats.expectations import Source
from aiperf_core.targets import InstalledTarget

FILE = "lessons.toml"
_FORM = "a table for each target, by its name without the group, with the texts 'exercise' and 'check'"


@frozen
class Exercise:
    """A task for the reader, and the command that checks it."""

    text: str
    check: str


def exercise_of(target: InstalledTarget, benchmark: Benchmark, source: Source | None) -> Exercise:
    """The exercise in the target's package, or one to beat its last variant. Raises as `read`."""
    declared = read(source.folder / FILE) if source else {}
    own = declared.get(target.name.rpartition(".")[2])
    return own or _generic(target, benchmark)


def read(path: Path) -> dict[str, Exercise]:
    """The exercises in a file by the names of targets; none without the file. Raises AiperfError for a bad file."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AiperfError(f"'{path}' cannot be read: {error}. Accepted is TOML: {_FORM}.") from error
    for name, fields in tables.items():
        is_table = isinstance(fields, dict) and {*fields} == {"exercise", "check"}
        if not (is_table and all(isinstance(text, str) and text.strip() for text in fields.values())):
            raise AiperfError(f"'{path}' has {name!r} = {fields!r}; accepted is {_FORM}.")
    return {name: Exercise(" ".join(fields["exercise"].split()), fields["check"]) for name, fields in tables.items()}


def _generic(target: InstalledTarget, benchmark: Benchmark) -> Exercise:
    device = next(iter(benchmark.devices))
    last = [row for row in benchmark.implementations_on(device) if row.role != "yardstick"][-1]
    text = (
        f"Write a version that beats `{last.name}`: a file `mine.py` with `class Implementation`, whose `run` takes "
        "what that of an implementation takes."
    )
    return Exercise(text, f"aiperf judge mine.py --target {target.name} --device {device}")

"""Two programs compared as two functions are: in turns, each run a sample."""

import itertools
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.inline.compared import CONTROL, Compared, compared
from aiperf_core.inline.turns import Sample, Turns

NOT_PROVEN = "Each run starts a shell. Outputs were not compared, only exit codes."
_NAME = re.compile(r"[A-Za-z_]\w*")


@frozen
class Commands:
    """Two commands of the shell, and one that runs before each run of either, outside of all times.

    prepare: empty for none.
    """

    first: str
    second: str
    prepare: str = ""

    def with_values(self, values: Mapping[str, str]) -> "Commands":
        """The commands with each `{NAME}` of a parameter replaced; all other braces stay."""
        parts = [self.first, self.second, self.prepare]
        for name, value in values.items():
            parts = [part.replace(f"{{{name}}}", value) for part in parts]
        return Commands(*parts)

    def compare(self, *, warm_up: int, budget_s: float, floor: float) -> Compared:
        """Compare the time of the second command with that of the first.

        warm_up: the number of untimed runs of each before.

        Raises AiperfError for a command that ends with an exit code other than 0.
        """
        names = (self.first, self.second)
        if self.first == self.second:
            names = (f"{self.first} (first)", f"{self.second} (second)")
        sides = dict(zip((*names, f"{names[0]}{CONTROL}"), (self.first, self.second, self.first), strict=True))
        turns = Turns(list(sides), budget_s)
        for command in (self.first, self.second):
            for _ in range(warm_up):
                self._run_s(command)
        durations = {command: turns.warmed(partial(self._run_s, command)) for command in dict.fromkeys(sides.values())}

        def block(side: str, samples: int) -> Iterator[Sample]:
            for _ in range(samples):
                yield Sample(side, turns.passes, self._run_s(sides[side]))

        samples = turns.take(sum(durations[command] for command in sides.values()), block)
        method = (
            f"wall clock; {units.plural('run', len(samples))} in {units.plural('turn', turns.passes)}, "
            f"{turns.took_s:.1f} s"
        )
        return evolve(compared(names, samples, floor, method=method), proof=NOT_PROVEN)

    def _run_s(self, command: str) -> float:
        """The seconds of a run, after its preparation."""
        if self.prepare:
            _run(self.prepare)
        started = time.perf_counter()
        _run(command)
        return time.perf_counter() - started


def _run(command: str) -> None:
    """Run a command and wait for its end."""
    # A program that reads its input would wait for the terminal.
    ended = subprocess.run(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        last = f": {said[-1]}" if said else ""
        raise AiperfError(f"'{command}' ended with exit code {ended.returncode}{last}")


def parameters_of(texts: Sequence[str], commands: Commands) -> list[dict[str, str]]:
    """All combinations of the values of `NAME=VALUE,VALUE`; a single empty one without parameters.

    Raises UsageError for another form, a name that stands twice, and one that no command has in braces.
    """
    found = dict[str, list[str]]()
    for text in texts:
        name, equals, values = text.partition("=")
        if not (equals and _NAME.fullmatch(name) and all(values.split(","))):
            raise UsageError(f"--parameter takes NAME=VALUE,VALUE, such as --parameter threads=1,2,4; got {text!r}.")
        if name in found:
            raise UsageError(f"--parameter {name} was given twice; give all its values at once: {name}=VALUE,VALUE")
        if not any(f"{{{name}}}" in part for part in (commands.first, commands.second, commands.prepare)):
            raise UsageError(f"no command has {{{name}}}, so that --parameter {name} changes nothing.")
        found[name] = values.split(",")
    return [dict(zip(found, values, strict=True)) for values in itertools.product(*found.values())]

"""Run benchmarks at two commits in turns: each side in a worktree of its own, each run in a fresh process."""

import random
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from aiperf_analysis.ci.bisect import build_with, commit_of, git
from aiperf_analysis.ci.paired import Pairs, suspects
from aiperf_analysis.foreign.model import Results
from aiperf_analysis.foreign.reading import read
from aiperf_analysis.power_watch import terminated_as_interrupt
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.units import plural

# What stands in a command for the file that it writes its results to.
OUT = "{out}"
SIDES = ("base", "head")


@frozen(kw_only=True)
class Plan:
    """A comparison of two commits.

    base, head: names of commits.
    command: a program and its arguments, started without a shell in the worktree; `{out}` is the file of its results.
    build: prepares a worktree, started there in the same way; None for nothing.
    pairs: the number of pairs, and of those that confirm suspects.
    """

    base: str
    head: str
    command: Sequence[str]
    build: str | None
    pairs: int

    def commits(self) -> dict[str, str]:
        """The full names of both commits. Raises UsageError for an unknown one, and for a command without `{out}`."""
        if not any(OUT in part for part in self.command):
            raise UsageError(
                f"the command does not say where its results go: give {OUT} as the file, as in "
                "'pytest --benchmark-json={out}' or 'hyperfine --export-json {out} ./program'."
            )
        return {side: commit_of(name) for side, name in zip(SIDES, (self.base, self.head), strict=True)}


def run(
    plan: Plan,
    commits: dict[str, str],
    folder: Path,
    statistic: str | None,
    floor: float,
    say: Callable[[str], None],
) -> tuple[Pairs, Pairs]:
    """Build both sides once, run them in turns, and once more where a suspect is to be confirmed.

    folder: where the results of all runs are kept.

    The worktrees are removed however this ends. Raises AiperfError where a build or a run fails, or writes no results.
    """
    with terminated_as_interrupt(), worktrees(commits) as trees:
        for side, tree in trees.items():
            if plan.build is not None:
                say(f"building {side}")
                build_with(plan.build, tree)
        say(f"running {plural('pair', plan.pairs)}")
        first = _pairs(plan, trees, folder, 1)
        found = suspects(first, statistic, floor)
        if not found:
            return first, Pairs()
        say(f"suspect: {', '.join(map(words, found))}; running {plural('pair', plan.pairs)} again")
        return first, _pairs(plan, trees, folder, plan.pairs + 1)


@contextmanager
def worktrees(commits: dict[str, str]) -> Iterator[dict[str, Path]]:
    """A worktree for each commit, in a temporary folder. Both are removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="aiperf-pair-"))
    try:
        for side, commit in commits.items():
            git("worktree", "add", "--detach", "--quiet", str(folder / side), commit)
        yield {side: folder / side for side in commits}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune")


def _pairs(plan: Plan, trees: dict[str, Path], folder: Path, first: int) -> Pairs:
    found: dict[str, list[Results]] = {side: [] for side in SIDES}
    generator = random.Random()
    for number in range(first, first + plan.pairs):
        for side in generator.sample(SIDES, 2):
            found[side].append(_run(plan, trees[side], folder / f"{side}-{number:03}"))
    return Pairs(found["base"], found["head"])


def _run(plan: Plan, tree: Path, path: Path) -> Results:
    """Run the command once and read its results. path: of its files, without their ends."""
    name, out, log = path.name, path.with_suffix(".json"), path.with_suffix(".log")
    command = [part.replace(OUT, str(out)) for part in plan.command]
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command, cwd=tree, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            )
    except OSError as error:
        raise AiperfError(f"cannot start '{words(command[0])}': {error.strerror or error}.") from error
    if done.returncode:
        raise AiperfError(f"{name}: the command ended with {done.returncode}. Its output: {log}")
    if not out.exists():
        raise AiperfError(f"{name}: the command wrote no results to {out}. Its output: {log}")
    return read(out)


def new_folder(commits: dict[str, str]) -> Path:
    """Make a folder for the results of a comparison."""
    parent, stem = Path("artifacts/ci"), "-".join(["pair", *(commits[side][:12] for side in SIDES)])
    try:
        parent.mkdir(parents=True, exist_ok=True)
        number = 1
        while (path := (parent / (stem if number == 1 else f"{stem}-{number}")).absolute()).exists():
            number += 1
        path.mkdir()
    except OSError as error:
        raise AiperfError(f"cannot make a folder in '{parent}': {error.strerror or error}.") from error
    return path


def repeat(plan: Plan, commits: dict[str, str], statistic: str | None, floor: float) -> str:
    """The command that repeats the comparison, for a shell."""
    own = ["aiperf", "ci", "pair", *(part for side in SIDES for part in (f"--{side}", commits[side][:12]))]
    own += ["--pairs", str(plan.pairs), "--floor", f"{floor:g}"]
    optional = {"--build": plan.build, "--statistic": statistic}
    own += [part for name, value in optional.items() if value is not None for part in (name, value)]
    return shlex.join([*own, "--", *plan.command])

"""Find the commit that made a suite slower: `git bisect run` with the decision of the gate.

The runs of the good commit are the level that each commit is held to.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attrs import evolve, frozen

from aiperf_analysis.ci import running
from aiperf_analysis.ci.gating import Gated
from aiperf_analysis.ci.suite import FORMAT, Suite
from aiperf_analysis.history.newest import LEAST_RUNS
from aiperf_core import atomic
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.results import jsontext, structure

GOOD, BAD, SKIP = 0, 1, 125  # what `git bisect run` reads
# Runs of the good commit: enough for an interval that can see a few percent.
REFERENCE = LEAST_RUNS + 3


@frozen
class Bisected:
    """The commit that `git bisect` names; null where skipped commits leave several."""

    commit: str | None
    told: str


def bisect(
    suite: Suite, good: str, bad: str, build: str | None, say: Callable[[str], None], runs: int = REFERENCE
) -> Bisected:
    """Find the first bad commit. The caller holds the lock; the working tree ends where it was.

    build: a command that prepares a commit, started without a shell.
    Raises UsageError for changed files and unknown commits, AiperfError where the ends do not differ.
    """
    if _git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError("the working tree has changes, which a bisection would carry along. Commit or stash them.")
    good, bad = (_commit(one) for one in (good, bad))
    if not _succeeds("merge-base", "--is-ancestor", good, bad):
        raise UsageError(f"{good[:12]} is not an ancestor of {bad[:12]}; the first commit must come before the second.")
    home = (suite.home / f"bisect-{good[:12]}-{bad[:12]}").absolute()
    suite = evolve(suite, folder=str(home), repeats=1, store=None, notify=[], base=None)
    file = home / "suite.json"
    home.mkdir(parents=True, exist_ok=True)
    atomic.write(file, jsontext.dumps(structure.document(suite)).encode())
    before = _git("symbolic-ref", "--short", "--quiet", "HEAD") or _commit("HEAD")
    try:
        _checkout(good, build)
        done = _runs_of(suite)
        say(f"measuring {good[:12]}, the good commit, {runs} times")
        for _ in range(max(0, runs - done)):
            running.run(_reference(suite), say)
        _checkout(bad, build)
        say(f"measuring {bad[:12]}, the bad commit")
        if not _is_bad(_judged(suite, say)):
            raise AiperfError(
                f"{bad[:12]} is no regression against {good[:12]} here, so there is nothing to bisect. Its runs: {home}"
            )
        return _bisected(good, bad, file, build)
    finally:
        _git("bisect", "reset")
        _checkout(before, None)


def step(file: Path, build: str | None, say: Callable[[str], None]) -> int:
    """Judge the commit that is checked out. Returns what `git bisect run` reads."""
    suite = FORMAT.read(file)
    try:
        if build is not None:
            _build(build)
        gated = _judged(suite, say)
    except AiperfError as error:
        say(f"skipped: {error}")
        return SKIP
    if _is_bad(gated):
        return BAD
    return SKIP if gated.exit_code(conclusive=True) != ExitCode.OK else GOOD


def _reference(suite: Suite) -> Suite:
    """The suite for runs of the good commit. Without gates nothing is confirmed."""
    return evolve(suite, gates=[])


def _runs_of(suite: Suite) -> int:
    return len([one for one in suite.runs.iterdir() if one.is_dir()]) if suite.runs.is_dir() else 0


def _judged(suite: Suite, say: Callable[[str], None]) -> Gated:
    """Run the commit and gate it. Its bundles then leave the reference, so that only the good commit is in it."""
    gated, ran = running.run(suite, say)
    aside = suite.home / "judged"
    aside.mkdir(exist_ok=True)
    for one in ran:
        one.bundle.rename(aside / one.bundle.name)
    return gated


def _is_bad(gated: Gated) -> bool:
    return gated.word == "REGRESSION"


def _bisected(good: str, bad: str, file: Path, build: str | None) -> Bisected:
    words_ = [sys.executable, "-m", "aiperf_core", "ci", "bisect-step", str(file)]
    if build is not None:
        words_ += ["--build", build]
    _must("bisect", "start", bad, good)
    told = _must("bisect", "run", *words_)
    first = [line.split()[0] for line in told.splitlines() if line.endswith("is the first bad commit")]
    return Bisected(first[0] if first else None, told)


def _checkout(commit: str, build: str | None) -> None:
    _must("checkout", "--quiet", commit)
    if build is not None:
        _build(build)


def _build(command: str) -> None:
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    except OSError as error:
        raise AiperfError(f"cannot start --build '{words(command)}': {error.strerror or error}.") from error
    if done.returncode:
        raise AiperfError(f"--build '{words(command)}' ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def _commit(text: str) -> str:
    found = _git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
    if not found:
        raise UsageError(f"'{words(text)}' is no commit of this repository. List them: git log --oneline")
    return found


def _succeeds(*arguments: str) -> bool:
    return subprocess.run(["git", *arguments], capture_output=True, check=False).returncode == 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _must(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AiperfError(f"git {arguments[0]} failed: {words((done.stderr or done.stdout).strip()[-400:])}")
    return done.stdout

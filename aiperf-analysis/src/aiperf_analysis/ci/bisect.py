"""Find the commit that made a suite slower: `git bisect` with the decision of the gate.

The runs of the good commit are the level that each commit is held to.
"""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from attrs import evolve, frozen

from aiperf_analysis.ci import running
from aiperf_analysis.ci.gating import Gated
from aiperf_analysis.ci.suite import Suite
from aiperf_analysis.history.newest import LEAST_RUNS
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.names import words

# Where only these are left, git lists them, and fails.
_ONLY_SKIPPED = "The first bad commit could be any of"
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
    good, bad = (commit_of(one) for one in (good, bad))
    if not _succeeds("merge-base", "--is-ancestor", good, bad):
        raise UsageError(f"{good[:12]} is not an ancestor of {bad[:12]}; the first commit must come before the second.")
    home = (suite.home / f"bisect-{good[:12]}-{bad[:12]}").absolute()
    suite = evolve(suite, folder=str(home), repeats=1, store=None, notify=[], base=None)
    before = _git("symbolic-ref", "--short", "--quiet", "HEAD") or commit_of("HEAD")
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
        return _bisected(good, bad, suite, build, say)
    finally:
        _git("bisect", "reset")
        _checkout(before, None)


def _word(suite: Suite, build: str | None, say: Callable[[str], None]) -> str:
    """Judge the commit that is checked out: `good`, `bad` or `skip`."""
    try:
        if build is not None:
            build_with(build)
        gated = _judged(suite, say)
    except AiperfError as error:
        say(f"skipped: {error}")
        return "skip"
    if _is_bad(gated):
        return "bad"
    return "skip" if gated.exit_code(conclusive=True) != ExitCode.OK else "good"


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


def _bisected(good: str, bad: str, suite: Suite, build: str | None, say: Callable[[str], None]) -> Bisected:
    """Judge the commits that git chooses, in this process: a step of its own would outlive it, and its lock."""
    told = git("bisect", "start", bad, good)
    while _ONLY_SKIPPED not in told:
        first = [line.split()[0] for line in told.splitlines() if line.endswith("is the first bad commit")]
        if first:
            return Bisected(first[0], told)
        told = git("bisect", _word(suite, build, say))
    return Bisected(None, told)


def _checkout(commit: str, build: str | None) -> None:
    git("checkout", "--quiet", commit)
    if build is not None:
        build_with(build)


def build_with(command: str, tree: Path | None = None) -> None:
    """Prepare a working tree by a command, started without a shell there. Raises AiperfError where it fails.

    tree: None stands for the working directory.
    """
    where = f" in {tree.name}" if tree else ""
    try:
        done = subprocess.run(
            shlex.split(command), cwd=tree, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise AiperfError(f"cannot start --build '{words(command)}'{where}: {error.strerror or error}.") from error
    if done.returncode:
        told = done.stderr.strip()[-300:]
        raise AiperfError(f"--build '{words(command)}'{where} ended with {done.returncode}: {told}")


def commit_of(text: str) -> str:
    """The full name of a commit. Raises UsageError for a text that names none."""
    found = _git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
    if not found:
        raise UsageError(f"'{words(text)}' is no commit of this repository. List them: git log --oneline")
    return found


def _succeeds(*arguments: str) -> bool:
    return subprocess.run(["git", *arguments], capture_output=True, check=False).returncode == 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def git(*arguments: str) -> str:
    """The output of git. Raises AiperfError where it fails; only skipped commits are left without."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode and _ONLY_SKIPPED not in done.stdout:
        raise AiperfError(f"git {arguments[0]} failed: {words((done.stderr or done.stdout).strip()[-400:])}")
    return done.stdout

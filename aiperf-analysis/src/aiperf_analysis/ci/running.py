"""Run a suite: `aiperf run` as a process of its own, with the labels of the commit, into the suite's folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from attrs import frozen

from aiperf_analysis.ci import accepted
from aiperf_analysis.ci.fit import check
from aiperf_analysis.ci.gating import Gated, decide, history
from aiperf_analysis.ci.suite import Suite
from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.git import git_branch, git_commit
from aiperf_core.harness.processes.parent import end_child_with_this

_AIPERF = (sys.executable, "-m", "aiperf_core")
INTERRUPTED = 130
_NOTIFY_S = 60.0


@frozen
class Ran:
    """A run of the suite.

    bundle: its folder. code: the exit code of `aiperf run`.
    """

    bundle: Path
    code: int


def run(suite: Suite, say: Callable[[str], None]) -> tuple[Gated, list[Ran]]:
    """Run a suite, confirm suspects, and gate. The caller holds the lock.

    Raises AiperfError where nothing was measured, and NotFitError for an unfit machine.
    """
    check(suite)
    ran = [_run_again(suite, suite.targets, say) for _ in range(suite.repeats)]
    gated = _decided(suite)
    for _ in range(max(gate.confirm for gate in suite.gates) if suite.gates else 0):
        if not gated.suspects:
            break
        targets = sorted({one.target for one in gated.suspects})
        say(f"suspect: {', '.join(one.name for one in gated.suspects)}; measuring again")
        check(suite)
        ran.append(_run_again(suite, targets, say))
        gated = _confirmed(gated, _decided(suite), targets)
    return gated, ran


def _decided(suite: Suite) -> Gated:
    """The decisions on the newest run, with what was accepted."""
    return accepted.applied(decide(suite, history(suite)), accepted.read(suite))


def _confirmed(before: Gated, after: Gated, targets: Sequence[str]) -> Gated:
    """The decisions after a confirming run, which measured some of the targets only."""
    kept = [one for one in before.decisions if one.target not in targets and one not in after.decisions]
    return Gated([*after.decisions, *kept], after.newest, after.before)


def _run_again(suite: Suite, targets: Sequence[str], say: Callable[[str], None]) -> Ran:
    """Run targets; again where the run failed."""
    for attempt in range(suite.retries + 1):
        ran = _run(suite, targets)
        if ran.code == INTERRUPTED:
            raise KeyboardInterrupt
        if ran.code != ExitCode.FAILED or attempt == suite.retries:
            break
        say(f"the run failed, attempt {attempt + 1} of {suite.retries + 1}; again")
    if not (ran.bundle / "manifest.json").exists():
        raise AiperfError(
            f"aiperf run ended with {ran.code} and left no bundle. Its output: {log_of(ran.bundle)}. "
            f"Try it by hand: {' '.join(['aiperf', 'run', *targets])}"
        )
    return ran


def _run(suite: Suite, targets: Sequence[str]) -> Ran:
    bundle = _new_folder(suite)
    command = [*_AIPERF, *arguments(suite, targets, bundle)]
    try:
        with log_of(bundle).open("wb") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=suite.run_timeout_s,
                check=False,
                close_fds=False,  # it holds the lock, too
                preexec_fn=end_child_with_this(),
            )
    except subprocess.TimeoutExpired:
        return Ran(bundle, ExitCode.FAILED)
    except OSError as error:
        raise AiperfError(f"cannot start aiperf run: {error.strerror or error}.") from error
    return Ran(bundle, done.returncode)


def _new_folder(suite: Suite) -> Path:
    """A path that no run has yet. `aiperf run` makes the folder."""
    stem = datetime.now().strftime("%Y%m%d-%H%M%S")
    try:
        suite.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AiperfError(f"cannot make '{suite.runs}': {error.strerror or error}. Change 'folder'.") from error
    number = 1
    while (path := suite.runs / (stem if number == 1 else f"{stem}-{number}")).exists() or log_of(path).exists():
        number += 1
    return path


def log_of(bundle: Path) -> Path:
    """The output of the run of a bundle."""
    return bundle.with_name(f"{bundle.name}.log")


def arguments(suite: Suite, targets: Sequence[str], bundle: Path) -> list[str]:
    """The arguments of `aiperf run`."""
    found = ["run", *targets, "--out", str(bundle), *suite.options({**labels_of_commit(), **suite.labels})]
    found += [part for one in suite.exclude for part in ("--exclude", one)]
    return found + (["--min-samples", str(suite.min_samples)] if suite.min_samples else [])


def labels_of_commit() -> dict[str, str]:
    """The branch and the commit of the working directory. CI checks out no branch, but names it in its environment."""
    environment = os.environ
    branch = (
        environment.get("GITHUB_HEAD_REF")
        or environment.get("GITHUB_REF_NAME")
        or environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
        or environment.get("CI_COMMIT_REF_NAME")
        or git_branch(Path.cwd())
    )
    found = {"branch": branch, "commit": git_commit(Path.cwd())}
    return {name: value for name, value in found.items() if value and value != "HEAD"}


def add_to_store(suite: Suite, ran: Sequence[Ran]) -> str | None:
    """Add the bundles to the store of the suite. Returns why that failed; the bundles themselves are kept."""
    if suite.store is None:
        return None
    command = [*_AIPERF, "db", "add", "--db", suite.store, *(str(one.bundle) for one in ran)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, encoding="utf-8", errors="replace"
    )
    return None if done.returncode == 0 else done.stderr.strip() or f"aiperf db add ended with {done.returncode}"


def notify(suite: Suite, document: str) -> str | None:
    """Start the command of the suite with the report as its standard input. Returns why that failed."""
    if not suite.notify:
        return None
    try:
        done = subprocess.run(
            suite.notify,
            input=document,
            timeout=_NOTIFY_S,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if done.returncode == 0 else f"'{suite.notify[0]}' ended with {done.returncode}"

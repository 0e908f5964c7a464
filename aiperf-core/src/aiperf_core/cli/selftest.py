"""`aiperf selftest`: attack each guard, and show which guards work on this machine."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from aiperf_core.cli.measuring import json_option, quiet_option
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results import jsontext
from aiperf_core.selftest import outcomes
from aiperf_core.selftest.outcomes import PROVEN, WRONG, Outcome, Proof, Proven
from aiperf_core.validity import registry
from aiperf_core.validity.issues import Issue, UnknownIssueError

if TYPE_CHECKING:
    from rich.live import Live

    from aiperf_core.cli.screen import Screen
    from aiperf_core.events import Progress
    from aiperf_core.validity.cases import Case, Recorded
    from aiperf_core.validity.check import Check


# Cases that `--verbose` shows.
SLOWEST = 20
NO_ATTACKS = (
    "no attacks are installed, so nothing can be proven. Install them, in a clone of aiperf: "
    "pip install -e ./aiperf-redteam"
)


@click.command("selftest")
@click.option(
    "--category", "categories", multiple=True, metavar="NAME", help="Only issues of this category. May be repeated."
)
@click.option("--issue", "ids", multiple=True, metavar="ID", help="Only this issue. May be repeated.")
@click.option(
    "-d",
    "--device",
    type=click.Choice(("cpu", "cuda")),
    help="Only on this device. [default: all devices of this machine]",
)
@json_option("a JSON object, with every case")
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the slowest cases too.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Record the evidence that is owed, and prove nothing.",
)
@click.pass_obj
def selftest(
    plugins: Plugins,
    categories: tuple[str, ...],
    ids: tuple[str, ...],
    device: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    record: Path | None,
) -> int:
    """Attack this harness, and show which attacks it catches on this machine.

    Each attack must gain while the guard against it is off, and be caught while the guard is on. Honest code that looks
    like the attack must not be flagged. Runs in which no times decide are made side by side, each on processors of its
    own; all others alone. Exits with 3 where an attack is missed or honest code is flagged, with 1 where a case could
    not be tried or no attacks are installed, with 5 where other work on the machine kept one from being decided.
    `aiperf validity` shows what was proven.

    \b
    Examples:
      aiperf selftest --category timing
      aiperf selftest --issue timing.unsynced_streams --verbose
    """
    from aiperf_core.cli.screen import consoles

    for skipped in plugins.set_aside:
        click.echo(str(skipped), err=True)
    issues = [one.record for one in plugins.issues.values()]
    chosen = _chosen(issues, categories, ids)
    cases, recorded = [one.record for one in plugins.attacks], [one.record for one in plugins.recordings]
    if not cases:
        raise AiperfError(NO_ATTACKS)
    if record is not None:
        return _record(issues, chosen, cases, recorded, device, record)
    out, err = consoles()
    started, results = time.monotonic(), list[Proven]()
    state = outcomes.state(plugins)

    def take(one: Proven) -> None:
        results.append(one)
        if not as_json and one.issue == _last_of(chosen, one):
            course.pause()
            _print_category([other for other in results if other.category == one.category])

    with _Course(err, quiet) as course:
        try:
            _prove(issues, chosen, cases, recorded, tuple(one.record for one in plugins.checks), device, course, take)
        finally:
            outcomes.write(state, results)
    if len(chosen) == len(issues):
        results.extend(_strays(issues, cases))
    seconds = time.monotonic() - started
    if as_json:
        out.write(jsontext.dumps(_document(results, device, seconds)))
    else:
        if verbose:
            _print_slowest(results)
        _print_end(results, seconds)
    return _exit_code(results)


def _chosen(issues: Sequence[Issue], categories: Sequence[str], ids: Sequence[str]) -> list[Issue]:
    """The issues that were asked for, category by category; all where none was. Raises `UnknownIssueError`."""
    for name in (*categories, *ids):
        if not any(name == (one.category if name in categories else one.id) for one in issues):
            raise UnknownIssueError(name, issues)
    chosen = [one for one in issues if not (categories or ids) or one.category in categories or one.id in ids]
    order = list(dict.fromkeys([*registry.categories(), *(one.category for one in chosen)]))
    return sorted(chosen, key=lambda one: order.index(one.category))


def _last_of(chosen: Sequence[Issue], one: Proven) -> str:
    """The last issue of the category of this one."""
    return next(other.id for other in reversed(chosen) if other.category == one.category)


def _prove(
    issues: Sequence[Issue],
    chosen: Sequence[Issue],
    cases: "Sequence[Case]",
    recorded: "Sequence[Recorded]",
    checks: "tuple[Check, ...]",
    device: str | None,
    course: "_Course",
    take: Callable[[Proven], None],
) -> None:
    from aiperf_core.devices.device import CPU
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_core.harness.run.options import Options
    from aiperf_core.selftest.lanes import Lanes
    from aiperf_core.selftest.proof import Prover
    from aiperf_core.selftest.trials import ProofPlanner

    scratch = Path(tempfile.mkdtemp(prefix="aiperf-"))
    try:
        # Cases that compile would import it in each of their processes.
        compiling = any("compiler" in one.needs and "cuda" not in one.needs for one in chosen)
        preload = ("torch._dynamo",) if compiling else ()
        severities = {one.id: one.severity for one in issues}
        lanes = Lanes(logs=scratch, device=device, severities=severities, preload=preload)
        ahead = bool(lanes.processors)
        # On a processor the lanes try them.
        server = ForkServer(() if ahead and device == CPU.name else preload)
        with ProofPlanner(Options(device=device), scratch, server=server) as planner:
            if device == "cuda" and not planner.hardware.gpus:
                raise UsageError(
                    "The device 'cuda' was requested, but this machine has none. Leave out --device to try what "
                    "can be tried on the CPU; see what is missing with: aiperf doctor"
                )
            prover = Prover(planner, scratch, issues, device, course, of_plugins=checks, lanes=lanes if ahead else None)
            for one in prover.prove(chosen, cases, recorded):
                take(one)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _record(
    issues: Sequence[Issue],
    chosen: Sequence[Issue],
    cases: "Sequence[Case]",
    recorded: "Sequence[Recorded]",
    device: str | None,
    folder: Path,
) -> ExitCode:
    """Record evidence, and print what became of each issue. Fails where nothing was recorded."""
    import sys

    from aiperf_core.harness.run.from_python import Silent
    from aiperf_core.harness.run.options import Options
    from aiperf_core.manifest import command_line
    from aiperf_core.selftest.recording import Recorder, header
    from aiperf_core.selftest.trials import ProofPlanner, Trials

    written = 0
    with (
        tempfile.TemporaryDirectory(prefix="aiperf-") as scratch,
        ProofPlanner(Options(device=device), Path(scratch)) as planner,
    ):
        trials = Trials(planner, Path(scratch), device, Silent())
        wanted = {one.id: one for one in chosen}
        known = {one.id: one for one in issues}
        recorder = Recorder(planner, trials, folder, wanted, known, header(command_line(sys.argv)), recorded)
        for told in recorder.record(cases):
            written += told.file is not None
            click.echo(f"{told.issue}: {told.file or f'not recorded: {words(told.reason)}'}")
    click.echo(f"{written} recording{'' if written == 1 else 's'} written to {folder}")
    return ExitCode.OK if written else ExitCode.FAILED


def _strays(issues: Sequence[Issue], cases: "Sequence[Case]") -> Iterator[Proven]:
    """The cases of unregistered issues."""
    from aiperf_core.selftest.proof import unknown_issues

    return unknown_issues(issues, cases)


def _exit_code(results: Iterable[Proven]) -> ExitCode:
    """What is missed or wrongly flagged comes before what could not be tried, and that before what is undecided."""
    outcomes = {proof.outcome for one in results for proof in one.proofs}
    if outcomes & set(WRONG):
        return ExitCode.INVALID
    if Outcome.ERROR in outcomes:
        return ExitCode.FAILED
    return ExitCode.INCONCLUSIVE if Outcome.UNDECIDED in outcomes else ExitCode.OK


# --- the matrix

# What is told of the last tier of an attack, unless it is the quick one.
_TOLD = {"standard": "in the standard tier", "one-round": "in one round of the standard tier"}


def _print_category(results: Sequence[Proven]) -> None:
    category = results[0].category
    about = f": {registry.categories()[category]}" if category in registry.categories() else ""
    click.echo(f"{category} ({len(results)}){about}")
    rows = [
        (one.issue, one.guard, _cell(one.attacks), _cell(one.look_alikes), f"{one.seconds:.1f}", _note(one))
        for one in results
    ]
    print_table(("issue", "guard", "attack", "honest look-alike", "seconds", "note"), rows)
    click.echo()


def _cell(proofs: Sequence[Proof]) -> str:
    """How attacks or honest look-alikes ended; what could not be observed counts where nothing else did."""
    outcomes = dict.fromkeys(str(one.outcome) for one in proofs)
    if len(outcomes) > 1:
        outcomes.pop(Outcome.NOT_OBSERVABLE, None)
    return ", ".join(outcomes) or "none"


def _note(one: Proven) -> str:
    if one.outcome in (Outcome.EXCLUDED, Outcome.OWED):
        return str(one.outcome)
    if one.outcome is Outcome.NOT_OBSERVABLE:
        return words(_why_not(one))
    tiers = {proof.tier for proof in one.attacks}
    notes = [text for tier, text in _TOLD.items() if tier in tiers][:1]
    cleared = (proof for proof in one.look_alikes if proof.outcome is Outcome.CLEARED)
    return "; ".join([*notes, *(f"not flagged {words(proof.reason)}" for proof in cleared if proof.reason)]) or "-"


def _why_not(one: Proven) -> str:
    return next(proof.reason for proof in one.attacks if proof.outcome is Outcome.NOT_OBSERVABLE)


def _print_slowest(results: Sequence[Proven]) -> None:
    """The cases that took longest. The time of a shared run counts for the first case that uses it."""
    cases = sorted(((proof, one) for one in results for proof in one.proofs), key=lambda case: -case[0].seconds)
    click.echo("slowest cases")
    rows = [(f"{proof.seconds:.1f}", one.issue, proof.case) for proof, one in cases[:SLOWEST]]
    print_table(("seconds", "issue", "case"), rows)
    click.echo()


def _print_end(results: Sequence[Proven], seconds: float) -> None:
    told = (*WRONG, Outcome.ERROR, Outcome.UNDECIDED)
    bad = [(one, proof) for one in results for proof in one.proofs if proof.outcome in told]
    for one, proof in bad:
        where = f"{proof.case} on {proof.device}" if proof.device else proof.case
        kind = "honest look-alike" if proof.honest else "attack"
        click.echo(f"{one.issue}: {kind} {where}: {proof.outcome}: {words(proof.reason)}")
    if bad:
        click.echo()
    click.echo(_summary(results, seconds))


def _summary(results: Sequence[Proven], seconds: float) -> str:
    """All counts in a line. Those of issues add up; honest look-alikes are counted one by one."""
    of = Counter(one.outcome for one in results)
    flagged = sum(proof.outcome is Outcome.FLAGGED for one in results for proof in one.proofs)
    lacking = Counter(_why_not(one) for one in results if one.outcome is Outcome.NOT_OBSERVABLE)
    why = "; ".join(f"{reason}: {count}" for reason, count in lacking.most_common())
    parts = [
        f"{sum(of[one] for one in PROVEN)} proven here ({', '.join(f'{one} {of[one]}' for one in PROVEN)})",
        f"{of[Outcome.RECORDED]} on recorded evidence",
        f"{of[Outcome.EXCLUDED]} excluded by construction",
        f"{of[Outcome.OWED]} owed (proof to be recorded on another machine)",
        f"{of[Outcome.NOT_OBSERVABLE]} not observable here" + (f" ({words(why)})" if why else ""),
        f"{of[Outcome.UNPROVEN]} unproven (no case)",
        f"{of[Outcome.MISSED]} missed",
        f"{flagged} honest look-alike{'' if flagged == 1 else 's'} wrongly flagged",
    ]
    if of[Outcome.UNDECIDED]:
        parts.append(f"{of[Outcome.UNDECIDED]} not decided here (try again on a quiet machine)")
    if of[Outcome.ERROR]:
        parts.append(f"{of[Outcome.ERROR]} not tried for errors")
    return f"{len(results)} issue{'' if len(results) == 1 else 's'}: {', '.join(parts)}; {seconds:.0f} s"


def _document(results: Sequence[Proven], device: str | None, seconds: float) -> dict[str, object]:
    from attrs import asdict

    counts = Counter(one.outcome for one in results)
    return {
        "summary": _summary(results, seconds),
        "device": device,
        "seconds": round(seconds, 3),
        "counts": {str(one): counts[one] for one in Outcome if one in counts},
        "issues": [
            {"category": one.category, "outcome": one.outcome, "seconds": one.seconds, **asdict(one)} for one in results
        ],
    }


# --- its course


class _Course:
    """Tells on standard error which case is tried: in a terminal on one line that changes, elsewhere a line a case."""

    def __init__(self, err: "Screen", quiet: bool) -> None:
        self._err = err
        self._quiet = quiet
        self._live: Live | None = None
        self._head = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()

    def pause(self) -> None:
        """Clear the line, so that something else can be printed."""
        if self._live:
            self._live.stop()
            self._live = None

    def made_ahead(self, index: int, total: int) -> None:
        """`index` of `total` runs that are made side by side are done."""
        from rich.text import Text

        self._head = f"[{index}/{total}] runs side by side"
        self.phase("before those that times decide")
        if not (index or self._quiet or self._err.terminal):
            self._err.print_line(Text(f"{total} runs side by side, before those that times decide"))

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """A case's turn has come."""
        self._head = words(f"[{index}/{total}] {issue}: {case}" + (f" on {device}" if device else ""))
        self.phase("start")

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A run of the case enters a phase."""
        from rich.live import Live
        from rich.text import Text

        if self._quiet or not self._err.terminal:
            return
        if self._live is None:
            # Drawn when told only: a thread that redraws would take processor time from what is measured.
            self._live = Live(
                console=self._err.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(Text.assemble(f"{self._head}  ", (words(text), "cyan")), refresh=True)

    def progress(self, state: "Progress") -> None:
        """Nothing to show: a run takes about a second."""

    def case_finished(self, proof: Proof) -> None:
        """A case is done."""
        from rich.text import Text

        if not (self._quiet or self._err.terminal or proof.outcome is Outcome.NOT_OBSERVABLE):
            self._err.print_line(Text(f"{self._head}: {proof.outcome}, {proof.seconds:.1f} s"))

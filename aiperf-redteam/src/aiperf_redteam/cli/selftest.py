"""`aiperf selftest`: attack each guard, and show which guards work on this machine."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from attrs import asdict
from rich.live import Live
from rich.text import Text

from aiperf_core.cli.measuring import json_option, quiet_option, warn_of_skipped
from aiperf_core.cli.screen import Screen, consoles
from aiperf_core.cli.tables import print_table
from aiperf_core.devices.device import CPU
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.harness.processes import child
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.manifest import command_line
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.proofs.outcomes import PROVEN, Outcome, state
from aiperf_core.results import jsontext
from aiperf_core.validity import registry
from aiperf_core.validity.issues import Issue, UnknownIssueError
from aiperf_redteam.selftest import trials
from aiperf_redteam.selftest.outcomes import WRONG, Proof, Proven, keep
from aiperf_redteam.selftest.parallel import Lanes
from aiperf_redteam.selftest.prover import Prover, unknown_issues
from aiperf_redteam.selftest.recorder import Recorder, header

# Cases that `--verbose` shows.
SLOWEST = 20


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
    not be tried, with 5 where other work on the machine kept one from being decided. `aiperf validity` shows what was
    proven.

    \b
    Examples:
      aiperf selftest --category timing
      aiperf selftest --issue timing.unsynced_streams --verbose
    """
    warn_of_skipped(plugins)
    issues = _issues(plugins)
    chosen = _chosen(issues, categories, ids)
    with TemporaryDirectory(prefix="aiperf-", ignore_cleanup_errors=True) as scratch:
        if record is not None:
            return _record(plugins, chosen, device, Path(scratch), record)
        out, err = consoles()
        started, results = time.monotonic(), list[Proven]()
        with closing(_Progress(err, quiet)) as progress:
            try:
                for proven in _prove(plugins, chosen, device, Path(scratch), progress):
                    results.append(proven)
                    last = next(issue.id for issue in reversed(chosen) if issue.category == proven.category)
                    if not as_json and proven.issue == last:
                        progress.close()
                        _print_category([other for other in results if other.category == proven.category])
            finally:
                keep(state(plugins), results)
    if len(chosen) == len(issues):
        results.extend(unknown_issues(issues, [case.record for case in plugins.attacks]))
    seconds = time.monotonic() - started
    if as_json:
        out.write(jsontext.dumps(_document(results, device, seconds)))
    else:
        if verbose:
            _print_slowest(results)
        _print_end(results, seconds)
    return _exit_code(results)


def _issues(plugins: Plugins) -> dict[str, Issue]:
    """The registry by id, that of plugins included."""
    return {name: issue.record for name, issue in plugins.issues.items()}


def _chosen(issues: Mapping[str, Issue], categories: Sequence[str], ids: Sequence[str]) -> list[Issue]:
    """The issues that were asked for, category by category; all where none was. Raises `UnknownIssueError`."""
    known = {"category": {issue.category for issue in issues.values()}, "issue": {*issues}}
    for name, kind in [*((name, "category") for name in categories), *((name, "issue") for name in ids)]:
        if name not in known[kind]:
            raise UnknownIssueError(name, [*issues.values()])
    asked = {*categories, *ids}
    chosen = [issue for issue in issues.values() if not asked or asked & {issue.category, issue.id}]
    order = list(dict.fromkeys([*registry.categories(), *(issue.category for issue in chosen)]))
    return sorted(chosen, key=lambda issue: order.index(issue.category))


def _prove(
    plugins: Plugins, chosen: Sequence[Issue], device: str | None, scratch: Path, progress: "_Progress"
) -> Iterator[Proven]:
    issues = _issues(plugins)
    # Cases that compile would import it in each of their processes.
    compiling = any("compiler" in issue.needs and "cuda" not in issue.needs for issue in chosen)
    preload = ("torch._dynamo",) if compiling else ()
    lanes = Lanes(logs=scratch, device=device, issues=issues, preload=preload)
    # On a processor the lanes try the cases that compile.
    server = child.ForkServer(() if lanes.processors and device == CPU.name else preload)
    with trials.ProofPlanner(Options(device=device), scratch, server=server) as planner:
        if device == "cuda" and not planner.hardware.gpus:
            raise UsageError(
                "The device 'cuda' was requested, but this machine has none. Leave out --device to try what "
                "can be tried on the CPU; see what is missing with: aiperf doctor"
            )
        checks = tuple(check.record for check in plugins.checks)
        ahead = lanes if lanes.processors else None
        prover = Prover(planner, scratch, issues, device, progress, of_plugins=checks, lanes=ahead)
        yield from prover.prove(
            chosen, [case.record for case in plugins.attacks], [evidence.record for evidence in plugins.recordings]
        )


def _record(plugins: Plugins, chosen: Sequence[Issue], device: str | None, scratch: Path, folder: Path) -> ExitCode:
    """Record evidence, and print what became of each issue. Fails where nothing was recorded."""
    count = 0
    with trials.ProofPlanner(Options(device=device), scratch) as planner:
        tried = trials.Trials(planner, scratch, device, _issues(plugins), Silent())
        wanted, known = {issue.id: issue for issue in chosen}, [evidence.record for evidence in plugins.recordings]
        recorder = Recorder(tried, folder, wanted, header(command_line(sys.argv)), known)
        for written in recorder.record([case.record for case in plugins.attacks]):
            count += written.file is not None
            click.echo(f"{written.issue}: {written.file or f'not recorded: {words(written.reason)}'}")
    click.echo(f"{count} recording{'' if count == 1 else 's'} written to {folder}")
    return ExitCode.OK if count else ExitCode.FAILED


def _exit_code(results: Iterable[Proven]) -> ExitCode:
    """The code of wrong cases comes before that of cases that could not be tried, and that before undecided cases."""
    outcomes = {proof.outcome for proven in results for proof in proven.proofs}
    if outcomes & {*WRONG}:
        return ExitCode.INVALID
    if Outcome.ERROR in outcomes:
        return ExitCode.FAILED
    return ExitCode.INCONCLUSIVE if Outcome.UNDECIDED in outcomes else ExitCode.OK


# --- the matrix

# A note on the last tier of an attack, unless it is the quick one.
_TIER_NOTES = {"standard": "in the standard tier", "one-round": "in one round of the standard tier"}


def _print_category(results: Sequence[Proven]) -> None:
    category = results[0].category
    about = f": {registry.categories()[category]}" if category in registry.categories() else ""
    click.echo(f"{category} ({len(results)}){about}")
    rows = []
    for proven in results:
        ends = _cell(proven.attacks), _cell(proven.look_alikes)
        rows.append((proven.issue, proven.guard, *ends, f"{proven.seconds:.1f}", _note(proven)))
    print_table(("issue", "guard", "attack", "honest look-alike", "seconds", "note"), rows)
    click.echo()


def _cell(proofs: Sequence[Proof]) -> str:
    """The outcomes of attacks or honest look-alikes; those that could not be observed count only without others."""
    outcomes = dict.fromkeys(str(proof.outcome) for proof in proofs)
    if len(outcomes) > 1:
        outcomes.pop(Outcome.NOT_OBSERVABLE, None)
    return ", ".join(outcomes) or "none"


def _note(proven: Proven) -> str:
    if proven.outcome in (Outcome.EXCLUDED, Outcome.OWED):
        return str(proven.outcome)
    if proven.outcome is Outcome.NOT_OBSERVABLE:
        return words(_why_not(proven))
    tiers = {proof.tier for proof in proven.attacks}
    notes = [text for tier, text in _TIER_NOTES.items() if tier in tiers][:1]
    cleared = (proof for proof in proven.look_alikes if proof.outcome is Outcome.CLEARED)
    return "; ".join([*notes, *(f"not flagged {words(proof.reason)}" for proof in cleared if proof.reason)]) or "-"


def _why_not(proven: Proven) -> str:
    return next(proof.reason for proof in proven.attacks if proof.outcome is Outcome.NOT_OBSERVABLE)


def _print_slowest(results: Sequence[Proven]) -> None:
    """The cases that took longest. The time of a shared run counts for the first case that uses it."""
    cases = [(proof.seconds, proven.issue, proof.case) for proven in results for proof in proven.proofs]
    click.echo("slowest cases")
    slowest = sorted(cases, key=lambda case: -case[0])[:SLOWEST]
    rows = [(f"{seconds:.1f}", issue, case) for seconds, issue, case in slowest]
    print_table(("seconds", "issue", "case"), rows)
    click.echo()


def _print_end(results: Sequence[Proven], seconds: float) -> None:
    shown = (*WRONG, Outcome.ERROR, Outcome.UNDECIDED)
    bad = [(proven, proof) for proven in results for proof in proven.proofs if proof.outcome in shown]
    for proven, proof in bad:
        where = f"{proof.case} on {proof.device}" if proof.device else proof.case
        kind = "honest look-alike" if proof.honest else "attack"
        click.echo(f"{proven.issue}: {kind} {where}: {proof.outcome}: {words(proof.reason)}")
    if bad:
        click.echo()
    click.echo(_summary(results, seconds))


def _summary(results: Sequence[Proven], seconds: float) -> str:
    """All counts in a line. Those of issues add up; honest look-alikes are counted one by one."""
    of = Counter(proven.outcome for proven in results)
    flagged = sum(proof.outcome is Outcome.FLAGGED for proven in results for proof in proven.proofs)
    lacking = Counter(_why_not(proven) for proven in results if proven.outcome is Outcome.NOT_OBSERVABLE)
    why = "; ".join(f"{reason}: {count}" for reason, count in lacking.most_common())
    by_kind = ", ".join(f"{outcome} {of[outcome]}" for outcome in PROVEN)
    parts = [
        f"{sum(of[outcome] for outcome in PROVEN)} proven here ({by_kind})",
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
    counts = Counter(proven.outcome for proven in results)
    return {
        "summary": _summary(results, seconds),
        "device": device,
        "seconds": round(seconds, 3),
        "counts": {str(outcome): counts[outcome] for outcome in Outcome if outcome in counts},
        "issues": [
            {"category": proven.category, "outcome": proven.outcome, "seconds": proven.seconds, **asdict(proven)}
            for proven in results
        ],
    }


class _Progress(Silent):
    """Shows on standard error which case is tried: in a terminal on one line that changes, elsewhere a line a case."""

    def __init__(self, err: Screen, quiet: bool) -> None:
        self._err = err
        self._quiet = quiet
        self._live: Live | None = None
        self._head = ""

    def close(self) -> None:
        """Clear the line, so that something else can be printed."""
        if self._live:
            self._live.stop()
            self._live = None

    def made_ahead(self, index: int, total: int) -> None:
        """`index` of `total` runs that are made side by side are done."""
        self._head = f"[{index}/{total}] runs side by side"
        self.phase("before those that times decide")
        if index == 0:
            self._print(f"{total} runs side by side, before those that times decide")

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """A case's turn has come."""
        self._head = words(f"[{index}/{total}] {issue}: {case}" + (f" on {device}" if device else ""))
        self.phase("start")

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A run of the case enters a phase."""
        if self._err.terminal and not self._quiet:
            self._live = self._live or self._err.live()
            self._live.update(Text.assemble(f"{self._head}  ", (words(text), "cyan")), refresh=True)

    def case_finished(self, proof: Proof) -> None:
        """A case is done."""
        if proof.outcome is not Outcome.NOT_OBSERVABLE:
            self._print(f"{self._head}: {proof.outcome}, {proof.seconds:.1f} s")

    def _print(self, line: str) -> None:
        if not (self._quiet or self._err.terminal):
            self._err.print_line(Text(line))

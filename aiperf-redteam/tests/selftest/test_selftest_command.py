"""`aiperf selftest` and what it keeps for `aiperf validity`, with cases of the tests."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_core.cli.main import Shell
from aiperf_core.commands import Command
from aiperf_core.harness.processes import child
from aiperf_core.plugins import Installed, load_plugins
from aiperf_core.proofs import outcomes, recording
from aiperf_core.proofs.outcomes import Outcome
from aiperf_core.requirements import Hardware
from aiperf_core.validity.cases import Case
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.issues import HARD, Exclusion, Issue
from aiperf_redteam.plugin import aiperf_commands
from aiperf_redteam.selftest import prover, recorder, runs, trials
from aiperf_redteam.selftest.outcomes import Proof, Proven, keep

TARGETS = Path(__file__).parent / "targets"


def issue(name: str, guard: str = "judged_output", **other: Any) -> Issue:
    return Issue(id=name, title=name, happens="It happens.", guard=guard, protection="It is seen.", **other)


ISSUES = (
    issue("play.zeros", severity=HARD),
    issue("play.idle"),
    issue("play.brisk"),
    issue("play.kept", "fresh_values"),
    issue("play.spread", needs=("gpus>=98",)),
    issue("rest.alone"),
    issue("rest.broken"),
)


def case(name: str, implementation: str, **other: Any) -> Case:
    return Case(**{"issue": name, "module": "guarded", "implementation": implementation, **other})


CASES = (
    case("play.zeros", "zeros"),
    case("play.zeros", "brisk", honest=True),
    case("play.idle", "as_idle"),
    case("play.brisk", "brisk"),
    case("play.kept", "kept"),
    case("play.kept", "zeros", honest=True),
    case("play.spread", "zeros"),
    case("rest.broken", "zeros", module="broken"),
    case("rest.nobody", "zeros"),
)


def installed(*records: Any) -> tuple[Installed[Any], ...]:
    return tuple(Installed(one, "aiperf-acme", "0") for one in records)


def shell_of(*issues: Issue, cases: tuple[Case, ...] = CASES) -> Shell:
    (command,) = aiperf_commands()
    commands: dict[str, Installed[Command]] = {command.name: Installed(command, "aiperf-redteam", "0")}
    by_id = {one.id: Installed(one, "aiperf-core", "0") for one in issues}
    return Shell(evolve(load_plugins([]), commands=commands, issues=by_id, attacks=installed(*cases)))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """The command with the issues and the cases above, on a machine without a GPU, with a cache folder of its own."""
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    monkeypatch.setattr(trials.ProofPlanner, "hardware", Hardware())
    # What the standard tier adds is tested with scripted runs, and takes long.
    monkeypatch.setattr(runs.Sharing, "tiers", lambda *_: ("quick",))
    monkeypatch.setitem(runs.BUDGET_S, "quick", 0.05)
    return shell_of(*ISSUES)


def ask(shell: Shell, *arguments: str) -> Result:
    return CliRunner().invoke(shell, ["selftest", *arguments])


def ask_until_quiet(shell: Shell, *arguments: str) -> Result:
    """Ask for a selftest; again where other work on the machine hid a gain, which `play.idle` does not have."""
    for _ in range(3):
        result = ask(shell, *arguments)
        if not re.search(r"^(?!play\.idle).*INCONCLUSIVE", result.stdout, re.MULTILINE):
            break
    return result


def timeless(text: str) -> str:
    """Without the seconds that cases took, and what depends on them."""
    # In a table the column stays as wide as it was.
    text = re.sub(r" +\d+\.\d(?=  )", lambda found: "0.0".rjust(len(found[0])), text)
    text = re.sub(r"(largest element error|relative L2 error) [\d.]+", r"\1 N", text)
    text = re.sub(r"(FASTER|SAME|SLOWER|INCONCLUSIVE) [\d.]+x( \(environment\.background_load\))?", r"\1 Nx", text)
    return re.sub(r"; \d+ s$", "; 0 s", re.sub(r", \d+\.\d s$", ", 0.0 s", text, flags=re.M), flags=re.M)


@contextmanager
def scripted(monkeypatch: pytest.MonkeyPatch, *results: Proven, interrupted: bool = False) -> Iterator[None]:
    """Without processes: the issues end as given; where `interrupted`, Ctrl-C follows the first."""

    class NoPlanner:
        hardware = Hardware()

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "NoPlanner":
            return self

        def __exit__(self, *_: object) -> None: ...

    given = {one.issue: one for one in results}

    def prove(self: object, chosen: list[Issue], cases: object, recorded: object) -> Iterator[Proven]:
        for one in chosen:
            yield given.get(one.id, Proven(issue=one.id, guard=one.guard))
            if interrupted:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trials, "ProofPlanner", NoPlanner)
        patch.setattr(child, "ForkServer", lambda preload: None)
        patch.setattr(prover.Prover, "prove", prove)
        yield


def ended(name: str, *outcomes: Outcome, honest: bool = False, **other: Any) -> Proven:
    proofs = [Proof(case="guarded:zeros", honest=honest, device="cpu", outcome=one, **other) for one in outcomes]
    return Proven(issue=name, guard="judged_output", proofs=tuple(proofs))


def summary(issues: int, proven: str, *, recorded: int = 0, unseen: str = "0 not observable here", unproven: int = 0,
            missed: int = 0, rest: str = "0 honest look-alikes wrongly flagged") -> str:  # fmt: skip
    return (
        f"{issues} issues: {proven}, {recorded} on recorded evidence, 0 excluded by construction, 0 owed (proof to be "
        f"recorded on another machine), {unseen}, {unproven} unproven (no case), {missed} missed, {rest}; 0 s"
    )


# --- the command


@pytest.mark.proof
def test_every_outcome_by_category_with_its_reason(shell):
    result = ask_until_quiet(shell)
    assert result.exit_code == 3, result.output
    total = summary(
        8, "1 proven here (found 1, prevented 0)", unseen="1 not observable here (needs gpus>=98: 1)", unproven=1, missed=2,
        rest="1 honest look-alike wrongly flagged, 2 not tried for errors",
    )  # fmt: skip
    assert timeless(result.stdout) == (
        "play (5)\n"
        "issue        guard          attack          honest look-alike  seconds  note\n"
        "play.zeros   judged_output  found           not flagged            0.0  -\n"
        "play.idle    judged_output  does not work   none                   0.0  -\n"
        "play.brisk   judged_output  missed          none                   0.0  -\n"
        "play.kept    fresh_values   found           wrongly flagged        0.0  -\n"
        "play.spread  judged_output  not observable  none                   0.0  needs gpus>=98\n"
        "\n"
        "rest (2)\n"
        "issue        guard          attack  honest look-alike  seconds  note\n"
        "rest.alone   judged_output  none    none                   0.0  -\n"
        "rest.broken  judged_output  error   none                   0.0  -\n"
        "\n"
        "play.idle: attack guarded:as_idle on cpu: does not work: is not FASTER without 'judged_output': "
        f"{'SAME' if 'SAME' in result.stdout else 'INCONCLUSIVE'} Nx\n"
        "play.brisk: attack guarded:brisk on cpu: missed: FASTER Nx with all guards on, FASTER Nx without 'judged_output'\n"
        "play.kept: honest look-alike guarded:zeros on cpu: wrongly flagged: INVALID (output.wrong_values): the output: relative "
        "L2 error N, largest element error N of its scale; allowed are 1e-06 and 1e-05\n"
        "rest.broken: attack broken:zeros on cpu: error: 'redteam.broken' cannot be used: importing 'broken' raised "
        f"ImportError at {TARGETS / 'broken.py'}:3: a module with a bug\n"
        "rest.nobody: attack guarded:zeros on cpu: error: 'rest.nobody' is in no registry\n"
        "\n"
        f"{total}\n"
    )
    assert timeless(result.stderr) == (
        "[1/8] play.zeros: attack guarded:zeros on cpu: found, 0.0 s\n"
        "[2/8] play.zeros: honest look-alike guarded:brisk on cpu: not flagged, 0.0 s\n"
        "[3/8] play.idle: attack guarded:as_idle on cpu: does not work, 0.0 s\n"
        "[4/8] play.brisk: attack guarded:brisk on cpu: missed, 0.0 s\n"
        "[5/8] play.kept: attack guarded:kept on cpu: found, 0.0 s\n"
        "[6/8] play.kept: honest look-alike guarded:zeros on cpu: wrongly flagged, 0.0 s\n"
        "[8/8] rest.broken: attack broken:zeros on cpu: error, 0.0 s\n"
    )


@pytest.mark.proof
def test_json(shell):
    issues = ("--issue", "play.zeros", "--issue", "rest.alone")
    result = ask_until_quiet(shell, *issues, "--device", "cpu", "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found.keys() == {"summary", "device", "seconds", "counts", "issues"}
    assert timeless(found["summary"]) == summary(2, "1 proven here (found 1, prevented 0)", unproven=1)
    assert (found["device"], found["counts"]) == ("cpu", {"found": 1, "unproven": 1})
    zeros, alone = found["issues"]
    assert alone == {
        "category": "rest",
        "outcome": "unproven",
        "seconds": 0,
        "issue": "rest.alone",
        "guard": "judged_output",
        "proofs": [],
        "untried": "unproven",
    }
    assert (zeros["issue"], zeros["outcome"]) == ("play.zeros", "found")
    attack, look_alike = zeros["proofs"]
    assert zeros["seconds"] == pytest.approx(attack["seconds"] + look_alike["seconds"])
    assert found["seconds"] > zeros["seconds"] > 0
    assert attack.pop("off").startswith("FASTER ")
    assert attack | {"seconds": 0} == {
        "case": "guarded:zeros",
        "honest": False,
        "device": "cpu",
        "outcome": "found",
        "reason": "",
        "on": "INVALID (output.wrong_values)",
        "tier": "quick",
        "seconds": 0,
    }
    assert (look_alike["case"], look_alike["honest"], look_alike["outcome"]) == ("guarded:brisk", True, "not flagged")


ERROR, MISSED, UNDECIDED = Outcome.ERROR, Outcome.MISSED, Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("attacks", "look_alikes", "code"),
    [
        *(([one], [], 0) for one in (Outcome.FOUND, Outcome.PREVENTED, Outcome.RECORDED, Outcome.NOT_OBSERVABLE)),
        ([], [Outcome.CLEARED], 0),
        ([ERROR], [], 1),
        ([], [ERROR], 1),
        ([UNDECIDED], [], 5),
        ([MISSED], [], 3),
        ([Outcome.VOID], [], 3),
        ([], [Outcome.FLAGGED], 3),
        ([ERROR, UNDECIDED, MISSED], [], 3),
        ([UNDECIDED, ERROR], [], 1),
    ],
)
def test_exit_codes(shell, monkeypatch, attacks, look_alikes, code):
    honest = ended("play.kept", *look_alikes, honest=True)
    with scripted(monkeypatch, ended("play.zeros", *attacks, reason="needs cuda"), honest):
        assert ask(shell, "--category", "play", "--quiet").exit_code == code


def test_what_is_not_decided_is_listed_and_counted_apart(shell, monkeypatch):
    busy = "other processes kept 40 % of the processors busy: FASTER Nx with all guards on"
    given = ended("play.zeros", Outcome.FOUND), ended("play.kept", UNDECIDED, reason=busy)
    with scripted(monkeypatch, *given):
        result = ask(shell, "--issue", "play.zeros", "--issue", "play.kept")
    assert "play.kept   judged_output  not decided here  none" in result.stdout
    rest = "0 honest look-alikes wrongly flagged, 1 not decided here (try again on a quiet machine)"
    assert timeless(result.stdout).splitlines()[-3:] == [
        f"play.kept: attack guarded:zeros on cpu: not decided here: {busy}",
        "",
        summary(2, "1 proven here (found 1, prevented 0)", rest=rest),
    ]


@pytest.mark.parametrize(
    ("proven", "line"),
    [
        *(
            (ended("play.zeros", Outcome.FOUND, tier=tier), f"found   none                   0.0  {note}")
            for tier, note in (
                ("quick", "-"),
                ("one-round", "in one round of the standard tier"),
                ("standard", "in the standard tier"),
            )
        ),
        (
            ended("play.zeros", Outcome.CLEARED, honest=True, reason="only when tried again; at first X"),
            "none    not flagged            0.0  not flagged only when tried again; at first X",
        ),
    ],
)
def test_what_needs_more_than_the_quick_tier_or_a_second_run_says_so(shell, monkeypatch, proven, line):
    with scripted(monkeypatch, proven):
        assert f"play.zeros  judged_output  {line}\n" in ask(shell, "--issue", "play.zeros").stdout


@pytest.mark.usefixtures("shell")
def test_the_counts_of_all_issues_add_up(monkeypatch):
    given = (
        ended("play.zeros", Outcome.FOUND),
        ended("play.idle", Outcome.PREVENTED),
        ended("play.brisk", Outcome.RECORDED),
        ended("play.kept", Outcome.NOT_OBSERVABLE, reason="needs cuda"),
        ended("play.spread", Outcome.NOT_OBSERVABLE, reason="needs gpus>=98"),
        ended("rest.broken", Outcome.NOT_OBSERVABLE, reason="needs cuda"),
    )
    with scripted(monkeypatch, *given):
        result = ask(shell_of(*ISSUES, cases=CASES[:1]), "--quiet")
    unseen = "3 not observable here (needs cuda: 2; needs gpus>=98: 1)"
    assert timeless(result.stdout).splitlines()[-1] == summary(
        7, "2 proven here (found 1, prevented 1)", recorded=1, unseen=unseen, unproven=1
    )


def test_what_has_no_attack_is_told_by_its_kind(shell):
    armed = Exclusion(construction="it has no arms", test="tests/test_arms.py::test_none")
    issues = issue("play.armed", excluded=armed), issue("play.flies", owed="a machine with wings"), *ISSUES
    result = ask(shell_of(*issues), "--quiet", "--issue", "play.armed", "--issue", "play.flies")
    assert result.exit_code == 0
    assert [line.split(maxsplit=5)[-1] for line in result.stdout.splitlines()[2:4]] == [
        "excluded by construction",
        "owed",
    ]
    assert "1 excluded by construction, 1 owed (proof to be recorded on another machine)" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--issue", "play.zeroes"], "'play.zeroes' is not a validity issue. Did you mean 'play.zeros'?"),
        (["--category", "rets"], "'rets' is not a validity issue. Did you mean 'rest'?"),
        (["--category", "play.zeros"], "'play.zeros' is not a validity issue. Did you mean 'play.zeros'?"),
        (
            ["--device", "cuda"],
            "The device 'cuda' was requested, but this machine has none. Leave out --device to try what can be tried on "
            "the CPU; see what is missing with: aiperf doctor",
        ),
    ],
)
def test_a_mistake_is_told(shell, arguments, message):
    result = ask(shell, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"aiperf: {message}\n")


def test_the_options_are_promised():
    (command,) = aiperf_commands()
    options = {
        "/".join(one.opts): (one.multiple, *getattr(one.type, "choices", ())) for one in command.resolve().params
    }
    assert options == {
        "--category": (True,),
        "--issue": (True,),
        "-d/--device": (False, "cpu", "cuda"),
        **dict.fromkeys(("--json", "-q/--quiet", "-v/--verbose", "--record"), (False,)),
    }


# --- what is kept of it


def test_results_are_kept_beside_earlier_ones(monkeypatch, tmp_path):
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    state = {"machine": "one"}
    keep(state, [ended("a.one", Outcome.FOUND, Outcome.FOUND), ended("a.two", MISSED)])
    keep(state, [ended("a.two", Outcome.PREVENTED), ended("a.three", Outcome.NOT_OBSERVABLE)])
    keep(state, [ended("a.one", Outcome.NOT_OBSERVABLE), ended("a.two", UNDECIDED)])
    kept = outcomes.read(state)
    assert {name: (one.outcome, one.by) for name, one in kept.items()} == {
        "a.one": (Outcome.FOUND, ["guarded:zeros"]),
        "a.two": (Outcome.PREVENTED, ["guarded:zeros"]),
        "a.three": (Outcome.NOT_OBSERVABLE, ["guarded:zeros"]),
    }
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", one.day) for one in kept.values())


def test_an_interrupted_selftest_keeps_what_was_done(shell, monkeypatch):
    with scripted(monkeypatch, ended("play.zeros", Outcome.FOUND), interrupted=True):
        assert ask(shell).exit_code == 130
    assert outcomes.read(outcomes.state(shell.plugins)).keys() == {"play.zeros"}


# --- recordings


@pytest.mark.usefixtures("shell")
def test_a_run_is_recorded_and_read_again(monkeypatch, tmp_path):
    """The guilty case of an issue that is owed, seen by the check of its guard in a real run."""

    def record(armed: Issue, *cases: Case) -> str:
        shell = shell_of(armed, issue("output.sound"), cases=cases)
        return ask(shell, "--record", str(folder), "--issue", "play.armed").stdout

    armed = Check("referee", lambda seen: [Seen("play.armed", "it is armed")] if seen.name == "brisk" else [])
    monkeypatch.setattr(recorder, "built_in", lambda: (armed,))
    monkeypatch.setattr(recorder, "TIER", "quick")
    owed = issue("play.armed", "referee", owed="a machine with arms")
    proofs = case("play.armed", "brisk"), case("play.armed", "as_idle", honest=True)
    folder = tmp_path / "recordings"
    first = record(owed, *proofs, case("play.armed", "zeros"), case("output.sound", "as_idle", honest=True))
    # What has been recorded is recorded again where it can be, also when it is no longer owed.
    assert record(evolve(owed, owed=None), *proofs).endswith(f"2 recordings written to {folder}\n")
    assert timeless(first) == (
        f"play.armed: {folder}/play.armed.json\n"
        f"play.armed: {folder}/play.armed.honest.json\n"
        "play.armed: not recorded: no check looked at zeros, which is INVALID: the output: relative L2 error N, largest element "
        "error N of its scale; allowed are 1e-06 and 1e-05\n"
        f"2 recordings written to {folder}\n"
    )
    guilty, kept = (recording.parse((folder / f"play.armed{kind}.json").read_bytes()) for kind in ("", ".honest"))
    assert guilty.evidence.name == "brisk"
    assert (kept.run, kept.evidence.name, kept.evidence.baseline.name) == ("guarded:as_idle on cpu", "as_idle", "idle")
    assert kept.evidence.state_before is None
    assert len(kept.evidence.samples.wall_s) >= 4
    assert kept.machine.keys() == {"cpu", "gpus", "driver", "system", "hypervisor"}
    written = (folder / "play.armed.json").read_text()
    assert str(Path(__file__).parents[3]) not in written
    assert str(Path(sys.prefix)) not in written

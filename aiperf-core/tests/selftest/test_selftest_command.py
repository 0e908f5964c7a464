"""`aiperf selftest` and what it keeps for `aiperf validity`, with cases of the tests."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_core.cli import validity
from aiperf_core.cli.main import Shell
from aiperf_core.commands import Command
from aiperf_core.errors import BundleError
from aiperf_core.harness.processes import child
from aiperf_core.plugins import Installed, Plugins, load_plugins
from aiperf_core.requirements import Hardware
from aiperf_core.selftest import outcomes, proof, recording, trials
from aiperf_core.selftest.outcomes import Outcome, Proof, Proven
from aiperf_core.selftest.sharing import Sharing
from aiperf_core.selftest.support import support
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import HARD, Exclusion, Issue

TARGETS = Path(__file__).parent / "targets"


def issue(name: str, guard: str, **other: Any) -> Issue:
    return Issue(id=name, title=name, happens="It happens.", guard=guard, protection="It is seen.", **other)


OURS = (
    issue("play.zeros", "judged_output", severity=HARD),
    issue("play.idle", "judged_output"),
    issue("play.brisk", "judged_output"),
    issue("play.kept", "fresh_values"),
    issue("play.spread", "judged_output", needs=("gpus>=98",)),
    issue("rest.alone", "judged_output"),
    issue("rest.broken", "judged_output"),
)


def case(name: str, implementation: str, **other: Any) -> Case:
    return Case(**{"issue": name, "module": "guarded", "implementation": implementation, **other})


PROVEN_OTHERWISE = (
    *OURS[:2],
    issue(
        "play.armed",
        "judged_output",
        excluded=Exclusion(construction="it has no arms", test="tests/test_arms.py::test_none"),
    ),
    issue("play.flies", "judged_output", owed="a machine with wings"),
    OURS[2],
)
EVIDENCE = Evidence(name="brisk", role="variant", device="cpu", clock="wall", cache="warm")
RECORDING = recording.Recording(
    command="aiperf selftest --record there",
    machine={"cpu": "2 x Acme 1", "gpus": "", "system": "Linux"},
    date="2026-01-02",
    versions={"torch": "1"},
    commit=None,
    run="guarded:brisk on cpu",
    evidence=EVIDENCE,
)

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


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """The command with the issues and the cases above, on a machine without a GPU, with a cache folder of its own."""
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    monkeypatch.setattr(trials.ProofPlanner, "hardware", Hardware())
    # What the standard tier adds is tested with scripted runs, and takes long.
    monkeypatch.setattr(Sharing, "tiers", lambda *_: ("quick",))
    monkeypatch.setattr(trials, "BUDGET_S", {"quick": 0.05})
    return shell_of(load_plugins([]), CASES)


def shell_of(plugins: Plugins, cases: Iterable[Case] = (), recorded: Iterable[Recorded] = ()) -> Shell:
    commands = {
        name: Installed(Command(name, "…", f"aiperf_core.cli.{name}:{name}"), "aiperf-core", "0")
        for name in ("selftest", "validity")
    }
    issues = {one.id: Installed(one, "aiperf-core", "0") for one in OURS}
    return Shell(
        evolve(
            plugins,
            commands=commands,
            issues=issues,
            attacks=tuple(Installed(one, "aiperf-acme", "0") for one in cases),
            recordings=tuple(Installed(one, "aiperf-acme", "0") for one in recorded),
        )
    )


def ask(shell: Shell, *arguments: str) -> Result:
    return CliRunner().invoke(shell, arguments)


def ask_selftest(shell: Shell, *arguments: str) -> Result:
    """Ask for a selftest; again where other work on the machine hid a gain, which `play.idle` does not have."""
    for _ in range(3):
        result = ask(shell, "selftest", *arguments)
        if not re.search(r"^(?!play\.idle).*INCONCLUSIVE", result.stdout, re.MULTILINE):
            break
    return result


def timeless(text: str) -> str:
    """Without the seconds that cases took, and what depends on them."""
    # In a table the column stays as wide as it was.
    text = re.sub(r" +\d+\.\d(?=  )", lambda found: "0.0".rjust(len(found[0])), text)
    text = re.sub(r"largest element error [\d.]+", "largest element error N", text)
    text = re.sub(r"(FASTER|SAME|SLOWER|INCONCLUSIVE) [\d.]+x", r"\1 Nx", text)
    text = re.sub(r"relative L2 error [\d.]+,", "relative L2 error N,", text)
    return re.sub(
        r"; \d+ s$", "; 0 s", re.sub(r", \d+\.\d s$", ", 0.0 s", text, flags=re.MULTILINE), flags=re.MULTILINE
    )


@contextmanager
def scripted(monkeypatch: pytest.MonkeyPatch, *results: Proven) -> Iterator[None]:
    """Without processes: the issues end as given."""

    class NoPlanner:
        def __init__(self, options: object, folder: object, *, server: object) -> None: ...

        def __enter__(self) -> "NoPlanner":
            return self

        def __exit__(self, *_: object) -> None: ...

        hardware = Hardware()

    given = {one.issue: one for one in results}

    def prove(self: object, chosen: list[Issue], cases: object, recorded: object) -> Iterator[Proven]:
        for one in chosen:
            yield given.get(one.id, Proven(issue=one.id, guard=one.guard))

    with monkeypatch.context() as patch:
        patch.setattr(trials, "ProofPlanner", NoPlanner)
        patch.setattr(child, "ForkServer", lambda preload: None)
        patch.setattr(proof.Prover, "prove", prove)
        yield


def ended(name: str, *outcomes: Outcome, honest: bool = False, **other: Any) -> Proven:
    proofs = [Proof(case="guarded:zeros", honest=honest, device="cpu", outcome=one, **other) for one in outcomes]
    return Proven(issue=name, guard="judged_output", proofs=tuple(proofs))


# --- the command


@pytest.mark.proof
def test_every_outcome_by_category_with_its_reason(shell):
    result = ask_selftest(shell)
    assert result.exit_code == 3, result.output
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
        "8 issues: 1 proven here (found 1, prevented 0), 0 on recorded evidence, 0 excluded by construction, 0 owed (proof to "
        "be recorded on another machine), 1 not observable here (needs gpus>=98: 1), 1 unproven (no case), 2 missed, 1 honest look-alike wrongly flagged, 2 not tried for errors; 0 s\n"
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
    result = ask_selftest(shell, *issues, "--device", "cpu", "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found.keys() == {"summary", "device", "seconds", "counts", "issues"}
    assert timeless(found["summary"]) == (
        "2 issues: 1 proven here (found 1, prevented 0), 0 on recorded evidence, 0 excluded by construction, 0 owed (proof to "
        "be recorded on another machine), 0 not observable here, 1 unproven (no case), 0 missed, 0 honest look-alikes wrongly flagged; 0 s"
    )
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


@pytest.mark.parametrize(
    ("outcome", "honest", "code"),
    [
        (Outcome.FOUND, False, 0),
        (Outcome.PREVENTED, False, 0),
        (Outcome.RECORDED, False, 0),
        (Outcome.NOT_OBSERVABLE, False, 0),
        (Outcome.CLEARED, True, 0),
        (Outcome.ERROR, False, 1),
        (Outcome.ERROR, True, 1),
        (Outcome.UNDECIDED, False, 5),
        (Outcome.MISSED, False, 3),
        (Outcome.VOID, False, 3),
        (Outcome.FLAGGED, True, 3),
    ],
)
def test_exit_codes(shell, monkeypatch, outcome, honest, code):
    with scripted(monkeypatch, ended("play.zeros", outcome, honest=honest, reason="needs cuda")):
        assert ask(shell, "selftest", "--category", "play", "--quiet").exit_code == code


def test_what_is_missed_comes_before_errors(shell, monkeypatch):
    undecided = ended("play.idle", Outcome.UNDECIDED)
    with scripted(monkeypatch, ended("play.zeros", Outcome.ERROR), undecided, ended("play.kept", Outcome.MISSED)):
        assert ask(shell, "selftest", "--category", "play").exit_code == 3
    with scripted(monkeypatch, undecided, ended("play.zeros", Outcome.ERROR)):
        assert ask(shell, "selftest", "--category", "play").exit_code == 1


@pytest.mark.usefixtures("shell")
def test_what_is_not_decided_is_listed_and_counted_apart(monkeypatch):
    busy = "other processes kept 40 % of the processors busy: FASTER Nx with all guards on"
    given = ended("play.zeros", Outcome.FOUND), ended("play.kept", Outcome.UNDECIDED, reason=busy)
    with scripted(monkeypatch, *given):
        result = ask(shell_of(load_plugins([]), CASES[:1]), "selftest", "--issue", "play.zeros", "--issue", "play.kept")
    assert "play.kept   judged_output  not decided here  none" in result.stdout
    assert timeless(result.stdout).splitlines()[-3:] == [
        f"play.kept: attack guarded:zeros on cpu: not decided here: {busy}",
        "",
        "2 issues: 1 proven here (found 1, prevented 0), 0 on recorded evidence, 0 excluded by construction, 0 owed (proof to "
        "be recorded on another machine), 0 not observable here, 0 unproven (no case), 0 missed, 0 honest look-alikes wrongly "
        "flagged, 1 not decided here (try again on a quiet machine); 0 s",
    ]


@pytest.mark.parametrize(
    ("tier", "told"),
    [("quick", "-"), ("one-round", "in one round of the standard tier"), ("standard", "in the standard tier")],
)
def test_what_needs_more_than_the_quick_tier_says_so(shell, monkeypatch, tier, told):
    with scripted(monkeypatch, ended("play.zeros", Outcome.FOUND, tier=tier)):
        result = ask(shell, "selftest", "--issue", "play.zeros")
    assert f"play.zeros  judged_output  found   none                   0.0  {told}\n" in result.stdout


def test_a_look_alike_that_was_flagged_at_first_is_told_of(shell, monkeypatch):
    with scripted(
        monkeypatch, ended("play.zeros", Outcome.CLEARED, honest=True, reason="only when tried again; at first X")
    ):
        result = ask(shell, "selftest", "--issue", "play.zeros")
    line = (
        "play.zeros  judged_output  none    not flagged            0.0  not flagged only when tried again; at first X\n"
    )
    assert line in result.stdout


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
        result = ask(shell_of(load_plugins([]), CASES[:1]), "selftest", "--quiet")
    assert timeless(result.stdout).splitlines()[-1] == (
        "7 issues: 2 proven here (found 1, prevented 1), 1 on recorded evidence, 0 excluded by construction, 0 owed (proof to "
        "be recorded on another machine), 3 not observable here (needs cuda: 2; needs gpus>=98: 1), 1 unproven (no case), 0 missed, 0 honest look-alikes wrongly flagged; 0 s"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--issue", "play.zeroes"], "aiperf: 'play.zeroes' is not a validity issue. Did you mean 'play.zeros'?\n"),
        (["--category", "rets"], "aiperf: 'rets' is not a validity issue. Did you mean 'rest'?\n"),
        (["--category", "play.zeros"], "aiperf: 'play.zeros' is not a validity issue. Did you mean 'play.zeros'?\n"),
        (
            ["--device", "cuda"],
            "aiperf: The device 'cuda' was requested, but this machine has none. Leave out --device to try what can be tried on "
            "the CPU; see what is missing with: aiperf doctor\n",
        ),
    ],
)
def test_a_mistake_is_told(shell, arguments, message):
    result = ask(shell, "selftest", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


# --- what is kept of it


def test_validity_shows_what_was_proven_here(shell, monkeypatch):
    before = ask(shell, "validity", "play")
    assert before.stdout == (
        "5 issues in 1 category behind 2 guards: 5 attacked in a run, 0 recorded on a named machine, 0 excluded by "
        "construction, 0 owed\n"
        "0 proven on this machine; try them: aiperf selftest\n"
        "\n"
        "play (5)\n"
        "issue        guard          needs     proof           title\n"
        "play.zeros   judged_output  -         not tried here  play.zeros\n"
        "play.idle    judged_output  -         not tried here  play.idle\n"
        "play.brisk   judged_output  -         not tried here  play.brisk\n"
        "play.kept    fresh_values   -         not tried here  play.kept\n"
        "play.spread  judged_output  gpus>=98  not tried here  play.spread\n"
    )
    given = (
        ended("play.zeros", Outcome.FOUND),
        ended("play.idle", Outcome.MISSED),
        ended("play.brisk", Outcome.RECORDED),
        ended("play.kept", Outcome.NOT_OBSERVABLE, reason="needs cuda"),
    )
    with scripted(monkeypatch, *given):
        ask(shell, "selftest", "--category", "play")
    after = re.sub(r"\d{4}-\d\d-\d\d", "YYYY-MM-DD", ask(shell, "validity", "play").stdout)
    assert after.splitlines()[1:] == [
        "1 proven on this machine",
        "",
        "play (5)",
        "issue        guard          needs     proof                             title",
        "play.zeros   judged_output  -         proven here on YYYY-MM-DD         play.zeros",
        "play.idle    judged_output  -         missed on YYYY-MM-DD              play.idle",
        "play.brisk   judged_output  -         on recorded evidence, YYYY-MM-DD  play.brisk",
        "play.kept    fresh_values   -         not observable on YYYY-MM-DD      play.kept",
        "play.spread  judged_output  gpus>=98  not tried here                    play.spread",
    ]
    shown = re.sub(r"\d{4}-\d\d-\d\d", "YYYY-MM-DD", ask(shell, "validity", "play.zeros").stdout)
    assert shown.splitlines()[-3:] == [
        "attack             guarded:zeros (cpu)",
        "honest look-alike  guarded:brisk (cpu)",
        "proof              proven here on YYYY-MM-DD by guarded:zeros",
    ]
    shown = ask(shell, "validity", "play.spread").stdout
    assert shown.splitlines()[-1] == "proof       not tried here; try it: aiperf selftest --issue play.spread"
    (document,) = json.loads(ask(shell, "validity", "play.zeros", "--json").stdout)
    assert (document["attacks"], document["look_alikes"]) == (["guarded:zeros (cpu)"], ["guarded:brisk (cpu)"])
    assert (document["kind"], document["recordings"]) == ("attacked in a run", [])
    assert document["tried_here"].keys() == {"outcome", "day", "by"}
    (document,) = json.loads(ask(shell, "validity", "rest.alone", "--json").stdout)
    assert document["tried_here"] is None


STATE = {"machine": "one"}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "selftest"


def test_results_are_kept_beside_earlier_ones(folder):
    outcomes.write(STATE, [ended("a.one", Outcome.FOUND, Outcome.FOUND), ended("a.two", Outcome.MISSED)])
    outcomes.write(STATE, [ended("a.two", Outcome.PREVENTED), ended("a.three", Outcome.NOT_OBSERVABLE)])
    outcomes.write(STATE, [ended("a.one", Outcome.NOT_OBSERVABLE), ended("a.two", Outcome.UNDECIDED)])
    kept = outcomes.read(STATE)
    assert {name: (one.outcome, one.by) for name, one in kept.items()} == {
        "a.one": (Outcome.FOUND, ["guarded:zeros"]),
        "a.two": (Outcome.PREVENTED, ["guarded:zeros"]),
        "a.three": (Outcome.NOT_OBSERVABLE, ["guarded:zeros"]),
    }
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", one.day) for one in kept.values())


def test_what_was_kept_in_another_state_is_not_shown(folder):
    outcomes.write(STATE, [ended("a.one", Outcome.FOUND)])
    assert outcomes.read({"machine": "another"}) == {}
    (file,) = folder.iterdir()
    file.write_text(file.read_text().replace('"machine": "one"', '"machine": "other"'))
    assert outcomes.read(STATE) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": {}, "issues": {"a.one": {"outcome": "fine"}}}'])
def test_a_file_that_is_damaged_is_no_file(folder, text):
    outcomes.write(STATE, [ended("a.one", Outcome.FOUND)])
    (file,) = folder.iterdir()
    file.write_text(text)
    assert outcomes.read(STATE) == {}


def test_a_folder_that_cannot_be_written_to_keeps_nothing(folder):
    folder.parent.write_text("a file")
    outcomes.write(STATE, [ended("a.one", Outcome.FOUND)])
    assert outcomes.read(STATE) == {}


def test_an_interrupted_selftest_keeps_what_was_done(shell, monkeypatch):
    def prove(self: object, chosen: list[Issue], cases: object, recorded: object) -> Iterator[Proven]:
        yield ended("play.zeros", Outcome.FOUND)
        raise KeyboardInterrupt

    plugins = shell.plugins
    with scripted(monkeypatch), pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof.Prover, "prove", prove)
        assert ask(shell, "selftest").exit_code == 130
    assert outcomes.read(outcomes.state(plugins)).keys() == {"play.zeros"}


@pytest.mark.parametrize("name", ["guard.py", "guards.toml"])
def test_the_state_is_that_of_the_sources(tmp_path, name):
    plugins = load_plugins([])
    before = outcomes.state(plugins)
    assert before.keys() == {"format", "machine", "processor", "gpus", "driver", "torch", "sources", "plugins"}
    assert before == outcomes.state(plugins)
    (tmp_path / name).write_text("x = 1\n")
    first = outcomes._digest(tmp_path)
    (tmp_path / name).write_text("x = 2\n")
    assert outcomes._digest(tmp_path) != first


# --- the page of the documentation


def test_cases_stand_beside_what_they_prove(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_recordings").mkdir()
    (tmp_path / "acme_recordings" / "play.idle.json").write_bytes(recording.to_bytes(RECORDING))
    cases = (*CASES[:2], evolve(CASES[0], device="cuda"))
    recorded = (Recorded(issue="play.idle", file="acme_recordings:play.idle.json"),)
    text = validity.page(PROVEN_OTHERWISE, lambda one: support(one, cases, recorded))
    assert (
        "5 issues in 1 category behind 1 guard: 1 attacked in a run, 1 recorded on a named machine, 1 excluded by "
        "construction, 1 owed, 1 no proof yet.\n"
    ) in text
    lines = [
        line
        for line in text.splitlines()
        if re.match("- (attack|honest look-alike|recorded|excluded|test|owed|proof)", line)
    ]
    assert lines == [
        "- attack: `guarded:zeros` (cpu, cuda)",
        "- honest look-alike: `guarded:brisk` (cpu)",
        "- recorded on 2 x Acme 1, Linux, 2026-01-02, by `aiperf selftest --record there`: guarded:brisk on cpu",
        "- excluded: it has no arms",
        "- test: `tests/test_arms.py::test_none`",
        "- owed: to be recorded on a machine with wings",
        "- proof: none yet",
    ]


def test_what_has_no_attack_is_told_by_its_kind(shell):
    plugins = shell.plugins
    issues = {one.id: Installed(one, "aiperf-core", "0") for one in PROVEN_OTHERWISE}
    result = ask(
        Shell(evolve(plugins, issues=issues)), "selftest", "--quiet", "--issue", "play.armed", "--issue", "play.flies"
    )
    assert result.exit_code == 0
    assert [line.split(maxsplit=5)[-1] for line in result.stdout.splitlines()[2:4]] == [
        "excluded by construction",
        "owed",
    ]
    assert "1 excluded by construction, 1 owed (proof to be recorded on another machine)" in result.stdout


# --- recordings


def test_without_attacks_the_command_says_how_to_get_them():
    result = ask(shell_of(load_plugins([])), "selftest")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "aiperf: no attacks are installed, so nothing can be proven. Install them, in a clone of aiperf: pip install -e ./aiperf-redteam\n"
    )


def test_a_run_is_recorded_and_read_again(shell, lend, monkeypatch, tmp_path):
    """The guilty case of an issue that is owed, seen by the check of its guard in a real run."""

    def record(issues, cases):
        plugins = evolve(shell_of(shell.plugins, cases).plugins, issues=issues)
        return ask(Shell(plugins), "selftest", "--record", str(folder), "--issue", "play.armed").stdout

    found = Check("referee", lambda seen: [Seen("play.armed", "it is armed")] if seen.name == "brisk" else [])
    monkeypatch.setattr(recording, "built_in", lambda: (found,))
    owed = issue("play.armed", "referee", owed="a machine with arms")
    sound = issue("output.sound", "judged_output")
    proofs = case("play.armed", "brisk"), case("play.armed", "as_idle", honest=True)
    issues = {one.id: Installed(one, "aiperf-core", "0") for one in (owed, sound)}
    folder = tmp_path / "recordings"
    monkeypatch.setattr(recording, "TIER", "quick")
    with lend() as server:
        planner = trials.ProofPlanner
        monkeypatch.setattr(trials, "ProofPlanner", lambda *given: planner(*given, server=server()))
        others = case("play.armed", "zeros"), case("output.sound", "as_idle", honest=True)
        first = record(issues, (*proofs, *others))
        # What has been recorded is recorded again where it can be, also when it is no longer owed.
        again = record(issues | {"play.armed": Installed(evolve(owed, owed=None), "aiperf-core", "0")}, proofs)
    assert again.endswith(f"2 recordings written to {folder}\n")
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


@pytest.mark.parametrize("data", [b"", b"{}", b'{"command": 1}', b"[1]"])
def test_a_file_that_is_no_recording(data):
    with pytest.raises(
        BundleError, match="this is no recording of this version: .*Record it again: aiperf selftest --record"
    ):
        recording.parse(data)

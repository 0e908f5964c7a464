"""The proof behind each issue: what is kept of a selftest, what `aiperf validity` shows of it, and recordings."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_core.cli import validity
from aiperf_core.cli.main import Shell
from aiperf_core.errors import BundleError
from aiperf_core.plugins import Installed, Plugins, load_plugins
from aiperf_core.proofs import outcomes, recording
from aiperf_core.proofs.outcomes import Kept, Outcome
from aiperf_core.proofs.support import support
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import Exclusion, Issue

ZEROS = ["guarded:zeros"]


def issue(name: str, **other: Any) -> Issue:
    return Issue(id=name, title=name, happens="It happens.", guard="judged_output", protection="It is seen.", **other)


def case(name: str, implementation: str, **other: Any) -> Case:
    return Case(issue=name, module="acme.guarded", implementation=implementation, **other)


ISSUES = (
    issue("play.zeros"),
    issue("play.idle"),
    issue("play.brisk"),
    issue("play.kept"),
    issue("play.spread", needs=("gpus>=98",)),
    issue("rest.alone"),
)
CASES = (*(case(one.id, "zeros") for one in ISSUES[:5]), case("play.zeros", "brisk", honest=True))


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plugins:
    """The issues and cases above, with a cache folder of their own."""
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").touch()
    return evolve(
        load_plugins([]),
        issues={one.id: Installed(one, "aiperf-core", "0") for one in ISSUES},
        attacks=tuple(Installed(one, "aiperf-acme", "0") for one in CASES),
    )


def test_validity_shows_what_was_proven_here(plugins):
    def ask(*arguments: str) -> list[str]:
        text = CliRunner().invoke(Shell(plugins), ["validity", *arguments]).stdout
        return re.sub(r"\d{4}-\d\d-\d\d", "YYYY-MM-DD", text).splitlines()

    assert ask("play") == [
        "Issues and guards",
        "5 issues in 1 category behind 1 guard: 5 attacked in a run, 0 recorded on a named machine, 0 excluded by "
        "construction, 0 owed",
        "0 proven on this machine; try them: aiperf selftest",
        "",
        "play (5)",
        "issue        guard          needs     proof           title",
        "play.zeros   judged_output  -         not tried here  play.zeros",
        "play.idle    judged_output  -         not tried here  play.idle",
        "play.brisk   judged_output  -         not tried here  play.brisk",
        "play.kept    judged_output  -         not tried here  play.kept",
        "play.spread  judged_output  gpus>=98  not tried here  play.spread",
    ]
    kept = {"zeros": Outcome.FOUND, "idle": Outcome.MISSED, "brisk": Outcome.RECORDED, "kept": Outcome.NOT_OBSERVABLE}
    outcomes.write(
        outcomes.state(plugins), {f"play.{name}": Kept(one, "2026-01-02", ZEROS) for name, one in kept.items()}
    )
    assert ask("play")[2:] == [
        "1 proven on this machine",
        "",
        "play (5)",
        "issue        guard          needs     proof                             title",
        "play.zeros   judged_output  -         proven here on YYYY-MM-DD         play.zeros",
        "play.idle    judged_output  -         missed on YYYY-MM-DD              play.idle",
        "play.brisk   judged_output  -         on recorded evidence, YYYY-MM-DD  play.brisk",
        "play.kept    judged_output  -         not observable on YYYY-MM-DD      play.kept",
        "play.spread  judged_output  gpus>=98  not tried here                    play.spread",
    ]
    assert ask("play.zeros")[-3:] == [
        "attack             guarded:zeros (cpu)",
        "honest look-alike  guarded:brisk (cpu)",
        "proof              proven here on YYYY-MM-DD by guarded:zeros",
    ]
    assert ask("play.spread")[-1] == "proof       not tried here; try it: aiperf selftest --issue play.spread"
    (document,) = json.loads("\n".join(ask("play.zeros", "--json")))
    assert (document["attacks"], document["look_alikes"]) == (["guarded:zeros (cpu)"], ["guarded:brisk (cpu)"])
    assert (document["kind"], document["recordings"]) == ("attacked in a run", [])
    assert document["tried_here"] == {"outcome": "found", "day": "YYYY-MM-DD", "by": ZEROS}
    (document,) = json.loads("\n".join(ask("rest.alone", "--json")))
    assert document["tried_here"] is None


# --- what is kept

STATE = {"machine": "one"}
KEPT = {"a.one": Kept(Outcome.FOUND, "2026-01-02", ZEROS)}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "selftest"


def test_what_was_kept_in_another_state_is_not_shown(folder):
    outcomes.write(STATE, KEPT)
    assert outcomes.read(STATE) == KEPT
    assert outcomes.read({"machine": "another"}) == {}
    (file,) = folder.iterdir()
    file.write_text(file.read_text().replace('"machine": "one"', '"machine": "other"'))
    assert outcomes.read(STATE) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": {}, "issues": {"a.one": {"outcome": "fine"}}}'])
def test_a_file_that_is_damaged_is_no_file(folder, text):
    outcomes.write(STATE, KEPT)
    (file,) = folder.iterdir()
    file.write_text(text)
    assert outcomes.read(STATE) == {}


def test_a_folder_that_cannot_be_written_to_keeps_nothing(folder):
    folder.parent.write_text("a file")
    outcomes.write(STATE, KEPT)
    assert outcomes.read(STATE) == {}


@pytest.mark.parametrize("name", ["guard.py", "guards.toml"])
def test_the_state_is_that_of_the_machine_and_the_sources(plugins, tmp_path, name):
    first = outcomes.state(plugins)
    assert first == outcomes.state(plugins)
    machine = {"format", "machine", "processor", "gpus", "driver", "torch", "plugins"}
    assert first.keys() == machine | {"aiperf_core", "acme"}
    (tmp_path / "acme" / name).write_text("x = 1\n")
    second = outcomes.state(plugins)
    assert {key for key in second if second[key] != first[key]} == {"acme"}


# --- the page of the documentation, and recordings

RECORDING = recording.Recording(
    command="aiperf selftest --record there",
    machine={"cpu": "2 x Acme 1", "gpus": "", "system": "Linux"},
    date="2026-01-02",
    versions={"torch": "1"},
    commit=None,
    run="guarded:brisk on cpu",
    evidence=Evidence(name="brisk", role="variant", device="cpu", clock="wall", cache="warm"),
)


def test_cases_stand_beside_what_they_prove(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_recordings").mkdir()
    (tmp_path / "acme_recordings" / "play.idle.json").write_bytes(recording.to_bytes(RECORDING))
    cases = (CASES[0], CASES[-1], evolve(CASES[0], device="cuda"))
    recorded = (Recorded(issue="play.idle", file="acme_recordings:play.idle.json"),)
    armed = Exclusion(construction="it has no arms", test="tests/test_arms.py::test_none")
    owed = issue("play.flies", owed="a machine with wings")
    every = (*ISSUES[:2], issue("play.armed", excluded=armed), owed, ISSUES[2])
    text = validity.page(every, lambda one: support(one, cases, recorded))
    assert (
        "5 issues in 1 category behind 1 guard: 1 attacked in a run, 1 recorded on a named machine, 1 excluded by "
        "construction, 1 owed, 1 no proof yet.\n"
    ) in text
    assert re.findall(r"^- (?:attack|honest look-alike|recorded|excluded|test|owed|proof).*", text, re.MULTILINE) == [
        "- attack: `guarded:zeros` (cpu, cuda)",
        "- honest look-alike: `guarded:brisk` (cpu)",
        "- recorded on 2 x Acme 1, Linux, 2026-01-02, by `aiperf selftest --record there`: guarded:brisk on cpu",
        "- excluded: it has no arms",
        "- test: `tests/test_arms.py::test_none`",
        "- owed: to be recorded on a machine with wings",
        "- proof: none yet",
    ]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"command": 1}', b"[1]"])
def test_a_file_that_is_no_recording(data):
    with pytest.raises(
        BundleError, match="this is no recording of this version: .*Record it again: aiperf selftest --record"
    ):
        recording.parse(data)

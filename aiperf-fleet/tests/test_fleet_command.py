"""`aiperf fleet` on three machines that measure nothing."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from attrs import evolve
from fleet_command import bundles, endings, resume, run, state, suite_of

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.results.bundle import Bundle
from aiperf_fleet import keeping, records, schema
from aiperf_fleet.cli.common import check_store
from aiperf_fleet.cli.fleet import fleet
from aiperf_fleet.cli.init import RECIPES
from aiperf_fleet.suite import FORMAT, Suite


def test_bundles_come_back_sealed_one_a_task(called, targets):
    code, printed = run(called, suite_of(targets, "repeats = 4\n"))
    assert code == 0, printed
    assert len(bundles()) == 12
    assert set(bundles().values()) == {"m1", "m2", "m3"}
    assert printed.endswith("COMPLETE: 12 of 12 bundles in f/runs\n")
    assert called("status", "f")[0] == 0
    assert state()["state"] == "COMPLETE"
    # Nothing is left of what was delivered.
    assert [one.name for one in Path("f/exchange").iterdir()] == []
    assert run(called, suite_of(targets)) == (
        2,
        "aiperf: 'f' has a fleet. Continue it: aiperf fleet resume f. A new one needs another --out.\n",
    )


def test_a_lost_task_starts_elsewhere_and_a_failed_one_does_not_start_again(called, targets, stub):
    first, second, *_ = targets
    (stub / f"die.{first}").touch()
    (stub / f"fail.{second}").touch()
    code, printed = run(called, suite_of([first, second]))
    assert code == 1
    assert endings() == [["LOST", "DONE"], ["FAILED"]]
    lost, done = (one["machine"] for one in state()["tasks"][0]["attempts"])
    assert lost != done
    assert f"0001-{first}: lost on {lost}: nothing was delivered (exit code -9): the end of the log\n" in printed
    assert "PARTIAL: 1 of 2 bundles in f/runs; 1 missing. Try these again: aiperf fleet resume f\n" in printed
    (stub / f"fail.{second}").unlink()
    assert resume(called)[0] == 1
    assert endings() == [["LOST", "DONE"], ["FAILED"]]
    assert state()["tasks"][1]["attempts"][0]["reason"] == "no such target: the end of the log"


def test_a_machine_that_goes_down_loses_no_task(called, targets, stub):
    (stub / "down.m1").touch()
    assert run(called, suite_of(targets))[0] == 0
    assert set(bundles().values()) == {"m2", "m3"}


def test_a_task_that_is_lost_twice_is_given_up(called, targets, stub, monkeypatch):
    monkeypatch.setattr("stub_machine.main", lambda order: 1)
    code, printed = run(called, suite_of(targets[:1]))
    assert code == 1
    assert endings() == [["LOST", "LOST"]]
    assert f"0001-{targets[0]}: given up: lost 2 times\n" in printed


def test_machines_that_are_not_fit_hand_back(called, targets, stub):
    for name in ("m1", "m2", "m3"):
        (stub / f"unfit.{name}").touch()
    code, printed = run(called, suite_of(targets[:1], "hand_backs = 2\n"))
    assert code == 1
    assert endings() == [["UNFIT"] * 3]
    assert f"0001-{targets[0]}: given up: handed back 3 times\n" in printed
    (stub / "unfit.m2").unlink()
    assert resume(called)[0] == 0
    assert list(bundles().values()) == ["m2"]


def test_a_machine_that_is_never_fit_gets_no_more_tasks(called, targets, stub):
    (stub / "unfit.m1").write_text("lasting")
    assert run(called, suite_of(targets, "repeats = 3\n"))[0] == 0
    assert sum(one["machine"] == "m1" for task in state()["tasks"] for one in task["attempts"]) <= 2
    for name in ("m2", "m3"):
        (stub / f"unfit.{name}").write_text("lasting")
    code, printed = run(called, suite_of(targets, "patience_s = 0.1\n"), out="g")
    assert code == 1
    assert printed.count("given up: no machine took it for 0 s") == 3


def test_classes(called, targets):
    assert run(called, suite_of(targets, 'classes = ["fast"]\nrepeats = 2\n'))[0] == 0
    assert set(bundles().values()) == {"m1", "m2"}
    assert run(called, suite_of(targets, 'classes = ["h200", "fast"]\n'), out="g") == (
        2,
        "aiperf: no machine has the class 'h200'. The engine has 3 machines with the classes: fast. Change 'classes' of the suite; "
        "'any' stands for all machines.\n",
    )


def test_a_slow_machine_is_named_and_no_other(called, targets, stub):
    (stub / "slow.m2").write_text("1.1")
    code, printed = run(called, suite_of(targets, 'machines = "each"\n'))
    assert code == 0
    document = json.loads(called("status", "f", "--json")[1])
    assert [one["machine"] for one in document["machines"]["machines"] if one["slow"]] == ["m2"]
    assert [line.split()[0] for line in printed.splitlines() if line.endswith("SLOW")] == ["m2"]


def test_an_engine_that_is_silent_for_a_while(called, targets, stub):
    (stub / "silent").touch()
    code, printed = run(called, suite_of(targets))
    assert code == 0
    assert printed.count("the engine does not answer: the controller does not answer\n") == 1
    assert len(bundles()) == 3


def test_a_bundle_that_is_damaged_on_its_way_is_measured_again(called, targets, monkeypatch):
    import stub_machine

    whole, broken = stub_machine.main, []

    def cut(order):
        code = whole(order)
        if not broken:
            path = Path(stub_machine.os.environ["AIPERF_FLEET_RESULT"])
            broken.append(path.write_bytes(path.read_bytes()[:-20_000]))
        return code

    monkeypatch.setattr(stub_machine, "main", cut)
    code, printed = run(called, suite_of(targets[:1]))
    assert code == 0
    assert endings() == [["LOST", "DONE"]]
    assert f"0001-{targets[0]}: lost on m1: what was delivered is damaged: the body is no" in printed


def test_the_longest_task_comes_first(called, targets, stub):
    """As earlier runs say; what never ran comes before all others."""
    assert run(called, suite_of(targets[:1]))[0] == 0
    file = next(Path("f/runs").iterdir())
    Path("history").mkdir()
    file.rename("history/run")
    code, printed = run(called, suite_of(targets[:2]), "--dry-run", "--history", "history", out="g")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[1:]] == [f"0001-{targets[1]}", f"0002-{targets[0]}"]
    assert printed.splitlines()[2].endswith("12.3")
    assert not Path("g").exists()


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ('machines = "some"', "machines is \"some\"; accepted: one of 'any', 'each'."),
        ("attempts = 0", "attempts is 0; accepted: an integer from 1 to 10."),
        ('classes = ["a,b"]', 'classes[0] is "a,b"; accepted: a name of letters, digits, _ and -.'),
        ('kinds = { cpu = "x" }', "kinds is \"cpu\"; accepted: a class of 'classes' other than any."),
        ('exec = "ls"', "exec is a command; accepted: targets only; a suite runs no command."),
    ],
)  # fmt: skip
def test_a_suite_that_is_wrong(called, suite, message):
    text = f'name = "n"\ntargets = ["x"]\n{suite}\n'
    assert run(called, text) == (2, f"aiperf: suite.toml:3: {message} All fields: aiperf schema fleet-suite\n")


def test_the_schemas_that_ship_are_those_of_the_records(called, targets, plugins):
    jsonschema = pytest.importorskip("jsonschema")
    shipped = {one.name: json.loads(one.read_text()) for one in schema.FOLDER.iterdir()}
    assert shipped == schema.generate()
    every = {**plugins.schemas, **plugins.documents}
    contributed = {name: json.loads(one.record.read_schema()) for name, one in every.items() if one.record.schema}
    assert contributed.items() >= {name.removesuffix("-1.json"): one for name, one in shipped.items()}.items()
    suite, fleet = (jsonschema.Draft202012Validator(contributed[name]) for name in ("fleet-suite", "fleet-file"))
    suite.validate(tomllib.loads(called("init")[1]))
    assert not suite.is_valid({"name": "n", "targets": ["x"], "attempts": 11})
    assert run(called, suite_of(targets[:1]))[0] == 0
    fleet.validate(state())
    assert not fleet.is_valid({**state(), "state": "FINE"})
    result = contributed["fleet"]
    for one in (fleet.schema, *fleet.schema["$defs"].values(), result, *result["$defs"].values()):
        described = ("description" in field or "$ref" in field for field in one.get("properties", {}).values())
        assert all(described), one["title"]


def test_other_mistakes(called, targets):
    assert called("run", "none.toml")[1].startswith("aiperf: cannot read the suite 'none.toml': No such file")
    assert called("status", ".")[1].startswith("aiperf: '.' is no fleet: fleet.json cannot be read")
    code, printed = run(called, suite_of(targets), "--on", "mesos")
    assert (code, printed.partition(";")[0]) == (2, "aiperf: 'mesos' is not a fleet")
    code, printed = run(called, suite_of(targets), "--on", "here", "--engine", "partition=gpu")
    assert (code, printed) == (2, "aiperf: 'partition' is no option of the engine 'here'. It has: none.\n")
    code, printed = run(called, suite_of(targets), "--engine", "partition")
    assert printed == "aiperf: --engine takes NAME=VALUE, such as partition=gpu; got 'partition'.\n"
    Path("fleet.json").write_text("{")
    assert called("status", ".")[1].startswith("aiperf: 'fleet.json' is damaged: ")


@pytest.mark.parametrize(
    "name",
    ["../../outside/pwned", "/tmp/pwned", "a/b", "..", ".hidden", "", "a\0b", "a\n", "x" * 101, "a\x1b[2J", "-rf"],
)
def test_a_task_of_a_copied_fleet_cannot_lead_out_of_its_folder(called, targets, name):
    def there():
        return {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}

    assert run(called, suite_of(targets))[0] == 0
    document = Bundle(Path("f/bundle")).document("fleet", "n")
    document.payload["tasks"][0]["id"] = name
    file = state()
    file["tasks"][0] |= {"id": name, "attempts": [{**file["tasks"][0]["attempts"][0], "ending": "OPEN"}]}
    Path("f/fleet.json").write_text(json.dumps({**file, "state": "OPEN"}))
    shown = json.dumps(name) if len(name) < 60 else f'"{"x" * 49}... (103 characters)'
    wrong = f"at tasks[0].id: found {shown}; expected a name such as '0001-ch07.memory_access'"
    before = there()
    for command in ("status", "collect", "resume", "cancel"):
        code, printed = called(command, "f")
        assert (code, printed.replace("\\\\", "\\")) == (
            1,
            f"aiperf: 'f/fleet.json' is damaged: {wrong}. Start a new fleet: aiperf fleet run\n",
        )
    assert there() == before
    with pytest.raises(BundleError) as caught:
        keeping.read(document)
    assert str(caught.value) == f"'fleet/n' holds no fleet of format 1: {wrong}"


def test_the_printed_suite_can_be_read(called):
    Path("suite.toml").write_text(called("init")[1])
    assert isinstance(FORMAT.read(Path("suite.toml")), Suite)


def test_on_this_machine_a_process_does_the_task(called, targets, stub):
    Path("suite.toml").write_text(suite_of(targets[:1]))
    code, printed = called("run", "suite.toml", "--out", "f", "--python", "stub/python", "--poll", "0.05")
    assert code == 0, printed
    assert len(bundles()) == 1


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("slurm", "missing-program not found; run this on a machine from which jobs are submitted"),
        ("ray", "ray is not installed: pip install 'aiperf-fleet[ray]'"),
    ],
)
def test_an_engine_that_is_not_installed(called, targets, engine, message, monkeypatch):
    monkeypatch.setattr("aiperf_fleet.engines.slurm.PROGRAMS", ("missing-program",))
    monkeypatch.setattr("aiperf_fleet.engines.ray.find_spec", lambda name: None)
    assert run(called, suite_of(targets), "--on", engine) == (
        2,
        f"aiperf: the engine '{engine}' cannot be used: {message}\n",
    )


@pytest.mark.parametrize("what", ["kubernetes", "skypilot"])
def test_recipes_have_the_form_of_their_kind(called, what):
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load(called("init", what)[1])
    if what == "kubernetes":
        assert (document["apiVersion"], document["kind"]) == ("batch/v1", "Job")
        pod = document["spec"]["template"]["spec"]
        mounted = {one["name"] for one in pod["containers"][0]["volumeMounts"]}
        assert mounted == {one["name"] for one in pod["volumes"]}
    else:
        assert {"resources", "setup", "run"} <= document.keys()


@pytest.mark.parametrize("what", list(RECIPES))
def test_recipes_use_options_that_there_are(called, what):
    text = called("init", what)[1].replace("\\\n", " ")
    lines = re.findall(r"^[# ]*(?:exec )?(?:\.venv/bin/)?aiperf fleet ([^>#\n]+)", text, re.MULTILINE)
    for name, *given in map(shlex.split, lines):
        fleet.get_command(click.Context(fleet), name).make_context(name, given)
    assert len(lines) == {"suite": 0, "slurm": 4, "ray": 2, "kubernetes": 2, "skypilot": 2}[what]


def test_the_rented_machine_is_copied_before_it_is_given_back(called):
    text = called("init", "skypilot")[1]
    assert text.index("sky launch") < text.index("rsync") < text.index("sky down")
    assert "--down" not in text


@pytest.mark.parametrize("what", ["slurm", "ray"])
def test_recipes_are_scripts(called, what):
    script = called("init", what)[1]
    assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0
    assert f"--on {what}" in script


def test_bundles_are_added_to_the_store(called, targets):
    database = pytest.importorskip("aiperf_analysis.store.database")
    listing = pytest.importorskip("aiperf_analysis.store.listing")
    suite = suite_of(targets, 'store = "sqlite:///fleet.db"\n')
    assert run(called, suite) == (
        2,
        "aiperf: the store cannot be used: there is no store at sqlite:///fleet.db. Make it: aiperf db init --db "
        "sqlite:///fleet.db\n",
    )
    database.made("sqlite:///fleet.db")
    assert run(called, suite)[0] == 0
    with database.opened("sqlite:///fleet.db") as store:
        stored = [one.id for one in listing.listed(store, None)]
    own = Bundle.open(Path("f/bundle")).manifest.hashes["manifest.json"]
    assert sorted(stored) == sorted([own, *(task["attempts"][0]["seal"] for task in state()["tasks"])])


def test_bundles_are_collected_into_a_store_with_their_labels(called, targets, monkeypatch):
    """Where the bundles were copied to, which may have no engine. A damaged bundle is refused by name; the others go in."""
    database = pytest.importorskip("aiperf_analysis.store.database")
    listing = pytest.importorskip("aiperf_analysis.store.listing")
    assert run(called, suite_of(targets, 'machines = "each"\nlabels = { team = "kernels" }\n'))[0] == 0
    file = state()
    monkeypatch.setattr("aiperf_fleet.cli.common.runner_of", None)
    Path("f").rename("copied")
    assert called("collect", "copied", "--db", "sqlite:///fleet.db")[1].startswith(
        "aiperf: the store cannot be used: there is no store at sqlite:///fleet.db."
    )
    database.made("sqlite:///fleet.db")

    def stored():
        with database.opened("sqlite:///fleet.db") as store:
            return {one.id: one.labels for one in listing.listed(store, None)}

    manifest = Path("copied/runs", file["tasks"][0]["id"], "manifest.json")
    whole = manifest.read_text()
    manifest.write_text(whole.replace("kernels", "others"))
    code, printed = called("collect", "copied", "--db", "sqlite:///fleet.db")
    assert code == 3
    assert printed.startswith(
        f"aiperf: the bundles were not added to the store: refused: 'copied/runs/{manifest.parent.name}'"
    )
    assert len(stored()) == len(file["tasks"])  # with the fleet's own
    manifest.write_text(whole)
    assert called("collect", "copied", "--db", "sqlite:///fleet.db")[0] == 0
    labels = {"team": "kernels", "suite": "n", "fleet": records.read(Path("copied")).id}
    own = Bundle.open(Path("copied/bundle")).manifest.hashes["manifest.json"]
    assert stored() == {own: labels} | {
        task["attempts"][0]["seal"]: {**labels, "task": task["id"], "machine": task["machine"]}
        for task in file["tasks"]
    }


def test_a_store_needs_the_package_that_keeps_it(plugins):
    without = evolve(plugins, commands={name: one for name, one in plugins.commands.items() if name != "db"})
    with pytest.raises(UsageError) as caught:
        check_store(without, "sqlite:///fleet.db")
    assert str(caught.value) == (
        "a store is named, and no package has aiperf db. Install aiperf-analysis, or name none: 'store' of the suite "
        "and --db."
    )
    check_store(without, None)

"""The bundle of a fleet: the index of its bundles, sealed, shown and rechecked like a run."""

import json
import re
import shutil
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner
from fleet_command import resume, run, state, suite_of

from aiperf_core.cli.main import Shell
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST

SLOW = 'machines = "each"\nlabels = { team = "kernels" }\n'


@pytest.fixture
def aiperf(plugins, called):
    """A command of `aiperf`, in the folder of the fleet; its exit code and all that it printed."""

    def call(*arguments):
        done = CliRunner().invoke(Shell(plugins), list(map(str, arguments)))
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return call


def opened(folder="f"):
    return Bundle.open(Path(folder, "bundle"))


def document(folder="f"):
    return opened(folder).document("fleet", "n")


def changed(bundle, **changes):
    """Write other values into a fleet's document, and seal it again."""
    found, manifest = bundle.document("fleet", "n"), bundle.manifest
    bundle.write_document(evolve(found, payload={**found.payload, **changes}))
    bundle.write_manifest(manifest)


def test_it_has_each_task_with_its_seal_and_the_machines(called, targets, stub):
    (stub / "slow.m2").write_text("1.1")
    (stub / f"die.{targets[0]}").touch()
    assert run(called, suite_of(targets, SLOW))[0] == 0
    manifest, payload = opened().manifest, document().payload
    assert (manifest.complete, manifest.exit_code) == (True, 0)
    assert manifest.labels == {"team": "kernels", "suite": "n", "fleet": payload["id"]}
    assert payload["tasks"] == state()["tasks"]
    for task in payload["tasks"]:
        assert Bundle.open(Path("f/runs", task["id"])).manifest.hashes[MANIFEST] == task["attempts"][-1]["seal"]
    assert sorted(len(task["attempts"]) for task in payload["tasks"]) == [1] * 8 + [2]
    status = json.loads(called("status", "f", "--json")[1])
    assert payload["machines"] == status["machines"]
    assert [one["machine"] for one in payload["machines"]["machines"] if one["slow"]] == ["m2"]


def test_it_is_shown_and_rechecked(called, targets, aiperf):
    assert run(called, suite_of(targets, SLOW))[0] == 0
    code, shown = aiperf("show", "f/bundle")
    assert code == 0
    assert "fleet/n\n" in shown
    assert f"0001-{targets[0]}" in shown
    assert "time by the others'" in shown
    assert re.search(
        r"^note: standard deviation between machines [\d.]+ %, between runs [\d.]+ %$", shown, re.MULTILINE
    )
    assert shown.endswith("note: COMPLETE: 9 of 9 bundles\n")
    assert aiperf("recheck", "f/bundle")[0] == 0
    shutil.copytree("f/bundle", "alone/bundle")
    assert aiperf("recheck", "alone/bundle")[0] == 0


def test_its_document_follows_the_schema(called, targets, aiperf):
    jsonschema = pytest.importorskip("jsonschema")
    assert run(called, suite_of(targets))[0] == 0
    schema = jsonschema.Draft202012Validator(json.loads(aiperf("schema", "fleet")[1]))
    payload = json.loads(Path("f/bundle/fleet/n.json").read_text())["payload"]
    schema.validate(payload)
    assert not schema.is_valid({**payload, "state": "FINE"})


def test_the_way_of_its_end_is_its_exit_code(called, targets, stub, aiperf):
    for target in targets[:2]:
        (stub / f"fail.{target}").touch()
    assert run(called, suite_of(targets))[0] == 1
    assert (opened().manifest.complete, opened().manifest.exit_code) == (True, 1)
    assert aiperf("recheck", "f/bundle")[0] == 0
    assert "PARTIAL: 1 of 3 bundles" in aiperf("show", "f/bundle")[1]


def test_a_fleet_that_goes_on_has_another_bundle_at_its_next_end(called, targets, stub, aiperf):
    unfit = [stub / f"unfit.{name}" for name in ("m1", "m2", "m3")]
    for one in unfit:
        one.touch()
    assert run(called, suite_of(targets[:1], "hand_backs = 0\n"))[0] == 1
    first = opened().manifest
    for one in unfit:
        one.unlink()
    assert resume(called)[0] == 0
    assert (first.exit_code, opened().manifest.exit_code) == (1, 0)
    assert [one["ending"] for one in document().payload["tasks"][0]["attempts"]] == ["UNFIT", "DONE"]
    # One that is there already stays as it is.
    seal = opened().manifest.hashes[MANIFEST]
    assert called("collect", "f")[0] == 0
    assert opened().manifest.hashes[MANIFEST] == seal
    # One that was lost is written again.
    shutil.rmtree("f/bundle")
    assert called("collect", "f")[0] == 0
    assert aiperf("recheck", "f/bundle")[0] == 0


def test_a_changed_bundle_of_a_task_ends_with_3(called, targets, aiperf):
    assert run(called, suite_of(targets))[0] == 0
    task = document().payload["tasks"][0]["id"]
    file = next(Path("f/runs", task, "targets").glob("*.json"))
    file.write_text(file.read_text().replace('"role": "baseline"', '"role": "variant"', 1))
    for line in (["status", "f"], ["collect", "f"], ["resume", "f"]):
        code, printed = called(*line)
        assert code == 3, line
        assert f"'f/runs/{task}' was changed after its run ended: targets/{file.name} has other content" in printed
        # The tasks are told all the same, but not of a fleet that cannot end.
        assert (targets[-1] in printed) == (line[0] != "resume")
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert "fleet/n:measurements" in printed


def test_a_cancelled_fleet(called, targets, monkeypatch):
    from aiperf_fleet.place import Place

    monkeypatch.setattr(Place, "cancelled", True)
    assert run(called, suite_of(targets))[0] == 130
    assert (opened().manifest.complete, opened().manifest.exit_code) == (False, 130)
    assert document().payload["state"] == "CANCELLED"


def test_the_url_of_a_store_stays_out(called, targets, monkeypatch):
    """It may have a password."""
    monkeypatch.setattr("aiperf_fleet.cli.common._db", lambda *_: "")
    assert run(called, suite_of(targets[:1], 'store = "postgresql://me:secret@host/x"\n'))[0] == 0
    monkeypatch.setattr("sys.argv", ["aiperf", "fleet", "collect", "f", "--db", "postgresql://me:secret@host/x"])
    shutil.rmtree("f/bundle")
    assert called("collect", "f", "--db", "postgresql://me:secret@host/x")[0] == 0
    assert opened().manifest.command == ["aiperf", "fleet", "collect"]
    assert all(b"secret" not in file.read_bytes() for file in Path("f/bundle").rglob("*") if file.is_file())


def test_a_recheck_finds_what_does_not_hold(called, targets, stub, aiperf):
    (stub / "slow.m2").write_text("1.1")
    assert run(called, suite_of(targets, SLOW))[0] == 0
    payload = document().payload
    # A comparison that does not follow from the measurements.
    machines = payload["machines"]
    changed(opened(), machines={**machines, "machines": [{**one, "slow": False} for one in machines["machines"]]})
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert "fleet/n:machines" in printed
    # Measurements that the bundles do not have.
    changed(opened(), machines=machines, measurements=payload["measurements"][1:])
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert "fleet/n:measurements" in printed
    # An end that the tasks do not have.
    changed(opened(), measurements=payload["measurements"], state="PARTIAL")
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert "fleet/n" in printed
    assert "0 of 9 bundles are missing" in printed
    # Another bundle in the place of a task's, and one that is gone.
    changed(opened(), state="COMPLETE")
    assert aiperf("recheck", "f/bundle")[0] == 0
    first, second = (Path("f/runs", task["id"]) for task in payload["tasks"][:2])
    shutil.rmtree(first)
    second.rename(first)
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert f"fleet/n:{first.name}" in printed
    assert f"fleet/n:{second.name}" in printed
    changed(opened(), tasks="none")
    code, printed = aiperf("recheck", "f/bundle")
    assert code == 3
    assert "fleet/n" in printed

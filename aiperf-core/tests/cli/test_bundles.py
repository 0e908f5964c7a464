"""Every command that takes a bundle: how it may be named, and what is said of one that is missing, damaged or changed."""

import json
import shutil

import attrs
import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

SHELL = Shell(load_plugins([]))
TARGET = "targets/ch07.memory_access.json"
COMMANDS = {
    "show": ("show", "BUNDLE"),
    "show --json": ("show", "BUNDLE", "--json"),
    "results show": ("results", "show", "BUNDLE"),
    "results sign": ("results", "sign", "BUNDLE", "--key", "key"),
    "results rm": ("results", "rm", "BUNDLE", "--yes"),
    "compare": ("compare", "BUNDLE", "good"),
    "compare to": ("compare", "good", "BUNDLE"),
    "report": ("report", "BUNDLE", "--out", "out/page.html"),
    "export": ("export", "BUNDLE", "--format", "csv", "--out", "out/rows.csv"),
    "export --samples": ("export", "BUNDLE", "--format", "csv", "--samples", "--out", "out/samples.csv"),
    "roofline": ("roofline", "BUNDLE", "--out", "out/roof.svg"),
    "recheck": ("recheck", "BUNDLE"),
    "reproduce": ("reproduce", "BUNDLE", "--quiet", "--out", "out/again"),
    "expectations check": ("expectations", "check", "BUNDLE", "--file", "expected.json"),
    "expectations report": ("expectations", "report", "BUNDLE", "--file", "expected.json"),
    "expectations write": ("expectations", "write", "BUNDLE", "--file", "out/expected.json"),
    "run --resume": ("run", "--resume", "BUNDLE", "--quiet"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return measured.bundle(tmp_path_factory.mktemp("whole") / "run").path


@pytest.fixture
def bundle(whole, tmp_path, monkeypatch):
    """A bundle in `artifacts/runs` of the working directory, beside another one that is whole."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("no key")
    (tmp_path / "out").mkdir()
    shutil.copytree(whole, tmp_path / "artifacts/runs/good")
    return Bundle(shutil.copytree(whole, tmp_path / "artifacts/runs/bad").relative_to(tmp_path))


def run(command, name="bad"):
    done = CliRunner().invoke(SHELL, [name if one == "BUNDLE" else one for one in COMMANDS[command]])
    assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
    assert "Traceback" not in done.output
    return done


def manifest(content):
    return lambda bundle: (bundle.path / "manifest.json").write_bytes(content)


def target(content):
    return lambda bundle: (bundle.path / TARGET).write_bytes(content)


def truncated(name):
    def cut(bundle):
        data = (bundle.path / name).read_bytes()
        (bundle.path / name).write_bytes(data[: len(data) // 2])

    return cut


def newer(name):
    def change(bundle):
        document = json.loads((bundle.path / name).read_text())
        (bundle.path / name).write_text(json.dumps({**document, "schema_version": 99}))

    return change


JUNK = bytes(range(256)) * 4
# Without a manifest of this format nothing is known of a bundle: it cannot be read.
UNREADABLE = {
    "missing": lambda bundle: shutil.rmtree(bundle.path),
    "without a manifest": lambda bundle: (bundle.path / "manifest.json").unlink(),
    "truncated": truncated("manifest.json"),
    "junk": manifest(JUNK),
    "empty": manifest(b""),
    "foreign": manifest(b'{"name": "a web application", "start_url": "/"}'),
    "newer": newer("manifest.json"),
}
# With a manifest its seal shows the damage.
DAMAGED = {
    "truncated": truncated(TARGET),
    "junk": target(JUNK),
    "foreign": target(b'{"name": "a web application"}'),
    "newer": newer(TARGET),
    "gone": lambda bundle: (bundle.path / TARGET).unlink(),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", UNREADABLE)
def test_a_bundle_that_cannot_be_read_is_one_paragraph(bundle, command, damage):
    UNREADABLE[damage](bundle)
    before = sorted(bundle.path.rglob("*"))
    done = run(command, str(bundle.path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"aiperf: '{bundle.path}")
    assert done.stderr.count("\n") == 1
    assert list(bundle.path.parents[2].glob("out/*")) == []
    assert sorted(bundle.path.rglob("*")) == before
    if damage == "newer":
        assert "has format 99, and this aiperf reads format 5 only. Upgrade aiperf-core." in done.stderr


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "results rm"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_bad_evidence(bundle, command, damage):
    DAMAGED[damage](bundle)
    done = run(command)
    assert done.exit_code == 3
    told = [*done.stderr.splitlines(), *(done.stdout.splitlines() if command == "recheck" else [])]
    assert any(TARGET in line for line in told)
    messages = ("aiperf: ", "note: ", "left out: ", "artifacts/runs/bad is complete; ")
    assert all(line.startswith(messages) for line in done.stderr.splitlines())
    # A file is whole or not there.
    assert list(bundle.path.parents[2].rglob("*.tmp")) == []


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "results rm"])
def test_an_edited_verdict_is_reported(bundle, command):
    file = bundle.path / TARGET
    file.write_text(file.read_text().replace('"verdict": "SLOWER"', '"verdict": "FASTER"'))
    done = run(command)
    assert done.exit_code == 3
    assert TARGET in done.output
    assert run(command, "good").exit_code != 3 or command == "reproduce"


SKIPPING = ("show", "show --json", "results show", "compare", "export", "roofline")


@pytest.mark.parametrize("command", SKIPPING)
def test_a_deleted_target_is_not_passed_over(bundle, command):
    for path in ("bad", "good"):
        made = Bundle(bundle.path.with_name(path))
        made.write_target(attrs.evolve(measured.result(), target="ch07.other"))
        made.write_manifest(made.manifest)
    (bundle.path / "targets/ch07.other.json").unlink()
    done = run(command)
    assert done.exit_code == 3
    assert "'artifacts/runs/bad' was changed after its run ended: " in done.stderr
    assert "targets/ch07.other.json is missing" in done.stderr


def test_the_report_says_that_it_is_of_a_changed_bundle(bundle):
    truncated("targets/" + next(file.name for file in (bundle.path / "targets").glob("*.npz")))(bundle)
    for kind in ("html", "markdown"):
        page = CliRunner().invoke(SHELL, ["report", "bad", "--format", kind])
        assert (page.exit_code == 3) == (kind == "html")  # the other has no pictures, and reads no samples
        text = (bundle.path / "reports" / "run.html").read_text() if kind == "html" else page.stdout
        assert ("was changed after its run ended" in text) == (kind == "html")


@pytest.mark.parametrize("command", ["show", "compare", "report", "export", "roofline", "expectations check"])
def test_salvage_is_said(bundle, command):
    file = bundle.path / TARGET
    file.write_text(file.read_text().replace("Neighbours", "Neighbors", 1))
    assert run(command).exit_code == 3
    arguments = ["bad" if one == "BUNDLE" else one for one in COMMANDS[command]]
    done = CliRunner().invoke(SHELL, [*arguments, "--no-verify"])
    assert done.exit_code != 3
    assert done.stderr.splitlines()[-1].startswith(
        "note: not verified (--no-verify), and perhaps changed: artifacts/runs/bad"
    )


@pytest.mark.parametrize("command", ["show", "compare", "report", "export", "roofline"])
def test_a_run_that_was_killed_is_told_from_a_broken_bundle(bundle, command):
    bundle.write_manifest(attrs.evolve(measured.manifest(), complete=False, exit_code=None))
    done = run(command)
    assert done.exit_code != 3
    assert done.stderr.splitlines()[-1] == (
        "note: 'artifacts/runs/bad' has no seal yet, since its run goes on or was killed: a change of its files would "
        "not be seen. If it was killed: aiperf run --resume artifacts/runs/bad"
    )


def test_an_error_of_a_command_on_a_changed_bundle_ends_with_3(bundle):
    (bundle.path / TARGET).unlink()
    done = CliRunner().invoke(SHELL, ["show", "bad:ch07.memory_access"])
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1] == (
        "aiperf: 'artifacts/runs/bad' has no result of 'ch07.memory_access'. There are: none"
    )
    assert f"{TARGET} is missing" in done.stderr


# --- names


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["artifacts/runs/bad", "bad", "ba", "latest", "latest~0"])
def test_every_command_takes_every_name(bundle, command, name):
    bundle.write_manifest(attrs.evolve(measured.manifest(), created="2027-01-01T00:00:00+00:00"))
    done = run(command, name)
    assert "names no bundle" not in done.output
    # The same as by its path.
    if command in ("show", "results show", "report", "export", "recheck", "results rm", "roofline"):
        assert done.exit_code == 0, done.output
    assert bundle.path.exists() is (command != "results rm")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("latest~2", "aiperf: 'latest~2' names no bundle: 'artifacts/runs' holds 2, and the oldest is 'latest~1' ("),
        (
            "2026",
            "aiperf: '2026' is the start of 2 bundles in 'artifacts/runs': 2026-b, 2026-a. Give more of the name.",
        ),
        ("2025", "aiperf: '2025' names no bundle. Did you mean '2026-b'? The newest in 'artifacts/runs': 2026-"),
    ],
)
def test_what_names_no_bundle_lists_the_bundles(bundle, command, name, message):
    bundle.path.rename(bundle.path.with_name("2026-b"))
    (bundle.path.with_name("good")).rename(bundle.path.with_name("2026-a"))
    done = run(command, name)
    if command == "compare to":
        return  # its first bundle is gone
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["recheck", "results rm", "results sign", "run --resume"])
def test_a_whole_bundle_is_asked_for(bundle, command):
    done = run(command, "bad:ch07.memory_access")
    assert done.exit_code == 2
    assert done.stderr == (
        "aiperf: 'bad:ch07.memory_access' names a target; this command takes a whole bundle: artifacts/runs/bad\n"
    )
    assert bundle.path.exists()


def test_compare_shows_the_paths(bundle):
    done = CliRunner().invoke(SHELL, ["compare", "bad:ch07.memory_access", "latest:ch07.memory_access"])
    assert done.stdout.startswith(
        "artifacts/runs/bad:ch07.memory_access (left) and artifacts/runs/good:ch07.memory_access (right)\n"
    )


def test_in_another_folder(bundle, tmp_path):
    (tmp_path / "artifacts/runs").rename(tmp_path / "elsewhere")
    for arguments in (["show", "--in", "elsewhere", "bad"], ["show", "latest", "--in", "elsewhere"]):
        assert CliRunner().invoke(SHELL, ["results", *arguments]).exit_code == 0


def test_a_target_wins_over_the_name_of_a_bundle_and_a_path_over_both(site, bundle, monkeypatch):
    plugin = """
@hookimpl
def aiperf_targets():
    yield Target("bad", "One", "speed", "cpu")
"""
    site.install("aiperf-acme", plugin)
    site.write("aiperf_acme/bad.py", "1 / 0")
    shell = Shell(site.load())
    Bundle(bundle.path.rename(bundle.path.with_name("acme")))
    shown = CliRunner().invoke(shell, ["show", "acme"])
    assert "acme.bad" in shown.output
    assert CliRunner().invoke(shell, ["show", "artifacts/runs/acme"]).exit_code == 0
    # A word that only a summary or a part of a target's name has does not hide a bundle.
    for name in ("acm", "ac"):
        assert CliRunner().invoke(shell, ["show", name]).stdout.startswith("artifacts/runs/acme\n")


def test_a_bundle_of_nothing_is_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Bundle.create_at(tmp_path / "run")
    made.write_manifest(example.manifest())
    assert CliRunner().invoke(SHELL, ["show", "run"]).exit_code == 0

"""The archive of `aiperf triage`: what it holds, and that no secret or private name is in it."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_analysis.advice import redaction, triage
from aiperf_analysis.advice.redaction import Redactor, redactor
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

PLUGINS = load_plugins()
SECRETS = {
    "AIPERF_TOKEN": "tok-planted-4711",
    "TORCH_HUB_KEY": "planted-key-0815",
    "NCCL_PASSWORD": "planted pass word",
    "MY_OWN_SECRET": "planted-elsewhere",
}
FORMS = [
    "hf_" + "plantedABCDEFGHIJKL",
    "ghp_" + "plantedABCDEFGHIJKLMNOP",
    "sk-" + "plantedABCDEFGHIJKLM",
    "AKIA" + "PLANTEDABCDEFGHI",
    "eyJ" + "plantedABCD.plantedEFGH.plantedIJKL",
]
NAMES = ["planted-host", "plantedjane", "planted-node7"]
GPU = "GPU-12345678-1234-1234-1234-123456789abc"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bundles and an environment with secrets and names in every place that the archive reads."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("USER", "plantedjane")
    monkeypatch.setenv("HOME", "/home/plantedjane")
    monkeypatch.setenv("MASTER_ADDR", "10.20.30.40")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/home/plantedjane/lib:/opt/lib")
    monkeypatch.setenv("CUDA_CACHE_PATH", "s3://jane:planted-in-url@bucket.example/cache")
    monkeypatch.setattr(redaction.platform, "node", lambda: "planted-host.lan.example")
    machine = evolve(
        example.manifest().machine, hostname="planted-node7.cluster", gpus=[{"index": 0, "name": "H", "uuid": GPU}]
    )
    manifest = evolve(
        example.manifest(),
        machine=machine,
        command=["aiperf", "run", "x", "--api-token", "planted-option", "--out", "/home/plantedjane/runs", *FORMS],
        labels={"auth": "planted-label", "url": "https://jane:planted-in-label@example.org/x"},
    )
    rows = [
        evolve(
            row, log=["planted-node7, plantedjane, password=planted-in-log", f"again with {SECRETS['MY_OWN_SECRET']}"]
        )
        for row in example.rows()
    ]
    bundle = Bundle.create_at(tmp_path / "runs" / "20261121-plantedjane")
    bundle.write_target(evolve(example.result(), rows=rows))
    bundle.write_manifest(manifest)
    (bundle.path / "logs").mkdir(exist_ok=True)
    (bundle.path / "logs" / "x.log").write_text("planted-in-a-log-file")
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second process of `aiperf doctor`, which imports torch."""
    document = {"facts": [{"name": "cache", "found": "/home/plantedjane/.cache on planted-host"}]}

    def done(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, json.dumps(document), "")

    monkeypatch.setattr(triage.subprocess, "run", done)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(Shell(PLUGINS), ["triage", *map(str, arguments)])


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        assert all((one.uid, one.gid, one.uname, one.gname, one.isfile()) == (0, 0, "", "", True) for one in members)
        return {one.name: (archive.extractfile(one) or io.BytesIO()).read().decode() for one in members}


def test_no_secret_and_no_name_is_in_the_archive(planted: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar.gz"
    result = run("--out", file, "--in", planted)
    assert (result.exit_code, result.stderr) == (0, "")
    contents = unpacked(file)
    everything = "\n".join([*contents, *contents.values()])
    assert "planted" not in everything.lower()
    assert "10.20.30.40" not in everything
    assert GPU not in everything
    # What decides a result is still there.
    assert "ch07.memory_access" in everything
    assert '"speedup"' in everything
    assert "570.86.15" in everything
    assert "/opt/lib" in everything
    assert "AIPERF_TOKEN" in everything


def test_what_is_in_it(planted: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tar"
    assert run("--out", file, "--in", planted).exit_code == 0
    contents = unpacked(file)
    assert sorted(contents) == sorted(
        f"aiperf-triage/{name}"
        for name in ("about.json", "checklist.json", "doctor.json", "environment.json", "facts.json", "gpus.json",
                     "machine.json", "packages.json", "runs/20261121-_name_removed_/manifest.json",
                     "runs/20261121-_name_removed_/targets/ch07.memory_access.json")
    )  # fmt: skip
    documents = {name: json.loads(text) for name, text in contents.items()}
    rows = documents["aiperf-triage/runs/20261121-_name_removed_/targets/ch07.memory_access.json"]["rows"]
    assert all(isinstance(row["samples"], int) for row in rows), "samples are no part"
    about = documents["aiperf-triage/about.json"]
    assert about["removed"]["secrets"] >= len(SECRETS)
    assert about["names"] == "removed"
    variables = documents["aiperf-triage/environment.json"]
    assert variables["AIPERF_TOKEN"] == "<secret removed>"
    assert "MY_OWN_SECRET" not in variables
    assert variables["LD_LIBRARY_PATH"] == "<home>/lib:/opt/lib"
    assert variables["CUDA_CACHE_PATH"] == "s3://<secret removed>@bucket.example/cache"
    answers = documents["aiperf-triage/checklist.json"]
    assert {"item", "sentence", "outcome", "found"} == set(answers[0])


def test_names_are_kept_when_asked_for_and_secrets_never(planted: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.tgz"
    assert run("--out", file, "--in", planted, "--keep-names").exit_code == 0
    everything = "\n".join(unpacked(file).values())
    assert all(name in everything for name in (*NAMES[1:], GPU, "10.20.30.40"))
    for secret in (*SECRETS.values(), *FORMS, "planted-in-url", "planted-in-label", "planted-in-log", "planted-label",
                   "planted-option"):  # fmt: skip
        assert secret not in everything


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (True, "out.tar", "'{}' exists, and is not overwritten. Remove it, or choose another --out."),
        (False, "out.zip", "'{}' is no name of an archive; --out takes a name that ends in .tar, .tar.gz, .tgz."),
        (False, "no/out.tar", "the folder '{.parent}' does not exist. Make it, or choose another --out."),
    ],
)
def test_a_name_that_is_refused(make: bool, name: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if make:
        file.write_text("mine")
    result = run("--out", file, "--in", tmp_path / "none")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"aiperf: {message.format(file)}\n")
    assert not make or file.read_text() == "mine"


def test_nothing_is_left_behind_by_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(triage.atomic.os, "replace", full)
    file = tmp_path / "out.tar"
    result = run("--out", file, "--in", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"aiperf: cannot write '{file}': No space left on device. Choose another --out.\n"
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_runs_and_no_link(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        bundle = Bundle.create_at(tmp_path / "runs" / f"day{day}")
        bundle.write_target(example.result())
        bundle.write_manifest(evolve(example.manifest(), created=f"2026-11-0{day}T00:00:00+00:00"))
    (tmp_path / "private.json").write_text('{"x": "outside"}')
    (tmp_path / "runs" / "day3" / "targets" / "link.json").symlink_to(tmp_path / "private.json")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{")
    file = tmp_path / "out.tar"
    packed = triage.pack(file, tmp_path / "runs", runs=2)
    runs = {name.split("/")[1] for name in packed.files if name.startswith("runs/")}
    assert runs == {"day3", "day2"}
    assert packed.left_out["runs/day3/targets/link.json"] == "it is no plain file"
    assert set(packed.left_out) == {"broken", "runs/day3/targets/link.json"}
    assert "outside" not in "".join(unpacked(file).values())


def test_a_run_that_was_changed_after_its_end_is_named(tmp_path: Path) -> None:
    for name in ("whole", "changed"):
        bundle = Bundle.create_at(tmp_path / "runs" / name)
        bundle.write_target(example.result())
        bundle.write_manifest(evolve(example.manifest(), complete=True, exit_code=0))
    target = bundle.target_path(example.result().target)
    target.write_text(target.read_text().replace("memory", "mermory", 1))
    result = run("--out", tmp_path / "out.tar", "--in", tmp_path / "runs")
    assert result.exit_code == 0, result.stderr
    assert "\nchanged after its run: changed: its figures are no evidence" in result.stdout
    assert "changed after its run: whole" not in result.stdout
    assert json.loads(unpacked(tmp_path / "out.tar")["aiperf-triage/about.json"])["changed"] == ["changed"]


def test_a_doctor_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("doctor", 1)

    monkeypatch.setattr(triage.subprocess, "run", hangs)
    triage.pack(tmp_path / "out.tar", tmp_path)
    found = json.loads(unpacked(tmp_path / "out.tar")["aiperf-triage/doctor.json"])
    assert found == {"problem": "aiperf doctor gave no answer within 180 s"}


# --- redaction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--token abcdef x", "--token <secret removed> x"),
        ("--hf-token=abcdef x", "--hf-token=<secret removed> x"),
        ("password: hunter2, retry", "password: <secret removed>, retry"),
        ("https://a:b@c.example/d", "https://<secret removed>@c.example/d"),
        ("git@github.com:x/y", "git@github.com:x/y"),
        ("tokens a second: 1200", "tokens a second: 1200"),
        ("/home/alice/x and /Users/bob/y", "/home/<name removed>/x and /Users/<name removed>/y"),
        ("keyword=5 monkey=6", "keyword=5 monkey=6"),
        ("cuBLAS 12.8.4.1", "cuBLAS 12.8.4.1"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


def test_a_secret_after_its_option_in_a_list() -> None:
    assert Redactor().value(["run", "--api-key", "k", "--key", "--other", "v"]) == [
        "run", "--api-key", "<secret removed>", "--key", "--other", "v",
    ]  # fmt: skip


def test_numbers_and_keys_stay() -> None:
    document = {"tokens": 5.0, "key": 3, "secret": None, "rows": [{"name": "wide", "token": "abc"}]}
    assert Redactor().value(document) == document | {"rows": [{"name": "wide", "token": "<secret removed>"}]}


def test_common_names_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """`root` is a word of many texts."""
    monkeypatch.setenv("USER", "root")
    monkeypatch.setattr(redaction.getpass, "getuser", lambda: "root")
    assert "root" not in redactor(["localhost"]).users
    assert redactor(["localhost"]).text("the root of localhost") == "the root of localhost"


@pytest.mark.parametrize("home", ["", "rel", "."])
def test_a_home_that_names_no_folder_is_not_redacted(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert (redactor().homes, redactor().text("a rel. b.")) == (frozenset(), "a rel. b.")


def test_the_document_of_doctor_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that is called exists."""
    monkeypatch.undo()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "aiperf_core", "doctor", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "--json" in done.stdout

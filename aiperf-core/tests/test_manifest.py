import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aiperf_core import manifest
from aiperf_core.git import changed_sources, commit_time, git_branch, git_commit
from aiperf_core.plugins import Plugins
from aiperf_core.results import records


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    return tmp_path


def test_a_new_manifest_can_be_written_and_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/aiperf", "run", "ch07"])
    made = manifest.new_manifest(plugins=Plugins(hook=None))
    assert (made.command, made.complete, made.exit_code) == (["aiperf", "run", "ch07"], False, None)
    file = tmp_path / "manifest.json"
    file.write_bytes(records.record_bytes(made, file))
    assert records.read_manifest(file) == made


def test_plugins_and_those_set_aside(site):
    site.install("aiperf-acme", "@hookimpl\ndef aiperf_target(): ...")
    found = manifest.plugin_records(site.load())
    assert [one["distribution"] for one in found] == ["aiperf-core", "aiperf-acme"]
    assert "set_aside" not in found[0]
    assert "aiperf_target" in found[1]["set_aside"]


def test_a_commit(repository):
    commit = git_commit(repository)
    assert len(commit) == 40
    (repository / "artifacts").mkdir()
    (repository / "artifacts/new").write_text("results do not make it dirty")
    assert git_commit(repository) == commit
    (repository / "a.py").write_text("changed")
    assert git_commit(repository) == f"{commit}-dirty"
    assert git_commit(repository / "artifacts") == f"{commit}-dirty"


def test_the_time_of_a_commit(repository):
    assert abs(datetime.fromisoformat(commit_time(repository)) - datetime.now(UTC)) < timedelta(minutes=5)


def test_looking_at_a_repository_does_not_write_to_it(repository):
    index = repository / ".git/index"
    os.utime(repository / "a.py", (1, 1))  # `git status` would refresh the index
    before = index.read_bytes()
    git_commit(repository)
    assert index.read_bytes() == before


@pytest.mark.parametrize("name", [b"caf\xe9.py", "caf\u00e9.py".encode(), b"two\nlines.py"])
@pytest.mark.parametrize("quoted", ["true", "false"])
def test_names_in_any_encoding(repository, name, quoted, monkeypatch):
    monkeypatch.setattr("locale.getencoding", lambda: "ascii")
    git(repository, "config", "core.quotePath", quoted)
    git(repository, "config", "i18n.commitEncoding", "latin1")
    git(repository, "checkout", "-b", b"branch-\xe9")
    file = repository / os.fsdecode(name)
    file.write_text("a")
    git(repository, "add", ".")
    git(repository, "-c", b"user.name=\xe9", "commit", "-m", b"\xe9")
    assert (git_branch(repository), commit_time(repository)) == ("branch-\ufffd", commit_time(repository))
    commit = git_commit(repository)
    file.write_text("b")
    assert git_commit(repository) == f"{commit}-dirty"
    assert len(changed_sources(repository)) == 1


def test_a_signature_is_not_the_time_of_a_commit(repository):
    signs = repository / "signs"
    signs.write_text(
        "#!/bin/sh\ncat > /dev/null\necho '-----BEGIN PGP SIGNATURE-----'\necho '[GNUPG:] SIG_CREATED ' >&2\n"
    )
    signs.chmod(0o700)
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", str(signs))
    git(repository, "commit", "--allow-empty", "-S", "-m", "two")
    datetime.fromisoformat(commit_time(repository))


def test_a_repository_that_git_cannot_tell_of(repository, monkeypatch):
    """An unknown state is not called clean: not with a damaged index, nor where git hangs or refuses the owner."""
    index = (repository / ".git/index").read_bytes()
    (repository / ".git/index").write_bytes(b"damaged")
    assert git_commit(repository) is None
    (repository / ".git/index").write_bytes(index)
    assert git_commit(repository) is not None
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert (git_commit(repository), commit_time(repository)) == (None, None)
    monkeypatch.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
    hangs = repository / "git"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o700)
    monkeypatch.setenv("PATH", f"{repository}:{os.environ['PATH']}")
    monkeypatch.setattr("aiperf_core.git.GIT_SECONDS", 0.5)
    assert git_commit(repository) is None


def test_no_repository_no_commit_and_no_git(tmp_path, monkeypatch):
    assert git_commit(tmp_path) is None
    git(tmp_path, "init")
    assert git_commit(tmp_path) is None
    assert commit_time(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert git_commit(tmp_path) is None
    assert git_commit(Path("/nonexistent")) is None


def test_a_run_of_python_m_is_recorded_as_the_command_to_type():
    assert manifest.command_line(["/x/aiperf_core/__main__.py", "run", "ch07"]) == ["aiperf", "run", "ch07"]
    assert manifest.command_line(["/usr/bin/aiperf-bench", "run"]) == ["aiperf-bench", "run"]

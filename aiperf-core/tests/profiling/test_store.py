import hashlib
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_core.errors import BundleError
from aiperf_core.profiler import Hot, Observed
from aiperf_core.profiling import store
from aiperf_core.profiling.models import Profile

PROFILE = Profile(
    target="a.b", implementation="wide", role="variant", why="because", device="cpu", size="smoke", params={"n": 4},
    cache="cold", cost_bytes=1e6, tool="perf", metrics=["cache-misses"], calls=10, in_a_row=2, taken_s=[1e-3],
    created="2026-11-21T22:00:00+00:00", aiperf="0.1", artifacts=[],
    observed=Observed(
        version="6.1", hot=[Hot(name="f", kind="symbol", share=0.5, metrics={"x": 1.0})], figures={"call_s": 1e-3},
        words={"occupancy_limiter": "registers"}, missing={"idle gaps": "none"}, files=["perf.data"], notes=["a note"],
    ),
)  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Profile]:
    source = tmp_path / "scratch"
    source.mkdir()
    (source / "perf.data").write_bytes(b"samples")
    (source / "log.txt").write_bytes(b"not kept")
    profile = evolve(PROFILE, artifacts=[store.artifact(source / "perf.data")])
    return store.write(tmp_path / "out", profile, source), profile


def test_a_profile_is_read_as_it_was_written(written: tuple[Path, Profile], tmp_path: Path) -> None:
    folder, profile = written
    assert folder == tmp_path / "out/profiles/a.b/wide"
    assert store.read(folder) == profile
    assert sorted(one.name for one in folder.iterdir()) == ["perf.data", "profile.json"]
    assert (profile.artifacts[0].bytes, profile.artifacts[0].sha256[:8]) == (
        7,
        hashlib.sha256(b"samples").hexdigest()[:8],
    )


def test_nothing_half_written_stays(written: tuple[Path, Profile], tmp_path: Path) -> None:
    folder, profile = written
    with pytest.raises(BundleError, match="cannot write"):
        store.write(tmp_path / "out", profile, tmp_path / "scratch")
    assert [one.name for one in folder.parent.iterdir()] == ["wide"]
    assert store.read(folder) == profile


def test_artifacts_that_were_changed_are_found(written: tuple[Path, Profile]) -> None:
    folder, profile = written
    assert list(store.damaged(folder, profile)) == []
    (folder / "perf.data").write_bytes(b"sample5")
    assert list(store.damaged(folder, profile)) == ["perf.data"]
    (folder / "perf.data").rename(folder.parent / "perf.data")
    (folder.parent / "perf.data").write_bytes(b"samples")
    assert list(store.damaged(folder, profile)) == ["perf.data"]
    (folder / "perf.data").symlink_to(folder.parent / "perf.data")
    assert list(store.damaged(folder, profile)) == ["perf.data"]


def test_an_artifact_is_sought_nowhere_else(
    written: tuple[Path, Profile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, profile = written
    outside = evolve(store.artifact(tmp_path / "scratch/perf.data"), name="../../../../scratch/perf.data")
    monkeypatch.delattr(store, "artifact")  # reads the file
    assert list(store.damaged(folder, evolve(profile, artifacts=[outside]))) == ["../../../../scratch/perf.data"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"schema_version": 1', '"schema_version": 2', "was written by a newer aiperf; its format is 2"),
        ('"calls": 10', '"calls": "10"', "is not a profile of format 1: at calls: found \"10\"; expected an integer"),
        ('"calls": 10', '"calls": 10, "extra": 1', "is not a profile of format 1"),
        ('{', '[', "is not a profile"),
    ],
)  # fmt: skip
def test_a_page_of_another_form_is_refused(written: tuple[Path, Profile], old: str, new: str, message: str) -> None:
    page = written[0] / "profile.json"
    page.write_text(page.read_text().replace(old, new, 1))
    with pytest.raises(BundleError) as raised:
        store.read(written[0])
    assert message in str(raised.value)


def test_new_profiles_go_to_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store.new_folder(tmp_path / "new", "x") == tmp_path / "new"
    assert store.new_folder(None, "ch07.*").name.endswith("-ch07.%2A")
    (tmp_path / "new").mkdir()
    assert store.new_folder(tmp_path / "new", "x") == tmp_path / "new"
    (tmp_path / "new/file").touch()
    with pytest.raises(BundleError, match=r"is not an empty folder; profiles go to a new one\. Choose another --out\."):
        store.new_folder(tmp_path / "new", "x")

import attrs
import pytest

from aiperf_core.errors import UsageError
from aiperf_core.results import address, example, naming
from aiperf_core.results.bundle import Bundle

ACCEPTED = "Accepted: a path, the name of a bundle or the start of it, latest, latest~1 (the bundle before)."


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The folder of three bundles; the working directory is its parent's parent."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "artifacts/runs"
    for name, day in (("20261121-101500-ch07", 21), ("20261122-101500-ch07", 22), ("before", 20)):
        made = Bundle.create_at(folder / name)
        made.write_target(example.result())
        made.write_manifest(attrs.evolve(example.manifest(), created=f"2026-11-{day}T10:15:00+00:00"))
    return folder


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("before", "before"),
        ("bef", "before"),
        ("20261122-101500-ch07", "20261122-101500-ch07"),
        ("20261121", "20261121-101500-ch07"),
        ("latest", "20261122-101500-ch07"),
        ("latest~0", "20261122-101500-ch07"),
        ("latest~1", "20261121-101500-ch07"),
        ("latest~2", "before"),
        ("artifacts/runs/before", "before"),
        ("./artifacts/runs/before/", "before"),
    ],
)
@pytest.mark.parametrize("part", ["", ":ch07.memory_access", ":ch07.memory_access:wide"])
def test_the_ways_to_name_a_bundle(runs, text, name, part):
    found = address.find(text + part)
    assert found.bundle.path.resolve() == runs / name
    assert str(found) == f"{found.bundle.path}{part}"


def test_a_path_wins_over_a_name_and_a_name_over_latest(runs):
    for name, folder in (("before", runs.parents[1]), ("latest", runs)):
        made = Bundle.create_at(folder / name)
        made.write_manifest(attrs.evolve(example.manifest(), created="2026-01-01T00:00:00+00:00"))
        assert address.find(name).bundle.path.resolve() == folder / name
    # A folder of something else does not hide a bundle.
    (runs.parents[1] / "20261121").mkdir()
    assert address.find("20261121").bundle.path.name == "20261121-101500-ch07"


def test_a_bundle_that_cannot_be_read_is_not_the_latest(runs):
    (runs / "20261122-101500-ch07/manifest.json").write_text("{")
    assert naming.located("latest").name == "20261121-101500-ch07"
    assert naming.located("20261122").name == "20261122-101500-ch07"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2026",
            "'2026' is the start of 2 bundles in 'artifacts/runs': 20261122-101500-ch07, 20261121-101500-ch07. Give "
            "more of the name.",
        ),
        (
            "befroe",
            "'befroe' names no bundle. Did you mean 'before'? The newest in 'artifacts/runs': 20261122-101500-ch07, "
            f"20261121-101500-ch07, before. {ACCEPTED}",
        ),
        (
            "latest~3",
            "'latest~3' names no bundle: 'artifacts/runs' holds 3, and the oldest is 'latest~2' (before).",
        ),
        ("", "'' names no bundle. An address looks like 'artifacts/runs/NAME:ch07.memory_access'."),
        ("before:", "'before:' names no bundle. An address looks like 'artifacts/runs/NAME:ch07.memory_access'."),
    ],
)
def test_what_names_no_bundle(runs, text, message):
    with pytest.raises(UsageError) as caught:
        address.find(text)
    assert str(caught.value) == message


def test_a_name_with_a_part_that_names_no_bundle(runs):
    with pytest.raises(UsageError, match=r"^'befroe' names no bundle\. Did you mean 'before'\?"):
        address.find("befroe:ch07.memory_access:wide")


def test_of_many_candidates_some_are_listed(runs):
    for index in range(7):
        Bundle.create_at(runs / f"x{index}").write_manifest(example.manifest())
    with pytest.raises(UsageError, match=r"^'x' is the start of 7 bundles in '.*': x6, x5, x4, x3, x2 and 2 more\."):
        address.find("x")


def test_without_any_bundle(tmp_path):
    with pytest.raises(UsageError) as caught:
        address.find("latest", tmp_path)
    assert str(caught.value) == f"'latest' names no bundle: '{tmp_path}' holds none. Make one: aiperf run PATTERN"
    with pytest.raises(UsageError) as caught:
        address.find("x", tmp_path / "nowhere")
    assert str(caught.value) == f"'x' names no bundle. '{tmp_path}/nowhere' holds no bundles. {ACCEPTED}"


def test_links_and_files_have_no_names(runs):
    (runs / "link").symlink_to(runs / "before")
    (runs / "a file").write_text("")
    assert naming.names(runs) == ["before", "20261122-101500-ch07", "20261121-101500-ch07"]
    assert naming.located("link") is None
    assert address.find("artifacts/runs/link").bundle.path.name == "link"


@pytest.mark.parametrize("text", ["x" * 5000, "a\0b", "\ud800", "latest~99999999"])
def test_any_text_is_refused_and_no_crash(runs, text):
    with pytest.raises(UsageError):
        address.find(text)

import attrs
import pytest

from aiperf_core.errors import BundleError
from aiperf_core.results import example, listing
from aiperf_core.results.bundle import Bundle


def make(folder, name, created="2026-11-21T14:25:30+00:00"):
    made = Bundle.create_at(folder / name)
    made.write_target(example.result())
    made.write_manifest(attrs.evolve(example.manifest(), created=created))
    return made


def test_newest_first_and_what_cannot_be_read_last(tmp_path):
    make(tmp_path, "a", "2026-01-01T00:00:00+00:00")
    make(tmp_path, "b", "2026-01-01T00:00:00-01:00")
    make(tmp_path, "c", "2026-01-01T00:30:00")
    make(tmp_path, "d", "some day")
    (make(tmp_path, "e").path / "manifest.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = listing.bundles(tmp_path)
    assert [one.name for one in found] == ["b", "c", "a", "d", "e"]
    assert [len(one.targets) for one in found[:-1]] == [1, 1, 1, 1]
    assert "is not a manifest file" in found[4].problem


def test_no_folder_has_no_bundles(tmp_path):
    assert listing.bundles(tmp_path / "nowhere") == []


def test_a_bundle_is_removed_and_nothing_else(tmp_path):
    make(tmp_path, "a")
    make(tmp_path, "b")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (tmp_path / "a/logs").symlink_to(outside)
    listing.remove(listing.removable(tmp_path / "a"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b", "outside"]
    assert (outside / "kept").read_text() == "x"


@pytest.mark.parametrize("name", ["", ".", "..", "../runs", "/etc", "a/b", "a\0b", "b"])
def test_only_a_bundle_is_removed(tmp_path, name):
    make(tmp_path, "a")
    with pytest.raises(BundleError, match=r"has no manifest\.json|does not exist"):
        listing.removable(tmp_path / name)
    assert (tmp_path / "a/manifest.json").exists()


def test_a_link_is_not_removed(tmp_path):
    made = make(tmp_path / "elsewhere", "a")
    (tmp_path / "link").symlink_to(made.path)
    link = tmp_path / "link"
    with pytest.raises(BundleError) as caught:
        listing.removable(link)
    assert str(caught.value) == f"'{link}' was not removed: it is a link. Remove it yourself: rm {link}"


def test_a_folder_of_something_else_is_not_removed(tmp_path):
    (tmp_path / "app").mkdir()
    with pytest.raises(BundleError, match=r"has no manifest\.json"):
        listing.removable(tmp_path / "app")
    (tmp_path / "app/manifest.json").write_text('{"name": "a web application"}')
    with pytest.raises(BundleError, match="is not a manifest file"):
        listing.removable(tmp_path / "app")


def test_a_bundle_with_something_else_in_it_is_not_removed(tmp_path):
    (make(tmp_path, "a").path / "thesis.tex").write_text("years")
    with pytest.raises(BundleError) as caught:
        listing.removable(tmp_path / "a")
    assert str(caught.value) == (
        f"'{tmp_path / 'a'}' was not removed: beside a run's results it holds 'thesis.tex'. "
        "Move that away, or remove the folder yourself."
    )

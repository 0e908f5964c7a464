"""What all packages of the repository have in common, and what is written down about them."""

import re
import tomllib
from pathlib import Path

import pytest

import aiperf_core
from aiperf_core.plugins import load_plugins

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in ROOT.glob("aiperf-*/pyproject.toml"))
PROJECTS = {folder.name: tomllib.loads((folder / "pyproject.toml").read_text()) for folder in FOLDERS}

each_package = pytest.mark.parametrize("name", PROJECTS)


def required(name):
    """Name the distributions that a package asks for, those of its extras included."""
    project = PROJECTS[name]["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    return {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirements in lists for requirement in requirements}


def test_packages_are_found():
    assert {"aiperf-core", "aiperf-ch01", "aiperf-ch07"} <= PROJECTS.keys()


@each_package
def test_all_have_one_version(name):
    assert PROJECTS[name]["project"]["version"] == aiperf_core.__version__


@each_package
def test_a_package_says_what_it_is(name):
    project = PROJECTS[name]["project"]
    assert project["name"] == name
    assert project["license"] == "MIT"
    assert project["requires-python"] == ">=3.11"
    # A licence file must lie in the folder of its package to be in the wheel.
    assert (ROOT / name / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    package = ROOT / name / "src" / name.replace("-", "_")
    assert (package / "__init__.py").exists()
    assert (package / "py.typed").exists()
    assert (ROOT / name / project["readme"]).read_text().startswith(f"# {name}\n")


@pytest.mark.parametrize("group", [name.removeprefix("aiperf-") for name in PROJECTS if name != "aiperf-core"])
def test_a_readme_lists_the_targets_as_the_contents_page_does(group):
    readme = (ROOT / f"aiperf-{group}" / "README.md").read_text().splitlines()
    targets = [one for one in load_plugins().targets if one.group == group]
    assert bool(targets) == (
        group not in ("redteam", "analysis", "bench", "calc", "learn", "load", "fleet", "traces")
    )  # with attacks, analyses, extras, calculators, pages, loads and fleets instead
    listed = [f"| `{one.name}` | {', '.join(one.devices)} | {one.summary} |" for one in targets]
    assert [line for line in readme if line.startswith(f"| `{group}.")] == listed


def test_a_former_name_is_no_target_and_leads_to_one():
    targets = load_plugins().targets
    former = {name: target.name for target in targets for name in target.formerly}
    assert not former.keys() & {target.name for target in targets}
    assert former["labs.draft_verify"] == "ch15.speculative_decoding"  # of another group
    assert former["ch11.host_sync_removal"] == "ch11.host_device_overlap"


@each_package
def test_a_package_leaves_the_tools_to_the_root(name):
    assert PROJECTS[name].get("tool", {}).keys() <= {"hatch"}


@each_package
def test_every_dependency_is_explained(name):
    explained = set(re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE))
    assert {other for other in required(name) if not other.startswith("aiperf-")} <= explained


def test_nothing_is_explained_that_no_package_asks_for():
    text = (ROOT / "docs" / "dependencies.md").read_text()
    explained = set(re.findall(r"^\| `([a-z0-9-]+)` \|", text.partition("## Development")[0], re.MULTILINE))
    assert explained <= set().union(*map(required, PROJECTS))


# Beside the core: packages that were part of a package, so that its users keep their commands. It imports none of them.
# And the package whose extras are all others.
BROUGHT = {
    "aiperf-analysis": {"aiperf-calc", "aiperf-learn", "aiperf-traces"},
    "aiperf-bench": {"aiperf-bench", *PROJECTS},
}


@each_package
def test_the_core_asks_for_no_chapter_and_a_chapter_for_no_other(name):
    accepted = {"aiperf-core"} - {name} | BROUGHT.get(name, set())
    assert {other for other in required(name) if other.startswith("aiperf-")} <= accepted


@pytest.mark.parametrize("name", [name for name in PROJECTS if re.fullmatch(r"aiperf-ch\d\d", name)])
def test_a_chapter_has_one_entry_point_and_a_compatible_core(name):
    project = PROJECTS[name]["project"]
    number = name.removeprefix("aiperf-")
    assert project["entry-points"] == {"aiperf_core": {number: f"aiperf_{number}.plugin"}}
    minor = aiperf_core.__version__.rpartition(".")[0]
    (core,) = [requirement for requirement in project["dependencies"] if requirement.startswith("aiperf-core")]
    assert re.fullmatch(rf"aiperf-core\[(cuda,)?torch(,triton)?\]~={minor}\.0", core)


def test_the_core_reads_results_without_torch():
    project = PROJECTS["aiperf-core"]["project"]
    assert not [one for one in project["dependencies"] if one.startswith("torch")]
    assert [one for one in project["optional-dependencies"]["torch"] if one.startswith("torch>=")]

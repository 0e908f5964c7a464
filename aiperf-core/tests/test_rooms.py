"""The rooms of the core lie in layers: a file imports only from rooms below its own. In no package do files import each other in a circle.

Every import counts: at the top of a file, within a function, and in the core for types alone.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "aiperf_core"

# From the ground up. A room is the files of a folder, or files of the core's own folder named one by one.
ROOMS: Mapping[str, tuple[str, ...]] = {
    "ground": (
        "errors",
        "analysis",
        "analysis_options",
        "atomic",
        "audit",
        "git",
        "names",
        "units",
        "folders",
        "contributed",
        "ceiling_groups",
        "claims",
        "cost",
        "goal",
        "precision",
        "prediction",
        "tolerance",
        "sweep",
        "switches",
        "targets",
        "text_file",
        "requirements",
        "simulated",
        "measurements",
        "described",
        "distributions",
        "docstring",
        "document_schema",
        "compatibility",
        "commands",
        "events",
        "executor",
        "fleet",
        "profiler",
        "pytree",
        "version",
        "work_folder",
    ),
    "kernels": ("kernels/*",),
    "devices": ("devices/*",),
    "distributed": ("distributed/*",),
    "authoring": (
        "benchmark",
        "launches",
        "graphs",
        "partitions",
        "recorded",
        "simulation",
        "serving",
        "candidate_format",
        "declared_code",
        "formats/*",
        "loading",
        "models/*",
        "models/kernels/*",
    ),
    "results": (
        "results/*",
        "document_kind",
        "suite",
    ),
    "statistics": ("stats/distributions", "stats/draws", "stats/mann_whitney"),
    "validity": ("validity/*", "validity/checks/*", "validity/registry/*"),
    "stats": ("stats/*",),
    "report": ("report/*",),
    "plugins": ("hookspecs", "contributions", "observers", "builtin", "plugins", "trial", "manifest"),
    "processes": ("harness/__init__", "harness/processes/*"),
    "isolation": ("harness/isolation/*",),
    "roles": ("harness/roles/*",),
    "ranks": ("harness/ranks/*",),
    "run": ("harness/run/*",),
    "inline": ("inline/*",),
    "public": ("__init__", "results/__init__"),
    "practice": ("practice/*",),
    "proofs": ("proofs/*",),
    "profiling": ("profiling/*",),
    "render": ("render/*", "render/report/*"),
    "testing": ("testing", "target_check", "fleet_check", "pytest_plugin"),
    "cli": ("cli/*", "__main__"),
}
ORDER = list(ROOMS)


def module_of(file: Path) -> str:
    """`harness/run/planner` for that file; a package is its `__init__`."""
    return file.relative_to(SOURCE).with_suffix("").as_posix()


FILES = {module_of(file): file for file in sorted(SOURCE.rglob("*.py")) if "templates" not in file.parts}


def rooms_of(module: str) -> list[str]:
    """The rooms whose patterns name a module by its name, or else by its folder."""
    folder, _, _ = module.rpartition("/")
    named = [name for name, patterns in ROOMS.items() if module in patterns]
    return named or [name for name, patterns in ROOMS.items() if folder and f"{folder}/*" in patterns]


def names_in(tree: ast.Module) -> Iterator[str]:
    """The dotted names that a file imports, anywhere in it. A class that a text names (`"package.cli:run"`) is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules of the core that a file imports, anywhere in it."""
    yield from filter(None, map(resolved, names_in(tree)))


def resolved(name: str) -> str | None:
    """The module that a dotted name lies in; None outside of the core."""
    parts = name.split(".")
    if parts[0] != "aiperf_core":
        return None
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[1:length])
        for one in (path, f"{path}/__init__" if path else "__init__"):
            if one in FILES:
                return one
    raise AssertionError(f"{name} is no module of the core")


def tree_of(module: str) -> ast.Module:
    """The syntax tree of a file. Not kept: with all trees in memory, garbage collection takes as long as parsing."""
    return ast.parse(FILES[module].read_text(), str(FILES[module]))


@pytest.fixture(scope="module")
def arrows() -> dict[str, list[str]]:
    """The modules of the core that each imports."""
    return {module: sorted(set(imported(tree_of(module))) - {module}) for module in FILES}


def upward(arrows: Mapping[str, list[str]]) -> list[str]:
    """The arrows that do not point down, in words."""
    found = []
    for module, targets in arrows.items():
        (room,) = rooms_of(module)
        for target in targets:
            (other,) = rooms_of(target)
            if ORDER.index(other) > ORDER.index(room):
                found.append(f"{module} ({room}) imports {target} ({other}), which lies above it")
    return found


def circles(arrows: Mapping[str, list[str]]) -> list[str]:
    """The groups of files that import each other, in words (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[str] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in arrows.get(module, ()):
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(" <-> ".join(sorted(group)))

    for module in arrows:
        if module not in number:
            visit(module)
    return found


def test_every_file_is_in_one_room() -> None:
    assert {module: rooms for module in FILES if len(rooms := rooms_of(module)) != 1} == {}


def test_a_room_has_files() -> None:
    empty = [name for name in ROOMS if not any(name in rooms_of(module) for module in FILES)]
    assert empty == []


def test_imports_point_down(arrows: dict[str, list[str]]) -> None:
    assert upward(arrows) == []


def test_no_files_import_each_other(arrows: dict[str, list[str]]) -> None:
    assert circles(arrows) == []


def arrows_of(package: Path) -> dict[str, list[str]]:
    """The modules of a package that each imports, but for types alone."""
    files = {
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in package.rglob("*.py")
        if "templates" not in file.parts
    }
    found = {}
    for module, file in files.items():
        tree = ast.parse(file.read_text(), str(file))
        tree.body = [
            node for node in tree.body if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING"
        ]
        parts = [name.split(".") for name in names_in(tree)]
        prefixes = [[".".join(one[:length]) for length in range(len(one), 0, -1)] for one in parts]
        targets = {next((prefix for prefix in one if prefix in files), module) for one in prefixes}
        found[module] = sorted(targets - {module})
    return found


PACKAGES = {path.name: path for path in sorted(SOURCE.parents[2].glob("aiperf-*/src/aiperf_*"))}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_files_of_a_package_import_each_other(package: str) -> None:
    assert circles(arrows_of(PACKAGES[package])) == []


def test_a_circle_through_a_function_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "low.py").write_text("def f():\n    from made.high import g\n")
    (package / "high.py").write_text("from made import low\n")
    assert circles(arrows_of(package)) == ["made.high <-> made.low"]
    (package / "low.py").write_text("if TYPE_CHECKING:\n    from made.high import g\n")
    assert circles(arrows_of(package)) == []


def test_an_import_turned_round_is_seen(arrows: dict[str, list[str]]) -> None:
    """Each import, one at a time: the arrow then points up, or closes a circle with the one that stands."""
    every = [(module, target) for module, targets in arrows.items() for target in targets]
    assert len(every) > 1000
    unseen = [
        f"{target} imports {module}"
        for module, target in every
        if not upward({target: [module]}) and not circles({**arrows, target: [*arrows[target], module]})
    ]
    assert unseen == []


# --- the page of the documentation

PAGE = (SOURCE.parents[2] / "docs" / "architecture.md").read_text()
# `harness/run/planner.py`: `Planner.plan`
STEPS = re.findall(r"`([\w/]+)\.py`:\s+`([\w.]+)`", PAGE)


@cache
def defined(module: str) -> set[str]:
    """The functions and classes of a file, and the methods of its classes: `Planner.plan`."""
    found = set()
    for node in tree_of(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_the_page_has_every_room() -> None:
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == ORDER[::-1]


def test_the_page_follows_a_run_in_about_twelve_steps() -> None:
    assert len(re.findall(r"^\d+\. ", PAGE, re.MULTILINE)) == 12
    assert len(STEPS) >= 12


@pytest.mark.parametrize(("module", "name"), STEPS)
def test_what_the_page_names_is_there(module: str, name: str) -> None:
    assert name in defined(module)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", PAGE))))
def test_the_files_of_the_page_are_there(path: str) -> None:
    assert (SOURCE / path).exists()


def test_only_what_shows_results_imports_rich() -> None:
    """`render/` and `cli/` lay out and print; the other files return values."""
    wrong = [
        f"{module} imports {name}"
        for module in FILES
        if rooms_of(module) not in (["render"], ["cli"]) and "rich" in FILES[module].read_text()
        for name in outside(tree_of(module))
        if name == "rich"
    ]
    assert wrong == []


def outside(tree: ast.Module) -> Iterator[str]:
    """The packages that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_render_does_not_import_the_harness(arrows: dict[str, list[str]]) -> None:
    below = ("processes", "isolation", "roles", "ranks", "run")
    wrong = [
        f"{module} imports {target}"
        for module, targets in arrows.items()
        if rooms_of(module) == ["render"]
        for target in targets
        if rooms_of(target)[0] in below
    ]
    assert wrong == []

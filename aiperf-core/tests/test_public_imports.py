"""Chapters, labs, the examples and the docs' code use nothing of the core that is not in the public list."""

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import public_api
import pytest

ROOT = Path(__file__).parents[2]
CORE = "aiperf_core"

PACKAGES = ("aiperf-ch*/src", "aiperf-labs*/src", "examples/*/src")
FILES = sorted(file for pattern in PACKAGES for folder in ROOT.glob(pattern) for file in folder.rglob("*.py"))
USERS = [file for file in FILES if CORE in file.read_text()]
PAGES = [file for file in sorted(ROOT.glob("docs/*.md")) if CORE in file.read_text()]


def offered(module: str) -> set[str]:
    """The public names of a module; empty for a module that is not public."""
    if module not in public_api.OFFERED:
        return set()
    found = import_module(module)
    return set(public_api.OFFERED[module] or getattr(found, "__all__", None) or public_api._defined(found))


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def used(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a file takes from the core; of an imported module, the attributes it reads."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == CORE:
                    yield alias.name, "import of a whole module"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == CORE:
            for alias in node.names:
                if is_module(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                else:
                    yield node.module, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def private(code: str) -> list[str]:
    """What a file uses of the core beyond the public list."""
    return sorted({f"{module}.{name}" for module, name in used(ast.parse(code)) if name not in offered(module)})


# What the one model takes beyond the public list: it starts runs as `aiperf run` does, and draws pages of them, for which
# there is no public name yet. These only become fewer; no other file joins them.
INNER = {
    "chapters.py": ["targets.from_a_clone"],
    "cli.py": [
        "atomic.write",
        "cli.resuming.run_to_end",
        "cli.run_view.RunView",
        "cli.run_view.consoles",
        "cli.run_view.print_result",
        "harness.processes.child.ForkServer",
    ],
    "declared.py": ["benchmark.Lossy", "switches.with_flags"],
    "page.py": [
        "measurements.Estimate",
        "prediction.Prediction",
        "report.drawings.of_ratios",
        "report.picture.render_svg",
        "report.text.markdown_text",
        "results.models.Row",
        "results.models.TargetResult",
    ],
    "plan.py": ["atomic.write"],
    "runner.py": [
        "harness.processes.child.ForkServer",
        "harness.run.bundle_run.BundleRun",
        "harness.run.bundle_run.NewBundle",
        "harness.run.options.Options",
        "harness.run.planner.RunReporter",
        "harness.run.request.ResolvedRequest",
        "harness.run.request.resolve",
        "results.bundle.Bundle",
        "results.models.Row",
        "results.models.TargetResult",
        "results.models.Verdict",
        "results.resuming.request_of",
        "targets.Selection",
    ],
    "trained.py": ["atomic.write"],
}


@pytest.mark.parametrize("file", USERS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_package_uses_public_names_only(file: Path) -> None:
    known = INNER.get(file.name, []) if file.parent.name == "one_model" else []
    assert private(file.read_text()) == [f"{CORE}.{name}" for name in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_docs_use_public_names_only(page: Path) -> None:
    # Indented blocks belong to lists.
    blocks = re.findall(r"^( *)```python\n(.*?)^\1```", page.read_text(), re.DOTALL | re.MULTILINE)
    code = "\n".join(inspect.cleandoc(block) for _, block in blocks)
    assert private(code) == []


def test_all_packages_are_walked() -> None:
    assert {file.relative_to(ROOT).parts[0] for file in USERS} >= {
        "aiperf-ch01",
        "aiperf-ch07",
        "aiperf-ch16",
        "examples",
    }


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from aiperf_core import Benchmark", []),
        ("from aiperf_core import units\nunits.seconds(1)", []),
        ("from aiperf_core import units\nunits.nothing(1)", ["aiperf_core.units.nothing"]),
        (
            "def f():\n    from aiperf_core.harness.run.planner import Planner",
            ["aiperf_core.harness.run.planner.Planner"],
        ),
        ("from aiperf_core.kernels.cuda import CudaSource", ["aiperf_core.kernels.cuda.CudaSource"]),
        ("import aiperf_core.plugins", ["aiperf_core.plugins.import of a whole module"]),
    ],
)
def test_a_private_name_is_seen(code: str, found: list[str]) -> None:
    assert private(code) == found


def test_the_types_that_hooks_use_are_public() -> None:
    """Every class in the signature of a hook, and the classes that the `load` of a record names."""
    from aiperf_core import hookspecs
    from aiperf_core.observers import HOOKS

    public = {name for module in public_api.OFFERED for name in offered(module)}
    tree = ast.parse(inspect.getsource(hookspecs))
    named = {
        node.id
        for function in tree.body
        if isinstance(function, ast.FunctionDef) and function.name in HOOKS
        for part in (function.args, function.returns)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }
    kinds = {"Device", "DeviceKind", "Executor", "ExecutorKind", "Profiler", "MetricSet"}
    assert (named | kinds | {"WorkerHandle", "WorkerSpec", "ProcessServer"}) - {"Iterable", "str", "None"} <= public

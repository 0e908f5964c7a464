"""Count the lines that each target adds: python, kernels, tests, documentation, expectations. Needs no GPU.

    python benchmarks/lines_per_target.py [--json] [PATTERN...]

Lines without text are not counted. A target's own are

- its module, and its entry in `plugin.py`;
- the kernel files and the `*_triton` modules that its module names; a kernel file that several targets name is divided
  by them;
- the test files with its name (`test_NAME.py`), its section of the chapter's page in `docs/`, and its rows in
  expectations files.

All other lines of a package's sources, tests and page are shared: they are divided by the number of its targets. Left
out are the licence, the package's README, and commands, which are no targets: modules that neither a target nor the
plugin imports, their kernels, and tests of these alone.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import asdict, frozen

from aiperf_core.plugins import load_plugins
from aiperf_core.stats import expectations
from aiperf_core.targets import InstalledTarget

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("python", "kernels", "tests", "docs", "expectations")
KERNELS = (".cu", ".cuh", ".c", ".h")
# The house's figure for all that a target adds, on average.
AIM = 250


@frozen(kw_only=True)
class Lines:
    """The lines that a target adds, by kind."""

    target: str
    python: float = 0.0
    kernels: float = 0.0
    tests: float = 0.0
    docs: float = 0.0
    expectations: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return sum(float(getattr(self, kind)) for kind in KINDS)


def package(folder: Path, targets: Iterable[InstalledTarget]) -> Iterator[Lines]:
    """The lines of each target of a package. `folder` is that of its sources, `aiperf-NN/src/aiperf_NN`."""
    own = {one.name.rpartition(".")[2]: one for one in targets}
    found: dict[str, Counter[str]] = {name: Counter() for name in own}
    shared: Counter[str] = Counter()

    def share(kind: str, lines: float, names: Iterable[str]) -> None:
        """Divide lines among the targets that have them, or keep them for all."""
        named = list(names)
        if not named:
            shared[kind] += lines
        for name in named:
            found[name][kind] += lines / len(named)

    users, commands = _users(folder, own), _commands(folder, own)
    for file in sorted(folder.rglob("*")):
        if file.stem not in commands and (file.suffix == ".py" or file.suffix in KERNELS):
            kind = "kernels" if "kernels" in file.parts or file.suffix in KERNELS else "python"
            share(kind, count(file.read_text()), {file.stem} & own.keys() or users[file.name])
    for file in sorted(folder.parents[1].glob("tests/**/*.py")):
        tested = _imported(file, folder.name)
        if tested and tested <= commands:
            continue
        share("tests", count(file.read_text()), {file.stem.removeprefix("test_")} & own.keys())
    for heading, text in _sections(folder):
        share("docs", count(text), {heading} & own.keys())
    for file in sorted((folder / expectations.FOLDER).glob("*.json")):
        text = file.read_text()
        rows = Counter(re.findall(r'^\s*"\w+\.(\w+):\w+": ', text, re.MULTILINE))
        for name in rows.keys() & own.keys():
            share("expectations", rows[name], [name])
        share("expectations", count(text) - sum(rows[name] for name in rows.keys() & own.keys()), ())
    for name, target in own.items():
        each = {kind: found[name][kind] + shared[kind] / len(own) for kind in KINDS}
        yield Lines(target=target.name, **each)


def _users(folder: Path, names: Iterable[str]) -> dict[str, set[str]]:
    """The targets whose modules name a kernel file, by the file's name."""
    users: dict[str, set[str]] = defaultdict(set)
    for name in names:
        text = (folder / f"{name}.py").read_text()
        files = {Path(found).name for found in re.findall(r"""["']([\w./]+\.(?:cu|cuh|c|h|py))["']""", text)}
        for file in files | {f"{found}.py" for found in re.findall(r"\b(\w+_triton)\b", text)}:
            users[file].add(name)
    return users


def _commands(folder: Path, targets: Iterable[str]) -> set[str]:
    """The modules of commands: those that neither a target nor the plugin imports, in any number of steps."""
    modules = {file.stem: file for file in folder.glob("*.py")}
    reached, ahead = set(), {"__init__", "plugin", *targets}
    while ahead:
        reached |= ahead
        ahead = {
            name for module in ahead & modules.keys() for name in _imported(modules[module], folder.name)
        } - reached
    triton = {name for name in modules if name.endswith("_triton")}
    return modules.keys() - reached - triton


def _imported(file: Path, package: str) -> set[str]:
    """The modules of a package that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            found.add(str(node.module).split(".")[1])
    return found


def _sections(folder: Path) -> Iterator[tuple[str, str]]:
    """The sections of the chapter's page with their headings."""
    page = ROOT / "docs" / f"{folder.name.removeprefix('aiperf_')}.md"
    for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE) if page.exists() else ():
        heading, _, _ = section.partition("\n")
        yield heading.strip("`"), section


def count(text: str) -> int:
    """The lines with text."""
    return sum(bool(line.strip()) for line in text.splitlines())


def main() -> int:
    """Print the table; the exit code is always 0."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", default=["all"])
    parser.add_argument("--json", action="store_true", dest="as_json")
    asked = parser.parse_args()
    plugins = load_plugins()
    chosen = {one.target.name for one in plugins.select(asked.patterns)}
    packages: dict[Path, list[InstalledTarget]] = defaultdict(list)
    for target in plugins.targets:
        source = expectations.source_of(target)
        if source and target.distribution != "aiperf-core":
            packages[source.folder].append(target)
    found = [one for folder, targets in packages.items() for one in package(folder, targets) if one.target in chosen]
    if asked.as_json:
        print(json.dumps([{**asdict(one), "total": one.total} for one in found], indent=1))
        return 0
    width = max((len(one.target) for one in found), default=6)
    print(f"{'target':<{width}} {' '.join(f'{kind:>12}' for kind in KINDS)} {'total':>7}")
    for one in sorted(found, key=lambda one: one.total, reverse=True):
        print(f"{one.target:<{width}} {' '.join(f'{getattr(one, kind):12.0f}' for kind in KINDS)} {one.total:7.0f}")
    if found:
        means = [sum(getattr(one, kind) for one in found) / len(found) for kind in KINDS]
        print(f"{'average':<{width}} {' '.join(f'{mean:12.0f}' for mean in means)} {sum(means):7.0f}  (aim: {AIM})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

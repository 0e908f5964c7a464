"""The corpus uses the core's public names. An attack may also touch the internals that it attacks, listed by file.

The selftest is no part of the corpus: it measures with the harness's own parts.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import aiperf_redteam

SOURCES = Path(aiperf_redteam.__path__[0])
API = Path(__file__).parents[2] / "aiperf-core" / "tests" / "public_api.txt"
PUBLIC = {fact.split("(")[0].split()[0] for fact in API.read_text().splitlines() if fact.startswith("aiperf_core")}
OURS = "aiperf_core"
SELFTEST = ("cli", "selftest")
# What an attack replaces, or looks for in the process that it runs in.
ATTACKED = {
    "evaluation.py": {
        "aiperf_core.harness.roles.judge",
        "aiperf_core.validity.output_check",
    },
    "tamper.py": {
        "aiperf_core.devices.timing",
        "aiperf_core.validity.output_check",
        "aiperf_core.harness.roles.output.Output",
    },
    "timing_cache.py": {"aiperf_core.devices.cpu.CpuDevice"},
}


def imported(file: Path) -> Iterator[str]:
    """What a file takes from the core, as dotted names."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == OURS:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.partition(".")[0] == OURS)


def test_attacks_use_public_names_and_what_they_attack() -> None:
    found = {
        file.relative_to(SOURCES).as_posix(): beyond
        for file in sorted(SOURCES.rglob("*.py"))
        if file.relative_to(SOURCES).parts[0] not in SELFTEST
        if (beyond := {name for name in imported(file) if name not in PUBLIC})
    }
    assert found == ATTACKED

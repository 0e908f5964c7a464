"""Decisions that stand in one file: the list of metrics, and which verdicts are believed."""

import ast
from collections.abc import Iterator
from pathlib import Path

from aiperf_core.report.metrics import METRICS

ROOT = Path(__file__).parents[3]
FILES = sorted(ROOT.glob("aiperf-*/src/**/*.py"))
# Metrics in one literal of names that make it a list of them.
MANY = 4
# Where they are listed, and where a row is made.
HOMES = {"aiperf-core/src/aiperf_core/report/metrics.py", "aiperf-core/src/aiperf_core/stats/verdicts.py"}


def lists(tree: ast.AST) -> Iterator[set[str]]:
    """The keys of metrics in each literal of a file: a tuple, a list, a set, or the keys of a dictionary."""
    for node in ast.walk(tree):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
        if items:
            yield {item.value for item in items if isinstance(item, ast.Constant) and item.value in METRICS}


def test_a_list_is_seen():
    for text in (
        'SHOWN = ("time_s", "speedup", "step_speedup", "wall_s")',
        'cells = {"time_s": 1, "speedup": 2, "peak_bytes": 3, "joules_per_call": 4, **others}',
    ):
        assert max(map(len, lists(ast.parse(text)))) == MANY


def test_belief_is_decided_by_the_verdict_alone():
    """The other two describe the files of a bundle."""
    naming = {file.name for file in FILES if "DISBELIEVED" in file.read_text()}
    assert naming == {"models.py", "schema.py", "structure.py"}


def test_metrics_are_listed_once():
    listing = {
        str(file.relative_to(ROOT))
        for file in FILES
        if max(map(len, lists(ast.parse(file.read_text()))), default=0) >= MANY
    }
    assert listing == HOMES

"""The lines that each target adds: its own, its part of shared files, no command, and nothing twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf_core.targets import InstalledTarget

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lines_per_target.py"
ROWS = {"hardware": "x", "runs": [], "expected": {"acme.gather:a": 1, "acme.gather:b": 2, "acme.copy:a": 3}}


def test_lines_are_counted_once(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    folder = tmp_path / "aiperf-acme" / "src" / "aiperf_acme"
    for path, text in {
        "plugin.py": "a\n\nb\n",
        "cli.py": "from aiperf_acme.sweep import run\nfrom aiperf_acme import gather\n",
        "sweep.py": "1\n2\n",
        "kernels/sweep.cu": "1\n2\n",
        "../../tests/test_commands.py": "from aiperf_acme.cli import main\nfrom aiperf_acme import sweep\n",
        "gather.py": 'x = "both.cu", "own.c"\n',
        "copy.py": 'x = "both.cu"\ny = 1\n',
        "kernels/both.cu": "1\n2\n3\n4\n",
        "kernels/own.c": "1\n2\n3\n",
        "kernels/bulk.cuh": "1\n2\n",
        "expectations/x.json": json.dumps(ROWS, indent=1),
        "../../tests/test_gather.py": "1\n2\n3\n",
        "../../tests/test_targets.py": "from aiperf_acme import gather\n",
        "../../../docs/acme.md": "# Acme\n\n## `gather`\n\nnote\nnote\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    targets = [InstalledTarget(f"acme.{name}", f"aiperf_acme.{name}") for name in ("gather", "copy")]
    gather, copy = script.package(folder, targets)
    assert (gather.python, gather.kernels, gather.tests, gather.docs) == (1 + 1, 2 + 3 + 1, 3 + 0.5, 3 + 0.5)
    assert (copy.python, copy.kernels, copy.tests, copy.docs) == (2 + 1, 2 + 1, 0.5, 0.5)
    rest = (script.count(json.dumps(ROWS, indent=1)) - 3) / 2
    assert (gather.expectations, copy.expectations) == (2 + rest, 1 + rest)


def test_the_table_has_every_target_and_the_average():
    found = subprocess.run([sys.executable, str(SCRIPT), "ch07"], capture_output=True, text=True, check=True)
    heading, *rows, average = found.stdout.splitlines()
    assert heading.split() == ["target", "python", "kernels", "tests", "docs", "expectations", "total"]
    assert {row.split()[0].partition(".")[0] for row in rows} == {"ch07"}
    totals = [float(row.split()[-1]) for row in rows]
    assert totals == sorted(totals, reverse=True)
    assert float(average.split()[6]) == pytest.approx(sum(totals) / len(totals), abs=1)
    assert average.endswith("(aim: 250)")

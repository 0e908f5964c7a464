"""What `benchmarks/judge_load.py` says of stored judgements."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "judge_load.py"


def line(candidate: str, load: int, interval: str, fastest: str, interrupted: float) -> str:
    told = {"target": "practice.softmax", "load": load, "load_average": 2.0, "verdict": "SAME", "seconds": 1.0}
    seen = {"interval": interval, "fastest": fastest, "interrupted": interrupted, "speedup": 1.0, "fastest_ratio": 1.0}
    return json.dumps({**told, "candidate": candidate, **seen})


def test_a_report_applies_the_thresholds(tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    lines = [
        line("identical", 0, "INCONCLUSIVE", "SAME", 0.0),
        line("identical", 2, "SLOWER", "SAME", 0.3),
        line("identical", 2, "FASTER", "FASTER", 0.9),
        line("longer", 0, "SLOWER", "SLOWER", 0.1),
        line("longer", 2, "SLOWER", "SAME", 0.8),
        line("longer", 2, "FASTER", "SAME", 0.2),
        json.dumps({"target": "practice.softmax", "load": 2, "candidate": "longer", "verdict": "INVALID"}),
    ]
    file.write_text("\n".join(lines) + "\n")
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        "7 judgements, 1 without a speedup\n"
        "load 0: 2 judgements; samples that lost a processor: median 5%, from 0% to 10%\n"
        "load 2: 4 judgements; samples that lost a processor: median 55%, from 20% to 90%\n"
        "3 of 6 are false by the interval; the fastest samples agree in 1\n"
        "  from a share of 0%       1 false\n"
        "  from a share of 10%      1 false\n"
        "  from a share of 25%      2 false\n"
        "  from a share of 50%      3 false\n"
        "  from a share of 75%      3 false\n"
        "  without the rule         3 false\n"
        "2 of 6 are right by the interval; the fastest samples agree in 1\n"
        "  from a share of 0%       1 right\n"
        "  from a share of 10%      1 right\n"
        "  from a share of 25%      1 right\n"
        "  from a share of 50%      1 right\n"
        "  from a share of 75%      1 right\n"
        "  without the rule         2 right\n"
    )
    assert done.returncode == 0
    file.write_text("")
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1


def test_longer_code_computes_the_first_rows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    assert script["longer"]("practice.matmul", 0.25) == (
        "import torch\n\n\nclass Implementation:\n    def run(self, a, b):\n"
        "        a[: int(0.25 * len(a))] @ b\n        return a @ b\n"
    )

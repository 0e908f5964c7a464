"""What `benchmarks/watch_speed.py` says of stored figures."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "watch_speed.py"


def test_a_report_says_what_is_met(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    found = {
        "target": "practice.softmax",
        "load_before": 0.4,
        "load_after": 2.1,
        "saves_s": [1.0, 1.5, 9.0],
        "served_s": [5.0, 1.0, 2.5, 3.0],
        "run_s": 6.5,
        "import_s": 1.0,
    }
    file.write_text(json.dumps(found))
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        "practice.softmax, load average 0.4 before and 2.1 after\n"
        "a save is answered (median of 3): 1.50 s; wanted: at most 2.00 s: MET\n"
        "the first candidate of a service is answered, start included: 5.00 s; wanted: at most 6.00 s: MET\n"
        "a later candidate is answered (median of 3): 2.50 s; wanted: at most 2.00 s: MISSED\n"
        "a quick run, against 1.2 x import torch (1.00 s) + 5 s: 6.50 s; wanted: at most 6.20 s: MISSED\n"
    )
    assert done.returncode == 1
    file.write_text(json.dumps({**found, "served_s": [5.0, 1.0], "run_s": 6.0}))
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0

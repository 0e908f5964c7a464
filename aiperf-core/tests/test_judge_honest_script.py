"""What `benchmarks/judge_honest.py` says of stored judgements."""

import argparse
import contextlib
import json
import runpy
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.errors import AiperfError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "judge_honest.py"


def line(verdict: str | None, load: int = 2, reason: str | None = None, error: str | None = None) -> str:
    told = {"target": "practice.softmax", "load": load, "load_average": 2.0, "speedup": 1.0, "seconds": 1.0}
    return json.dumps({**told, "verdict": verdict, "reason": reason, "error": error, "findings": []})


def test_a_report_counts_accusations_by_load(tmp_path: Path) -> None:
    file = tmp_path / "honest.jsonl"
    lines = [line("SAME"), line("SAME"), line("INVALID", reason="it is busy"), line(None, 0, error="no socket")]
    file.write_text("\n".join(lines) + "\n")
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        "load 0: 1 judgements of identical code; 1 accused or failed\n"
        "  None 1\n"
        "  practice.softmax: None: no socket\n"
        "load 2: 3 judgements of identical code; 1 accused or failed\n"
        "  SAME 2, INVALID 1\n"
        "  practice.softmax: INVALID: it is busy\n"
    )
    assert done.returncode == 1
    file.write_text(line("SAME") + "\n")
    done = subprocess.run([sys.executable, SCRIPT, "--report", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0


def test_judges_at_the_same_time_make_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judgements of a part of a run stay, and each target is judged as often as the others."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    judging = threading.Barrier(2)

    class Service:
        """Answers when another one is asked at the same time."""

        def __init__(self, target: str, cache: Path, *options: str) -> None:
            self.target = target

        def __enter__(self) -> "Service":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def judge(self, code: str) -> dict[str, Any]:
            judging.wait(30)
            return {"verdict": "SAME", "seconds": 1.0, "speedup": {"value": 1.0}}

    file, run = tmp_path / "honest.jsonl", script["Judges"].run
    file.write_text(line("SAME") + "\n" + line("INVALID", load=0) + "\n")
    monkeypatch.setitem(run.__globals__, "Service", Service)
    monkeypatch.setitem(run.__globals__, "other_work", lambda load: contextlib.nullcontext())
    asked = {"count": 7, "load": 2, "jobs": 2, "seconds": 60.0, "size": "smoke", "out": file}
    script["Judges"](argparse.Namespace(**{**asked, "seconds": 0.0})).run()
    assert len(file.read_text().splitlines()) == 2
    script["Judges"](argparse.Namespace(**asked)).run()
    lines = [json.loads(one) for one in file.read_text().splitlines()]
    assert Counter(one["target"] for one in lines if one["load"] == 2) == {
        "practice.matmul": 3,
        "practice.softmax": 2,
        "practice.sum_rows": 2,
    }
    script["Judges"](argparse.Namespace(**asked)).run()
    assert len(file.read_text().splitlines()) == len(lines)


def test_a_judge_that_fails_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    started: list[str] = []

    class Service:
        """Does not start."""

        def __init__(self, target: str, cache: Path, *options: str) -> None:
            started.append(target)

        def __enter__(self) -> "Service":
            raise AiperfError("the service did not start: no torch")

        def __exit__(self, *_: object) -> None:
            raise AssertionError("it was never entered")

    run = script["Judges"].run
    monkeypatch.setitem(run.__globals__, "Service", Service)
    monkeypatch.setitem(run.__globals__, "other_work", lambda load: contextlib.nullcontext())
    asked = {"count": 50, "load": 2, "jobs": 2, "seconds": 60.0, "size": "smoke", "out": tmp_path / "honest.jsonl"}
    with pytest.raises(AiperfError, match="the service did not start: no torch"):
        script["Judges"](argparse.Namespace(**asked)).run()
    assert 1 <= len(started) <= 2

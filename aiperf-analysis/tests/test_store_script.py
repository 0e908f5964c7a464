"""The benchmark of the store, with few rows: its parts run, count rightly, and can fail."""

import runpy
import sqlite3
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "analysis_store.py"
SMALL = ["--rows", "1000", "--repeats", "2", "--bundles", "6", "--kills", "3", "--writers", "2"]


@pytest.fixture
def script(monkeypatch):
    """The script's names, with limits of time that a busy machine keeps."""
    found = runpy.run_path(str(SCRIPT))
    of = found["main"].__globals__
    monkeypatch.setitem(of, "LIMITS_S", dict.fromkeys(of["LIMITS_S"], 60.0))
    monkeypatch.setitem(of, "LIMIT_BUNDLES_PER_S", 0.01)
    monkeypatch.setattr(sys, "argv", ["analysis_store.py", *SMALL])
    return of


def test_the_table(script, capsys):
    assert script["main"]() == 0
    told = capsys.readouterr().out
    assert "sqlite: 1000 generated rows, filled in " in told
    for line in ("overview, warm", "series of 10 points, warm", "first page of rows, warm", "0 lost, 0 wrong"):
        assert line in told
    assert "MISSED" not in told


def test_what_is_lost_or_doubled_is_seen(script, tmp_path):
    bundles = script["written"](tmp_path / "bundles", 3, 1)
    with script["separate"]("sqlite", str(tmp_path), "some") as url:
        reported = {str(path) for path in bundles}
        assert script["examined"](url, reported, bundles) == (3, 0)  # none was added, all were reported
        assert script["examined"](url, reported, bundles) == (0, 0)
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("DELETE FROM row WHERE target = 1 AND name = 'wide'")
        connection.commit()
        connection.close()
        assert script["examined"](url, reported, bundles) == (0, 2)

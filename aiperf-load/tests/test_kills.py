"""Runs that are killed: nothing goes on to load the server, and what is left of the result is read or refused."""

import json
import random
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest


def session(leader):
    """The processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == leader and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def kill(url, out, rng):
    """Kill a run of two processes: amid a long load, or some time after the start, the bundle or the first answers."""
    line = [sys.executable, "-m", "aiperf_core", "load", "run", url, "--rate", "50", "--duration", "1s" if rng else "60s",
            "--processes", "2", "--output-tokens", "2", "--out", str(out)]  # fmt: skip
    begin = answered(url)
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    moments = (lambda: answered(url) > begin + 5, out.exists, lambda: True)
    reached, later_s = (rng.choice(moments), rng.uniform(0, 3)) if rng else (moments[0], 0.0)
    while not reached() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(later_s)
    process.kill()
    process.wait()
    until_s = time.monotonic() + 10
    while left := session(process.pid):
        assert time.monotonic() < until_s, left
        time.sleep(0.02)


def answered(url):
    with urllib.request.urlopen(f"{url}/stats") as answer:
        return json.load(answer).get("answered", 0)


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.long)])
def test_a_killed_run_leaves_no_process_and_no_torn_bundle(aiperf, server, tmp_path, kills):
    url, out = server("clockwork", "--service", "deterministic:1ms"), tmp_path / "b"
    for number in range(kills):
        shutil.rmtree(out, ignore_errors=True)
        kill(url, out, random.Random(number) if number else None)
        if not out.exists():
            continue
        if (out / "load").exists():  # the document is its last file, and the seal closes the bundle
            assert aiperf("recheck", out).code == 0
        else:
            assert aiperf("load", "show", out).err.splitlines()[-1] in (
                f"aiperf: '{out}' has no manifest.json, so it is not a result bundle or its run never started.",
                f"aiperf: '{out}' has no load. Measure one: aiperf load run URL --rate N",
            )
        again = aiperf("load", "run", url, "--rate", "50", "--out", out)
        assert again.err.startswith(f"aiperf: '{out}' is not empty; results go to a new or an empty folder.")

"""The work of other processes: what lies below this one is not theirs, however it ended."""

import os
import subprocess
import sys

import pytest

from aiperf_redteam.selftest import other_work
from aiperf_redteam.selftest.other_work import OtherWork

share = OtherWork.share  # before the fixture of this folder replaces it
BURN = "import time\nwhile time.process_time() < 0.4: pass\n"
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"


@pytest.mark.parametrize("code", [BURN, IN_A_CHILD])
def test_what_a_process_below_did_is_not_of_others(code):
    before = other_work._look()
    subprocess.run([sys.executable, "-c", code], check=True)
    now = other_work._look()
    assert before is not None
    assert now is not None
    assert now.own_s - before.own_s >= 0.38
    assert now.busy_s - before.busy_s >= 0.35


def test_what_another_process_did_is_of_others():
    """It has another parent, as a process of another user."""
    ended, signal = os.pipe()
    before = other_work._look()
    subprocess.run(["sh", "-c", '"$0" -c "$1" >/dev/null & exit', sys.executable, BURN], check=True, pass_fds=(signal,))
    os.close(signal)
    assert os.read(ended, 1) == b""
    os.close(ended)
    now = other_work._look()
    assert before is not None
    assert now is not None
    assert now.own_s - before.own_s < 0.3
    assert now.busy_s - before.busy_s >= 0.35


@pytest.mark.parametrize(
    ("seconds", "others_s", "expected"),
    [(2.0, 0.8, 0.2), (2.0, 0.0, 0.0), (2.0, -0.1, 0.0), (0.4, 0.2, None)],
)
def test_the_share_is_that_of_the_usable_processors(monkeypatch, seconds, others_s, expected):
    looks = iter([other_work._Look(0.0, 0.0, 0.0, 0.0), other_work._Look(seconds, 2 * seconds, 0.5 + others_s, 0.5)])
    monkeypatch.setattr(other_work, "_look", lambda: next(looks))
    assert share(OtherWork()) == (None if expected is None else pytest.approx(expected))


def test_a_machine_that_does_not_count_tells_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(other_work, "_STAT", tmp_path / "none")
    assert share(OtherWork()) is None

"""Kills of `aiperf ci run` at any moment: nothing stays behind, nothing is torn, and the next run goes on."""

import json
import random
import time

import pytest

from aiperf_core.errors import BundleError
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.recheck import recheck

KILLS = 30
SUITE = """\
name = "n"
targets = ["practice.sum_rows", "practice.matmul"]
device = "cpu"
size = "smoke"
budget_s = 0.05
[busy]
processors = 1.0
wait_s = 0
"""


@pytest.mark.long
def test_a_suite_that_is_killed_at_any_moment(killing, tmp_path):
    """Each run starts at once after a kill, and so would find the lock of an orphan."""
    (tmp_path / "suite.toml").write_text(SUITE)
    command, began = ("ci", "run", "suite.toml", "--json"), time.monotonic()
    whole = killing.end(*command)[0]
    whole_s = time.monotonic() - began
    for _ in range(KILLS):
        killing.kill(random.uniform(0, whole_s), *command)
    code, printed, _ = killing.end(*command)
    assert (code in (0, whole), json.loads(printed)["suite"]) == (True, "n")
    kept, cut = [], []
    for path in sorted(one for one in (tmp_path / "artifacts/ci/n/runs").iterdir() if one.is_dir()):
        try:
            bundle = Bundle.open(path)
        except BundleError as error:
            assert str(error).endswith("so it is not a result bundle or its run never started.")  # noqa: PT017
        else:
            (kept if bundle.manifest.complete else cut).append(bundle)
    assert len(kept) >= 2
    assert cut
    assert all(recheck(one).holds for one in kept)
    for bundle in (cut[0], cut[-1]):
        killing.end("run", "--resume", str(bundle.path), "--quiet")
        assert Bundle.open(bundle.path).manifest.complete

"""Kills of fleets on this machine at any moment: nothing stays behind, nothing is torn, and the fleet goes on."""

import random
import time

import pytest

from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.recheck import recheck

KILLS = 30
SUITE = """\
name = "n"
targets = ["practice.sum_rows", "practice.matmul", "practice.softmax"]
device = "cpu"
size = "smoke"
budget_s = 0.05
[busy]
processors = 1.0
"""


@pytest.mark.long
def test_a_fleet_that_is_killed_at_any_moment(killing, tmp_path):
    """It is resumed until it is whole, and then another one begins."""
    (tmp_path / "suite.toml").write_text(SUITE)
    new, go_on = ("fleet", "run", "suite.toml", "--poll", "0.05", "--out"), ("fleet", "resume", "--poll", "0.05")
    began = time.monotonic()
    assert killing.end(*new, "whole")[0] == 0
    whole_s, fleets = time.monotonic() - began, [tmp_path / "whole"]
    for kill in range(KILLS):
        fleet = fleets[-1]
        if (fleet / "bundle").exists():
            fleet = tmp_path / f"fleet-{kill}"
            fleets.append(fleet)
        command = go_on if (fleet / "fleet.json").exists() else new
        killing.kill(random.uniform(0, whole_s), *command, fleet.name)
        code, _, message = killing.end("fleet", "status", fleet.name)
        assert code in (0, 1, 2), message
    killing.end(*(go_on if (fleets[-1] / "fleet.json").exists() else new), fleets[-1].name)
    for fleet in fleets:
        paths = [fleet / "bundle", *(fleet / "runs").iterdir()]
        assert len(paths) == 4
        assert all(recheck(Bundle.open(path)).holds for path in paths)

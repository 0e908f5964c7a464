"""The simulated job meets Daly's theory, and loses nothing; the steps are what their names say."""

from typing import Any

import numpy as np
import pytest
import torch

from aiperf_ch20 import checkpoint_interval
from aiperf_ch20.checkpoint_interval import COPY_S, LOAD_S, REPLACE_S, Job, daly_s, expected_s
from aiperf_core.benchmark import call_with
from aiperf_core.errors import UsageError
from aiperf_core.simulation import SimulationError

BENCH = checkpoint_interval.bench
SIZES: dict[str, Any] = BENCH.task.presets["cpu"]


def done(kind: type[Job], seed: int = 1, **changed: Any) -> Any:
    """A job that has run, with its output."""
    given = {**SIZES, **changed, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
    given |= call_with(BENCH.task.inputs, given)
    job = kind()
    call_with(job.prepare, given)
    output = call_with(job.run, given)
    assert torch.equal(output["states"], checkpoint_interval.reference(given["words"])["states"])
    assert output["job_s"] == pytest.approx(sum(job.spent_s.values()))
    return job


def mean_s(kind: type[Job], count: int, **changed: Any) -> float:
    jobs = (done(kind, seed, **changed) for seed in range(count))
    return float(np.mean([sum(job.spent_s.values()) for job in jobs]))


@pytest.mark.parametrize("kind", [checkpoint_interval.Hourly, checkpoint_interval.Daly])
def test_a_job_takes_as_long_as_theory_says(kind: type[Job]) -> None:
    job = done(kind, units=4800)
    work_s, restart_s = 4800 * 60.0, REPLACE_S + LOAD_S
    wanted_s = expected_s(work_s, job.interval * 60.0, SIZES["write_s"], restart_s, job.failure_s)
    assert mean_s(kind, 80, units=4800) == pytest.approx(wanted_s, rel=0.02)


def test_no_other_interval_is_better_than_dalys() -> None:
    write_s, failure_s = 120.0, 2197.0
    best_s = daly_s(write_s, failure_s)
    times_s = [expected_s(1.0, best_s * ratio, write_s, 300.0, failure_s) for ratio in (0.5, 0.8, 1.0, 1.25, 2.0)]
    assert min(times_s) == times_s[2]
    assert daly_s(5000.0, 2000.0) == 2000.0


def test_without_failures_only_checkpoints_cost() -> None:
    job = done(checkpoint_interval.Hourly, gpus=1)
    assert job.spent_s == {"work": 1440 * 60, "copy": 23 * SIZES["write_s"], "wait": 0, "restart": 0}
    job = done(checkpoint_interval.PeerMemory, gpus=1)
    assert job.spent_s["copy"] == COPY_S * (-(-1440 // job.interval) - 1)


def test_each_step_makes_the_job_shorter() -> None:
    ladder = [one.code for one in BENCH.implementations_on("cpu")]
    times_s = [mean_s(kind, 8) for kind in ladder]  # type: ignore[arg-type]
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[0] > 2 * times_s[-1]


def test_time_that_is_not_accounted_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(job: Any) -> Any:
        yield job.simulation.environment.timeout(1.0)

    monkeypatch.setattr(Job, "checkpoint", forgets)
    with pytest.raises(SimulationError, match=r"were spent, .* s, of the .* s of a job$"):
        done(checkpoint_interval.Hourly, gpus=1)


def test_a_job_that_does_not_get_on_ends() -> None:
    with pytest.raises(
        UsageError, match=r"^the job does not get on: 2000 failures were not enough for it\. Lower gpus"
    ):
        done(checkpoint_interval.Hourly, gpus=1_000_000)

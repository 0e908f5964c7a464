"""No attack on the observer's clock is believed, and no honest look-alike is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.run import bench
from aiperf_core.results.models import Row, Verdict
from aiperf_core.targets import InstalledTarget
from aiperf_redteam.clock import ATTACKS, HONEST, candidate

TARGET = InstalledTarget("redteam.judged", "aiperf_redteam.judged", "a damped iteration", devices=("cpu",))
# Some attacks never end a call. Honest code is given the usual time: the machine may have other work.
BRIEFLY = {"budget_s": 0.2, "timeout_s": 5.0}
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
# The part of the baseline's fastest sample that no sample of an attack may take less than.
GAIN = 0.6
# With an observer that is a process of its own, too.
SPINNING = ("ends before the work", "a thread ends each sample at its start", "never ends", "a child answers for it")


def fastest_s(row: Row) -> float:
    """The fastest sample, which waited least for other work."""
    return min(filter(None, row.samples.wall_s))


def test_there_are_enough_and_each_is_a_candidate(tmp_path: Path) -> None:
    assert len(ATTACKS) >= 40
    for name in (*ATTACKS, *HONEST):
        file = tmp_path / "candidate.py"
        file.write_text(candidate(name))
        assert check_candidate(file, AIPERF).entry == "Implementation", name


@pytest.mark.proof
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_is_believed(judged: Callable[..., list[Row]], name: str) -> None:
    baseline, row = judged(candidate(name), TARGET, **BRIEFLY)
    assert row.verdict is not Verdict.FASTER, row.speedup
    # Nor by a clock without statistics, which other work on the machine cannot hide a gain from.
    if row.verdict not in REFUSED:
        assert fastest_s(row) > GAIN * fastest_s(baseline), row.reason


@pytest.mark.proof
@pytest.mark.parametrize("name", HONEST)
def test_no_look_alike_is_refused(judged: Callable[..., list[Row]], name: str) -> None:
    _, row = judged(candidate(name), TARGET, budget_s=0.2)
    assert row.verdict not in REFUSED, row.reason
    assert [one.issue for one in row.findings if one.severity == "invalid"] == []


@pytest.mark.proof
@pytest.mark.parametrize("name", [*SPINNING, *HONEST])
def test_an_observer_that_spins_says_the_same(
    judged: Callable[..., list[Row]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "has_processor", lambda _: True)
    if name in HONEST:
        test_no_look_alike_is_refused(judged, name)
    else:
        test_no_attack_is_believed(judged, name)

"""What an implementation takes of the host's memory, in runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.run.options import Overrides
from aiperf_core.results.models import TargetResult, Verdict

Measure = Callable[..., Any]

MIB = 1 << 20
WHOLE, HOARDED = 40 * MIB, 96 * MIB

LATER = """
import torch

class Implementation:
    calls = 0

    def run(self, a):
        self.calls += 1
        if self.calls > 1:
            torch.zeros(64 << 17, dtype=torch.int64).fill_(1)
        return a.clone()
"""


def peaks(result: Any) -> dict[str, int]:
    assert isinstance(result, TargetResult), result
    assert [row.name for row in result.rows if row.verdict in (Verdict.FAILED, Verdict.INVALID)] == []
    for row in result.rows:
        assert row.memory is not None
        assert row.memory.peak_bytes == row.memory.host_peak_bytes
    return {row.name: (row.memory and row.memory.peak_bytes) or 0 for row in result.rows}


@pytest.fixture
def most_held(monkeypatch: pytest.MonkeyPatch) -> int:
    """What `in_turns` holds at most, in bytes."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "targets")
    import holding

    monkeypatch.delitem(sys.modules, "holding")
    return int(holding.most_held())


def near(bytes_: int) -> Any:
    """A tenth more or less for what the host's allocator needs, and some pages."""
    return pytest.approx(bytes_, abs=bytes_ // 10 + 2 * MIB)


def test_what_is_held_counts_and_gaps_between_do_not(measure: Measure, most_held: int) -> None:
    result = measure("holding", "in_one_piece", "in_turns", budget_s=0.5)
    assert peaks(result) == {"in_one_piece": near(WHOLE), "in_turns": near(most_held)}
    assert [row.verdict for row in result.rows] == [Verdict.MEASURED, Verdict.SMALLER]


def test_what_later_calls_leave_behind_counts(measure: Measure) -> None:
    result = measure("holding", "in_one_piece", "hoarding", budget_s=0.5)
    assert peaks(result) == {"in_one_piece": near(WHOLE), "hoarding": near(HOARDED)}
    assert result.rows[1].verdict is Verdict.LARGER


def test_of_what_nobody_trusts_all_calls_count(measure: Measure, tmp_path: Path) -> None:
    source = CandidateSource(tmp_path / "candidate.py", LATER, "0", AIPERF)
    result = measure("holding", candidate=source, budget_s=0.5)
    found = peaks(result)
    assert found["in_one_piece"] == near(WHOLE)
    assert found["candidate"] == pytest.approx(64 * MIB, abs=2 * MIB)
    assert result.rows[1].verdict is Verdict.LARGER


def test_the_same_work_takes_as_much_as_a_candidate(measure: Measure, tmp_path: Path, most_held: int) -> None:
    """Gaps in the heap count on neither side."""
    text = (Path(__file__).parent / "targets/holding.py").read_text()
    functions = text[text.index("def block") : text.index("@bench.baseline")] + text[text.index("def growing") :]
    functions = functions[: functions.index("@bench.variant")] + text[text.index("def in_turns") :]
    functions = functions[: functions.index("@bench.variant", functions.index("def in_turns"))]
    code = "import torch\n\nMIB = 1 << 20\n\n" + functions
    code += "\n\nclass Implementation:\n    def run(self, a):\n        return in_turns(a)\n"
    source = CandidateSource(tmp_path / "candidate.py", code, "0", AIPERF)
    held = peaks(measure("holding", candidate=source, overrides=Overrides(baseline="in_turns"), budget_s=0.5))
    assert held == {"in_turns": near(most_held), "candidate": near(most_held)}

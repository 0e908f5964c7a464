"""Whatever an implementation does costs its own row only, and the row says what happened."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil
import pytest

from aiperf_core.results.models import Row, TargetResult, Verdict

pytestmark = pytest.mark.quiet

Measure = Callable[..., object]

INVALID = {
    "wrong_value": ("output.wrong_values", "1 of 1,009 elements differ; the first, at flat index 17"),
    "stale": ("output.wrong_values", "1,009 of 1,009 elements differ"),
    "stale_copy": ("output.wrong_values", "of 1,009 elements differ"),
    "not_a_number": ("output.wrong_values", "1,009 of 1,009 elements differ"),
    "unwritten": ("output.wrong_values", "elements differ"),
    "wrong_shape": ("output.wrong_form", "the output is float32[1008]; the reference returns float32[1009]"),
    "wrong_dtype": ("output.wrong_form", "the output is float64[1009]; the reference returns float32[1009]"),
    "wrong_structure": ("output.wrong_form", "the output is a dict of 1; the reference returns a tensor float32[1009]"),
    "wrong_type": ("output.wrong_form", "the output holds a misbehaving.AgreesWithAll; accepted are plain dense"),
    "mutates": ("memory.input_mutation", "the call changed its inputs: a; a workload names what may change as state"),
    "late": (None, ""),
}
FAILED = {
    "raises": "raised RuntimeError: no such luck",
    "exits": "its process exited with status 0 during 'sample', without a result",
    "asks_to_exit": "raised SystemExit: 0",
    "crashes": "its process was killed by SIGSEGV during 'sample'",
    "killed": "its process was killed by SIGKILL during 'sample'",
    "allocates": "ran out of memory",
    "unprepared": "raised ValueError: not today",
    "uncompiled": "/uncompiled.c:1: error: 'two' undeclared",
}


def rows_of(result: object) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


def assert_others_untouched(rows: dict[str, Row]) -> None:
    for name in ("doubled", "added"):
        assert rows[name].time_s is not None
        assert rows[name].judgement is not None
        assert rows[name].judgement.worst == 0.0
        assert [one for one in rows[name].findings if one.severity == "invalid"] == []
    assert rows["doubled"].verdict is Verdict.MEASURED
    assert rows["added"].speedup is not None


def test_wrong_outputs_are_invalid(measure: Measure) -> None:
    rows = rows_of(measure("misbehaving", "added", *INVALID))
    assert_others_untouched(rows)
    for name, (issue, message) in INVALID.items():
        row = rows[name]
        assert row.verdict is Verdict.INVALID, name
        assert row.reason is not None
        assert message in row.reason
        assert row.speedup is None
        assert row.time_s is None
        if issue:
            assert [one.issue for one in row.findings] == [issue]


def test_processes_that_end_fail_alone(measure: Measure) -> None:
    before = set(psutil.Process().children(recursive=True))
    rows = rows_of(measure("misbehaving", "added", *FAILED, memory_limit_bytes=4 << 30))
    assert_others_untouched(rows)
    for name, message in FAILED.items():
        assert rows[name].verdict is Verdict.FAILED, name
        assert rows[name].reason is not None
        assert message in rows[name].reason, name
    assert "about to raise" in rows["raises"].log
    assert rows["exits"].log[-1] == "leaving"
    # The message has the compiler's error; a traceback through the harness would bury it.
    assert rows["uncompiled"].log == []
    # One that was killed is there until its parent has taken notice.
    _, left = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=5)
    assert left == []


def test_a_benchmark_may_give_preparation_more_time(measure: Measure) -> None:
    rows = rows_of(measure("slow_to_prepare", "plain", "compiled", timeout_s=1.5))
    assert rows["compiled"].verdict not in (Verdict.FAILED, Verdict.INVALID), rows["compiled"].reason


def test_a_hanging_worker_is_killed_and_says_where_it_hung(measure: Measure) -> None:
    rows = rows_of(measure("misbehaving", "added", "hangs", timeout_s=2.0))
    assert_others_untouched(rows)
    assert rows["hangs"].verdict is Verdict.FAILED
    assert rows["hangs"].reason == ("gave no answer within 2 s (during 'sample') and was killed; --timeout gives more")
    assert "in hangs" in rows["hangs"].log[1], "the innermost call comes first"
    assert not any("aiperf_core/harness" in line for line in rows["hangs"].log)


def test_what_this_machine_lacks_is_skipped_with_the_reason(measure: Measure) -> None:
    rows = rows_of(measure("misbehaving", "added", "needs_gpu"))
    assert_others_untouched(rows)
    assert rows["needs_gpu"].verdict is Verdict.SKIPPED
    assert rows["needs_gpu"].reason == "needs sm_80 (this machine has no CUDA GPU)"


def test_writing_to_the_channel_gains_nothing(measure: Measure) -> None:
    rows = rows_of(measure("misbehaving", "added", "forges"))
    assert_others_untouched(rows)
    assert rows["forges"].verdict in (Verdict.FAILED, Verdict.INVALID)
    assert rows["forges"].speedup is None


def test_no_log_is_lost(measure: Measure, tmp_path: Path) -> None:
    measure("misbehaving", "raises")
    assert "no such luck" in (tmp_path / "raises.log").read_text()


def test_every_sample_of_an_honest_row_is_kept(measure: Measure) -> None:
    rows = rows_of(measure("misbehaving", "added"))
    for name in ("doubled", "added"):
        samples = rows[name].samples
        columns = (samples.step, samples.wall_s, samples.cpu_s, samples.bracket_s, samples.hidden, samples.judged)
        assert samples.block
        assert all(len(column) == len(samples.block) for column in columns)
        assert any(samples.judged)
        assert all(wall is not None and wall > 0 for wall in samples.wall_s)


def test_the_supervisors_own_clock_sees_the_call(measure: Measure) -> None:
    samples = rows_of(measure("misbehaving", "slow"))["slow"].samples
    # On a busy machine a start is read late; one that was not is enough.
    assert max(samples.bracket_s) >= 0.019
    assert median([wall or 0.0 for wall in samples.wall_s]) >= 0.02

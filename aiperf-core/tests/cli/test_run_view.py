import io
import json
import re
import sys
import threading
from pathlib import Path

import pytest

from aiperf_core.cli.run_view import RunView, Screen, print_json, print_result, print_summary
from aiperf_core.results import example, jsontext, models, structure

RESULT = example.result()
SKIPPED = example.manifest().skipped[0]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def go_through(view):
    with view:
        view.target_started("ch07.memory_access", 1, 2)
        view.phase("compile", "strided")
        view.phase("compile", "wide")
        view.phase("sample")
        view.progress(3, 12, 65.0)
        view.progress(4, None, None)
        view.target_finished(RESULT)
        view.target_started("ch10.warp_specialized_gemm", 2, 2)
        view.target_finished(SKIPPED)


def drawn(stream):
    """What each drawing of the changing line showed, without the codes that move the cursor."""
    return [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part).strip()
        for part in re.split(r"\r|\n", stream.getvalue())
        if re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part).strip()
    ]


def test_in_a_pipe_a_line_a_phase():
    stream = io.StringIO()
    go_through(RunView(Screen(stream)))
    assert stream.getvalue() == (
        "[1/2] ch07.memory_access: start\n"
        "[1/2] ch07.memory_access: compile\n"
        "[1/2] ch07.memory_access: sample\n"
        "[1/2] ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED\n"
        "[2/2] ch10.warp_specialized_gemm: start\n"
        "[2/2] ch10.warp_specialized_gemm  SKIPPED\n"
    )


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_says_nothing(stream):
    go_through(RunView(Screen(stream), quiet=True))
    assert stream.getvalue() == ""


def test_in_a_terminal_one_line_changes():
    stream = Terminal()
    go_through(RunView(Screen(stream, 80)))
    assert drawn(stream) == [
        "[1/2] ch07.memory_access  start",
        "[1/2] ch07.memory_access  compile strided",
        "[1/2] ch07.memory_access  compile wide",
        "[1/2] ch07.memory_access  sample",
        "[1/2] ch07.memory_access  sample  ━━──────── 3/12  1 min 05 s left",
        "[1/2] ch07.memory_access  sample  block 4",
        "[1/2] ch07.memory_access  sample  block 4",  # the last drawing, which is then taken away
        "[1/2] ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED",
        "[2/2] ch10.warp_specialized_gemm  start",
        "[2/2] ch10.warp_specialized_gemm  start",
        "[2/2] ch10.warp_specialized_gemm  SKIPPED",
    ]


def test_no_thread_disturbs_the_measurement():
    before = threading.active_count()
    with RunView(Screen(Terminal())) as view:
        view.target_started("t", 1, 1)
        view.phase("sample")
        assert threading.active_count() == before


def test_what_goes_to_standard_output_stays_there():
    """rich would send it to standard error, where the progress is, and a pipe would get nothing."""
    before = sys.stdout, sys.stderr
    with RunView(Screen(Terminal())) as view:
        view.target_started("t", 1, 1)
        assert (sys.stdout, sys.stderr) == before


def test_an_interrupted_run_leaves_the_cursor_visible():
    stream = Terminal()

    def interrupted():
        with RunView(Screen(stream)) as view:
            view.target_started("t", 1, 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_between_targets_results_may_be_printed_to_the_same_terminal():
    stream = Terminal()
    with RunView(Screen(stream)) as view:
        view.target_started("t", 1, 1)
        view.target_finished(RESULT)
        stream.truncate(0)
        stream.seek(0)
        print_summary(Screen(stream), [RESULT])
        assert "\x1b[?25" not in stream.getvalue()


def test_a_bar_is_ascii_without_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with RunView(Screen(stream)) as view:
        view.target_started("t", 1, 1)
        view.phase("sample")
        view.progress(6, 12, 3.0)
        assert "[1/1] t  sample  #####----- 6/12  3 s left" in stream.getvalue()


def test_hostile_names_are_defused():
    stream = Terminal()
    with RunView(Screen(stream)) as view:
        view.target_started("\x1b]0;title\x07t", 1, 1)
        view.phase("\x1b[2Jsample", "\x1b[2Jx")
    assert "\x1b]0" not in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_a_result_ends_with_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = io.StringIO()
    print_result(Screen(stream, 80), RESULT, tmp_path / "artifacts/runs/x")
    assert stream.getvalue().endswith("results       artifacts/runs/x\n\n")
    assert stream.getvalue().startswith("ch07.memory_access - cuda - n=268,435,456 (1 GiB in, 1 GiB out)\n")


def test_a_skipped_target_is_printed_with_its_reason():
    stream = io.StringIO()
    print_result(Screen(stream, 80), SKIPPED)
    assert stream.getvalue() == ("ch10.warp_specialized_gemm  SKIPPED\nneeds sm_90a (this machine has no CUDA GPU)\n\n")


def test_a_summary_ends_with_where_the_bundle_lies():
    stream = io.StringIO()
    print_summary(Screen(stream, 80), [RESULT, SKIPPED], Path("artifacts/runs/x"))
    assert stream.getvalue().endswith(
        "2 FASTER, 1 INCONCLUSIVE, 1 INVALID, 1 FAILED, 2 SKIPPED\nresults       artifacts/runs/x\n"
    )


def test_json_has_the_records_as_on_disk(tmp_path):
    stream = io.StringIO()
    print_json(Screen(stream), [RESULT, SKIPPED], tmp_path)
    found = json.loads(stream.getvalue())
    assert found["bundle"] == str(tmp_path)
    assert found["targets"] == [jsontext.loads(jsontext.to_bytes(structure.document(RESULT)))]
    assert structure.structure(found["targets"][0], models.TargetResult) == RESULT
    assert found["skipped"] == [
        {"target": SKIPPED.target, "verdict": "SKIPPED", "reason": "needs sm_90a (this machine has no CUDA GPU)"}
    ]


def test_json_of_nothing():
    stream = io.StringIO()
    print_json(Screen(stream), [])
    assert stream.getvalue() == '{"bundle": null, "targets": [], "skipped": []}\n'

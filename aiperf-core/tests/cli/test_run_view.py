import io
import json
import re
import sys
import threading
import time
from pathlib import Path

import attrs
import pytest

from aiperf_core.cli.resuming import print_end
from aiperf_core.cli.run_view import RunView, Screen, estimate, print_json, print_result, print_summary
from aiperf_core.events import Progress
from aiperf_core.render.row_columns import View
from aiperf_core.results import example, jsontext, models, structure

RESULT = example.result()
SKIPPED = example.manifest().skipped[0]


def state(seconds_left, share, **known):
    return Progress(target="t", phase="sampling", seconds_left=seconds_left, share=share, **known)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


class Clock:
    """A second passes at each look, or none."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def go_through(view):
    with view:
        view.run_started(2, 70.0, 0)
        view.target_started("ch07.memory_access", 1, 2, 30.0)
        view.phase("setup: prepare", "strided")
        view.phase("setup: prepare", "wide")
        view.phase("sampling", "wide")
        view.progress(state(65.0, 0.25, samples=1200, undecided="wide", interval=(1.23456, 8.0)))
        view.phase("verification: resample", "wide")
        view.progress(state(0.4, 0.999))
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


def test_in_a_pipe_two_lines_a_target():
    stream = io.StringIO()
    go_through(RunView(Screen(stream)))
    assert stream.getvalue() == (
        "2 targets: about 1 min 10 s\n"
        "[1/2] ch07.memory_access: started\n"
        "[1/2] ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED\n"
        "[2/2] ch10.warp_specialized_gemm: started\n"
        "[2/2] ch10.warp_specialized_gemm  SKIPPED\n"
    )


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_says_nothing(stream):
    go_through(RunView(Screen(stream), quiet=True))
    assert stream.getvalue() == ""


HEAD, BAR, ALL = "[1/2] ch07.memory_access", "━━────────", "1 min 35 s in all"
LINES = {
    140: f"{HEAD}  {BAR}  sampling  wide  1,200 samples  wide [1.23, 8]x so far  about 1 min 05 s left  {ALL}",
    120: f"{HEAD}  {BAR}  sampling  wide  1,200 samples  about 1 min 05 s left  {ALL}",
    100: f"{HEAD}  {BAR}  sampling  wide  about 1 min 05 s left  {ALL}",
    80: f"{HEAD}  sampling  wide  about 1 min 05 s left",
}


@pytest.mark.parametrize("width", LINES)
def test_a_narrow_terminal_shows_less(width):
    stream = Terminal()
    screen = Screen(stream)
    screen.console.width = width
    go_through(RunView(screen, clock=Clock(1.0)))
    assert LINES[width] in drawn(stream)
    assert max(len(line) for line in drawn(stream) if "SKIPPED" not in line) <= width


def test_in_a_terminal_one_line_changes():
    stream = Terminal()
    go_through(RunView(Screen(stream, 80), clock=Clock(1.0)))
    done = "[1/2] ch07.memory_access  verification: resample  wide"
    assert drawn(stream) == [
        "2 targets: about 1 min 10 s",
        "[1/2] ch07.memory_access  setup",
        "[1/2] ch07.memory_access  setup: prepare  strided",
        "[1/2] ch07.memory_access  sampling  wide",
        LINES[80],
        f"{done}  about 1 min 05 s left",
        f"{done}  finishing  30 s in all",
        f"{done}  finishing  30 s in all",  # the last drawing, which is then taken away
        "[1/2] ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED",
        "[2/2] ch10.warp_specialized_gemm  setup",
        "[2/2] ch10.warp_specialized_gemm  setup",
        "[2/2] ch10.warp_specialized_gemm  SKIPPED",
    ]


def test_no_thread_disturbs_the_measurement():
    before = threading.active_count()
    with RunView(Screen(Terminal())) as view:
        view.target_started("t", 1, 1)
        view.phase("sample")
        assert threading.active_count() == before


def test_within_a_phase_it_draws_once_a_second():
    stream, clock = Terminal(), Clock(0.01)
    with RunView(Screen(stream), clock=clock) as view:
        view.target_started("t", 1, 1)
        before = stream.tell()
        for number in range(1000):
            view.phase("sampling", f"variant {number % 2}")
            view.progress(state(3.0, 0.5, samples=number))
        draws = stream.getvalue()[before:].count("sampling")
    assert 8 <= draws <= clock.now + 2  # of the start, and of the phase


@pytest.mark.quiet
def test_drawing_takes_less_than_a_millisecond():
    took = []
    with RunView(Screen(Terminal(), 120), clock=Clock(1.0)) as view:
        view.target_started("ch07.memory_access", 1, 14, 100.0)
        view.phase("sampling", "wide")
        for number in range(50):
            start = time.thread_time()
            view.progress(state(30.0, 0.4, samples=number, undecided="wide", interval=(7.9, 8.1)))
            took.append(time.thread_time() - start)
    assert sorted(took)[len(took) // 2] < 1e-3


@pytest.mark.parametrize(
    ("seconds", "targets", "unknown", "said"),
    [
        (8.0, 3, 0, "about 8 s"),
        (9.0, 3, 2, "at least 9 s, plus setup, warm-up and checks of 2 (not measured here before)"),
        (9.0, 3, 3, "at least 9 s, plus setup, warm-up and checks (not measured here before)"),
        (3.0, 1, 1, "at least 3 s, plus setup, warm-up and checks (not measured here before)"),
    ],
)
def test_an_estimate_says_what_it_counts(seconds, targets, unknown, said):
    assert estimate(seconds, targets, unknown) == said


def test_a_run_of_one_target_has_its_plan_too():
    stream = io.StringIO()
    with RunView(Screen(stream)) as view:
        view.run_started(1, 18.0, 0)
        view.run_started(0, 0.0, 0)
    assert stream.getvalue() == "1 target: about 18 s\n"


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
    with RunView(Screen(stream), clock=Clock(1.0)) as view:
        view.target_started("t", 1, 1)
        view.phase("sampling")
        view.progress(state(3.0, 0.5))
        assert "t  #####-----  sampling  about 3 s left" in stream.getvalue()


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


@pytest.mark.parametrize(("where", "address"), [("artifacts/runs/x", "latest"), ("my runs/x", "'my runs/x'")])
def test_a_run_ends_with_where_the_bundle_lies_and_the_command_for_details(where, address):
    stream = io.StringIO()
    print_end(Screen(stream, 80), [RESULT, SKIPPED], None, Path(where))
    assert stream.getvalue().endswith(
        "2 FASTER, 1 INCONCLUSIVE, 1 INVALID, 1 FAILED, 2 SKIPPED\n"
        f"results       {where}\nall details   aiperf show {address} -v\n"
    )
    print_end(Screen(stream, 80), [RESULT, SKIPPED], View(filled=True), Path(where))
    assert stream.getvalue().endswith(f"results       {where}\n")


def test_a_noisy_machine_is_told_in_a_line():
    stream = io.StringIO()
    busy = models.Finding("environment.background_load", "warning", "busy", {"background_median": 0.74})
    rows = [attrs.evolve(row, findings=[*row.findings, busy]) for row in RESULT.rows]
    print_end(Screen(stream, 80), [attrs.evolve(RESULT, rows=rows)], None)
    noisy = "warning noisy machine: other processes kept up to 74 % of the processors busy"
    assert " ".join(stream.getvalue().split()) == noisy


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

"""Answers, grades and the score, without a run."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Estimate
from aiperf_core.results import example
from aiperf_core.results.models import Verdict
from aiperf_core.targets import InstalledTarget
from aiperf_learn.course.answers import Answer, AnswerFile
from aiperf_learn.course.grading import Truth, truth
from aiperf_learn.course.lessons import NEXT, Machine, in_order, listed
from aiperf_learn.course.score import score

GAIN = Estimate(8.0, 7.0, 9.0)


def answer(implementation="wide", factor=8.0, best=("wide",), gain=GAIN, **more):
    values = {"device": "cuda", "bundle": "run7", "date": "2026-11-30T12:00:00+00:00", **more}
    return Answer(implementation=implementation, factor=factor, best=[*best], gain=gain, **values)


@pytest.fixture
def file(tmp_path):
    said = []
    made = AnswerFile(tmp_path / "aiperf" / "learn.json", said.append)
    yield made
    assert said == []


# --- grades


@pytest.mark.parametrize(
    ("factor", "grade"),
    [
        (7.0, "inside"),
        (9.0, "inside"),
        (13.5, "within 1.5x"),
        (4.7, "within 1.5x"),
        (13.6, "within 3x"),
        (2.4, "within 3x"),
        (27.5, "off"),
        (2.3, "off"),
    ],
)
def test_a_factor_is_graded_by_its_distance_from_the_interval(factor, grade):
    assert answer(factor=factor).grade == grade


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({}, "right"),
        ({"best": ("coalesced", "wide")}, "right"),
        ({"factor": 20.0}, "near"),
        ({"factor": 100.0}, "near"),
        ({"best": ("coalesced",)}, "near"),
        ({"best": ("coalesced",), "factor": 100.0}, "off"),
        ({"implementation": "strided", "factor": None, "gain": None, "best": ("strided",)}, "right"),
        ({"implementation": "strided", "factor": None, "gain": None}, "off"),
        ({"best": (), "gain": None}, "not decided"),
        ({"best": ()}, "not decided"),
    ],
)
def test_an_outcome_takes_the_implementation_and_the_factor(given, outcome):
    assert answer(**given).outcome == outcome


def test_the_error_is_the_logarithm_of_the_ratio():
    assert answer(factor=16.0).error == pytest.approx(math.log(2))
    assert answer(factor=4.0).error == pytest.approx(math.log(2))
    assert answer(factor=None, gain=None).error is None


def changed(name, **fields):
    """The example of a result, with one row changed."""
    result = example.result()
    return evolve(result, rows=[evolve(row, **fields) if row.name == name else row for row in result.rows])


def test_the_highest_gain_is_the_best_and_a_yardstick_is_none():
    assert truth(example.result(), "coalesced") == Truth(["wide"], example.estimate(7.992))
    assert truth(example.result(), "wide") == Truth(["wide"], example.estimate(8.671))
    assert truth(example.result(), "strided") == Truth(["wide"], None)


def test_implementations_whose_intervals_overlap_both_count():
    result = changed("coalesced", speedup=Estimate(8.5, 8.0, 8.65))
    assert truth(result, "coalesced").best == truth(result, "wide").best == ["coalesced", "wide"]
    apart = changed("coalesced", speedup=Estimate(8.3, 8.0, 8.55))
    assert truth(apart, "coalesced").best == ["wide"], "more than the floor of 1 % below"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("prefetched", "prefetched is INCONCLUSIVE, with 0.972 to 1.03x"),
        ("remembered", "remembered is INVALID: sample 17 does not match the reference of its own seed"),
        ("tensor_memory", "tensor_memory is SKIPPED: needs sm_100 (this GPU is sm_90)"),
    ],
)
def test_nothing_is_graded_by_a_row_that_decides_nothing(name, reason):
    assert truth(example.result(), name) == Truth([], None, reason)


def test_the_best_is_not_decided_while_an_inconclusive_row_lies_above():
    result = changed("prefetched", speedup=Estimate(20.0, 9.0, 40.0))
    assert truth(result, "wide") == Truth(
        [], example.estimate(8.671), "prefetched may be better, and this run did not decide it"
    )
    assert truth(result, "coalesced").best == ["wide"], "which is wrong, whatever prefetched turns out to be"


def test_without_a_believed_baseline_nothing_is_decided():
    result = changed("strided", verdict=Verdict.INVALID, reason="impossible")
    assert truth(result, "strided") == Truth([], None, "strided is INVALID: impossible")


def test_where_memory_is_the_goal_the_least_memory_is_the_best():
    result = evolve(example.result(), goal="memory")
    rows = [evolve(row, memory_gain=gain) for row, gain in zip(result.rows, (None, 4.0, 2.0, *[None] * 5), strict=True)]
    assert truth(evolve(result, rows=rows), "coalesced") == Truth(["coalesced"], Estimate(4.0, 4.0, 4.0))


# --- the file


def test_the_first_decided_answer_stays(file):
    assert file.read() == {}
    undecided, first, second = answer(best=(), gain=None), answer(), answer("coalesced")
    assert [file.add("ch07.copy", one) for one in (undecided, first, second)] == [undecided, first, first]
    assert file.read() == {"ch07.copy": first}
    assert json.loads(file.path.read_text())["format"] == 1


@pytest.mark.parametrize("text", ["", "{", '{"format": 2, "answers": {}}', '{"format": 1, "answers": {"a": 3}}'])
def test_a_file_that_cannot_be_used_is_moved_aside(tmp_path, text):
    said = []
    file = AnswerFile(tmp_path / "learn.json", said.append)
    for number in (1, 2):
        file.path.write_text(text)
        file.add("ch07.copy", answer())
        assert Path(f"{file.path}.{number}").read_text() == text
        assert said[-1].startswith(f"'{file.path}' does not hold answers of format 1 (")
        assert said[-1].endswith(f"). It is now '{file.path}.{number}', and the score begins anew.")
    assert file.read() == {"ch07.copy": answer()}


ADDING = """
import sys
from pathlib import Path
from aiperf_core.measurements import Estimate
from aiperf_learn.course.answers import Answer, AnswerFile
for index in range(20):
    AnswerFile(Path(sys.argv[1]), print).add(
        f"ch07.lesson_{sys.argv[2]}_{index}",
        Answer(implementation="wide", factor=8.0, best=["wide"], gain=Estimate(8.0, 7.0, 9.0), device="cuda",
               bundle="run7", date="2026-11-30T12:00:00+00:00"),
    )
"""


def test_two_processes_lose_no_answer(file):
    commands = [[sys.executable, "-c", ADDING, str(file.path), name] for name in ("one", "two")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    assert len(file.read()) == 40


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "aiperf").write_text("")
    file = AnswerFile(tmp_path / "aiperf" / "learn.json", print)
    with pytest.raises(AiperfError) as caught:
        file.add("ch07.copy", answer())
    assert str(caught.value) == (
        f"cannot use '{file.path}', which keeps the answers: File exists. Correct that, or name another folder in "
        "XDG_DATA_HOME."
    )


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.setattr("aiperf_learn.course.answers.data_folder", lambda: None)
    with pytest.raises(AiperfError, match="The user has no home folder for answers"):
        AnswerFile.of_user(print)


# --- lessons and score


def target(name, devices=("cpu", "cuda"), tags=()):
    return InstalledTarget(name, "acme.x", summary=f"About {name}", devices=devices, tags=tags)


TARGETS = [
    target("labs.ladder"),
    target("ch10.pipe", devices=("cuda",)),
    target("ch02.second"),
    target("ch02.first"),
    target("ch04.ring", tags=("distributed",)),
    target("practice.sum", devices=("cpu",)),
]


def test_chapters_come_first_and_a_group_keeps_its_order():
    names = [one.name for one in in_order(TARGETS)]
    assert names == ["ch02.second", "ch02.first", "ch04.ring", "ch10.pipe", "labs.ladder", "practice.sum"]


@pytest.mark.parametrize(
    ("machine", "needs"),
    [
        (Machine(("cpu",), 0), {"ch10.pipe": "needs a GPU"}),
        (Machine(("cpu", "cuda"), 1), {"ch04.ring": "needs 2 GPUs, or --device cpu"}),
        (Machine(("cpu", "cuda"), 2), {}),
    ],
)
def test_a_machine_shows_what_it_has_the_devices_for(machine, needs):
    (table,) = listed(TARGETS, machine, {}, whole=True).tables
    assert {row.cells["lesson"]: row.cells["needs"] for row in table.records if row.cells["needs"]} == needs


def test_the_next_lessons_run_here_and_have_no_answer():
    result = listed(TARGETS, Machine(("cpu",), 0), {"ch02.second": answer()}, whole=False)
    assert result.summary == ["6 lessons, 5 run on this machine. Predictions: 1 right."]
    names = [row.cells["lesson"] for row in result.tables[0].records]
    assert names == ["ch02.first", "ch04.ring", "labs.ladder", "practice.sum"]
    many = [target(f"ch01.lesson_{number}") for number in range(9)]
    assert len(listed(many, Machine(("cpu",), 0), {}, whole=False).tables[0].records) == NEXT


def test_the_score_counts_by_chapter():
    kept = {
        "ch07.copy": answer(factor=16.0),
        "ch07.sum": answer(best=("coalesced",), factor=4.0),
        "ch09.x": answer(best=(), gain=None),
    }
    result = score(kept)
    assert result.summary == [
        "3 predictions: 2 near, 1 not decided.",
        "Predicted factors are 2x off the measured ones, as a geometric mean.",
    ]
    chapters, lessons = result.tables
    assert [[*row.cells.values()][:5] for row in chapters.records] == [["ch07", 0, 2, 0, 0], ["ch09", 0, 0, 0, 1]]
    assert chapters.records[0].cells["error"].value == pytest.approx(2.0)
    assert chapters.records[1].cells["error"] is None
    assert [row.cells["answer"] for row in lessons.records] == ["near", "near", "not decided"]

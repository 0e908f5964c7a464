"""The score of a learner: predictions so far, by chapter."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import mean

from aiperf_core import units
from aiperf_core.report.result import Cell, Column, Figure, Record, Result, Table, figure
from aiperf_learn.course.answers import OUTCOMES, Answer


def counts(answers: Iterable[Answer]) -> str:
    """The number of answers of each outcome: `3 right, 1 near`."""
    counted = Counter(answer.outcome for answer in answers)
    return ", ".join(f"{counted[outcome]} {outcome}" for outcome in OUTCOMES if counted[outcome])


def score(answers: Mapping[str, Answer]) -> Result:
    """All answers as a result: a row for each chapter, and one for each lesson."""
    summary = ["No prediction so far. The lessons: aiperf learn"]
    if answers:
        summary = [f"{units.plural('prediction', len(answers))}: {counts(answers.values())}."]
        if typical := _typical(answers.values()):
            summary.append(f"Predicted factors are {typical.value:.3g}x off the measured ones, as a geometric mean.")
    groups: dict[str, list[Answer]] = {}
    for lesson, answer in answers.items():
        groups.setdefault(lesson.partition(".")[0], []).append(answer)
    return Result(
        analysis="learn",
        title="Predictions",
        summary=summary,
        tables=[
            Table("chapters", "By chapter", _CHAPTER, [_chapter(*item) for item in sorted(groups.items())]),
            Table("answers", "By lesson", _LESSON, [_lesson(*item) for item in sorted(answers.items())]),
        ]
        if answers
        else [],
    )


_CHAPTER = [
    Column("chapter", "chapter"),
    *(Column(outcome.replace(" ", "_"), outcome, "figure") for outcome in OUTCOMES),
    Column("error", "typical error", "figure"),
]
_LESSON = [
    Column("lesson", "lesson"),
    Column("answer", "answer"),
    Column("predicted", "predicted best"),
    Column("best", "best"),
    Column("factor", "predicted factor", "figure"),
    Column("gain", "measured", "figure"),
    Column("grade", "factor"),
    Column("device", "device"),
    Column("date", "date"),
]


def _chapter(chapter: str, answers: list[Answer]) -> Record:
    counted = Counter(answer.outcome for answer in answers)
    numbers: dict[str, Cell] = {outcome.replace(" ", "_"): counted[outcome] for outcome in OUTCOMES}
    return Record({"chapter": chapter, **numbers, "error": _typical(answers)})


def _lesson(lesson: str, answer: Answer) -> Record:
    return Record(
        {
            "lesson": lesson,
            "answer": answer.outcome,
            "predicted": answer.implementation,
            "best": ", ".join(answer.best) or None,
            "factor": None if answer.factor is None else Figure(value=answer.factor, certainty="estimated"),
            "gain": None if answer.gain is None else figure(answer.gain),
            "grade": answer.grade or None,
            "device": answer.device,
            "date": units.moment(answer.date),
        }
    )


def _typical(answers: Iterable[Answer]) -> Figure | None:
    """The exponential of the mean error of the factors, a ratio from 1; None where no factor was decided."""
    errors = [answer.error for answer in answers if answer.error is not None]
    return Figure(value=math.exp(mean(errors)), certainty="derived") if errors else None

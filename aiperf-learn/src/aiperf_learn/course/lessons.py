"""Lessons in the order of the course, with what each needs and how it was answered."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.targets import InstalledTarget
from aiperf_learn.course.answers import Answer
from aiperf_learn.course.score import counts

NEXT = 5  # lessons that are listed by default
# The tag of workloads of several ranks, each of which takes a GPU of its own.
_RANKS = "distributed"
_CHAPTER = re.compile(r"ch\d\d")


@frozen
class Machine:
    """Devices of this machine, and its number of GPUs."""

    devices: Collection[str]
    gpus: int

    def lacks(self, target: InstalledTarget) -> str:
        """The need of a target that the machine does not meet; empty where it meets all that a target lists."""
        if not {*self.devices} & {*target.devices}:
            return f"needs {' or '.join('a GPU' if name == 'cuda' else name for name in target.devices)}"
        if "cuda" in self.devices and "cuda" in target.devices and _RANKS in target.tags and self.gpus < 2:
            return "needs 2 GPUs" + (", or --device cpu" if "cpu" in target.devices else "")
        return ""


def in_order(targets: Iterable[InstalledTarget]) -> list[InstalledTarget]:
    """Lessons in the order of the course: chapters by number, then other groups; each group as it lists them."""
    return sorted(targets, key=lambda target: target.group if _CHAPTER.fullmatch(target.group) else "~")


def listed(
    targets: Sequence[InstalledTarget], machine: Machine, answers: Mapping[str, Answer], *, whole: bool
) -> Result:
    """Lessons as a result: all of them, or the first `NEXT` of those that run here and have no answer."""
    lacking = {target.name: machine.lacks(target) for target in targets}
    kept = [target for target in in_order(targets) if whole or not (lacking[target.name] or target.name in answers)]
    records = [
        Record(
            {
                "lesson": target.name,
                "answer": answers[target.name].outcome if target.name in answers else None,
                "needs": lacking[target.name] or None,
                "summary": target.summary,
            }
        )
        for target in kept[: None if whole else NEXT]
    ]
    run_here = sum(not lack for lack in lacking.values())
    answered = [answers[target.name] for target in targets if target.name in answers]
    score = f" Predictions: {counts(answered)}." if answered else ""
    columns = [Column(name, title) for name, title in _TITLES.items()]
    return Result(
        analysis="learn",
        title="Lessons",
        summary=[f"{units.plural('lesson', len(targets))}, {run_here} run on this machine.{score}"],
        tables=[Table("lessons", "Lessons" if whole else "Next lessons", columns, records)],
    )


_TITLES = {"lesson": "lesson", "answer": "answer", "needs": "here", "summary": "about"}

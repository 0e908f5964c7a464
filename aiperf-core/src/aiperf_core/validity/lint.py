"""How a test of a benchmark ends, and the tests of its form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from aiperf_core.benchmark import Benchmark
from aiperf_core.docstring import labels
from aiperf_core.targets import InstalledTarget

# A problem that an author may accept: work may depend on values by design, as in an iteration until it converges.
SAME_WORK = "workload.same_work"
LABELS = ("Question", "Numbers", "Prediction", "Limits")
FORMER_LABELS = ("Workload", "Baseline", "Variants", "Breaks")
_VAGUE = {"v1", "v2", "v3", "fast", "faster", "fastest", "optimized", "optimised", "improved", "better", "new"}


@frozen
class Outcome:
    """How one test ended.

    verdict: `ok`; `problem`, the results cannot be believed; `note`, may be right, and a reader should know; or
        `not applicable`, there is nothing to test.
    found: the observation.
    remedy: what the author can do.
    """

    test: str
    verdict: str = "ok"
    found: str = ""
    remedy: str = ""

    def where_accepted(self, accepted: Mapping[str, str]) -> "Outcome":
        """The outcome, or `ok` in place of a note, or of work that varies, that the author accepts with a reason."""
        reason = accepted.get(self.test)
        acceptable = self.verdict == "note" or (self.verdict == "problem" and self.test == SAME_WORK)
        return Outcome(self.test, found=reason) if acceptable and reason is not None else self


def outcome(test: str, wrong: Sequence[str], found: str, remedy: str, verdict: str = "problem") -> Outcome:
    """An outcome with this verdict where something is wrong."""
    return Outcome(test, verdict, found.format(", ".join(wrong)), remedy) if wrong else Outcome(test)


def form(bench: Benchmark, device: str, docstring: str, listed: Mapping[str, Any]) -> Iterator[Outcome]:
    """Yield a problem for each part of a benchmark's file that its readers need and that is missing.

    docstring: of the file.
    listed: the `goal` and the `devices` of the contents page.
    """
    devices = {one.device for one in bench.implementations}
    contradiction = InstalledTarget("", "", goal=listed["goal"], devices=tuple(listed["devices"])).contradicts(
        bench.goal, devices
    )
    remedy = "Make plugin.py agree with the file: aiperf lint --fix TARGET"
    yield outcome("form.contents", [contradiction] if contradiction else [], "{}", remedy)
    yield from _form_of_docstring(docstring)
    vague = sorted({one.name for one in bench.implementations if set(one.name.split("_")) & _VAGUE})
    remedy = "Name it for its mechanism, as in 'tiled' or 'fused'."
    yield outcome("form.names", vague, "named for no mechanism: {}", remedy, "note")
    here = bench.implementations_on(device)
    silent = sorted({one.name for one in here if one.role == "yardstick" and not one.why})
    remedy = "Say which library does what."
    yield outcome("form.yardsticks", silent, "no `why` for the yardstick {}", remedy, "note")
    wanted = {"cuda"} & devices or devices
    without = [] if any(goal.device in wanted for goal in bench.goals) else sorted(wanted)
    remedy = "Declare the figure that the best variant is to reach, with bench.reach."
    yield outcome("form.goals", without, "no goal on {}", remedy, "note")
    steps = [f"{one.name} on {one.builds_on}" for one in here if one.builds_on and not one.adds]
    remedy = "Name in adds='...' the mechanism by which it differs from what it builds on."
    yield outcome("form.steps", steps, "a step that adds no mechanism: {}", remedy, "note")
    sizes = [size for size in bench.task.presets["smoke"].values() if isinstance(size, int) and size > 1]
    even = [f"{size}" for size in sizes] if all(size & (size - 1) == 0 for size in sizes) else []
    remedy = "Take a prime: the last block then overhangs."
    yield outcome("form.sizes", even, "the sizes of 'smoke' are powers of two: {}", remedy, "note")


def _form_of_docstring(docstring: str) -> Iterator[Outcome]:
    """The labels of a file's docstring. The complete former form is a note of its own."""
    found = labels(docstring)
    former = set(FORMER_LABELS) <= set(found)
    wrong = [] if former or found == LABELS else [", ".join(found) or "none"]
    remedy = f"Write {', '.join(LABELS)} in this order, each with its text from column 12."
    yield outcome("form.docstring", wrong, "the labels of the file's docstring: {}", remedy, "note")
    said = "the file's docstring has the former labels {}"
    yield outcome("form.former_docstring", FORMER_LABELS if former else (), said, remedy, "note")

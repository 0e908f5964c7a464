"""Answers of a learner: the predictions of lessons beside the measured gains, in one file of the user."""

import fcntl
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError
from aiperf_core.folders import data_folder
from aiperf_core.measurements import Estimate
from aiperf_core.names import cause, path_words
from aiperf_core.results import jsontext, structure

FORMAT = 1
RIGHT, NEAR, OFF, UNDECIDED = "right", "near", "off", "not decided"
OUTCOMES = (RIGHT, NEAR, OFF, UNDECIDED)
# The factors by which a predicted gain may miss the interval, and still be close, or not off.
CLOSE, FAR = 1.5, 3.0


@frozen(kw_only=True)
class Answer:
    """A prediction of a lesson, and its measured truth.

    implementation: the predicted best implementation.
    factor: the predicted gain of it over the baseline; None for the baseline itself.
    best: the implementations that count as the best; empty where the run did not decide it.
    gain: the measured gain of the predicted implementation; None for the baseline, and where it was not decided.
    device: the device of the run.
    bundle: the name of the run's folder.
    date: when it was answered, in ISO 8601.
    """

    implementation: str
    factor: float | None
    best: list[str]
    gain: Estimate | None
    device: str
    bundle: str
    date: str

    @property
    def miss(self) -> float | None:
        """The factor between the predicted gain and the measured interval: 1.0 inside; None without a gain."""
        if self.factor is None or self.gain is None:
            return None
        return max(1.0, self.gain.low / self.factor, self.factor / self.gain.high)

    @property
    def error(self) -> float | None:
        """The distance of the predicted gain from the measured one: the absolute natural logarithm of their ratio."""
        return None if self.factor is None or self.gain is None else abs(math.log(self.factor / self.gain.value))

    @property
    def grade(self) -> str:
        """The grade of the factor: `inside`, `within 1.5x`, `within 3x` or `off`; empty where it has none."""
        if self.miss is None:
            return ""
        if self.miss <= 1.0:
            return "inside"
        return next((f"within {limit:g}x" for limit in (CLOSE, FAR) if self.miss <= limit), OFF)

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`.

        Right: the best implementation, and a factor within 1.5x of its interval. Off: another implementation, and a
        factor more than 3x away or none. Near: between the two. Not decided: the run did not decide which is best.
        """
        if not self.best:
            return UNDECIDED
        if self.implementation in self.best:
            return RIGHT if self.miss is None or self.miss <= CLOSE else NEAR
        return NEAR if self.miss is not None and self.miss <= FAR else OFF


@frozen
class _Content:
    """The content of the file: the first decided answer of each lesson, or the last one where none was decided."""

    answers: dict[str, Answer] = field(factory=dict)
    format: int = field(default=FORMAT, metadata={"schema": {"const": FORMAT}})


@frozen
class AnswerFile:
    """The file of all answers. Several processes may use it at once.

    warn: called with a sentence where the file cannot be used and was moved aside.
    """

    path: Path
    warn: Callable[[str], None]

    @classmethod
    def of_user(cls, warn: Callable[[str], None]) -> "AnswerFile":
        """The file in the user's data folder. Raises `AiperfError` for a user without a home."""
        folder = data_folder()
        if folder is None:
            raise AiperfError(
                "The user has no home folder for answers. Name a folder for data of your own in XDG_DATA_HOME."
            )
        return cls(folder / "learn.json", warn)

    def read(self) -> Mapping[str, Answer]:
        """The answers by lesson. Raises `AiperfError` where the file cannot be read."""
        if not self.path.exists():
            return {}
        with self._locked():
            return self._content().answers

    def add(self, lesson: str, answer: Answer) -> Answer:
        """Keep an answer, and return the kept one: an earlier answer that was decided stays.

        Raises `AiperfError` where the file cannot be written.
        """
        with self._locked():
            content = self._content()
            before = content.answers.get(lesson)
            if before is not None and before.outcome != UNDECIDED:
                return before
            content = evolve(content, answers={**content.answers, lesson: answer})
            atomic.write(self.path, jsontext.dumps(structure.document(content)).encode())
        return answer

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file; wait for another process that holds it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise AiperfError(
                f"cannot use '{path_words(self.path)}', which keeps the answers: {cause(error)}. Correct that, or name "
                "another folder in XDG_DATA_HOME."
            ) from error

    def _content(self) -> _Content:
        """The content; empty without a file. A file of another content is moved aside."""
        try:
            return structure.structure(jsontext.loads(self.path.read_bytes()), _Content)
        except FileNotFoundError:
            return _Content()
        except jsontext.JsonError as error:
            numbered = (self.path.with_name(f"{self.path.name}.{number}") for number in range(1, 1_000_000))
            aside = next(path for path in numbered if not path.exists())
            self.path.rename(aside)
            self.warn(
                f"'{path_words(self.path)}' does not hold answers of format {FORMAT} ({error}). It is now "
                f"'{path_words(aside)}', and the score begins anew."
            )
            return _Content()

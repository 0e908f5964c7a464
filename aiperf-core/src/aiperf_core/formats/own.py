"""The format `aiperf`: `class Implementation` with `run(self, ...)` and optionally `prepare(self, ...)`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiperf_core.candidate_format import CandidateFormat, Code
from aiperf_core.errors import ContractError
from aiperf_core.text_file import text_of


class Own(CandidateFormat):
    """Candidates of installed targets: their arguments name inputs, static arguments and sizes of the target."""

    needs_reference = False
    method = "run"
    by_position = False

    def code(self, path: Path, data: bytes) -> Code:
        """The file is the code."""
        return Code(text_of(path, data), "Implementation")

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """The class itself."""
        if not callable(getattr(found, "run", None)):
            raise ContractError("the candidate's 'Implementation' has no method run(self, ...)")
        return found

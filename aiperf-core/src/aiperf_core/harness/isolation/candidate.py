"""Loading a candidate from its text, in the worker, once it is confined."""

import inspect
from collections.abc import Sequence
from importlib.abc import ExecutionLoader

from aiperf_core.candidate_format import adapter
from aiperf_core.errors import ContractError
from aiperf_core.formats.execute import execute


def load_candidate(text: str, load: str, entry: str, input_names: Sequence[str]) -> type:
    """Execute a candidate's text and return its entry, adapted to a class with `run` and optionally `prepare`.

    load: the class of the format. It is imported before the candidate's code runs.

    Exceptions of the code pass through. Raises `ContractError` where the entry does not exist afterwards.
    """
    kind = adapter(load)
    found = getattr(execute("candidate", _Text(text)), entry, None)
    fits, accepted = (inspect.isclass, "a class") if kind.method else (callable, "a function")
    if not fits(found):
        raise ContractError(f"the candidate's {entry!r} is a {type(found).__name__}; accepted is {accepted}")
    adapted: type = kind.adapt(found, input_names)
    return adapted


class _Text(ExecutionLoader):
    """Imports from a text. Tools that read sources (triton.jit, tracebacks) get the text from it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_filename(self, fullname: str) -> str:
        """A name that does not reveal the file's folder."""
        return f"{fullname}.py"

    def get_source(self, fullname: str) -> str:
        """The text."""
        return self._text

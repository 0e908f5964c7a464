"""NVML, the library of nvidia-smi. It opens no CUDA context, and this module reads only."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import c_void_p, cast
from typing import Any

from attrs import define, field

# Errors that do not go away: NVML_ERROR_NOT_SUPPORTED, _NO_PERMISSION, _FUNCTION_NOT_FOUND.
_FINAL = (3, 4, 13)


class NvmlMissingError(Exception):
    """NVML is missing. `library` is True when the package is missing rather than the driver."""

    def __init__(self, reason: str, *, library: bool) -> None:
        super().__init__(reason)
        self.library = library


@define(eq=False)
class Nvml:
    """A started NVML. `refused` has the error of the last failed call of each function."""

    module: Any
    refused: dict[str, str] = field(factory=dict)
    _given_up: set[tuple[Any, ...]] = field(factory=set)

    @staticmethod
    def start() -> "Nvml":
        """Start NVML. Raises `NvmlMissingError`."""
        try:
            import pynvml
        except ImportError:
            raise NvmlMissingError("nvidia-ml-py is not installed", library=True) from None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlMissingError(str(error), library=False) from None
        return Nvml(pynvml)

    def stop(self) -> None:
        """Release NVML; other users in this process keep it."""
        self.module.nvmlShutdown()

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer of a function, or None: boards and drivers differ in the functions that they support.

        After a final error the same question is not asked again.
        """
        question = (function, *map(_identity, arguments))
        if question in self._given_up:
            return None
        asked = getattr(self.module, function, None)
        if asked is None:
            self.refused[function] = "this nvidia-ml-py does not know it"
            return None
        try:
            answer = asked(*arguments)
        except self.module.NVMLError as error:
            self.refused[function] = str(error)
            if getattr(error, "value", None) in _FINAL:
                self._given_up.add(question)
            return None
        return answer.decode() if isinstance(answer, bytes) else answer  # nvidia-ml-py before 11.5 returned bytes


@contextmanager
def session() -> Iterator[Nvml]:
    """A started NVML within the block. Raises `NvmlMissingError`."""
    nvml = Nvml.start()
    try:
        yield nvml
    finally:
        nvml.stop()


@contextmanager
def held() -> Iterator[None]:
    """Keep NVML started within the block, if there is one, so that sessions inside are quick."""
    with ExitStack() as stack:
        with suppress(NvmlMissingError):
            stack.enter_context(session())
        yield


def scaled(value: float | None, factor: float) -> float | None:
    """A figure in SI units; NVML counts clocks in MHz, power in mW and energy in mJ."""
    return None if value is None else value * factor


def _identity(argument: Any) -> Any:
    """A hashable key of an argument: the handle of a device is a pointer without a hash."""
    return cast(argument, c_void_p).value if hasattr(type(argument), "contents") else argument

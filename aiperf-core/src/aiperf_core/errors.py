"""Errors that a user can act on, and the exit codes of the command.

An `AiperfError` is printed as one paragraph without a traceback. Its message says what was requested, what was found,
what is accepted and what to do next. Any other exception is a bug in aiperf, and keeps its traceback.
"""

from enum import IntEnum

from aiperf_core.names import printable

# torch has an exception type for the GPU's memory only; on the host it raises RuntimeError with one of these texts.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "Cannot allocate memory")


class ExitCode(IntEnum):
    """The exit codes of `aiperf`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    BELOW_EXPECTATION = 4
    INCONCLUSIVE = 5


class AiperfError(Exception):
    """An error that the user can act on. Its text is safe to print, whatever names of files it quotes."""

    exit_code = ExitCode.FAILED

    def __str__(self) -> str:
        return "\n".join(map(printable, super().__str__().split("\n")))


class UsageError(AiperfError):
    """An argument of the command is unknown or invalid."""

    exit_code = ExitCode.USAGE


class BenchmarkError(AiperfError):
    """A benchmark file breaks a rule of the authoring API. The message names the file and the target."""


class KernelError(AiperfError):
    """A kernel could not be compiled, loaded or launched."""


class CompileError(KernelError):
    """A kernel does not compile. The message begins with the file, the line and the compiler's first error."""


class SkipError(AiperfError):
    """This machine cannot run an implementation. The message is the reason in the result."""


class TorchMissingError(AiperfError):
    """A command that measures, or imports a benchmark, without torch."""

    def __init__(self) -> None:
        super().__init__(
            "this needs torch, which is not installed; stored results are read without it. "
            "Install it: pip install 'aiperf-core[torch]'"
        )


def is_torch_missing(error: BaseException) -> bool:
    """Whether an import failed because torch is not installed."""
    return isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch"


class BundleError(AiperfError):
    """A result folder is missing, incomplete or does not match its schema."""


class ContractError(Exception):
    """The output of an implementation has another structure, shape or dtype than the reference."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the host or on a GPU."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY)

"""Errors that a user can act on, and the exit codes of the command.

An `AiperfError` is a mistake or a circumstance that was expected: it is printed as one paragraph, without a traceback.
Its message says what was asked, what was found, what is accepted and what to do next. Anything else is a bug of ours
and keeps its traceback.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `aiperf` returns to the shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    BELOW_EXPECTATION = 4
    INCONCLUSIVE = 5


class AiperfError(Exception):
    """Something went wrong that the user can act on."""

    exit_code = ExitCode.FAILED


class UsageError(AiperfError):
    """The command was asked for something that does not exist or does not fit."""

    exit_code = ExitCode.USAGE


class BenchmarkError(AiperfError):
    """A benchmark file breaks a rule of the authoring API. The message names the file and the target."""


class KernelError(AiperfError):
    """A kernel could not be compiled, loaded or launched."""


class SkipError(AiperfError):
    """This machine cannot run an implementation; the message is the reason that the result will carry."""


class BundleError(AiperfError):
    """A result folder is missing, incomplete or does not match its schema."""


class ContractError(Exception):
    """An implementation returned something of another form than the reference does."""

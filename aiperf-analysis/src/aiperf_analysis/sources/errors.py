"""What a source of results may lack."""

from aiperf_core.errors import AiperfError


class NotFoundError(AiperfError):
    """Nothing has this id or name. The message says what there is."""


class GoneError(AiperfError):
    """The source of the results cannot be read now: a folder that vanished, a database that went away."""

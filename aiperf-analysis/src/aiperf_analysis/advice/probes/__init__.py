"""Probes: each answers an item of the checklist by looking at this machine. They read only, and change nothing."""

from collections.abc import Callable

from aiperf_analysis.advice.probes import environment, gpu, host, software
from aiperf_analysis.advice.probes.seen import Answer, Seen, look, unknown

__all__ = ["PROBES", "Answer", "Seen", "answer", "look"]

PROBES: dict[str, Callable[[Seen], Answer]] = {
    **host.PROBES,
    **gpu.PROBES,
    **environment.PROBES,
    **software.PROBES,
}


def answer(name: str, seen: Seen) -> Answer:
    """The answer of a probe. A fact that is lacking, or cannot be read, gives `unknown` with the reason."""
    try:
        return PROBES[name](seen)
    except (OSError, ValueError, LookupError) as error:
        return unknown(str(error) or type(error).__name__)

"""Whether the output lies in the memory of the inputs."""

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence


def look(evidence: Evidence) -> list[Seen] | NotObserved:
    """Report outputs in the memory of inputs that are not state."""
    if evidence.aliases is None:
        return NotObserved("the memory of the output and the inputs was not compared")
    if not evidence.aliases:
        return []
    # A single output has no path.
    named = ", ".join(repr(path) if path else "the output" for path in evidence.aliases)
    message = f"output lies in the memory of an input: {named}; a workload names what may change as state"
    return [Seen("memory.input_output_aliasing", message, {"paths": evidence.aliases})]


CHECK = Check("aliasing", look)

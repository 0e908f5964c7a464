"""The proof of each technique: the verdict of a stored run, a target or switch that measures it, a tool or a reason."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from aiperf_labs.one_model.switches import SWITCHES
from aiperf_labs.techniques import TECHNIQUES

# Techniques whose evidence is what a command prints, not a ratio of two times.
TOOLS: dict[int, str] = {
    3: "aiperf profile",
    4: "aiperf profile",
    7: "aiperf ch02",
    13: "aiperf ch02",
    63: "aiperf profile",
    105: "aiperf load",
    106: "aiperf load",
    130: "aiperf ch04",
    133: "aiperf roofline",
    134: "aiperf kernels",
    137: "aiperf ch03",
    139: "aiperf analyze",
}
_BLACKWELL = "needs sm_100a: compiled where a target has it, and skipped by other chips"
_OPEN = "no installed target measures it; its chapter is {}"
# Techniques that a usual machine cannot prove, with what they need.
REASONS: dict[int, str] = {
    5: "needs a Grace processor, whose memory is coherent with that of its GPU",
    37: _BLACKWELL,
    50: "needs a build of MPI that takes GPU buffers; none is in a package index",
    65: "needs Transformer Engine, which no package here requires; 8-bit training is measured without it",
    66: _BLACKWELL,
    69: _BLACKWELL,
    131: "needs a network card with RDMA and the module nvidia-peermem",
    135: "needs a file system with cuFile; elsewhere the library copies by the host",
    138: "needs a switch that reduces, such as one with SHARP",
    140: "needs torch_xla, which no package here requires",
}
# Techniques that wait for a target.
OPEN = frozenset(
    {12, 17, 18, 33, 51, 57, 59, 67, 71, 72, 73, 78, 79, 80, 83, 84, 85, 87, 90, 99, 104, 108}
    | {109, 110, 111, 116, 120, 122, 128, 129}
)


@frozen
class Proof:
    """The proof of a technique.

    kind: `verdict`, `artefact` or `reason`.
    text: the targets and switches, the command, or the reason.
    """

    kind: str
    text: str


def switches_of(number: int) -> list[str]:
    """The switches of the one model that are about a technique."""
    return [f"one-model:{one.name}" for one in SWITCHES if number in one.techniques]


def proof(number: int, targets: Sequence[str], proven: Sequence[str]) -> Proof | None:
    """The proof of a technique.

    targets: those that claim it.
    proven: those of them, and of the switches, of which a result is stored.

    None where there is nothing, not even a reason.
    """
    if proven:
        return Proof("verdict", ", ".join(proven))
    claimed = [*targets, *switches_of(number)]
    if claimed:
        return Proof("artefact", ", ".join(claimed))
    if number in TOOLS:
        return Proof("artefact", TOOLS[number])
    if number in REASONS:
        return Proof("reason", REASONS[number])
    return Proof("reason", _OPEN.format(TECHNIQUES[number].chapter)) if number in OPEN else None


def unproven(claimed: Mapping[int, Sequence[str]]) -> list[int]:
    """Techniques without a verdict, an artefact and a reason."""
    return [number for number in TECHNIQUES if proof(number, claimed.get(number, ()), ()) is None]

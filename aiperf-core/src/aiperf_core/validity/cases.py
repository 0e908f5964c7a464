"""Cases: attacks, and their honest look-alikes. Records only; what they run is imported in a worker's process."""

from attrs import frozen

# An attack whose aim is no verdict writes this to its log when it has reached its aim.
WORD = "has what it was after"


@frozen(kw_only=True)
class Case:
    """An implementation that commits an issue, or an honest implementation that looks like it.

    issue: its id in the registry.
    module: the module of a `Benchmark`, whose baseline is honest.
    implementation: the name of the variant.
    device: where it runs.
    honest: whether it is an honest look-alike, which must not be flagged.
    needs: what the machine must offer beyond the issue's own needs; `kept_cache` is measured, before the case is tried
        and once more where it is missed.
    gains: what the attack has while its guard is off and must not have while it is on: `verdict`, to be FASTER;
        `silence`, that no finding names the issue; `word`, to write `WORD` to its log.
    tier: the tier in which it is tried first.
    alone: whether it disturbs other implementations, so that it shares no run with them.
    candidate: whether it is judged as untrusted code: the file `candidates/IMPLEMENTATION.py` beside the module.
    held_by: the protections of the sandbox that stop the attack; on a machine without them the case is not observable.
    other_guards: guards that hold the attack too, and are off with the issue's own.
    """

    issue: str
    module: str
    implementation: str
    device: str = "cpu"
    honest: bool = False
    needs: tuple[str, ...] = ()
    gains: str = "verdict"
    tier: str = "quick"
    alone: bool = False
    candidate: bool = False
    held_by: tuple[str, ...] = ()
    other_guards: tuple[str, ...] = ()


@frozen(kw_only=True)
class Recorded:
    """Evidence of a real run, as `aiperf selftest --record` wrote it.

    issue: the issue that the run shows, or does not show where it is honest.
    file: the file, as `package:path/in/the/package.json`.
    honest: whether the run looks like the issue and must not be flagged.
    """

    issue: str
    file: str
    honest: bool = False

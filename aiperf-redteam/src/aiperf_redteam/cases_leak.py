"""Cases of the issues of leak, and what candidates have in common."""

from collections.abc import Iterator

from aiperf_core.validity.cases import Case

LEAK = "aiperf_redteam.leak"


def candidate(
    issue: str,
    attack: str,
    look_alike: str,
    *,
    held_by: tuple[str, ...],
    needs: tuple[str, ...] = (),
    gains: str = "word",
    other_guards: tuple[str, ...] = (),
) -> Iterator[Case]:
    """An attack and its look-alike, judged as untrusted code."""
    for name in (attack, look_alike):
        yield Case(
            issue=issue,
            module="aiperf_redteam.judged",
            implementation=name,
            honest=name == look_alike,
            gains=gains,
            needs=needs if name == attack else (),
            candidate=True,
            held_by=held_by,
            other_guards=other_guards,
        )


CASES: tuple[Case, ...] = (
    Case(issue="leak.heap_scan", module=LEAK, implementation="heap_scan"),
    Case(issue="leak.heap_scan", module=LEAK, implementation="counts_objects", honest=True),
    Case(issue="leak.frame_walk", module=LEAK, implementation="frame_walk"),
    Case(issue="leak.frame_walk", module=LEAK, implementation="names_caller", honest=True),
    *candidate("leak.golden_file", "golden_file", "reads_own_file", held_by=("files",)),
    Case(issue="leak.golden_file", module=LEAK, implementation="reads_own_file", honest=True),
    *candidate("leak.judge_memory", "judge_memory", "reads_own_memory", held_by=("files",), needs=("traceable",)),
    Case(issue="leak.judge_memory", module=LEAK, implementation="reads_own_memory", honest=True),
    Case(issue="leak.another_answer", module=LEAK, implementation="another_answer", gains="word"),
    Case(issue="leak.another_answer", module=LEAK, implementation="uses_empty", honest=True),
)

"""Leak: the answer is taken from the judge."""

from aiperf_core.validity.issues import ALWAYS, Exclusion, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="leak.heap_scan",
        title="The reference is found in memory",
        happens="The code searches the heap for a tensor of the output's shape that is not an input.",
        guard="own_process",
        protection=(
            "No expected value is ever in the worker's process. The judge computes it after the clock has stopped, in "
            "memory that it does not share."
        ),
        severity=ALWAYS,
        incidents=(met.EXPLOIT_SUITE,),
    ),
    Issue(
        id="leak.frame_walk",
        title="The reference is found up the stack",
        happens="The code walks its callers' frames and takes the expected answer, or the checker's arguments.",
        guard="own_process",
        protection="The callers are the worker's loop, which has neither reference, tolerance nor seed.",
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="leak.golden_file",
        title="The expected output lies in a file",
        happens="The code looks for stored outputs near its working directory and returns them.",
        guard="sandbox",
        protection=(
            "No expected output is ever written to a file. Code that is not trusted sees no file of the run, and the "
            "values of a call have no earlier answer that could be stored."
        ),
        needs=("linux",),
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="leak.seed",
        title="The seed can be read",
        happens="The code reaches the seed or the generator's state, and draws inputs and answers ahead of time.",
        guard="seeds",
        protection=(
            "Seeds go from the supervisor to the judge. No request to a worker contains one, and values are drawn by "
            "the judge's generator."
        ),
        severity=ALWAYS,
        incidents=(met.FORGED_SIGNATURE,),
        excluded=Exclusion(
            construction="seeds go to the judge only: no message to a worker holds one",
            test="aiperf-core/tests/validity/test_exclusions.py::test_a_worker_is_never_told_a_seed",
        ),
    ),
    Issue(
        id="leak.judge_memory",
        title="The judge's memory is read",
        happens="The code reads the memory of the judge's process through the kernel or a debugger's interface.",
        guard="sandbox",
        protection=(
            "Confined code may neither trace nor read other processes, and those of the harness refuse to be read by "
            "others of the same user."
        ),
        needs=("linux",),
        severity=ALWAYS,
    ),
    Issue(
        id="leak.another_answer",
        title="Another implementation's answer is at hand",
        happens="The baseline answered for the same values, and the next implementation reads its output.",
        guard="poison",
        protection="The place of judged outputs is cleared before the next call; others cannot map kept memory.",
        severity=ALWAYS,
    ),
)

"""Replay: an earlier answer is handed out again."""

from aiperf_core.validity.issues import ALWAYS, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="replay.by_object",
        title="Remembered by the input object",
        happens="The last result is returned as long as the input is the same Python object.",
        guard="fresh_values",
        protection="Objects stay the same between calls and their values do not: a result kept by identity is stale.",
        severity=ALWAYS,
        incidents=(met.OBJECT_CACHE, met.FRESH_INPUTS),
    ),
    Issue(
        id="replay.by_pointer",
        title="Remembered by address",
        happens="Results are kept by the address of the input's memory.",
        guard="fresh_values",
        protection="Inputs are refreshed at fixed addresses, so an address does not identify the values.",
        severity=ALWAYS,
        incidents=(met.FIELD_GUIDE,),
    ),
    Issue(
        id="replay.by_version",
        title="Remembered by version counter",
        happens="Results are kept while torch's version counter of the input, which counts own writes, stands still.",
        guard="fresh_values",
        protection="The judge writes from its own process into shared memory, which moves no counter in the worker.",
        severity=ALWAYS,
    ),
    Issue(
        id="replay.by_shape",
        title="Remembered by shape",
        happens="One result is kept for each shape.",
        guard="fresh_values",
        protection="The shape never changes and the values always do.",
        severity=ALWAYS,
        incidents=(met.SUPER_BATCH,),
    ),
    Issue(
        id="replay.by_value",
        title="Remembered by content",
        happens="Input values are compared with kept ones; on a match the kept result, which is right, is returned.",
        guard="repeat_against_fresh",
        protection=(
            "Values do not repeat from sample to sample. The same values again and again are also timed against fresh "
            "ones in the same buffers; a gap beyond the baseline's own is a finding."
        ),
        incidents=(met.ARENA_GAMING, met.CONTENT_MEMO),
    ),
    Issue(
        id="replay.within_sample",
        title="Only the first call of a sample works",
        happens="Short calls are timed several in a row on the same values: the first works, the rest repeat it.",
        guard="repeat_against_fresh",
        protection=(
            "Only workloads declared warm are timed in a row, and the samples store the number of calls. In every "
            "tier, single calls with repeated and with refreshed inputs follow. Code that is faster with repeated "
            "inputs, by more than the baseline, is a finding."
        ),
        severity=ALWAYS,
        incidents=(met.SUPER_BATCH,),
    ),
    Issue(
        id="replay.by_fingerprint",
        title="Remembered by a few values",
        happens="A hash of some elements serves as the key, to make the look-up cheap.",
        guard="fresh_values",
        protection=(
            "All elements are new for each sample, so the key is not met again. `repeat_against_fresh` shows a look-up "
            "that works when values do repeat."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="replay.hidden_state",
        title="State outside of the checks",
        happens="The kept result hides in a default argument, a closure, a function attribute or a module.",
        guard="fresh_values",
        protection="Wherever a result is kept, its values are gone; fresh processes start without it.",
        severity=ALWAYS,
    ),
    Issue(
        id="replay.from_disk",
        title="Results kept in a file",
        happens="Results are written to disk in one process and read back in another.",
        guard="fresh_values",
        protection="Files hold results of other seeds; untrusted code writes to a folder that is empty at the start.",
        severity=ALWAYS,
        incidents=(met.FABRICATED_TIMES,),
    ),
    Issue(
        id="replay.by_call_count",
        title="Counting calls to know which are timed",
        happens="The code does the work in the calls that are checked by custom, the first ones, and not in the rest.",
        guard="judged_output",
        protection=(
            "The verified calls are timed calls at random places, chosen without the worker's knowledge. At most "
            "twelve go by unjudged."
        ),
        severity=ALWAYS,
        incidents=(met.EXPLOIT_SUITE,),
    ),
    Issue(
        id="replay.phase_detection",
        title="Telling a check from a timed call",
        happens="The code inspects its callers, the environment or the clock, and works only while it is checked.",
        guard="judged_output",
        protection="There is one kind of call from one place; the request for its output follows the clock's stop.",
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="replay.poison_probe",
        title="Working only when the buffer is poisoned",
        happens="The code looks for NaN in its kept buffer and recomputes only then, as only checked calls have it.",
        guard="fresh_values",
        protection="Poison precedes every sample, judged or not; a buffer that escaped it holds an old answer.",
        severity=ALWAYS,
        incidents=(met.POISON_PROBE,),
    ),
    Issue(
        id="replay.previous_result",
        title="Always one result behind",
        happens="The call returns the result of the call before and starts its own in the background.",
        guard="fresh_values",
        protection="The values before were others, and so is their answer, which is found as `output.wrong_values`.",
        severity=ALWAYS,
    ),
    Issue(
        id="replay.super_batch",
        title="One call does the work of many",
        happens="The code learns the inputs of the cycle, computes all answers in one launch and looks up the rest.",
        guard="fresh_values",
        protection=(
            "Future inputs do not exist: values are written right before their sample, which is timed by itself."
        ),
        severity=ALWAYS,
        incidents=(met.SUPER_BATCH,),
    ),
    Issue(
        id="replay.random_skip",
        title="Working only sometimes",
        happens="A part of the calls returns the last result, in the hope that the checked ones are among the others.",
        guard="judged_output",
        protection="About a quarter of timed calls is judged at random, and one wrong output ends the row.",
        severity=ALWAYS,
    ),
    Issue(
        id="replay.known_seed",
        title="Answers looked up by a guessed seed",
        happens="The code draws the inputs of likely seeds, prepares their answers and recognises the values.",
        guard="seeds",
        protection=(
            "Seeds have 62 bits, follow from a secret that is drawn when the run starts, and never leave the "
            "supervisor and the judge before the run is over."
        ),
        severity=ALWAYS,
    ),
)

"""Tamper: the harness is changed by what it measures."""

from aiperf_core.validity.issues import ALWAYS, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="tamper.clock",
        title="The clock is patched",
        happens="Functions that tell the time, or the difference of two events, are replaced by ones that tell less.",
        guard="clocks_agree",
        protection=(
            "The supervisor brackets every call with its own clock, in its own process, from the notices at start and "
            "stop, which may come once each. Times that the bracket cannot contain, or that are a small part of it, "
            "are a finding. On a GPU, "
            "CUPTI tells the true duration of the same calls; replaced functions are found by identity and code."
        ),
        severity=ALWAYS,
        incidents=(met.FABRICATED_TIMES, met.METR),
    ),
    Issue(
        id="tamper.synchronize",
        title="Waiting is switched off",
        happens="The function that waits for the GPU does nothing any more, and the wall clock measures launches.",
        guard="global_state",
        protection=(
            "Identity and code of the functions that wait are compared after the last call. By the device clock the "
            "end event must have happened, and CUPTI tells the true duration."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="tamper.comparison",
        title="The comparison is patched",
        happens="The functions that compare outputs, such as `allclose`, are replaced by ones that agree.",
        guard="own_process",
        protection=(
            "The comparison runs in the judge's process, on bytes copied there. Nothing in a worker's process is asked "
            "whether an output is right."
        ),
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="tamper.code_objects",
        title="Functions keep their name and lose their body",
        happens="The code object of a function is replaced, so that comparing identities shows nothing.",
        guard="global_state",
        protection=(
            "The code of the watched functions is compared, not only their identity: before the code is imported, "
            "and after its last call. What is put back before the end is not seen: other processes compare the "
            "outputs, and of untrusted code they time calls by clocks of their own."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.tolerance",
        title="The tolerance is widened",
        happens="The code finds the objects that hold the tolerance and increases it.",
        guard="own_process",
        protection="Workers never get a tolerance. It belongs to the benchmark that the judge imported itself.",
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.random_numbers",
        title="The random numbers are made easy",
        happens="The generator or its functions are patched, so that inputs are zeros or repeat.",
        guard="own_process",
        protection="Inputs are drawn in the judge's process. A worker only maps the memory in which they appear.",
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.problem_size",
        title="The problem is made smaller",
        happens="Constants for sizes, such as batch or dimension, are rewritten, and a smaller problem is timed.",
        guard="judged_output",
        protection=(
            "Inputs are mapped at the size that the judge made, and the output must have the form and the values of "
            "the whole problem."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.iteration_count",
        title="Fewer iterations than planned",
        happens="The code finds the loop that times it and shortens it, or makes it end early.",
        guard="own_process",
        protection=(
            "The loop over samples is in the supervisor, which counts the replies. Where a sample holds several calls, "
            "the loop over these is among the harness's own code that is compared before and after."
        ),
        severity=ALWAYS,
        incidents=(met.EXPLOIT_SUITE,),
    ),
    Issue(
        id="tamper.cache_flush",
        title="The cache flush is switched off",
        happens="The buffer or the function that evicts the cache is replaced, and every call finds its data there.",
        guard="global_state",
        protection=(
            "The harness's own functions and buffers in the worker are among what is compared before and after. A "
            "memory-bound result that lives in the cache stands out against the speed of light."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.do_bench",
        title="A library's timer is patched",
        happens="Timers that many harnesses use, such as Triton's `do_bench`, are replaced by ones that tell less.",
        guard="global_state",
        protection=(
            "None of them takes a time here. Their identity and code are compared all the same, since their change "
            "says what the code is for."
        ),
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="tamper.statistics",
        title="Statistics and aggregation are patched",
        happens="Median, mean or score aggregation is replaced, or fed one extreme value that decides the result.",
        guard="own_process",
        protection=(
            "Raw times leave the worker one by one. All statistics are computed in the supervisor, and from the bundle "
            "once more by `aiperf recheck`."
        ),
        severity=ALWAYS,
        incidents=(met.FABRICATED_TIMES,),
    ),
    Issue(
        id="tamper.result_writer",
        title="The writer of results is patched",
        happens="Functions that write records, such as `json.dumps`, are wrapped to improve results.",
        guard="own_process",
        protection=(
            "The supervisor writes the results. What a worker's reply says of a time is one figure among three, and "
            "must fit the other two."
        ),
        severity=ALWAYS,
        incidents=(met.METR,),
    ),
    Issue(
        id="tamper.forged_messages",
        title="Results are forged on the channel",
        happens="The code writes results of its own into every descriptor or pipe that it finds.",
        guard="result_channel",
        protection=(
            "A reply counts only with the secret token of the request that it answers, and must have the form of a "
            "sample. A message without it ends the process and the row."
        ),
        severity=ALWAYS,
        incidents=(met.FORGED_SIGNATURE, met.EXPLOIT_SUITE),
    ),
    Issue(
        id="tamper.early_exit",
        title="Leaving early with a line of success",
        happens="The process prints what success looks like and exits with status 0 before it was checked.",
        guard="result_channel",
        protection=(
            "Printed lines go to a log and decide nothing. A process that ends without having answered its request has "
            "FAILED, whatever its exit code."
        ),
        severity=ALWAYS,
        incidents=(met.FORGED_OUTPUT,),
    ),
    Issue(
        id="tamper.dropped_files",
        title="Files left beside the harness",
        happens="The code leaves modules or start-up files where later processes of the harness will load them.",
        guard="sandbox",
        protection="Untrusted code writes to one folder, which no other process imports from; sources are hashed.",
        needs=("linux",),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.baseline",
        title="The baseline is slowed",
        happens="Functions of the baseline are patched with a delay, or its threads are reduced.",
        guard="own_process",
        protection=(
            "The baseline runs in a process of its own, forked from a server in which no benchmark code has run. What "
            "it has to suffer from load beside it is told by the conditions of its blocks."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.global_flags",
        title="Flags that loosen the reference",
        happens="Importing the code changes precision, threads or dtype of the process, also for a reference in it.",
        guard="own_process",
        protection="The reference runs elsewhere, in float64. Flags that changed in the worker are a finding.",
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.function_mode",
        title="A mode that intercepts every call",
        happens="The code enters a torch mode and never leaves it, so that the harness's calls go through the mode.",
        guard="global_state",
        protection=(
            "The stacks of modes are compared before and after the calls. The comparison of outputs happens in a "
            "process where the mode does not exist."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="tamper.harness_processes",
        title="The harness's processes are attacked",
        happens="The code stops, kills or debugs the judge, the baseline or the supervisor.",
        guard="sandbox",
        protection=(
            "Confined code may not signal or trace other processes. A run whose judge dies has no verdict, so nothing "
            "is won by it."
        ),
        needs=("linux",),
        severity=ALWAYS,
    ),
)

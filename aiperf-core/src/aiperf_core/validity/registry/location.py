"""Location: the work is done somewhere or sometime else."""

from aiperf_core.validity.issues import ALWAYS, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="location.cpu_spillover",
        title="A GPU benchmark that computes on the host",
        happens="Work moves to the processor, where the GPU's clock does not see it.",
        guard="cupti_ledger",
        protection=(
            "Each row records the wall time and the processor time beside the GPU's, and the ledger names the copies "
            "to and from the host. Within a call the end event cannot come before the host has queued all work."
        ),
        needs=("cuda", "cupti"),
        predecessor="Location / CPU Spillover",
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="location.setup_pre_computation",
        title="The answer is computed during setup",
        happens="What should be timed is done in the untimed preparation, and the timed call copies it.",
        guard="fresh_values",
        protection=(
            "`prepare` sees values that are overwritten before the first timed call. What a workload declares `static` "
            "may be prepared ahead, and the time that takes is printed beside the result."
        ),
        severity=ALWAYS,
        incidents=(met.EXPLOIT_SUITE,),
        predecessor="Location / Setup Pre-computation",
    ),
    Issue(
        id="location.graph_capture_cheat",
        title="The capture does the work",
        happens="The answer is computed while a CUDA graph is captured, and the replay only returns it.",
        guard="fresh_values",
        protection=(
            "Values change in place after the capture, at the addresses that the graph knows. An honest replay reads "
            "them; one that holds results or constants of the capture is wrong."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        incidents=(met.ARENA_GAMING,),
        predecessor="Location / Graph Capture Cheat",
    ),
    Issue(
        id="location.warmup_computation",
        title="The answer is computed in the warm-up",
        happens="Uncounted calls do the work, and the counted ones hand out what is kept.",
        guard="fresh_values",
        protection="No timed call has the values of an untimed call of the same worker.",
        severity=ALWAYS,
        incidents=(met.COPY_REPLAY, met.WARM_UP_REPLAY),
        predecessor="Location / Warmup Computation",
    ),
    Issue(
        id="location.background_thread",
        title="A thread works while no clock runs",
        happens="Threads of the process go on computing between the calls, or take work off the thread that is timed.",
        guard="process_census",
        protection=(
            "The supervisor reads from the kernel how much processor time the worker's threads use while no call is "
            "running; a worker must rest then. Output that a thread completes late is found by the fingerprints."
        ),
        needs=("linux",),
        severity=ALWAYS,
        incidents=(met.FIELD_GUIDE, met.DEFENSES),
        predecessor="Location / Background Thread",
    ),
    Issue(
        id="location.lazy_evaluation_skip",
        title="An output that computes when it is read",
        happens="The call returns an object that does the work when the checker touches it, after the clock.",
        guard="judged_output",
        protection="An output must be a plain tensor with real storage, read by pointer when the clock has stopped.",
        severity=ALWAYS,
        incidents=(met.LAZY_OUTPUT, met.FABRICATED_TIMES),
        predecessor="Location / Lazy Evaluation Skip",
    ),
    Issue(
        id="location.jit_compilation_timing",
        title="Compiling counts for one side only",
        happens="The first calls compile, plan or tune. They are counted on one side and not on the other.",
        guard="warm_up",
        protection=(
            "Every side takes the same uncounted samples by the same path before the counted ones, in each fresh "
            "process. What `prepare` took is recorded and printed."
        ),
        incidents=(met.PLANNING_COUNTED,),
        predecessor="Location / JIT Compilation Timing",
    ),
    Issue(
        id="location.child_process",
        title="A helper process does the work",
        happens="A child process computes over a pipe; the worker's processor time and memory do not show it.",
        guard="process_census",
        protection=(
            "The wall clock includes the waiting. The supervisor looks for descendants of each worker, and for "
            "confined code their number is limited."
        ),
        needs=("linux",),
        severity=ALWAYS,
    ),
    Issue(
        id="location.work_between_calls",
        title="The answer is ready before the clock starts",
        happens="A thread or a kernel watches the inputs and computes at once; the timed call collects the result.",
        guard="process_census",
        protection=(
            "The device is idle before a call starts, and a worker that uses processor time between the renewal and "
            "the call is reported; so is one whose clock starts later after the request than the baseline's, or whose "
            "output is there later after it stopped. A kernel left behind to watch never lets the device become idle, "
            "and the call times out."
        ),
        needs=("linux",),
        severity=ALWAYS,
    ),
)

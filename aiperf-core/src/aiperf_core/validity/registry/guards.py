"""Guards: the checks that stand behind the issues, and who runs them when."""

from aiperf_core.validity.issues import Guard

GUARDS = (
    Guard(
        name="fresh_values",
        place="loop",
        by="judge",
        does=("refreshes the inputs, at the same addresses, before every sample; the seeds are drawn after `prepare`"),
    ),
    Guard(
        name="judged_output",
        place="loop",
        by="judge",
        does=(
            "compares the outputs of timed calls, chosen at random and named only afterwards, with a float64 reference "
            "within an error budget, and holds them to the exact type, dtype, shape and device with real storage"
        ),
    ),
    Guard(
        name="inputs_intact",
        place="loop",
        by="judge",
        does=(
            "compares the inputs with pristine copies after every sample: by sums over their bits, and bit by bit "
            "where it is judged"
        ),
    ),
    Guard(
        name="late_write",
        place="loop",
        by="worker",
        does=(
            "takes a fingerprint of the output when the clock stops, and another one after the copy for the judge was "
            "made; on "
            "a GPU the first one is queued behind the clock's stop, for short calls in samples that chance picks"
        ),
    ),
    Guard(
        name="poison",
        place="loop",
        by="worker",
        does=(
            "fills output buffers that the code keeps, and blocks that go back to the allocator, with the bits of NaN "
            "before every sample"
        ),
    ),
    Guard(
        name="all_streams",
        place="loop",
        by="worker",
        does=(
            "makes every stream of the context wait for the start event, and records the end event after the work of "
            "all of them"
        ),
    ),
    Guard(
        name="cold_cache",
        place="loop",
        by="worker",
        does=(
            "writes twice the last-level cache before a sample, after it has released lines made to persist and the "
            "room set aside for them"
        ),
    ),
    Guard(
        name="gc_paused",
        place="loop",
        by="worker",
        does="suspends Python's garbage collector during a sample",
    ),
    Guard(
        name="warm_up",
        place="loop",
        by="supervisor",
        does="has samples taken that look like counted ones and are not counted",
    ),
    Guard(
        name="own_process",
        place="loop",
        by="supervisor",
        does=(
            "gives every implementation a fresh process of its own, with the reference, the comparison, the statistics "
            "and the files elsewhere"
        ),
    ),
    Guard(
        name="interleaved",
        place="loop",
        by="supervisor",
        does="lets implementations take turns in the order A B B A, and compares with samples taken alone",
    ),
    Guard(
        name="result_channel",
        place="loop",
        by="supervisor",
        does=(
            "accepts only replies that carry the secret token of the request; an exit code or a printed line is no "
            "result"
        ),
    ),
    Guard(
        name="sandbox",
        place="loop",
        by="supervisor",
        does="confines code that is not trusted: no network, read-only files, limits on memory, time and processes",
    ),
    Guard(
        name="clocks_agree",
        place="after",
        by="supervisor",
        does=(
            "holds the worker's clock against the supervisor's bracket, against CUPTI, and against the baseline's own "
            "difference"
        ),
    ),
    Guard(
        name="both_clocks",
        place="after",
        by="supervisor",
        does=("holds what the caller waits for against the GPU's own time, for a variant and for the baseline"),
    ),
    Guard(
        name="faster_than_light",
        place="after",
        by="supervisor",
        does="refuses times below what the cost of the work and the measured ceilings of the machine allow",
    ),
    Guard(
        name="cupti_ledger",
        place="after",
        by="worker",
        does=(
            "records what the GPU did in a call, as CUPTI saw it: kernels, copies and fills by name, stream, count, "
            "time and bytes"
        ),
    ),
    Guard(
        name="aliasing",
        place="after",
        by="worker",
        does="looks whether the output lies in the memory of the inputs",
    ),
    Guard(
        name="global_state",
        place="after",
        by="worker",
        does=(
            "compares flags, modes, threads, and the identity and code of clocks, synchronisation and comparison "
            "functions before and after"
        ),
    ),
    Guard(
        name="process_census",
        place="after",
        by="supervisor",
        does=(
            "reads from the kernel and from NVML what a worker does besides its calls: children, busy threads, "
            "priority, affinity, swap, faults, other GPUs"
        ),
    ),
    Guard(
        name="machine",
        place="after",
        by="supervisor",
        does=(
            "notes what the machine is: hypervisor, governor, NUMA, limits of the container, overcommit, MIG, "
            "persistence mode, power limit"
        ),
    ),
    Guard(
        name="conditions",
        place="after",
        by="supervisor",
        does="reads clocks, throttling and the load of others; on a busy machine only undisturbed samples decide",
    ),
    Guard(
        name="versions",
        place="after",
        by="supervisor",
        does=(
            "compares the driver and the libraries that each worker has mapped, and whether the result can be "
            "reproduced"
        ),
    ),
    Guard(
        name="self_check",
        place="after",
        by="supervisor",
        does=(
            "checks the harness itself: complete samples, enough passes, one definition of what is measured in all "
            "processes"
        ),
    ),
    Guard(
        name="repeat_against_fresh",
        place="after",
        by="supervisor",
        does="has the same values timed again and again, and fresh ones in the same buffers beside them",
    ),
    Guard(
        name="ranks",
        place="after",
        by="supervisor",
        does=(
            "checks every rank of a distributed target: its work, collectives, buckets, place in the topology, and the "
            "slowest one's time"
        ),
    ),
    Guard(
        name="task_lint",
        place="after",
        by="linter",
        does="has `aiperf lint` prove that a benchmark's own judge refuses worthless outputs and takes honest ones",
    ),
    Guard(
        name="seeds",
        place="after",
        by="supervisor",
        does="draws the seeds that are judged late and in secret, and never uses one twice",
    ),
)

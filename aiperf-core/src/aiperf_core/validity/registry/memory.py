"""Memory: memory does the work, or disturbs it."""

from aiperf_core.validity.issues import ALWAYS, NOTE, SOFT, Exclusion, Issue

ISSUES = (
    Issue(
        id="memory.pre_allocated_output",
        title="A buffer that holds the answer beforehand",
        happens="The output buffer is made and filled in the setup, and the timed call returns it as it is.",
        guard="poison",
        protection=(
            "Kept buffers are filled with the bits of NaN before every sample: only the call can make them right."
        ),
        severity=ALWAYS,
        predecessor="Memory / Pre-allocated Output",
    ),
    Issue(
        id="memory.input_output_aliasing",
        title="The output is the input",
        happens="The output points into an input that already holds the expected values, and nothing is computed.",
        guard="aliasing",
        protection=(
            "The address ranges of output and inputs are compared. Overlap makes the row INVALID, unless the workload "
            "names that input as state."
        ),
        severity=ALWAYS,
        predecessor="Memory / Input-Output Aliasing",
    ),
    Issue(
        id="memory.pinned_memory_timing",
        title="Copies from pinned memory are not waited for",
        happens="A transfer from or to pinned memory returns at once, and is still on its way when the clock stops.",
        guard="all_streams",
        protection="The end event follows every stream's transfers; the wall clock stops when the device is idle.",
        needs=("cuda",),
        predecessor="Memory / Pinned Memory Timing",
    ),
    Issue(
        id="memory.memory_pool_reuse",
        title="Memory from a pool that others have filled",
        happens="One side takes blocks from a warm pool and the other asks the driver; the pool looks like a gain.",
        guard="own_process",
        protection=(
            "Each implementation has an allocator of its own in its own process. Its free blocks are returned after "
            "`prepare`, and all take the same uncounted samples before the first counted one."
        ),
        predecessor="Memory / Memory Pool Reuse",
    ),
    Issue(
        id="memory.fragmentation_effects",
        title="A heap that others have fragmented",
        happens="What ran before leaves gaps, and large blocks are found late or not at all.",
        guard="own_process",
        protection=(
            "Processes are fresh for every implementation and every round. What still differs between two starts "
            "widens the interval, since rounds are resampled as a whole."
        ),
        severity=SOFT,
        predecessor="Memory / Fragmentation Effects",
    ),
    Issue(
        id="memory.page_fault_timing",
        title="Fresh pages are paid for within the call",
        happens="The first touch of a page costs a fault; one side touches fresh pages, the other warm pages.",
        guard="process_census",
        protection=(
            "The pages of the inputs are present before the first call, and freed memory stays with the process. The "
            "supervisor reads the faults of each worker from the kernel, and tells of those that go on in counted "
            "calls."
        ),
        needs=("linux",),
        severity=SOFT,
        predecessor="Memory / Page Fault Timing",
    ),
    Issue(
        id="memory.baseline_page_faults",
        title="Code takes pages from the baseline",
        happens=(
            "The code takes pages that the baseline maps too, or fills the memory until the kernel takes them. The "
            "baseline pays for them within its calls."
        ),
        guard="process_census",
        protection=(
            "The page faults of the baseline right after turns of untrusted code are compared with those after its own "
            "turns. Where they are more, the row is INCONCLUSIVE."
        ),
        needs=("linux",),
        severity=NOTE,
        excluded=Exclusion(
            construction=(
                "On a processor the judge gives each process of a run of untrusted code memory of its own for inputs "
                "and outputs, of which no other process has a descriptor."
            ),
            test="aiperf-core/tests/harness/run/test_baseline_pages.py::test_code_takes_no_pages_from_the_baseline",
        ),
    ),
    Issue(
        id="memory.swap_interference",
        title="Pages come back from disk",
        happens="Memory is short, and a call waits until the kernel has fetched its pages from swap.",
        guard="process_census",
        protection=(
            "Swapped memory and major faults of each worker are read from the kernel. A worker has a limit of memory "
            "below what is free, and fails for want of it before the machine begins to swap."
        ),
        needs=("linux",),
        severity=SOFT,
        predecessor="Memory / Swap Interference",
    ),
    Issue(
        id="memory.input_mutation",
        title="The call changes its inputs",
        happens="The code writes into the inputs, so that later calls, or the reference, find easier or other values.",
        guard="inputs_intact",
        protection=(
            "After each sample the bits of all inputs are compared with what was written. What a call may change is "
            "named by the workload as state and is restored before the next sample."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="memory.answer_in_input",
        title="The answer is hidden in the input",
        happens="The code rewrites a buffer that it first sees, so that the reference, computed later, still agrees.",
        guard="inputs_intact",
        protection=(
            "The reference is computed from the judge's own values, never from the memory that the code can write. "
            "Changed bits end the row, and values are new for the next call anyway."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="memory.recycled_reference",
        title="The allocator hands out the reference's memory",
        happens=(
            "The expected output was computed in the same process and freed. Fresh memory of the same size is the same "
            "block, with the answer in it."
        ),
        guard="own_process",
        protection="The judge's process computes the reference. No allocator of a worker ever held an expected value.",
        severity=ALWAYS,
    ),
)

"""CUDA: what CUDA makes easy to miss."""

from aiperf_core.validity.issues import ALWAYS, SOFT, Issue

ISSUES = (
    Issue(
        id="cuda.host_callback_escape",
        title="Work in a host function of a stream",
        happens="The call queues a host function, which a thread of the driver runs after the call has returned.",
        guard="all_streams",
        protection=(
            "A host function is an item of its stream, so the end event waits for it as for a kernel. What it hands to "
            "yet another thread is found by the fingerprints of the output."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        predecessor="CUDA / Host Callback Escape",
    ),
    Issue(
        id="cuda.async_memcpy_incomplete",
        title="A copy is still under way",
        happens="Copies between host and device were queued and not waited for when the clock stops.",
        guard="all_streams",
        protection="The end event follows the copies of every stream; the wall clock waits for the whole device.",
        needs=("cuda",),
        severity=ALWAYS,
        predecessor="CUDA / Async Memcpy Incomplete",
    ),
    Issue(
        id="cuda.workspace_pre_compute",
        title="Results hidden in a workspace",
        happens="A library's handle or workspace, made outside the timed window, holds results.",
        guard="fresh_values",
        protection="Workspaces may be kept, but what they hold was computed from values that are gone.",
        needs=("cuda",),
        severity=ALWAYS,
        predecessor="CUDA / Workspace Pre-compute",
    ),
    Issue(
        id="cuda.persistent_kernel",
        title="A kernel that never ends",
        happens="A kernel launched once keeps running and serves later calls, outside of every timed window.",
        guard="all_streams",
        protection=(
            "The device must become idle before a call starts, and the end event waits for every stream. A kernel that "
            "is left running lets neither happen; the call times out and the row has FAILED."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        predecessor="CUDA / Persistent Kernel",
    ),
    Issue(
        id="cuda.undeclared_multi_gpu",
        title="Other GPUs help",
        happens="Work is spread over GPUs that the benchmark does not name.",
        guard="process_census",
        protection="NVML tells on which GPUs a worker has contexts; one not given to the target makes the row INVALID.",
        needs=("cuda", "nvml", "gpus>=2"),
        severity=ALWAYS,
        predecessor="CUDA / Undeclared Multi-GPU",
    ),
    Issue(
        id="cuda.context_switch_overhead",
        title="Contexts take turns on the GPU",
        happens="A GPU serves several processes in slices, and the slices of other processes are counted.",
        guard="interleaved",
        protection=(
            "One worker has work at a time and the others wait idle. Samples taken alone show whether their presence "
            "matters, which is told as `timing.interference`; processes of strangers are told as "
            "`environment.shared_gpu`."
        ),
        needs=("cuda",),
        severity=SOFT,
        predecessor="CUDA / Context Switch Overhead",
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="cuda.driver_overhead",
        title="The driver's share is left out",
        happens="Launches, allocations and driver calls cost the caller time that the GPU's clock does not show.",
        guard="both_clocks",
        protection=(
            "Both clocks are recorded for every row: the GPU's own time, and what the caller waits for, with every "
            "call of the driver in it. A variant that is faster by the one and slower by the other bears a warning."
        ),
        needs=("cuda",),
        severity=SOFT,
        predecessor="CUDA / Driver Overhead",
    ),
    Issue(
        id="cuda.cooperative_launch_abuse",
        title="A launch that tools do not hook",
        happens="Cooperative and other uncommon launches go past checks that watch the usual entry points.",
        guard="cupti_ledger",
        protection=(
            "No entry point is hooked. All that the GPU ran between two kernels of the harness belongs to the call, "
            "whatever launched it, and the events enclose it likewise."
        ),
        needs=("cuda", "cupti"),
        predecessor="CUDA / Cooperative Launch Abuse",
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="cuda.dynamic_parallelism_hidden",
        title="Kernels launched by kernels",
        happens="Work is launched from the device, where a tool on the host does not see it.",
        guard="all_streams",
        protection=(
            "A grid is complete only when its children are. The end event, which waits for the parent, waits for them "
            "too."
        ),
        needs=("cuda", "compiler"),
        predecessor="CUDA / Dynamic Parallelism Hidden",
    ),
    Issue(
        id="cuda.unified_memory_faults",
        title="Pages migrate outside the window",
        happens="Managed memory moves before the clock starts, and the migration is not timed.",
        guard="fresh_values",
        protection=(
            "Inputs are plain device memory, which never migrates. Code that keeps managed copies must fill them from "
            "the refreshed inputs within the timed call, migrations included."
        ),
        needs=("cuda",),
        predecessor="CUDA / Unified Memory Faults",
    ),
)
